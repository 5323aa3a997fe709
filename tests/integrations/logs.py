"""Where the logs under test are, as users of `eventsourcing` say it: in settings."""

from __future__ import annotations

from pathlib import Path

MODULE = {"PERSISTENCE_MODULE": "strandline.integrations.eventsourcing"}
MAPPER = {"MAPPER_TOPIC": "eventsourcing.dcb.msgpack:MessagePackMapper"}
KEPT = ("sqlite",)  # several processes can open their logs, which stay when they end
ENGINES = ("memory", *KEPT)


def new_log(engine: str, directory: Path) -> dict[str, str]:
    """The settings of an application on an empty log of an engine."""
    url = {"memory": "memory:", "sqlite": str(directory / "log.db")}[engine]
    return MODULE | MAPPER | {"STRANDLINE_URL": url}
