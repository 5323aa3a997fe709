"""A store in PostgreSQL: whether the server is fit for it, and this role has the rights it needs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from strandline.engine.open import require_psycopg

from .finding import Finding, State, judged

if TYPE_CHECKING:
    from strandline.engine.postgres.server import Rights, Settings

OLDEST_VERSION = 14
TESTED_VERSIONS = range(16, 19)  # the tests run on the first and the last of them
WAITS_FOR_THE_DISK = ("on", "remote_apply")


def database_findings(url: str, log: str) -> Iterator[Finding]:
    """What there is to say about the server; raises if it cannot be asked."""
    require_psycopg()
    from strandline.engine.postgres.address import Address
    from strandline.engine.postgres.server import look_at_server

    address = Address(url, log)
    server = look_at_server(address)
    settings = server.settings
    yield version_finding(settings.version // 10_000, address.server)
    yield encoding_finding(settings.encoding)
    yield setting_finding("fsync", settings.fsync)
    yield setting_finding("full_page_writes", settings.full_page_writes)
    yield commit_finding(settings.synchronous_commit)
    yield connection_finding(is_direct=server.is_direct)
    yield writes_finding(settings)
    yield rights_finding(settings, server.rights, log)


def version_finding(version: int, where: str) -> Finding:
    """Whether the server is new enough, and not newer than what is known to work."""
    tested = f"{TESTED_VERSIONS[0]} to {TESTED_VERSIONS[-1]}"
    state: State = "bad" if version < OLDEST_VERSION else "warning"
    return judged(
        "server",
        f"PostgreSQL {version} at {where}",
        f"use PostgreSQL {tested}",
        good=version in TESTED_VERSIONS,
        otherwise=state,
    )


def encoding_finding(encoding: str) -> Finding:
    """Whether the database can keep every text."""
    fix = "make a database for it: createdb --encoding UTF8 --template template0 DATABASE"
    return judged("encoding", encoding, fix, good=encoding == "UTF8")


def setting_finding(name: str, value: str) -> Finding:
    """Whether the server keeps its promises through a power cut."""
    fix = f"as superuser: alter system set {name} = on; select pg_reload_conf()"
    found = value if value == "on" else f"{value}: a power cut can damage what was acknowledged"
    return judged(name.removesuffix("_writes").replace("_", " "), found, fix, good=value == "on")


def commit_finding(level: str) -> Finding:
    """What commits wait for; those of appends wait for the disk, whatever the default is."""
    found = level if level in WAITS_FOR_THE_DISK else f"{level}; appends wait for the disk all the same"
    return Finding("sync. commit", "ok", found)


def connection_finding(*, is_direct: bool) -> Finding:
    """Whether a pooler like pgbouncer stands between."""
    pooled = "through a pooler: subscriptions look for news every 20 ms"
    return Finding("connection", "ok", "direct" if is_direct else pooled)


def writes_finding(settings: Settings) -> Finding:
    """Whether anything can be appended there."""
    if settings.is_replica:
        fix = "to append, connect to the primary server"
        return Finding("writes", "warning", "none: a replica serves reads only", fix)
    return judged(
        "writes",
        "none: default_transaction_read_only is on" if settings.is_read_only else "possible",
        f'as superuser: alter role "{settings.role}" set default_transaction_read_only = off',
        good=not settings.is_read_only,
        otherwise="warning",
    )


def rights_finding(settings: Settings, rights: Rights | None, log: str) -> Finding:
    """Whether the role may do what an application does, and no more."""
    role, script = settings.role, f"strandline schema --log {log}"
    grant = f"{script} --grant {shlex.quote(role)} | psql URL"
    if rights is None:
        found = f"{role} {'may' if settings.may_create else 'may not'} make the log {log}"
        fix = f"let an owner run: {script} | psql URL; {grant}"
        return judged("rights", found, fix, good=settings.may_create)
    if rights.may_change:
        fix = f"give applications a role of their own: {script} --grant ROLE | psql URL"
        return Finding("rights", "warning", f"{role} may even change events", fix)
    if rights.may_read and rights.may_append:
        return Finding("rights", "ok", f"{role} may read, append and keep followers, nothing else")
    found = f"{role} may read, but not append" if rights.may_read else f"{role} may not use the log"
    state: State = "warning" if rights.may_read else "bad"
    return Finding("rights", state, found, f"let the owner of the log run: {grant}")
