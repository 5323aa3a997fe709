"""`python tests/server/http_traffic.py PORT LOG FOLDER JSON`: clients that note every call and its answer.

Writers decide, import, repeat, retag and read. Watchers hold live streams, some of them slowly, and go on where they were
cut off. Rude clients leave in the middle of whatever they do. Everything is noted in FOLDER as lines of JSON, for
`http_judging.py`. It ends when the file FOLDER/over is there, or after some seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from http_wire import CUT_OFF, Lost, Reply, Wire

KEYS = 12
ONCE = 40
RESOLVE_SECONDS = 120.0
WATCH_SECONDS = 120.0
PADDING = "x" * 200


class Settings(NamedTuple):
    seconds: float = 10.0
    writers: int = 16
    watchers: int = 8
    rude: int = 4
    pause: float = 0.0
    seed: int = 1


class Notes:
    """A file of lines of JSON."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w")

    def add(self, **fields: Any) -> None:
        self._file.write(json.dumps(fields) + "\n")

    def close(self) -> None:
        self._file.close()


class Client:
    """What all clients share."""

    def __init__(self, place: tuple[int, str], folder: Path, settings: Settings, number: int) -> None:
        self.wire = Wire(*place)
        self.chance = random.Random(f"{settings.seed} {type(self).__name__} {number}")
        self.notes = Notes(folder / f"{type(self).__name__.lower()}-{number}.ndjson")
        self.settings = settings
        self.number = number

    def ids(self, count: int) -> list[str]:
        return [str(UUID(int=self.chance.getrandbits(128), version=4)) for _ in range(count)]

    def events(self, count: int, type_: str | None = None, *tags: str) -> list[dict[str, Any]]:
        type_ = type_ or self.chance.choice(["Written", "Marked"])
        return [
            {
                "type": type_,
                "data": {"by": self.number, "padding": PADDING},
                "tags": [*tags, f"k:{self.chance.randrange(KEYS)}"],
                "id": event_id,
            }
            for event_id in self.ids(count)
        ]

    def query(self) -> dict[str, Any]:
        item: dict[str, Any] = {"tags": [f"k:{self.chance.randrange(KEYS)}"]}
        if self.chance.random() < 0.4:
            item["types"] = [self.chance.choice(["Written", "Marked"])]
        return {"items": [item]}


class Writer(Client):
    """Writes, and notes what it was told."""

    async def run(self, is_over: Callable[[], bool]) -> None:
        kinds: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (12, self._decide),
            (3, self._append),
            (2, self._import),
            (1, self._once),
            (1, self._repeat),
            (1, self._retag),
            (2, self._read),
        ]
        choices = [call for weight, call in kinds for _ in range(weight)]
        self._last: dict[str, Any] | None = None
        while not is_over():
            await asyncio.sleep(self.settings.pause * self.chance.random())
            await self.chance.choice(choices)()

    async def _condition(self) -> dict[str, Any] | None:
        """The condition of a read, or None if the read failed."""
        body = {"query": self.query(), "limit": 1, "backwards": True}
        reply = await self._ask("read", body)
        return None if reply is None or reply.status != 200 else reply.json["condition"]

    async def _decide(self) -> None:
        conditions = [await self._condition() for _ in range(self.chance.choice([1, 1, 2]))]
        parts = [condition for condition in conditions if condition is not None]
        if len(parts) == len(conditions):
            condition = parts[0] if len(parts) == 1 else {"parts": parts}
            count = self.chance.choice([1, 1, 1, 3, 8])
            await self._write({"events": self.events(count), "condition": condition}, tries=3)

    async def _append(self) -> None:
        await self._write({"events": self.events(self.chance.choice([1, 2, 5]))})

    async def _once(self) -> None:
        tag = f"once:{self.chance.randrange(ONCE)}"
        body = {"events": self.events(1, "Once", tag), "unless_exists": {"items": [{"tags": [tag]}]}}
        await self._write(body, notes_as="once")

    async def _write(self, body: dict[str, Any], tries: int = 1, notes_as: str = "append") -> None:
        """Append, and after a refusal decide again by what it says."""
        for _ in range(tries):
            begun = time.monotonic_ns()
            reply = await self._ask("events", body)
            self._note(notes_as, begun, [event["id"] for event in body["events"]], reply)
            if reply is None or _is_unknown(reply):
                await self._resolve(body)
                return
            if reply.status in (200, 201) and notes_as == "append":
                self._last = {"body": body, "answer": reply.json}
            if reply.status != 409:
                return
            if reply.json["condition"] is None:  # a retag came between: read again
                return
            # Other ids, so that the notes of both tries can be told apart.
            events = [event | {"id": self.ids(1)[0]} for event in body["events"]]
            body = body | {"events": events, "condition": reply.json["condition"]}

    async def _import(self) -> None:
        condition = await self._condition()
        groups = [self.events(self.chance.choice([1, 2])) for _ in range(self.chance.randrange(2, 30))]
        bodies = [
            {"events": events, **({"condition": condition} if self.chance.random() < 0.3 else {})}
            for events in groups
        ]
        begun = time.monotonic_ns()
        lines = b"".join(json.dumps(body).encode() + b"\n" for body in bodies)
        reply = await self._ask("appends", lines)
        if reply is None or reply.status != 200:
            for body in bodies:
                self._note("import", begun, [event["id"] for event in body["events"]], reply)
                await self._resolve(body)
            return
        outcomes = [json.loads(line) for line in reply.body.splitlines()]
        assert len(outcomes) == len(bodies), "an import is not answered line by line"
        for body, outcome in zip(bodies, outcomes, strict=True):
            status = outcome.get("status", 200 if outcome.get("duplicate") else 201)
            line = Reply(status, json.dumps(outcome).encode())
            self._note("import", begun, [event["id"] for event in body["events"]], line)
            if _is_unknown(line):
                await self._resolve(body)

    async def _repeat(self) -> None:
        if self._last is None:
            return
        reply = await self._ask("events", self._last["body"])
        if reply is not None and reply.status < 500:
            expected = self._last["answer"] | {"duplicate": True}
            self.notes.add(kind="repeat", expected=expected, status=reply.status, answer=reply.json)

    async def _retag(self) -> None:
        if self._last is None:
            return
        position = self.chance.randint(self._last["answer"]["first"], self._last["answer"]["last"])
        begun = time.monotonic_ns()
        body = {"positions": [position], "replace": {"m": [str(self.chance.randrange(9))]}}
        self._note("retag", begun, [], await self._ask("retags", body))

    async def _read(self) -> None:
        """Read what is new of a query, as a stream; the judge knows what had to be in it."""
        after = max(0, (self._last or {"answer": {"last": 0}})["answer"]["last"] - 200)
        query, begun = self.query(), time.monotonic_ns()
        reply = await self._ask("read?format=ndjson", {"query": query, "after": after})
        if reply is None or reply.status != 200:
            return
        *events, last = [json.loads(line) for line in reply.body.splitlines()]
        if "end" not in last:
            self.notes.add(kind="read error", code=last["error"]["code"])
            return
        positions = [line["event"]["position"] for line in events]
        head = last["end"]["head"]
        self.notes.add(kind="read", begun=begun, query=query, after=after, head=head, positions=positions)

    async def _ask(self, path: str, body: Any) -> Reply | None:
        """The answer; None if it was lost."""
        try:
            reply = await self.wire.ask("POST", path, body)
        except Lost as error:
            self.notes.add(kind="lost", path=path, why=str(error), at=time.monotonic_ns())
            await asyncio.sleep(0.05)
            return None
        if reply.status >= 400:
            self.notes.add(kind="problem", path=path, status=reply.status, code=reply.json["code"])
        return reply

    def _note(self, kind: str, begun: int, ids: list[str], reply: Reply | None) -> None:
        ended = time.monotonic_ns()
        answer = reply.json if reply is not None and reply.status in (200, 201) else {}
        outcome = "unknown" if reply is None or _is_unknown(reply) else _outcome(reply.status)
        if answer.get("count") == 0:  # a retag that changed nothing
            outcome = "nothing"
        first, last = answer.get("first", 0), answer.get("last", 0)
        self.notes.add(kind=kind, begun=begun, ended=ended, outcome=outcome, ids=ids, first=first, last=last)

    async def _resolve(self, body: dict[str, Any]) -> None:
        """Ask by id whether an append was written, as soon as the server answers again."""
        event_id = body["events"][0]["id"]
        end = time.monotonic() + RESOLVE_SECONDS
        while time.monotonic() < end:
            try:
                reply = await self.wire.ask("GET", f"events/id/{event_id}")
            except Lost:
                await asyncio.sleep(0.1)
                continue
            if reply.status in (200, 404):
                self.notes.add(kind="resolved", id=event_id, is_there=reply.status == 200)
                return
            await asyncio.sleep(0.1)
        self.notes.add(kind="unresolved", id=event_id)


def _outcome(status: int) -> str:
    return {201: "written", 200: "repeated"}.get(status, "refused")


def _is_unknown(reply: Reply) -> bool:
    """Whether an answer leaves open what became of the append."""
    return reply.status >= 500 and reply.json.get("written", False) is not False


class Watcher(Client):
    """Holds a live stream, and another one behind it whenever it is cut off."""

    async def run(self, head_at_end: asyncio.Future[int]) -> None:
        is_slow, leaves = self.number % 4 == 1, self.number % 3 == 1
        queries = [{"items": [{}]}, {"items": [{"types": ["Written"]}]}, self.query(), self.query()]
        query = queries[self.number % len(queries)]
        self._seen: list[int] = []
        self._last = 0
        self._kinds: dict[str, int] = {}
        cuts, deadline = 0, float("inf")
        while not self._has_reached(head_at_end) and time.monotonic() < deadline:
            try:
                async for _ in self._stream(query, is_slow=is_slow):
                    if head_at_end.done() and deadline == float("inf"):
                        deadline = time.monotonic() + WATCH_SECONDS
                    if self._has_reached(head_at_end) or time.monotonic() > deadline:
                        break
                    if leaves and not head_at_end.done() and self.chance.random() < 0.002:
                        break
            except CUT_OFF:
                await asyncio.sleep(0.1)
            if head_at_end.done() and deadline == float("inf"):
                deadline = time.monotonic() + WATCH_SECONDS
            self.wire.close()
            cuts += 1
        self.notes.add(
            kind="watch", query=query, seen=self._seen, last=self._last, cuts=cuts, kinds=self._kinds
        )

    def _has_reached(self, head_at_end: asyncio.Future[int]) -> bool:
        return head_at_end.done() and self._last >= head_at_end.result()

    async def _stream(self, query: dict[str, Any], *, is_slow: bool) -> AsyncIterator[str]:
        """Yield the kind of each message."""
        headers = {"accept": "text/event-stream"} | ({"last_event_id": str(self._last)} if self._last else {})
        async with asyncio.timeout(30):
            status, form = await self.wire.begin("POST", "read", {"query": query}, **headers)
        if status != 200:
            async for _ in self.wire.pieces(form):
                pass
            await asyncio.sleep(0.1)
            return
        rest = b""
        async for piece in _timely(self.wire.pieces(form)):
            if is_slow:
                await asyncio.sleep(0.02)
            *messages, rest = (rest + piece).split(b"\n\n")
            for message in messages:
                yield self._take(message)

    def _take(self, message: bytes) -> str:
        fields = dict(line.split(b": ", 1) for line in message.splitlines() if b": " in line)
        kind = fields.get(b"event", b"message").decode()
        self._kinds[kind] = self._kinds.get(kind, 0) + 1
        if kind == "event":
            position = json.loads(fields[b"data"])["position"]
            assert int(fields[b"id"]) == position
            self._seen.append(position)
        if b"id" in fields:
            self._last = int(fields[b"id"])
        return kind


async def _timely(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield pieces; a stream that says nothing for long is cut off, as a proxy would do it."""
    while True:
        try:
            async with asyncio.timeout(30):
                piece = await anext(pieces)
        except StopAsyncIteration:
            return
        except TimeoutError as error:
            raise EOFError("silence") from error
        yield piece


class Rude(Client):
    """Leaves in the middle of whatever it does. What it sent is there as a whole, or not at all."""

    async def run(self, is_over: Callable[[], bool]) -> None:
        ways = [self._half_a_head, self._half_a_body, self._no_answer, self._half_an_import]
        ways += [self._half_a_read, self._half_a_stream, self._slow_read]
        while not is_over():
            with contextlib.suppress(*CUT_OFF, StopAsyncIteration):
                async with asyncio.timeout(20):
                    await self.chance.choice(ways)()
            self.wire.close()
            await asyncio.sleep(self.chance.uniform(0, 0.2))

    async def _half_a_head(self) -> None:
        await self.wire.send(self.wire.request("GET", "head")[: self.chance.randrange(1, 30)])
        await asyncio.sleep(self.chance.uniform(0, 0.3))

    async def _half_a_body(self) -> None:
        sent = self.wire.request("POST", "events", {"events": self.events(3)})
        await self.wire.send(sent[: -self.chance.randrange(1, 200)])
        await asyncio.sleep(self.chance.uniform(0, 0.1))

    async def _no_answer(self) -> None:
        events = self.events(self.chance.choice([1, 5]))
        self.notes.add(kind="left", ids=[event["id"] for event in events])
        await self.wire.send(self.wire.request("POST", "events", {"events": events}))
        await asyncio.sleep(self.chance.choice([0, 0, 0.01]))

    async def _half_an_import(self) -> None:
        groups = [self.events(2) for _ in range(40)]
        for events in groups:
            self.notes.add(kind="left", ids=[event["id"] for event in events])
        lines = b"".join(json.dumps({"events": events}).encode() + b"\n" for events in groups)
        sent = self.wire.request("POST", "appends", lines)
        await self.wire.send(sent[: self.chance.randrange(len(sent) // 2, len(sent))])
        await asyncio.sleep(self.chance.uniform(0, 0.05))

    async def _half_a_read(self) -> None:
        _, form = await self.wire.begin("GET", "events?format=ndjson")
        await anext(self.wire.pieces(form))

    async def _half_a_stream(self) -> None:
        _, form = await self.wire.begin("GET", "events?format=sse")
        pieces = self.wire.pieces(form)
        for _ in range(self.chance.randrange(1, 4)):
            await anext(pieces)

    async def _slow_read(self) -> None:
        _, form = await self.wire.begin("GET", "events?format=ndjson")
        end = time.monotonic() + 3
        async for _ in self.wire.pieces(form):
            await asyncio.sleep(0.05)
            if time.monotonic() > end:
                return


async def run(place: tuple[int, str], folder: Path, settings: Settings) -> None:
    over = folder / "over"
    end = time.monotonic() + settings.seconds

    def is_over() -> bool:
        return time.monotonic() > end or over.exists()

    head_at_end: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    writers = [Writer(place, folder, settings, number) for number in range(settings.writers)]
    rude = [Rude(place, folder, settings, number) for number in range(settings.rude)]
    watchers = [Watcher(place, folder, settings, number) for number in range(settings.watchers)]
    watching = [asyncio.create_task(watcher.run(head_at_end)) for watcher in watchers]
    await asyncio.gather(*(client.run(is_over) for client in [*writers, *rude]))
    head_at_end.set_result(await _head(place))
    await asyncio.gather(*watching)
    for client in [*writers, *rude, *watchers]:
        client.wire.close()
        client.notes.close()


async def _head(place: tuple[int, str]) -> int:
    wire = Wire(*place)
    end = time.monotonic() + RESOLVE_SECONDS
    while True:
        try:
            reply = await wire.ask("GET", "head")
            if reply.status == 200:
                wire.close()
                head: int = reply.json["head"]
                return head
        except Lost:
            assert time.monotonic() < end, "the server does not answer"
        await asyncio.sleep(0.1)


if __name__ == "__main__":
    port, log, folder, settings = sys.argv[1:]
    asyncio.run(run((int(port), log), Path(folder), Settings(**json.loads(settings))))
