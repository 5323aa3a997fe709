"""An application: a function of a store that returns its workers, named as `module:function`."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable
from typing import Any

from strandline import EventStore, InvalidInput, NotFound
from strandline.follow import Worker

_HINT = "write module:function, where function(store) returns a list of workers"


def workers_of(name: str, store: EventStore) -> list[Worker]:
    """The workers of the application `module:function`; the module may be in the present folder."""
    made = _function(name)(store)
    workers = list(made) if isinstance(made, Iterable) else [made]
    for worker in workers:
        if not isinstance(worker, Worker):
            raise InvalidInput(
                f"{name} returned {worker!r:.80}, which is no worker",
                hint="return Worker(store.follower(…), handle), store.automation(…) or store.outbox(…)",
            )
    names = [worker.name for worker in workers]
    if not workers or len({*names}) < len(names):
        raise InvalidInput(f"{name} returned no workers, or two of one name: {names}", hint=_HINT)
    return workers


def worker_named(name: str, workers: list[Worker]) -> Worker:
    """The worker that runs a follower."""
    for worker in workers:
        if worker.name == name:
            return worker
    known = ", ".join(worker.name for worker in workers)
    raise NotFound(f"the application has no worker {name!r}", hint=f"it has: {known}")


def _function(name: str) -> Any:
    module_name, _, function_name = name.partition(":")
    if not module_name or not function_name:
        raise InvalidInput(f"{name!r} names no application", hint=_HINT)
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there; what it needs is not
        raise InvalidInput(f"there is no module {error.name!r} here", hint=_HINT) from error
    function = getattr(found, function_name, None)
    if not callable(function):
        raise InvalidInput(f"module {module_name!r} has no function {function_name!r}", hint=_HINT)
    return function
