"""A program that interrupts a store at every moment of everything that it does, and then looks whether it still works.

    python tests/interrupting.py moments|handlers|close URL OPTIONS STRIDE OFFSET [operation …]
    python tests/interrupting.py storm URL OPTIONS INTERRUPTS SEED [operation …]

A *moment* is a place where Python may run a signal's handler: the beginning of a function, and the return of a function
that is written in C. (The third kind, the jump back in a loop, only the storm meets, which uses real signals.) Of the
moments every STRIDE-th is tried, beginning with OFFSET.
"""

from __future__ import annotations

import contextlib
import faulthandler
import inspect
import json
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from uuid import uuid4

import strandline
from strandline import (
    AppendConditionFailed,
    AppendRequest,
    DomainEvent,
    Event,
    InvalidInput,
    Projection,
    Query,
    TagId,
    Unavailable,
    command,
    on,
)
from strandline.activity import current
from strandline.follow import ReadModel
from strandline.testing import violations

HOME = os.path.dirname(strandline.__file__)
# What Python code of the standard library does for the store is interrupted, too.
FILES = (HOME, contextlib.__file__, threading.__file__)
RESUMED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
LEASE = 0.2


class CourseId(TagId): ...


class Subscribed(DomainEvent):
    course: CourseId


class Course(Projection, snapshot_every=3):
    id: CourseId
    taken: int = 0

    @on
    def subscribed(self, event: Subscribed) -> None:
        self.taken += 1


@command
def subscribe(course: Course) -> Iterator[Subscribed]:
    yield Subscribed(course=course.id)


class Moment:
    """Acts at one moment of what runs while it is the profile function; that is on its way at most once."""

    def __init__(self, number: int, act: Callable[[], None]) -> None:
        self._number = self._left = number
        self._act = act
        self.where = ""

    def __call__(self, frame: Any, event: str, argument: object) -> None:
        is_resumed = (
            event == "call" and frame.f_code.co_flags & RESUMED
        )  # an exception there would skip `finally`
        if event not in ("call", "c_return") or is_resumed or not frame.f_code.co_filename.startswith(FILES):
            return
        self._left -= 1
        if self._left == 0:
            self.where = f"{frame.f_code.co_filename}:{frame.f_lineno} {event} {argument}"
            self._act()

    def __enter__(self) -> None:
        sys.setprofile(self)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    @contextlib.contextmanager
    def noted(self, name: str) -> Iterator[None]:
        """Errors say which moment it was."""
        try:
            yield
        except BaseException as error:
            error.add_note(f"at moment {self._number} of {name}: {self.where}")
            raise


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


class Trial:
    """A store, another one of the same log, and what they do."""

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        self.is_in_memory = url == "memory:"
        self.store = strandline.connect(url, **options)
        self.other = self.store if self.is_in_memory else strandline.connect(url, **options)
        self.model = ReadModel(Course, table=f"courses_{uuid4().hex[:8]}", lease=LEASE)
        self.follower = self.store.follower("inside", lease=LEASE)
        self.outside = self.store.follower("outside", lease=LEASE)
        self.consumer = self.store.follower("consumer")
        self.seen: list[int] = []
        self.store.append(Event("First", {}, tags=["t:0"]))
        for _ in range(3):
            self.prepare()

    def prepare(self) -> None:
        """Give the operations something to do."""
        self.other.append(Subscribed(course=CourseId("c1")))
        self.other.append(Event("A", {}, tags=["k:1"]))

    def operations(self) -> dict[str, Callable[[], object]]:
        store = self.store
        found: dict[str, Callable[[], object]] = {
            "append": lambda: store.append(
                Event("A", {}, tags=["k:1"]), store.read(Query.tag("k:2")).condition
            ),
            "append_many": lambda: store.append_many(
                [AppendRequest(Event("A", {})), AppendRequest(Event("B", {}))]
            ),
            "retag": lambda: store.retag([1], replace={"t": [str(store.head())]}),
            "read": lambda: (list(store.read(Query.tag("k:1"), limit=3)), list(store.read(limit=600))),
            "look": lambda: (
                store.head(),
                store.stats(),
                store.count(),
                list(store.appends(store.head() - 3)),
            ),
            "subscribe": lambda: next(store.subscribe(after=store.head() - 1)),
            "wait": lambda: next(store.subscribe(after=store.head()).batches(seconds=0.001)),
            "execute": lambda: store.execute(subscribe, Course("c1")),
            "project": lambda: store.project(Course("c1")),
            "decide": lambda: store.decide(["k:1"], lambda events: [Event("D", {}, tags=["k:1"])]),
            "boundary": self.decide_by_hand,
            "catch_up": lambda: self.follower.catch_up(self.handle, batch=2),
            "catch_up_outside": lambda: self.outside.catch_up(self.handle, batch=2, in_transaction=False),
            "steer": lambda: (self.follower.pause(), self.follower.resume(), self.follower.status()),
            "lease": self.consume,
        }
        if not self.is_in_memory:
            found["model"] = lambda: self.model.catch_up(store)
        return found

    def handle(self, events: list[Any], tx: Any) -> None:
        self.seen.extend(event.position for event in events)
        assert self.store.head() >= self.seen[-1]

    def consume(self, wait: float = 0.0) -> bool:
        lease = self.consumer.lease(2, wait=wait, seconds=LEASE)
        if lease is not None:
            self.consumer.ack(lease.token)
        return lease is not None

    def decide_by_hand(self) -> None:
        with self.store.boundary(Course("c1")) as boundary:
            boundary.append(Subscribed(course=CourseId("c1")))

    def check(self, name: str) -> None:
        """Both stores work; nothing is left locked, held or marked."""
        assert current.get() is None, current.get()
        self.store.append(Event("After", {}))
        self.other.append(Event("After", {}))
        assert self.store.head() == self.other.head()
        if name == "wait":
            subscription = self.store.subscribe(after=self.store.head())
            next(subscription.batches(seconds=0.001))
            position = self.other.append(Event("After", {})).position
            assert next(subscription).position == position
        if name in ("catch_up", "steer", "catch_up_outside", "model"):
            assert not self.store.leases.runs
            for follower in (self.follower, self.outside):
                for store in (self.store, self.other):
                    with contextlib.suppress(Unavailable):
                        store.follower(follower.name).resume()
                    head = store.head()
                    mine = follower if store is self.store else store.follower(follower.name, lease=LEASE)
                    in_transaction = follower is self.follower
                    assert mine.catch_up(lambda events, tx: None, in_transaction=in_transaction) >= head
        if name == "lease":
            while self.consume(wait=20 * LEASE) and self.consumer.status().lag:
                pass
            assert self.consumer.status().lag == 0
        if name == "model":
            self.model.catch_up(self.other)
            self.model.catch_up(self.store)
            state = self.model.get("c1", store=self.store)
            assert state is not None
            assert state.taken == self.store.count(Query.tag("course:c1"))
        if name in ("execute", "project"):
            assert self.store.project(Course("c1")).taken == self.store.count(Query.tag("course:c1"))

    def close(self) -> None:
        assert violations(self.store) == []
        self.store.close()
        self.other.close()


def moments(trial: Trial, name: str, number: int) -> bool:
    """Interrupt an operation at a moment; False if it has none of that number."""
    moment = Moment(number, interrupt)
    with contextlib.suppress(KeyboardInterrupt, AppendConditionFailed), moment:
        trial.operations()[name]()
    with moment.noted(name):
        trial.check(name)
    return bool(moment.where)


def handlers(trial: Trial, name: str, number: int) -> bool:
    """Use the store from the handler of a signal that comes at a moment; False if there is none of that number."""
    store = trial.store
    calls: tuple[Callable[[], object], ...] = (
        lambda: store.append(Event("Signalled", {})),
        store.head,
        lambda: list(store.read(limit=1)),
        lambda: store.execute(subscribe, Course("c2")),
        lambda: store.follower("signalled", lease=LEASE).catch_up(lambda events, tx: None),
        lambda: next(store.subscribe()),
        store.watch.wake_all,
    )

    def use() -> None:
        for call in calls:
            try:
                call()
                told.add("done")
            except InvalidInput as refusal:
                if "a signal's handler" not in str(refusal) and "cannot write" not in str(refusal):
                    raise
                told.add("refused")

    moment = Moment(number, use)
    with moment.noted(name):
        with contextlib.suppress(AppendConditionFailed), moment:
            trial.operations()[name]()
        trial.check(name)
    return bool(moment.where)


told: set[str] = set()


def at_moments(
    trial: Callable[[], Trial],
    act: Callable[[Trial, str, int], bool],
    names: Sequence[str],
    stride: int,
    offset: int,
) -> int:
    """Try something at the moments of the operations; returns how many there were."""
    tried = 0
    current_trial = trial()
    for name in names or current_trial.operations():
        for number in count_from(offset, stride):
            current_trial.prepare()
            if not act(current_trial, name, number):
                break
            tried += 1
            if tried % 50 == 0 and current_trial.is_in_memory:  # where every read looks at all events
                current_trial.close()
                current_trial = trial()
    current_trial.close()
    return tried


def closes(url: str, options: dict[str, Any], stride: int, offset: int) -> int:
    """Interrupt `close` at its moments; returns how many were tried."""
    for tried, number in enumerate(count_from(offset, stride)):
        store = strandline.connect(url, **options)
        store.append(Event("A", {}))
        store.follower(f"f{number}", lease=LEASE).catch_up(lambda events, tx: None)
        waiting = threading.Thread(target=lambda: list(store.subscribe(after=store.head())))  # noqa: B023
        waiting.start()
        while not store.watch._waiters:
            pass
        moment = Moment(number, interrupt)
        with contextlib.suppress(KeyboardInterrupt), moment:
            store.close()
        store.close()
        waiting.join()
        assert store.is_closed
        assert store._is_released, moment.where
        assert current.get() is None
        with strandline.connect(url, **options) as again:
            again.append(Event("A", {}))
        if not moment.where:
            return tried
    raise AssertionError


def storm(trial: Trial, names: list[str], interrupts: int, seed: int) -> int:
    """Interrupt random operations by real signals at random microseconds."""
    random.seed(seed)
    operations = [(name, work) for name, work in trial.operations().items() if name in names or not names]
    signal.signal(signal.SIGALRM, interrupt)
    for number in range(interrupts):
        name, operation = random.choice(operations)
        trial.prepare()
        try:
            try:
                # Again after a while: Python passes over what a finalizer raises.
                signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 4e-3), 0.5)
                while True:
                    operation()
                    trial.prepare()
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except (KeyboardInterrupt, AppendConditionFailed):
            pass
        if number % 10 == 0:
            trial.check("catch_up" if trial.is_in_memory else "model")
        else:
            trial.check(name)
    return interrupts


def count_from(offset: int, stride: int) -> Iterator[int]:
    number = 1 + offset % stride
    while True:
        yield number
        number += stride


def main() -> None:
    faulthandler.dump_traceback_later(float(os.environ.get("WATCHDOG", "300")), exit=True)
    # A finalizer may be interrupted as well; Python prints that and goes on.
    sys.unraisablehook = lambda unraisable: (
        None if isinstance(unraisable.exc_value, KeyboardInterrupt) else sys.__unraisablehook__(unraisable)
    )
    what, url, options, stride, offset, *names = sys.argv[1:]
    given = json.loads(options)
    if what == "close":
        tried = closes(url, given, int(stride), int(offset))
    elif what == "storm":
        trial = Trial(url, given)
        tried = storm(trial, names, int(stride), int(offset))
        trial.close()
    else:
        act = {"moments": moments, "handlers": handlers}[what]
        tried = at_moments(lambda: Trial(url, given), act, names, int(stride), int(offset))
        assert what == "moments" or told == {"done", "refused"}, told
    print("sound", tried)


if __name__ == "__main__":
    main()
