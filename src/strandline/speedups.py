"""The parts in native code, where they were built: `native`, else None.

They do what the Python code beside their use does. STRANDLINE_NATIVE=0 goes without them.
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType


def speedup(module: str) -> ModuleType | None:
    """A module in native code; None if there is none, or none is wanted."""
    if os.environ.get("STRANDLINE_NATIVE") == "0":
        return None
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


NATIVE = (
    "strandline.native",
    "strandline.domain.native",
    "strandline.engine.sqlite.native",
    "strandline.engine.sqlite.plain",
    "strandline.engine.sqlite.system_calls",
    "strandline.engine.postgres.native",
)

native = speedup(NATIVE[0])
