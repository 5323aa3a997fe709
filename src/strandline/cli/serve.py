"""`strandline serve`: logs over HTTP."""

from __future__ import annotations

import contextlib
import sys
from typing import Annotated

import typer

import strandline
from strandline import EventStore, InvalidInput, MissingDependency
from strandline.engine.open import DEFAULT_LOG
from strandline.server import app

from .options import LOG_VARIABLE, Json, Url, store_url
from .screen import facts, for_people, write_json

NAME = "serve"
EXAMPLE = "strandline serve school.db --port 4455"

Logs = Annotated[
    list[str],
    typer.Option("--log", metavar="NAME", envvar=LOG_VARIABLE, help="A log to serve; again: that one too."),
]
Host = Annotated[
    str, typer.Option("--host", metavar="NAME", help="The address to listen on: one of loopback.")
]
Port = Annotated[
    int,
    typer.Option("--port", metavar="N", min=0, max=65535, help="The port to listen on; 0: any that is free."),
]
ReadOnly = Annotated[bool, typer.Option("--read-only", help="Refuse every change.")]
AllowHost = Annotated[
    list[str] | None,
    typer.Option("--allow-host", metavar="NAME", help="Another name by which requests may reach the server."),
]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Listen beyond loopback, where everybody may read and write.")
]


def run(
    url: Url = None,
    *,
    host: Host = "127.0.0.1",
    port: Port = 4455,
    log: Logs = [DEFAULT_LOG],  # noqa: B006 - typer copies it
    read_only: ReadOnly = False,
    allow_host: AllowHost = None,
    insecure: Insecure = False,
    as_json: Json = False,
) -> None:
    """Serve logs over HTTP.

    The store is made if it is missing. SIGTERM or Ctrl-C ends the server when it has finished what is under way. A
    second signal ends it at once.
    """
    address = "memory:" if url == "memory:" else store_url(url)
    try:
        from strandline.server.serve import Server, is_loopback, listen
    except ImportError as error:
        raise without_server(error) from error
    if not insecure and not is_loopback(host):
        raise InvalidInput(
            f"{host} can be reached from other machines, and everybody there could read and write",
            hint="listen on 127.0.0.1 behind a proxy that checks who calls, or add --insecure",
        )
    listeners = listen(host, port)
    with contextlib.ExitStack() as stores:
        opened = {name: stores.enter_context(strandline.connect(address, log=name)) for name in log}
        application = app(opened, read_only=read_only, allow_hosts=allow_host or ())
        server = Server(application)
        _tell(address_of(host, listeners[0].getsockname()[1]), opened, as_json=as_json)
        server.run_on(listeners)


def without_server(error: ImportError) -> MissingDependency:
    """Return the error for a server that lacks a part."""
    return MissingDependency(
        f"the server needs {error.name}, which is not installed", hint="pip install 'strandline[server]'"
    )


def _tell(address: str, opened: dict[str, EventStore], *, as_json: bool) -> None:
    if for_people(as_json=as_json):
        facts([("address", address), ("logs", ", ".join(opened)), ("to end", "Ctrl-C")])
    else:
        write_json({"address": address, "logs": list(opened)})
    sys.stdout.flush()


def address_of(host: str, port: int) -> str:
    """Return the URL of a server."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
