"""What the jobs are told by import path, `module:Name`, so that executors can import it too."""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType
from typing import Any, NamedTuple

from ..domain.projection import Projection
from ..domain.shape import shape_of
from ..domain.snapshot import version_of
from ..errors import FollowerFailed, InvalidInput

HINT = "write module:Name, as in school:Course, of a module that Python finds here and on the executors"


class Imported(NamedTuple):
    """A projection that the driver has imported, as executors are told of it."""

    path: str
    version: str

    def load(self) -> Any:
        """The class, on an executor too; one of another version would fold something else."""
        found: Any = projection(self.path)
        if version_of(found) != self.version:
            raise FollowerFailed(
                f"the executors have another version of {self.path} than the driver",
                hint="give both the same code, and start the session again if it changed",
            )
        return found


def load(path: object) -> Any:
    """What an import path means; the module may be in the present folder."""
    module_name, _, name = path.partition(":") if isinstance(path, str) else ("", "", "")
    if not module_name or not name:
        raise InvalidInput(f"{path!r:.80} is no import path", hint=HINT)
    found: Any = module(module_name)
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise InvalidInput(f"module {module_name!r} has no {name!r}", hint=HINT)
    return found


def module(name: str) -> ModuleType:
    """A module by its name; it may be in the present folder."""
    if not name or name.startswith("."):
        raise InvalidInput(f"{name!r:.80} is no import path", hint=HINT)
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module is there; what it needs is not
        needed = "" if error.name == name else f" for {name}"
        raise InvalidInput(f"there is no module {error.name!r}{needed}", hint=HINT) from error


def path_of(thing: Any) -> str:
    """The import path of a class or function, if executors can import it by that."""
    if not hasattr(thing, "__module__") or not hasattr(thing, "__qualname__"):
        raise InvalidInput(f"{thing!r:.80} is no import path, no class and no function", hint=HINT)
    path = f"{thing.__module__}:{thing.__qualname__}"
    if thing.__module__ == "__main__" or "<locals>" in path or load(path) is not thing:
        raise InvalidInput(
            f"{thing.__qualname__} cannot be imported by others: {path}",
            hint="define it at the top of a module, not in a script, notebook or function",
        )
    return path


def projection(path: str) -> type[Projection]:
    """A projection by its import path."""
    found = load(path)
    if not isinstance(found, type) or not issubclass(found, Projection) or found is Projection:
        raise InvalidInput(f"{path} is no projection", hint=HINT)
    if not shape_of(found).handlers:
        found()  # which says what is missing
    return found


def imported(path_or_class: str | type[Projection]) -> Imported:
    """A projection, by its import path or itself, checked here and to be imported by executors."""
    path = path_or_class if isinstance(path_or_class, str) else path_of(path_or_class)
    cls: Any = projection(path)
    return Imported(path, version_of(cls))
