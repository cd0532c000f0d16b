"""JSON objects behind a schema registry's prefix: the subject's JSON Schema, or the file's fields, give the columns.

An id must be that of a JSON Schema that the registry has; the value itself is held against the columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from moldau.pipeline.decode import Decoded, DecodeError
from moldau.pipeline.decode.json_schema import json_columns
from moldau.pipeline.decode.json_values import JsonDecoder
from moldau.pipeline.decode.prefixed import PREFIX_BYTES, Writers, WriterSchema
from moldau.pipeline.registry.client import RegisteredSchema, Registry, RegistryError
from moldau.spark.nullable import nullable_columns


@dataclass(frozen=True, slots=True)
class JsonRegistryDecoding:
    """The columns, in which fields that are required are not nullable, and the registry where ids are asked."""

    strict: pa.Schema
    registry: str

    @property
    def schema(self) -> pa.Schema:
        return nullable_columns(self.strict)

    def open(self) -> JsonRegistryDecoder:
        return JsonRegistryDecoder(self.strict, self.schema, Registry(self.registry))


def plan_json_registry(
    url: str, subject: str, version: int | None = None, fields: pa.Schema | None = None
) -> JsonRegistryDecoding:
    """Values with the registry's prefix, as the columns of a subject's version, or those that are given."""
    try:
        registry = Registry(url)
        found = registry.by_subject(subject, version)
        if found.kind != "JSON":
            raise DecodeError(f"decode: the schema of {subject!r} is {found.kind}, not JSON")
        used = registry.named_references(found)
    except RegistryError as error:
        raise DecodeError(f"decode: {error}") from None
    return JsonRegistryDecoding(json_columns(found.text, used) if fields is None else fields, url)


class JsonRegistryDecoder:
    """Decodes batches in one process."""

    def __init__(self, strict: pa.Schema, schema: pa.Schema, registry: Registry) -> None:
        self._values = JsonDecoder(strict)
        self._type = pa.struct(list(schema))
        self._writers: Writers[RegisteredSchema] = Writers(registry, "JSON", WriterSchema)

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """The rows of the values; RegistryError when an id is not known here and the registry cannot be asked."""
        ids: list[int | None] = []
        errors: list[str | None] = []
        inner: list[bytes | None] = []
        for value in values.to_pylist():
            number, writer = (None, None) if value is None else self._writers.of(value)
            error = None if writer is None else writer.error
            ids.append(number)
            errors.append(error)
            inner.append(None if value is None or error is not None else value[PREFIX_BYTES:])
        found = self._values.decode(pa.array(inner, pa.binary()))
        told = pc.coalesce(pa.array(errors, pa.string()), found.errors)
        rows = found.rows.cast(self._type)
        return Decoded(
            rows=pc.if_else(pc.is_null(told), rows, pa.scalar(None, rows.type)),
            errors=told,
            schema_ids=pa.array(ids, pa.int32()),
            drift=found.drift,
        )
