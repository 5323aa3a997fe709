"""The command line: `strandline`, or `python -m strandline.cli`."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line with the arguments of this process, and exit."""
    try:
        from .app import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == __name__.partition(".")[0]:
            raise
        sys.stderr.write(
            f"error: the command line needs {error.name}, which is not installed\n"
            "hint: pip install 'strandline[cli]'\n"
        )
        sys.exit(2)
    sys.exit(run(sys.argv[1:]))
