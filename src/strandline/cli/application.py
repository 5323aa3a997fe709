"""What is in a module of the user's: an application, which is a function of a store, or a read model."""

from __future__ import annotations

import importlib
import inspect
import os
import shlex
import sys
import traceback
from collections.abc import Iterable
from typing import Any

from strandline import EventStore, InvalidInput, NotFound, Projection, StrandlineError
from strandline.follow import ReadModel, Worker
from strandline.follow.models.read_model import is_collecting

_HINT = "write module:function, where function(store) returns a list of workers"
_MODEL_HINT = (
    'write module:name, where name = ReadModel(Course, table="courses"), or module:Course --table courses'
)


def workers_of(name: str, store: EventStore) -> list[Worker]:
    """The workers of the application `module:function`."""
    function = _function(name)
    _refuse_other_arguments(name, function, store)
    workers = _made(name, function, store)
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


def _made(name: str, function: Any, store: EventStore) -> list[Any]:
    token = is_collecting.set(True)
    try:
        made = function(store)
        return list(made) if isinstance(made, Iterable) else [made]
    except StrandlineError:
        raise
    except Exception as error:
        call = f"call it: {name.partition(':')[2]}(strandline.connect(URL))"
        raise _failed(f"{name} failed", error, call) from error
    finally:
        is_collecting.reset(token)


def rebuild_command(name: str, worker: Worker, url: str) -> str:
    """Return the command that makes the table of a read model anew, for a worker of the application `module:function`."""
    module_name = name.partition(":")[0]
    table = worker.name.removeprefix("model:")
    for attribute, value in vars(sys.modules[module_name]).items():
        if isinstance(value, ReadModel) and value.table == table:
            return f"strandline models rebuild {module_name}:{attribute} {shlex.quote(url)}"
    return f"strandline models rebuild MODULE:PROJECTION {shlex.quote(url)} --table {table}"


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


def _failed(what: str, error: Exception, repeat: str) -> InvalidInput:
    """Return the error to show for one in the code of an application: what it is, and in which line."""
    said = traceback.format_exception_only(error)[-1].strip()
    place = f"{error.filename}:{error.lineno}" if isinstance(error, SyntaxError) else _place(error)
    return InvalidInput(f"{what}: {said} ({place})", hint=f"correct it. To see the whole traceback, {repeat}")


def _place(error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{last.filename}:{last.lineno}"


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
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            raise InvalidInput(f"there is no module {error.name!r} here", hint=hint) from error
        raise _failed(
            f"module {module_name!r} cannot be imported", error, f"run: python -c 'import {module_name}'"
        ) from error
    except StrandlineError:
        raise
    except Exception as error:
        raise _failed(
            f"module {module_name!r} cannot be imported", error, f"run: python -c 'import {module_name}'"
        ) from error
    if not hasattr(module, attribute):
        raise InvalidInput(f"module {module_name!r} has no {attribute!r}", hint=hint)
    return getattr(module, attribute)
