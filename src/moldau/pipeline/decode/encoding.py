"""Values as a pipeline's topic has them, out of what a test file says: the way back of what decodes.

Avro and Protobuf are written with the schema that gives the columns, behind its id where a registry has it. Read next:
trial.py.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

from moldau.pipeline.decode import DecodeError
from moldau.pipeline.decode.plan import subject_of
from moldau.pipeline.registry.client import Registry, RegistryError
from moldau.pipeline.spec import Decode, ValueFormat

Encode = Callable[[Mapping[str, object]], bytes]


class NotEncoded(Exception):
    """A value that the schema has no bytes for; the message says why."""


def encoder(decode: Decode, topics: Sequence[str]) -> Encode:
    """What makes values that ``decode`` reads. DecodeError where ``plan_decode`` would raise it."""
    if decode.format is ValueFormat.AVRO:
        return _avro(decode, topics)
    if decode.format is ValueFormat.PROTOBUF:
        return _protobuf(decode, topics)
    prefix = _prefix(decode, topics)
    return lambda value: prefix + as_json(value)


def as_json(value: object) -> bytes:
    """The value as JSON."""
    return json.dumps(value).encode()


def _prefix(decode: Decode, topics: Sequence[str]) -> bytes:
    """What stands in front of a value: the id of the schema that gives the columns, nothing without a registry."""
    if decode.registry is None:
        return b""
    try:
        found = Registry(decode.registry).by_subject(subject_of(decode, topics), decode.version)
    except RegistryError as error:
        raise DecodeError(f"decode: {error}") from None
    return b"\0" + found.id.to_bytes(4, "big")


def _avro(decode: Decode, topics: Sequence[str]) -> Encode:
    import fastavro
    from fastavro.validation import ValidationError, validate

    from moldau.pipeline.decode.avro_values import AvroDecoding, plan_avro_file, plan_avro_registry

    if decode.registry is None:
        decoding: AvroDecoding = plan_avro_file(Path(decode.schema_file or ""))
    else:
        decoding = plan_avro_registry(decode.registry, subject_of(decode, topics), decode.version)
    prefix, kind = _prefix(decode, topics), pa.struct(list(decoding.schema))
    named: dict[str, dict[str, object]] = {}
    schema: object = None
    for text in decoding.texts:  # with logical types, which the decoder reads as what they are made of
        schema = fastavro.parse_schema(json.loads(text), named_schemas=named)

    def encode(value: Mapping[str, object]) -> bytes:
        stream = io.BytesIO()
        try:
            typed = _typed(value, kind)
            fastavro.schemaless_writer(stream, schema, typed, strict_allow_default=True)  # type: ignore[arg-type]  # parsed
            validate(typed, schema)  # type: ignore[arg-type]  # the writer makes 1 of 1.5, and true of "no"
        except ValidationError as error:  # its own text is a list over several lines
            wrong = "; ".join(str(one) for one in error.errors)
            raise NotEncoded(f"not Avro of the columns' schema: {wrong}") from None
        except Exception as error:  # fastavro raises whatever its writers meet
            raise NotEncoded(f"not Avro of the columns' schema: {type(error).__name__}: {error}") from None
        return prefix + stream.getvalue()

    return encode


def _protobuf(decode: Decode, topics: Sequence[str]) -> Encode:
    from google.protobuf import json_format, message_factory

    from moldau.pipeline.decode.protobuf_schema import Schema
    from moldau.pipeline.decode.protobuf_values import (
        ProtobufDecoding,
        indexes_of,
        plan_protobuf_file,
        plan_protobuf_registry,
    )

    prefix = _prefix(decode, topics)
    if decode.registry is None:
        decoding: ProtobufDecoding = plan_protobuf_file(Path(decode.schema_file or ""), decode.message)
    else:
        subject = subject_of(decode, topics)
        decoding = plan_protobuf_registry(decode.registry, subject, decode.version, decode.message)
    schema = Schema(decoding.descriptors)
    message = message_factory.GetMessageClass(schema.message(decoding.message))
    if prefix:
        prefix += indexes_of(schema, decoding.message)

    def encode(value: Mapping[str, object]) -> bytes:
        found = message()
        try:
            json_format.ParseDict(value, found)
            raw: bytes = found.SerializeToString()
        except Exception as error:  # ParseError, and EncodeError where a required field is missing
            raise NotEncoded(f"not a message {decoding.message}: {error}") from None
        return prefix + raw

    return encode


def _typed(value: object, kind: pa.DataType) -> object:
    """A value of YAML as what a writer of Avro takes for a column of this type, where YAML has no such value."""
    if isinstance(value, Mapping) and pa.types.is_struct(kind):
        types = {kind.field(at).name: kind.field(at).type for at in range(kind.num_fields)}
        return {name: _typed(one, types[name]) if name in types else one for name, one in value.items()}
    if isinstance(value, Mapping) and pa.types.is_map(kind):
        return {name: _typed(one, kind.item_type) for name, one in value.items()}
    if isinstance(value, list) and pa.types.is_list(kind):
        return [_typed(one, kind.value_type) for one in value]
    if pa.types.is_decimal(kind) and isinstance(value, (int, float, str)) and not isinstance(value, bool):
        return Decimal(str(value))
    if isinstance(value, str) and pa.types.is_timestamp(kind):
        at = datetime.fromisoformat(value)
        return at if at.tzinfo is not None else at.replace(tzinfo=UTC)  # else it would be of this machine's zone
    if isinstance(value, str) and pa.types.is_date(kind):
        return date.fromisoformat(value)
    if isinstance(value, str) and pa.types.is_binary(kind):
        return base64.b64decode(value, validate=True)
    return value
