"""The tests that every store passes. Subclass it, give it a URL, and run pytest:

    class TestMyEngine(StoreConformance):
        @pytest.fixture
        def url(self, tmp_path):
            return tmp_path / "log.db"

A log that has a name in its database gives that in the fixture `options`: `{"log": "some name"}`.
A store that is not reached by a URL overrides the fixture `open_store` instead: a function that
takes the keyword options of `strandline.connect` and returns an `EventStore` on an empty log.
"""

from .appending import Appending
from .asynchronous import Asynchronous
from .batches import Batches
from .conditions import Conditions
from .idempotency import Idempotency
from .input import BadInput
from .kit import OpenStore, StoreFixtures
from .leasing import Leasing
from .lifecycle import Lifecycle
from .looking import Catalogues, DryRuns, Lists, Looking
from .matching import Matching
from .payloads import Payloads
from .reading import Reading
from .recording import Recording
from .retag_conflicts import RetagConflicts
from .retagging import Retagging
from .subscriptions import Subscriptions
from .tracking import Tracking

__all__ = ["FollowerConformance", "OpenStore", "StoreConformance"]


class StoreConformance(
    Appending,
    Asynchronous,
    BadInput,
    Batches,
    Catalogues,
    Conditions,
    DryRuns,
    Idempotency,
    Lifecycle,
    Lists,
    Looking,
    Matching,
    Payloads,
    Reading,
    Recording,
    RetagConflicts,
    Retagging,
    Subscriptions,
    Tracking,
    StoreFixtures,
):
    """Everything that docs/semantics.md says about a store, as tests."""


class FollowerConformance(Leasing, StoreFixtures):
    """What docs/followers.md says about leases, as tests of a store that keeps checkpoints."""
