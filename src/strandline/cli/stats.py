"""`strandline stats`: figures about a log."""

import msgspec

from strandline.engine.open import DEFAULT_LOG

from .options import Json, Log, Url, open_existing
from .screen import facts, for_people, size, write_json

NAME = "stats"
EXAMPLE = "strandline stats school.db"


def run(url: Url = None, *, log: Log = DEFAULT_LOG, as_json: Json = False) -> None:
    """Show figures about the log.

    The log's uuid, head, number of appends and of refused ones, types, tags, and the size on disk.
    """
    with open_existing(url, log) as store:
        fields = msgspec.structs.asdict(store.stats())
    if for_people(as_json=as_json):
        count = fields.pop("size_bytes")
        facts((fields | {"size": size(count)}).items())
    else:
        write_json(fields)
