"""Protobuf messages as columns: behind a schema registry's prefix and message indexes, or plain, of one file's message.

A message is read by the columns' schema, by field numbers; with a registry, its writer's schema says which message it
is, and whether its fields are what the columns take them for. Nothing that stands in a value fails more than that
value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from moldau.pipeline.decode import Decoded, DecodeError
from moldau.pipeline.decode.prefixed import PREFIX_BYTES, DecodedValue, Writers, WriterSchema, decoded, drift_of
from moldau.pipeline.decode.protobuf_schema import (
    Schema,
    columns,
    compile_file,
    compile_proto,
    more_fields,
    other_kind,
    reader,
)
from moldau.pipeline.registry.client import RegisteredSchema, Registry, RegistryError
from moldau.wire.varints import varint

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

MAIN = "schema.proto"
"""What a registry's schema is called while it is compiled; those that it uses have their names as it imports them."""
_DEEPEST = 50


@dataclass(frozen=True, slots=True)
class ProtobufDecoding:
    """The columns' schema as a descriptor set, the full name of the message, and the registry where ids are asked."""

    descriptors: bytes
    message: str
    registry: str | None = None

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(one.name, one.type) for one in columns(Schema(self.descriptors).message(self.message))])

    def open(self) -> ProtobufDecoder:
        return ProtobufDecoder(self, None if self.registry is None else Registry(self.registry))


def plan_protobuf_registry(
    url: str, subject: str, version: int | None = None, message: str | None = None
) -> ProtobufDecoding:
    """Values with the registry's prefix, as the columns of a message of a subject's version."""
    try:
        registry = Registry(url)
        found = registry.by_subject(subject, version)
        if found.kind != "PROTOBUF":
            raise DecodeError(f"decode: the schema of {subject!r} is {found.kind}, not PROTOBUF")
        return _planned(_compile(registry, found), message, url)
    except RegistryError as error:
        raise DecodeError(f"decode: {error}") from None


def plan_protobuf_file(path: Path, message: str | None = None) -> ProtobufDecoding:
    """Values without a registry: messages of a .proto file or a descriptor set (``protoc --include_imports
    --descriptor_set_out``); the first message of the file unless one is named."""
    return _planned(compile_file(path), message, None)


def _planned(descriptors: bytes, message: str | None, url: str | None) -> ProtobufDecoding:
    found = Schema(descriptors).message(message)
    decoding = ProtobufDecoding(descriptors, found.full_name, url)
    if not decoding.schema.names:
        raise DecodeError(f"protobuf: message {found.full_name} has no fields that are columns")
    decoding.open()
    return decoding


def _compile(registry: Registry, schema: RegisteredSchema) -> bytes:
    return compile_proto({**registry.named_references(schema), MAIN: schema.text}, MAIN)


class ProtobufDecoder:
    """Decodes batches in one process, and keeps the writers' schemas."""

    def __init__(self, decoding: ProtobufDecoding, registry: Registry | None) -> None:
        from google.protobuf import message_factory, unknown_fields
        from google.protobuf.message import DecodeError as NotDecoded

        self._message = Schema(decoding.descriptors).message(decoding.message)
        found = columns(self._message)
        self._type = pa.struct([(one.name, one.type) for one in found])
        self._read, self._class = reader(found), message_factory.GetMessageClass(self._message)
        self._not_decoded, self._unknown = NotDecoded, unknown_fields.UnknownFieldSet
        self._writers: Writers[Schema] | None = None
        if registry is not None:
            self._writers = Writers(registry, "PROTOBUF", lambda one: WriterSchema(Schema(_compile(registry, one))))
        self._messages: dict[tuple[int, tuple[int, ...]], tuple[str | None, str | None]] = {}

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """The rows of the values; RegistryError when an id is not known here and the registry cannot be asked."""
        return decoded(values, self._plain if self._writers is None else self._prefixed, self._column)

    def _column(self, records: Sequence[object]) -> pa.StructArray:
        return pa.array(records, self._type)

    def _prefixed(self, value: bytes) -> DecodedValue:
        assert self._writers is not None
        number, writer = self._writers.of(value)
        if number is None or writer.schema is None:
            return DecodedValue(None, writer.error, number)
        indexes, at = message_indexes(value, PREFIX_BYTES)
        if indexes is None:
            return DecodedValue(None, "what follows the schema id are no message indexes", number)
        known = self._messages.get((number, indexes))
        if known is None:
            found = writer.schema.at(indexes)
            if found is None:  # not kept: garbage has any number of them
                return DecodedValue(None, f"schema id {number} has no message at {list(indexes)}", number)
            known = self._messages[number, indexes] = self._judged(number, found)
        error, drift = known
        if error is not None:
            return DecodedValue(None, error, number)
        return self._taken(value[at:], number)._replace(drift=drift)

    def _judged(self, number: int, found: Descriptor) -> tuple[str | None, str | None]:
        """Why such messages of a writer's schema cannot be read, or what the columns lack of them."""
        if found.full_name != self._message.full_name:
            return f"schema id {number}: a {found.full_name}, and the columns are of {self._message.full_name}", None
        problem = other_kind(found, self._message)
        if problem is not None:
            return f"schema id {number}: {problem}", None
        return None, drift_of(list(more_fields(found, self._message)))

    def _plain(self, value: bytes) -> DecodedValue:
        return self._taken(value, None)

    def _taken(self, value: bytes, number: int | None) -> DecodedValue:
        message: Message = self._class()
        try:
            message.ParseFromString(value)
            if not message.IsInitialized():
                missing = ", ".join(message.FindInitializationErrors())
                return DecodedValue(None, f"required fields are missing: {missing}", number)
            record = self._read(message)
            unknown = {str(one.field_number) for one in self._unknown(message)} if number is None else set()
        except self._not_decoded:
            return DecodedValue(None, f"not a message {self._message.full_name}", number)
        except (ValueError, UnicodeError) as error:
            return DecodedValue(None, f"not a message {self._message.full_name}: {str(error)[:200]}", number)
        drift = None if not unknown else drift_of([f"number {one}" for one in unknown])
        return DecodedValue(record, None, number, drift)


def message_indexes(value: bytes, at: int) -> tuple[tuple[int, ...] | None, int]:
    """The indexes that follow a schema id, and where the message begins: a count and so many numbers, as zigzag
    varints; a count of 0 stands for the first message. None when they are cut off or cannot be."""
    count, at = _varint(value, at)
    if count == 0:
        return (0,), at
    if count is None or not 0 < count <= _DEEPEST:
        return None, at
    found = []
    for _ in range(count):
        index, at = _varint(value, at)
        if index is None or index < 0:
            return None, at
        found.append(index)
    return tuple(found), at


def indexes_of(schema: Schema, name: str) -> bytes:
    """The bytes of the indexes of a message, by its full name, as ``message_indexes`` reads them."""

    def search(above: tuple[int, ...]) -> tuple[int, ...]:
        at = 0
        while (found := schema.at((*above, at))) is not None and found.full_name != name:
            if name.startswith(f"{found.full_name}."):
                return search((*above, at))
            at += 1
        return (*above, at)

    indexes = search(())
    if indexes == (0,):
        return b"\0"
    return b"".join(map(varint, (len(indexes), *indexes)))


def _varint(value: bytes, at: int) -> tuple[int | None, int]:
    found = shift = 0
    while at < len(value) and shift < 35:
        byte = value[at]
        found, at, shift = found | (byte & 0x7F) << shift, at + 1, shift + 7
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1), at
    return None, at
