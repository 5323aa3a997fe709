"""Where the logs under test are, as users of `eventsourcing` say it: in settings."""

from __future__ import annotations

from places import Place

MODULE = {"PERSISTENCE_MODULE": "strandline.integrations.eventsourcing"}
MAPPER = {"MAPPER_TOPIC": "eventsourcing.dcb.msgpack:MessagePackMapper"}


def settings_for(place: Place) -> dict[str, str]:
    """The settings of an application whose log is at a place."""
    log = {"STRANDLINE_LOG": place.log} if place.log else {}
    return MODULE | MAPPER | {"STRANDLINE_URL": str(place.url)} | log
