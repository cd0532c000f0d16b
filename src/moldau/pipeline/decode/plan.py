"""Chooses how to decode, on the driver: what a pipeline's file says becomes columns and a decoder for executors."""

from __future__ import annotations

import pyarrow as pa

from moldau.pipeline.decode import DecodeError, Decoding
from moldau.pipeline.decode.types import TypeWordError, parse_type
from moldau.pipeline.spec import Decode, Format


def plan_decode(decode: Decode) -> Decoding:
    """How to decode the values of records; DecodeError when the file does not say enough or the schema is none."""
    if decode.format in (Format.TEXT, Format.RAW):
        from moldau.pipeline.decode.plain_values import PlainDecoding

        return PlainDecoding(decode.format is Format.TEXT)
    from moldau.pipeline.decode.json_values import JsonDecoding

    return JsonDecoding(schema_of(decode))


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
