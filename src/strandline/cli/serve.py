"""`strandline serve`: logs over HTTP."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Annotated

import typer

import strandline
from strandline import EventStore, InvalidInput, MissingDependency
from strandline.engine.open import DEFAULT_LOG, refuse_server
from strandline.server import Tokens, app

from .options import LOG_VARIABLE, Json, Url, store_url
from .screen import facts, for_people, write_json

if TYPE_CHECKING:
    from strandline.server.grpc import GrpcFace

NAME = "serve"
EXAMPLE = "strandline serve school.db --port 4455"

Logs = Annotated[
    list[str],
    typer.Option("--log", metavar="NAME", envvar=LOG_VARIABLE, help="A log to serve; again: that one too."),
]
Host = Annotated[
    str,
    typer.Option(
        "--host", metavar="NAME", help="The address to listen on. Beyond loopback: with tokens and TLS."
    ),
]
Port = Annotated[
    int,
    typer.Option("--port", metavar="N", min=0, max=65535, help="The port to listen on; 0: any that is free."),
]
GrpcPort = Annotated[
    int | None,
    typer.Option(
        "--grpc-port",
        metavar="N",
        min=0,
        max=65535,
        help="Serve the first log to UmaDB's clients too, on this port; 0: any that is free.",
    ),
]
ReadOnly = Annotated[bool, typer.Option("--read-only", help="Refuse every change.")]
AuditFile = Annotated[
    str | None,
    typer.Option("--audit", metavar="FILE", help="Add a line of JSON for every change other than an append."),
]
MostPerSecond = Annotated[
    float | None,
    typer.Option(
        "--rate", metavar="N", help="Take at most N requests per second from a token or an address."
    ),
]
TrustProxy = Annotated[
    list[str] | None,
    typer.Option(
        "--trust-proxy", metavar="ADDRESS", help="Believe X-Forwarded-For and -Proto from this proxy."
    ),
]
AllowHost = Annotated[
    list[str] | None,
    typer.Option("--allow-host", metavar="NAME", help="Another name by which requests may reach the server."),
]
TokenFile = Annotated[
    str | None,
    typer.Option("--tokens", metavar="FILE", help="Serve only holders of tokens (strandline token create)."),
]
Certificate = Annotated[
    str | None,
    typer.Option("--tls-cert", metavar="FILE", help="Speak TLS with this certificate chain (PEM)."),
]
Key = Annotated[
    str | None, typer.Option("--tls-key", metavar="FILE", help="The private key of the certificate (PEM).")
]
Insecure = Annotated[
    bool,
    typer.Option("--insecure", help="Listen beyond loopback also without tokens, or without TLS."),
]


def run(
    url: Url = None,
    *,
    host: Host = "127.0.0.1",
    port: Port = 4455,
    grpc_port: GrpcPort = None,
    log: Logs = [DEFAULT_LOG],  # noqa: B006 - typer copies it
    tokens: TokenFile = None,
    tls_cert: Certificate = None,
    tls_key: Key = None,
    audit: AuditFile = None,
    rate: MostPerSecond = None,
    trust_proxy: TrustProxy = None,
    read_only: ReadOnly = False,
    allow_host: AllowHost = None,
    insecure: Insecure = False,
    as_json: Json = False,
) -> None:
    """Serve logs over HTTP, and to UmaDB's clients over gRPC.

    The store is made if it is missing. SIGTERM or Ctrl-C ends the server when it has finished what is under way. A
    second signal ends it at once.
    """
    address = "memory:" if url == "memory:" else store_url(url)
    refuse_server(address, "serve")
    try:
        from strandline.server.serve import (
            Server,
            allow_many_connections,
            is_loopback,
            listen,
            rare_collections,
            tls_options,
        )
    except ImportError as error:
        raise without_server(error) from error
    if not insecure and not is_loopback(host):
        _check_exposed(host, has_tokens=tokens is not None, has_tls=tls_cert is not None)
    holders = None if tokens is None else Tokens(tokens)
    tls = tls_options(tls_cert, tls_key)
    grpc_face = None if grpc_port is None else _imported_face()
    allow_many_connections()
    listeners = listen(host, port)
    places = {"address": address_of(host, listeners[0].getsockname()[1], is_tls=bool(tls))}
    with contextlib.ExitStack() as stores:
        for listener in listeners:
            stores.enter_context(contextlib.closing(listener))
        opened = {name: stores.enter_context(strandline.connect(address, log=name)) for name in log}
        application = app(
            opened,
            tokens=holders,
            audit=audit,
            rate=rate,
            read_only=read_only,
            allow_hosts=allow_host or (),
        )
        faces = []
        if grpc_face is not None and grpc_port is not None:
            others = listen(host, grpc_port, option="--grpc-port")
            places["grpc"] = address_of(host, others[0].getsockname()[1], is_tls=bool(tls))
            faces.append(grpc_face(application, log[0], others, cert=tls_cert, key=tls_key))
        server = Server(application, faces=faces, forwarded_allow_ips=trust_proxy or [], **tls)
        stores.enter_context(rare_collections())
        server.run_on(listeners, lambda: _tell(places, opened, as_json=as_json))


def without_server(error: ImportError) -> MissingDependency:
    """Return the error for a server that lacks a part."""
    return MissingDependency(
        f"the server needs {error.name}, which is not installed", hint="pip install 'strandline[server]'"
    )


def _check_exposed(host: str, *, has_tokens: bool, has_tls: bool) -> None:
    """Refuse an address that other machines reach, unless callers are known and nobody listens to their tokens."""
    if not has_tokens:
        raise InvalidInput(
            f"{host} can be reached from other machines, and everybody there could read and write",
            hint="add --tokens FILE with --tls-cert and --tls-key, or --insecure",
        )
    if not has_tls:
        raise InvalidInput(
            f"{host} can be reached from other machines, and tokens would travel there in the clear",
            hint="add --tls-cert and --tls-key, or --insecure behind a proxy that speaks TLS",
        )


def _imported_face() -> type[GrpcFace]:
    try:
        from strandline.server.grpc import GrpcFace
    except ImportError as error:
        raise MissingDependency(
            f"--grpc-port needs {error.name}, which is not installed", hint="pip install 'strandline[grpc]'"
        ) from error
    return GrpcFace


def _tell(places: dict[str, str], opened: dict[str, EventStore], *, as_json: bool) -> None:
    if for_people(as_json=as_json):
        facts([*places.items(), ("logs", ", ".join(opened)), ("to end", "Ctrl-C")])
    else:
        write_json({**places, "logs": list(opened)})
    sys.stdout.flush()


def address_of(host: str, port: int, *, is_tls: bool = False) -> str:
    """Return the URL of a server."""
    scheme = "https" if is_tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
