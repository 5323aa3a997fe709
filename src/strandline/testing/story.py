"""given / when / then: tell what happened, let a command decide, say what should have come of it.

    given(CourseDefined(course=CourseId("c1"), capacity=1))
        .when(enroll, Student("s1"), Course("c1"))
        .then(StudentSubscribed(student=StudentId("s1"), course=CourseId("c1")))

A story does not change: each call gives a new one, so that several can begin alike. It is played in a
store in memory, by the code that every store runs.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any, Generic, NamedTuple, ParamSpec, Self, TypeVar

from ..append import AnyEvent, AppendRequest
from ..domain import decide
from ..domain.command import Command, bind
from ..domain.projection import Projection
from ..errors import InvalidInput
from ..event import Event, to_microseconds
from ..tag_id import IdValue
from . import differences
from .rehearsal import Act, Rehearsal, fold, without_our_frames

P = ParamSpec("P")
R = TypeVar("R")
Projected = TypeVar("Projected", bound=Projection)


def given(*events: AnyEvent, at: datetime | None = None, strict_tags: bool = False) -> Story:
    """Begin a story: these events are in the log, recorded `at` that time. `given()` begins with none.

    With `strict_tags` commands decide as in a store that was connected so: what `MissingTags` warns of is refused.
    """
    return Story(strict_tags=strict_tags).given(*events, at=at)


class Story:
    """What happened so far, and what time it is."""

    def __init__(
        self, acts: tuple[Act, ...] = (), now: datetime | None = None, *, strict_tags: bool = False
    ) -> None:
        self._acts = acts
        self._now = now
        self._strict_tags = strict_tags

    def given(self, *events: AnyEvent, at: datetime | None = None) -> Story:
        """These events happened too; it is `at` that time from here on."""
        __tracebackhide__ = True
        story = self._so_far() if at is None else self.at(at)
        if not events:
            return story
        acts = (*story._acts, Act(_request(events, "given"), story._now))
        ids = [event.raw_id for act in acts for event in act.request.events]
        if len({*ids}) < len(ids):
            raise InvalidInput(
                "an event is given twice", hint="make another one: each Event has an id of its own"
            )
        return story._going_on(acts, story._now)

    def at(self, now: datetime) -> Story:
        """It is `now` for what follows: what is given is recorded then, commands decide then.

        What was given without a time is recorded at the first one that is named. What was decided without one was
        decided at the beginning of 2026; it is recorded then, or at the first one that is named if that is earlier.
        """
        __tracebackhide__ = True
        to_microseconds(now)  # refuses a time without a zone
        story = self._so_far()
        if story._now is not None and now < story._now:
            raise InvalidInput(
                f"it is {story._now} already, and time does not go back to {now}",
                hint="tell the story in the order in which it happened",
            )
        acts = story._acts if story._now is not None else [act.no_later_than(now) for act in story._acts]
        return story._going_on(tuple(acts), now)

    def when(self, command: Command[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Decision[R]:
        """Let a command decide on what happened, as `store.execute` would; then say what you expect."""
        __tracebackhide__ = True
        bound = bind(command, args, kwargs)
        story = self._so_far()
        value, error, is_repeat = None, None, False
        with Rehearsal(story._acts, story._now, strict_tags=self._strict_tags) as store:
            # Folded before, so that a mistake in a handler does not pass for a refusal of the command.
            states = list(map(partial(fold, store), bound.projections))
            try:
                executed = store.take(decide.execute(bound, store.decisions))
                value, is_repeat = executed.value, executed.duplicate
            except Exception as raised:  # noqa: BLE001  (whatever a command raises is its answer)
                error = without_our_frames(raised)
        acts = store.acts[len(story._acts) :]
        events = [event.without_arguments() for act in acts for event in act.request.events]
        outcome = Outcome(differences.call(command, args, kwargs), states, events, value, is_repeat, error)
        return Decision(story._going_on(tuple(store.acts), story._now), outcome)

    def project(self, projection: type[Projected] | Projected, *key: IdValue) -> Projected:
        """The state of a projection, as `store.project` would fold it."""
        __tracebackhide__ = True
        story = self._so_far()
        with Rehearsal(story._acts, story._now) as store:
            return fold(store, projection, *key)

    def then_state(
        self, projection: type[Projection] | Projection, /, *key: IdValue, **fields: object
    ) -> Self:
        """Expect a projection to have these values: `.then_state(Course("c1"), taken=1)`."""
        __tracebackhide__ = True
        lines = differences.of_state(self.project(projection, *key), fields)
        if lines:
            raise AssertionError("\n".join(lines))
        return self

    def _so_far(self) -> Story:
        """The story to go on with."""
        return self

    def _going_on(self, acts: tuple[Act, ...], now: datetime | None) -> Story:
        return Story(acts, now, strict_tags=self._strict_tags)


class Outcome(NamedTuple):
    """What came of a command."""

    call: str
    states: Sequence[Projection]
    events: list[Event]
    value: Any
    duplicate: bool
    error: Exception | None


class Decision(Story, Generic[R]):
    """What a command decided: say what you expect of it, or look at `events`, `value` and `error`.

    The story goes on from here; what was decided is part of it. If it was done before, by its idempotency key or
    with the same events, that is a `duplicate`: it has neither events nor a value.
    """

    def __init__(self, after: Story, outcome: Outcome) -> None:
        super().__init__(after._acts, after._now, strict_tags=after._strict_tags)
        self._outcome = outcome
        self._is_looked_at = outcome.error is None
        self.value: R | None = outcome.value
        self.duplicate = outcome.duplicate

    @property
    def events(self) -> list[Event]:
        """The events that were decided on."""
        self._is_looked_at = True
        return self._outcome.events

    @property
    def error(self) -> Exception | None:
        """What the command raised."""
        self._is_looked_at = True
        return self._outcome.error

    def __del__(self) -> None:
        if not getattr(self, "_is_looked_at", True):
            warnings.warn(
                f"{self._outcome.call} was refused, and nothing looked at that: {self._outcome.error!r};"
                " say what you expect: .then(…), .then_nothing() or .then_raises(…)",
                UserWarning,
                stacklevel=2,
            )

    def then(self, *events: AnyEvent) -> Self:
        """Expect these events and no others, in this order.

        Their types, data and tags count, stream and subject if you name them; ids, metadata and time do not.
        """
        __tracebackhide__ = True
        expected = _request(events, "then").events if events else ()
        if self.error is not None or not differences.are_alike(expected, self.events):
            told = differences.number(expected)
            if self.error is None and len(expected) == len(self.events):
                told = "another event" if len(expected) == 1 else "other events"
            self._fail(told, differences.of_events(expected, self.events))
        return self

    def then_nothing(self) -> Self:
        """Expect no event and no error; a repeat of what was done before has neither."""
        __tracebackhide__ = True
        return self.then()

    def then_returns(self, value: R) -> Self:
        """Expect this value: what a generator returns after its events."""
        __tracebackhide__ = True
        if self.error is not None or self.value != value:
            self._fail(f"{value!r} to be returned")
        return self

    def then_raises(
        self, kind: type[Exception] | tuple[type[Exception], ...], match: str | None = None
    ) -> Story:
        """Expect an error of this kind, with a text in which the regular expression `match` is found."""
        __tracebackhide__ = True
        _check_errors(kind, match)
        if not isinstance(self.error, kind) or not re.search(match or "", str(self.error)):
            kinds = " or ".join(each.__name__ for each in (kind if isinstance(kind, tuple) else (kind,)))
            text = "" if match is None else f" with a text like {match!r}"
            self._fail(kinds + text, differences.of_events((), self.events))
        return self._going_on(self._acts, self._now)

    def _fail(self, expected: str, details: Sequence[str] = ()) -> None:
        __tracebackhide__ = True
        did = f"decided {differences.number(self.events)}"
        if self.error is not None:
            did = f"raised {type(self.error).__name__}: {self.error}"
        elif self.duplicate:
            did = "repeated what was done before, which writes and returns nothing"
        elif self.value is not None:
            did += f" and returned {self.value!r}"
        lines = (
            f"expected {expected}, but {self._outcome.call} {did}",
            *details,
            *differences.section("It decided on", map(repr, self._outcome.states)),
        )
        raise AssertionError("\n".join(lines)) from self.error

    def _so_far(self) -> Story:
        """A refusal that nobody expected ends the story."""
        __tracebackhide__ = True
        if self.error is not None:
            raise self.error
        return self


def _request(events: Sequence[AnyEvent], method: str) -> AppendRequest:
    if any(isinstance(event, (list, tuple)) for event in events):
        raise InvalidInput("events are given one by one, not in a list", hint=f"write {method}(*events)")
    return AppendRequest(events)


def _check_errors(kind: object, match: str | None) -> None:
    for each in kind if isinstance(kind, tuple) else (kind,):
        if not isinstance(each, type) or not issubclass(each, Exception):
            raise InvalidInput(
                f"then_raises takes classes of errors, not {each!r:.60}",
                hint='write then_raises(CourseFull), or then_raises(ValueError, match="full") for its text',
            )
    try:
        re.compile(match or "")
    except (re.error, TypeError) as error:
        raise InvalidInput(
            f"match is a regular expression, not {match!r:.60}: {error}",
            hint="write re.escape(text) for plain text",
        ) from error
