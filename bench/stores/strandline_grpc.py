"""Our server through UmaDB's Python client: the same client and the same calls as for UmaDB itself."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import Running
from .umadb import START_SECONDS, UmaDB

SERVE = "from strandline.cli import main; main()"


class StrandlineGrpc(UmaDB):
    """`strandline serve --grpc-port` on the SQLite file of the embedded store."""

    name = "strandline-grpc"
    prefilled_as = "strandline"
    is_face = True
    durability = "WAL with synchronous=FULL: the log is flushed before every acknowledgement (group commit)"

    def version(self) -> str:
        import umadb  # noqa: F401

        import strandline

        return strandline.__version__

    @contextmanager
    def serve(self, place: str) -> Iterator[Running]:
        options = ["serve", str(Path(place) / "bench.db"), "--port", "0", "--grpc-port", "0"]
        server = subprocess.Popen([sys.executable, "-c", SERVE, *options], stdout=subprocess.PIPE)
        try:
            assert server.stdout is not None
            yield Running(json.loads(server.stdout.readline())["grpc"], server.pid)
        finally:
            server.terminate()
            try:
                server.communicate(timeout=START_SECONDS)
            except subprocess.TimeoutExpired:
                server.kill()
                server.communicate()
