"""Chooses how to decode, on the driver: what a pipeline's file says becomes columns and a decoder for executors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from moldau.pipeline.columns import refused_names
from moldau.pipeline.decode import DecodeError, Decoding
from moldau.pipeline.decode.types import TypeWordError, one_but_for_case, parse_type
from moldau.pipeline.spec import Decode, ValueFormat


def plan_decode(decode: Decode, topics: Sequence[str]) -> Decoding:
    """How to decode the values of ``topics``' records, having asked the registry if there is one.

    DecodeError when the file does not say enough, the schema is none or cannot be had, or names columns that cannot be.
    """
    found = _planned(decode, topics)
    problems = [why for _, why in refused_names(found.schema.names)]
    problems += [why for field in found.schema for why in one_but_for_case(field.type, field.name)]
    if problems:
        raise DecodeError(f"decode: {'; '.join(problems)}")
    return found


def _planned(decode: Decode, topics: Sequence[str]) -> Decoding:
    if decode.format in (ValueFormat.TEXT, ValueFormat.RAW):
        from moldau.pipeline.decode.plain_values import PlainDecoding

        return PlainDecoding(decode.format is ValueFormat.TEXT)
    if decode.format is ValueFormat.AVRO:
        return _avro(decode, topics)
    if decode.format is ValueFormat.PROTOBUF:
        return _protobuf(decode, topics)
    if decode.registry is not None:
        from moldau.pipeline.decode.json_registry import plan_json_registry

        fields = None if decode.fields is None else schema_of(decode)
        return plan_json_registry(decode.registry, subject_of(decode, topics), decode.version, fields)
    from moldau.pipeline.decode.json_values import JsonDecoding

    return JsonDecoding(schema_of(decode))


def _avro(decode: Decode, topics: Sequence[str]) -> Decoding:
    from moldau.pipeline.decode.avro_values import plan_avro_file, plan_avro_registry

    if decode.schema_file is not None and decode.registry is None:
        return plan_avro_file(Path(decode.schema_file))
    if decode.registry is None:
        raise DecodeError("decode: avro needs a 'registry' or a 'schema_file'")
    return plan_avro_registry(decode.registry, subject_of(decode, topics), decode.version)


def _protobuf(decode: Decode, topics: Sequence[str]) -> Decoding:
    from moldau.pipeline.decode.protobuf_values import plan_protobuf_file, plan_protobuf_registry

    if decode.schema_file is not None and decode.registry is None:
        return plan_protobuf_file(Path(decode.schema_file), decode.message)
    if decode.registry is None:
        raise DecodeError("decode: protobuf needs a 'registry' or a 'schema_file'")
    return plan_protobuf_registry(decode.registry, subject_of(decode, topics), decode.version, decode.message)


def subject_of(decode: Decode, topics: Sequence[str]) -> str:
    """The registry's subject, that of the values of the one topic unless it is said."""
    if decode.subject is None and len(topics) != 1:
        raise DecodeError("decode: which 'subject' gives the columns? There is not one topic alone")
    return decode.subject or f"{topics[0]}-value"


def schema_of(decode: Decode) -> pa.Schema:
    """The columns that the file names; DecodeError when it names none or a type that is none."""
    if not decode.fields:
        raise DecodeError("decode: json needs 'fields' (name: type)")
    fields = []
    for name, word in decode.fields.items():
        try:
            fields.append((name, parse_type(word)))
        except TypeWordError as error:
            raise DecodeError(f"decode: {name}: {error}") from None
    return pa.schema(fields)
