"""eventsourcing's own test cases through its UmaDB adapter, each on a new log.

They need another eventsourcing than the other tests, so `test_adapter.py` runs them in a process of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import pytest
import umadb
from eventsourcing import popo
from eventsourcing.dcb import tests as dcb
from eventsourcing.domain import triggers
from eventsourcing.persistence import IntegrityError, Tracking
from eventsourcing.pydantic import DcbApplication, Decision, EnduringObject
from eventsourcing.tests import application, persistence, projection
from eventsourcing.utils import Environment
from eventsourcing_umadb import Factory
from eventsourcing_umadb.recorders import (
    UmaDbAggregateRecorder,
    UmaDbApplicationRecorder,
    UmaDbDcbRecorder,
)
from faces import grpc_serving, umadb_serving

import strandline

SERVER = os.environ.get("STRANDLINE_ADAPTER_TO", "strandline")  # "umadb": on UmaDB itself


@pytest.fixture(autouse=True)
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PERSISTENCE_MODULE", "eventsourcing_umadb")
    if SERVER == "umadb":
        with umadb_serving(tmp_path) as url:
            monkeypatch.setenv("UMADB_URI", url)
            yield
        return
    with strandline.connect(tmp_path / "log.db") as store, grpc_serving(store) as served:
        monkeypatch.setenv("UMADB_URI", served.grpc)
        yield


def new_client() -> umadb.Client:
    return umadb.Client(os.environ["UMADB_URI"])


class TestDcbRecorder(dcb.DcbRecorderTestCase):
    def test_append_read(self) -> None:
        self._test_append_read(UmaDbDcbRecorder(new_client()))

    def test_append_subscribe(self) -> None:
        self._test_append_subscribe(UmaDbDcbRecorder(new_client()))


class TestAggregateRecorder(persistence.AggregateRecorderTestCase):
    recorder_supports_idempotent_appends: ClassVar[bool] = True

    def create_recorder(self) -> UmaDbAggregateRecorder:
        return UmaDbAggregateRecorder(new_client())


class TestApplicationRecorder(persistence.ApplicationRecorderTestCase[UmaDbApplicationRecorder]):
    recorder_supports_idempotent_appends: ClassVar[bool] = True

    def create_recorder(self) -> UmaDbApplicationRecorder:
        return UmaDbApplicationRecorder(new_client())


class TestNotificationIds(persistence.NonInterleavingNotificationIDsBaseCase):
    def create_recorder(self) -> UmaDbApplicationRecorder:
        return UmaDbApplicationRecorder(new_client())


class TestFactory(persistence.InfrastructureFactoryTestCase[Factory]):
    def setUp(self) -> None:
        self.env = Environment(env=dict(os.environ))
        super().setUp()

    def expected_factory_class(self) -> type[Factory]:
        return Factory

    def expected_aggregate_recorder_class(self) -> type[Any]:
        return UmaDbAggregateRecorder

    def expected_application_recorder_class(self) -> type[Any]:
        return UmaDbApplicationRecorder

    def application_recorder_subclass(self) -> type[Any]:
        return OtherRecorder

    def test_create_tracking_recorder(self) -> None:
        """The adapter has none."""

    def test_create_process_recorder(self) -> None:
        """The adapter has none."""

    expected_tracking_recorder_class = expected_process_recorder_class = None
    tracking_recorder_subclass = process_recorder_subclass = None


class OtherRecorder(UmaDbApplicationRecorder):
    pass


class CountersInMemory(popo.POPOTrackingRecorder, projection.EventCountersView):
    """A read model that is not on UmaDB: the adapter has none."""

    def __init__(self) -> None:
        super().__init__()
        self.registered = self.renamed = 0

    def get_student_registered_counter(self) -> int:
        return self.registered

    def get_student_name_changed_counter(self) -> int:
        return self.renamed

    def incr_student_registered_counter(self, tracking: Tracking) -> None:
        with self._database_lock:
            self._insert_tracking(tracking)
            self.registered += 1

    def incr_student_name_changed_counter(self, tracking: Tracking) -> None:
        with self._database_lock:
            self._insert_tracking(tracking)
            self.renamed += 1


class TestProjection(projection.DecisionCountersProjectionTestCase):
    view_class = CountersInMemory

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "DECISIONCOUNTERSPROJECTION_PERSISTENCE_MODULE": "eventsourcing.popo"}


class Dog(EnduringObject):
    class Registered(Decision):
        dog_id: str
        name: str

    class TrickAdded(Decision):
        dog_id: str
        trick: str

    @triggers(Registered)
    def __init__(self, *, name: str) -> None:
        self.name = name
        self.tricks: list[str] = []

    @triggers(TrickAdded)
    def add_trick(self, trick: str) -> None:
        self.tricks.append(trick)


class DogSchool(DcbApplication):
    """The application of eventsourcing's tutorial. The environment says where its events are."""

    def register_dog(self, name: str) -> str:
        dog = Dog(name=name)
        self.repository.save(dog)
        return dog.id

    def add_trick(self, dog_id: str, trick: str) -> None:
        dog = self.repository.get(dog_id, Dog)
        dog.add_trick(trick)
        self.repository.save(dog)

    def get_dog(self, dog_id: str) -> dict[str, Any]:
        dog = self.repository.get(dog_id, Dog)
        return {"name": dog.name, "tricks": tuple(dog.tricks)}


def test_the_tutorials_application_keeps_its_dogs() -> None:
    school = DogSchool()
    dog_id = school.register_dog("Fido")
    school.add_trick(dog_id, "roll over")
    school.add_trick(dog_id, "fetch ball")
    assert DogSchool().get_dog(dog_id) == {"name": "Fido", "tricks": ("roll over", "fetch ball")}


def test_two_schools_cannot_both_decide_on_the_same_past() -> None:
    first, second = DogSchool(), DogSchool()
    dog_id = first.register_dog("Fido")
    one, other = (school.repository.get(dog_id, Dog) for school in (first, second))
    one.add_trick("roll over")
    other.add_trick("fetch ball")
    first.repository.save(one)
    with pytest.raises(IntegrityError):
        second.repository.save(other)


def test_an_application_with_aggregates_keeps_accounts() -> None:
    without_snapshots = {"IS_SNAPSHOTTING_ENABLED": "n"}  # the adapter has none
    accounts = application.BankAccountsWithPydantic(env=without_snapshots)
    account = accounts.open_account(full_name="Alice", email_address="alice@example.com")
    for amount in ("10.00", "25.00", "30.00"):
        accounts.credit_account(account, Decimal(amount))
    again = application.BankAccountsWithPydantic(env=without_snapshots)
    assert again.get_balance(account) == Decimal("65.00")
    assert len(again.notification_log["1,10"].items) == 4
    with pytest.raises(again.AccountNotFoundError):
        again.get_account(str(uuid4()))
