"""The messages of `umadb.proto` and `health.proto`, made when this module is imported.

Nothing is generated: what `protoc` writes works with few versions of the protobuf runtime, this works with all. Only what
the two files use of the language is understood. A test compares the result with that of `protoc`.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

_PACKAGE = re.compile(r"^package ([\w.]+);", re.MULTILINE)
_BLOCK = re.compile(r"^(message|service) (\w+) \{(.*?)^\}", re.MULTILINE | re.DOTALL)
_METHOD = re.compile(r"rpc (\w+)\((\w+)\) returns \((stream )?(\w+)\);")
_ENUM = re.compile(r"enum (\w+) \{(.*?)\}", re.DOTALL)
_VALUE = re.compile(r"(\w+) = (\d+);")
_FIELD = re.compile(r"(?:(optional|repeated) )?(\w+) (\w+) = (\d+)( \[deprecated = true\])?;")
_SCALARS = {
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "string": FieldDescriptorProto.TYPE_STRING,
    "uint32": FieldDescriptorProto.TYPE_UINT32,
    "uint64": FieldDescriptorProto.TYPE_UINT64,
}


class ProtoFile:
    """What one `.proto` file declares. Its messages are attributes."""

    def __init__(self, name: str) -> None:
        self.descriptor = parse(name, files(__package__).joinpath(name).read_text(encoding="utf-8"))
        pool = DescriptorPool()  # not the common one: another library may bring the same names
        pool.Add(self.descriptor)
        declared = pool.FindFileByName(name).message_types_by_name
        self._messages = {message: GetMessageClass(declared[message]) for message in declared}

    def __getattr__(self, name: str) -> Any:
        try:
            return self._messages[name]
        except KeyError:
            raise AttributeError(name) from None

    def request(self, method: str) -> Any:
        """Return the message that a method takes."""
        (service,) = self.descriptor.service
        (declared,) = (each for each in service.method if each.name == method)
        return self._messages[declared.input_type.rpartition(".")[2]]


def parse(name: str, text: str) -> FileDescriptorProto:
    """Return what the text of a `.proto` file declares."""
    package = _PACKAGE.findall(text)[0]
    file = FileDescriptorProto(name=name, package=package, syntax="proto3")
    for keyword, block, body in _BLOCK.findall(text):
        if keyword == "message":
            _declare(file.message_type.add(name=block), body, package)
            continue
        service = file.service.add(name=block)
        for method, request, stream, answer in _METHOD.findall(body):
            service.method.add(
                name=method,
                input_type=f".{package}.{request}",
                output_type=f".{package}.{answer}",
                server_streaming=True if stream else None,
            )
    return file


def _declare(message: DescriptorProto, body: str, package: str) -> None:
    """Add the enums and the fields of a message."""
    for name, values in _ENUM.findall(body):
        enum = message.enum_type.add(name=name)
        for value, number in _VALUE.findall(values):
            enum.value.add(name=value, number=int(number))
    for label, kind, name, number, deprecated in _FIELD.findall(_ENUM.sub("", body)):
        field = message.field.add(name=name, number=int(number), label=FieldDescriptorProto.LABEL_OPTIONAL)
        if label == "repeated":
            field.label = FieldDescriptorProto.LABEL_REPEATED
        elif label == "optional":
            field.proto3_optional = True
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{name}")
        if deprecated:
            field.options.deprecated = True
        _set_type(field, kind, message, package)


def _set_type(field: FieldDescriptorProto, kind: str, message: DescriptorProto, package: str) -> None:
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    elif any(enum.name == kind for enum in message.enum_type):
        field.type = FieldDescriptorProto.TYPE_ENUM
        field.type_name = f".{package}.{message.name}.{kind}"
    else:
        field.type = FieldDescriptorProto.TYPE_MESSAGE
        field.type_name = f".{package}.{kind}"


umadb = ProtoFile("umadb.proto")
health = ProtoFile("health.proto")
