"""The tests of deploy/ use the servers of the tests of the server."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "server"))
