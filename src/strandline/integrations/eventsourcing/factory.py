"""The factory that `eventsourcing` finds in a persistence module, and its settings."""

from __future__ import annotations

import threading
from typing import Any, NoReturn

from eventsourcing.dcb.persistence import DCBInfrastructureFactory
from eventsourcing.persistence import InfrastructureFactory, NotSupportedError, TrackingRecorder
from eventsourcing.popo import POPOTrackingRecorder
from eventsourcing.utils import Environment, EnvType, resolve_topic

from ...errors import MissingDependency, StrandlineError
from ...store import EventStore, connect
from .recorder import Recorder
from .tracking import TrackedView
from .translation import to_their_error


class Factory(DCBInfrastructureFactory[TrackingRecorder], InfrastructureFactory[TrackingRecorder]):
    """Makes recorders on the store at `STRANDLINE_URL`, which it connects to when the first one is asked for.

    On PostgreSQL `STRANDLINE_LOG` names a log. As always with that library, a setting may begin with
    the name of an application or projection: `SCHOOL_STRANDLINE_URL`.
    """

    STRANDLINE_URL = "STRANDLINE_URL"
    STRANDLINE_LOG = "STRANDLINE_LOG"

    def __init__(self, env: Environment | EnvType | None) -> None:
        super().__init__(env)
        self._store: EventStore | None = None
        self._connecting = threading.Lock()

    @property
    def store(self) -> EventStore:
        """The store that all recorders of this factory share."""
        with self._connecting:
            if self._store is None:
                self._store = self._connect()
            return self._store

    def _connect(self) -> EventStore:
        url = self.env.get(self.STRANDLINE_URL)
        if not url:
            keys = " or ".join(self.env.create_keys(self.STRANDLINE_URL))
            raise OSError(f"no store: set {keys} to a file, memory: or another URL of strandline.connect")
        log = self.env.get(self.STRANDLINE_LOG)
        options: dict[str, Any] = {"log": log} if log else {}
        try:
            return connect(url, **options)
        except MissingDependency:
            raise
        except StrandlineError as error:
            raise to_their_error(error) from error

    def dcb_recorder(self) -> Recorder:
        """The recorder of a DCB application."""
        return Recorder(self.store)

    def tracking_recorder(
        self, tracking_recorder_class: type[TrackingRecorder] | None = None
    ) -> TrackingRecorder:
        """A read model: a `TrackedView` in the log, or one in memory that is filled again at each start."""
        topic = self.env.get(self.TRACKING_RECORDER_TOPIC)
        view: type[Any] = tracking_recorder_class or (resolve_topic(topic) if topic else TrackedView)
        if issubclass(view, TrackedView):
            return view(self.store, self.env.name)
        if issubclass(view, POPOTrackingRecorder):
            return view()
        raise self._not_here(f"{view.__name__} keeps its state in another database")

    def aggregate_recorder(self, purpose: str = "events") -> NoReturn:
        """Refused, as the two below: what this module keeps are DCB applications."""
        raise self._not_here("aggregates are not kept in a Strandline log")

    def application_recorder(self) -> NoReturn:
        raise self._not_here("aggregates are not kept in a Strandline log")

    def process_recorder(self) -> NoReturn:
        raise self._not_here("aggregates are not kept in a Strandline log")

    def _not_here(self, reason: str) -> NotSupportedError:
        key = self.env.create_keys(self.PERSISTENCE_MODULE)[0]
        return NotSupportedError(f"{reason}: set {key} to the module for it, e.g. eventsourcing.sqlite")

    def close(self) -> None:
        """Close the store; its subscriptions end. Again is harmless."""
        with self._connecting:
            if self._store is not None:
                self._store.close()
