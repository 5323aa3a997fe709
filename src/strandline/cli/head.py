"""`strandline head`: the last position."""

from strandline.engine.open import DEFAULT_LOG

from .options import Json, Log, Url, open_existing
from .screen import console, for_people, plain, write_json

NAME = "head"
EXAMPLE = "strandline head school.db"


def run(url: Url = None, *, log: Log = DEFAULT_LOG, as_json: Json = False) -> None:
    """Show the position of the last event, 0 if there is none."""
    with open_existing(url, log) as store:
        head = store.head()
    if for_people(as_json=as_json):
        console().print(plain(head))
    else:
        write_json({"head": head})
