"""The messages are those that protoc makes of the same files."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest
from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc

from strandline.server.grpc import messages

FOLDER = Path(str(files("strandline.server.grpc")))


@pytest.mark.parametrize(
    "file", [messages.umadb, messages.health], ids=lambda file: str(file.descriptor.name)
)
def test_the_messages_are_those_that_protoc_makes(file: messages.ProtoFile, tmp_path: Path) -> None:
    made = tmp_path / "descriptors"
    name = file.descriptor.name
    assert protoc.main(["protoc", f"-I{FOLDER}", f"--descriptor_set_out={made}", name]) == 0
    (expected,) = FileDescriptorSet.FromString(made.read_bytes()).file
    for message in expected.message_type:
        for field in message.field:
            field.ClearField("json_name")
    assert file.descriptor == expected


def test_other_libraries_may_bring_the_same_names() -> None:
    for name in ("umadb.proto", "health.proto"):
        with pytest.raises(KeyError):
            descriptor_pool.Default().FindFileByName(name)


def test_a_message_that_there_is_not_is_no_attribute() -> None:
    with pytest.raises(AttributeError):
        _ = messages.umadb.Nope
