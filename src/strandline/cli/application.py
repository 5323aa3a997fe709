"""What is in a module of the user's: an application, which is a function of a store, or a read model."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Iterable
from typing import Any

from strandline import EventStore, InvalidInput, NotFound, Projection
from strandline.follow import ReadModel, Worker

_HINT = "write module:function, where function(store) returns a list of workers"
_MODEL_HINT = (
    'write module:name, where name = ReadModel(Course, table="courses"), or module:Course --table courses'
)


def workers_of(name: str, store: EventStore) -> list[Worker]:
    """The workers of the application `module:function`."""
    function = _function(name)
    _refuse_other_arguments(name, function, store)
    made = function(store)
    workers = list(made) if isinstance(made, Iterable) else [made]
    for worker in workers:
        if not isinstance(worker, Worker):
            raise InvalidInput(
                f"{name} returned {worker!r:.80}, which is no worker",
                hint="return Worker(store.follower(…), handle), store.automation(…), store.outbox(…), model.worker(store)",
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


def read_model_of(name: str, table: str | None) -> ReadModel[Any]:
    """The read model `module:name`; or one of the projection of that name, if its table is given."""
    found = _imported(name, "read model", _MODEL_HINT)
    if isinstance(found, type) and issubclass(found, Projection) and table is not None:
        return ReadModel(found, table=table)
    if not isinstance(found, ReadModel):
        raise InvalidInput(f"{name} is no read model: {found!r:.80}", hint=_MODEL_HINT)
    if table not in (None, found.table):
        raise InvalidInput(f"{name} is in the table {found.table!r}, not {table!r}", hint="leave out --table")
    return found


def _function(name: str) -> Any:
    found = _imported(name, "application", _HINT)
    if not callable(found):
        raise InvalidInput(f"{name} is no function: {found!r:.80}", hint=_HINT)
    return found


def _refuse_other_arguments(name: str, function: Any, store: EventStore) -> None:
    try:
        takes = inspect.signature(function)
    except (TypeError, ValueError):  # a function of C may not tell
        return
    try:
        takes.bind(store)
    except TypeError as error:
        raise InvalidInput(
            f"{name} cannot be called with the store alone, it takes {takes}", hint=_HINT
        ) from error


def _imported(name: str, what: str, hint: str) -> Any:
    """What `module:name` stands for; the module may be in the present folder."""
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute or module_name.startswith("."):
        raise InvalidInput(f"{name!r} names no {what}", hint=hint)
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there; what it needs is not
        raise InvalidInput(f"there is no module {error.name!r} here", hint=hint) from error
    if not hasattr(module, attribute):
        raise InvalidInput(f"module {module_name!r} has no {attribute!r}", hint=hint)
    return getattr(module, attribute)
