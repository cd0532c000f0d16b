"""Values behind a schema registry's prefix: a zero byte and the schema's id, in four bytes, the highest first.

What all formats share: the id in front of a value, the writers' schemas that were asked for, and rows of which those
that do not fit their columns are errors of their own. Read next: avro_values.py, protobuf_values.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

import pyarrow as pa

from moldau.pipeline.decode import Decoded, DecodeError, NotReadHere
from moldau.pipeline.registry.client import RegisteredSchema, Registry, UnknownSchema

PREFIX_BYTES = 5
_ASK_AGAIN_SECONDS = 10.0
_UNKNOWN_MOST = 1_000
_SHOWN = 10
W = TypeVar("W")


class DecodedValue(NamedTuple):
    """What became of one value: a record, or its error; the schema's id; drift."""

    record: object
    error: str | None = None
    schema_id: int | None = None
    drift: str | None = None


TOMBSTONE = DecodedValue({})


class WriterSchema(NamedTuple, Generic[W]):
    """How values of one writer's schema are read, or why they cannot be; ``drift`` is what the columns lack."""

    schema: W | None
    error: str | None = None
    drift: str | None = None
    until: float = float("inf")


LARGEST_ID = 2**31 - 1


class Writers(Generic[W]):
    """The writers' schemas that one process knows. ``read`` makes one from what the registry has; its DecodeError is
    the error of all values with that id, unless it is NotReadHere, which fails the task as a registry does that cannot
    be asked."""

    def __init__(
        self,
        registry: Registry,
        kind: str,
        read: Callable[[RegisteredSchema], WriterSchema[W]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry, self._kind, self._read, self._clock = registry, kind, read, clock
        self._known: dict[int, WriterSchema[W]] = {}
        self._unknown: dict[int, WriterSchema[W]] = {}

    def of(self, value: bytes) -> tuple[int | None, WriterSchema[W]]:
        """The id in front of a value and its writer; RegistryError when an id is not known and cannot be asked for."""
        if len(value) < PREFIX_BYTES:
            return None, WriterSchema(None, f"{len(value)} bytes are too short for a schema id")
        if value[0] != 0:
            return None, WriterSchema(None, f"the first byte is {value[0]}, not 0: there is no schema id")
        number = int.from_bytes(value[1:PREFIX_BYTES], "big")
        if number > LARGEST_ID:  # a registry's ids are signed: none is that large, and a negative one says nothing
            return None, WriterSchema(None, f"schema id {number} is larger than any registry's ({LARGEST_ID})")
        found = self._known.get(number) or self._unknown.get(number)
        if found is None or self._clock() >= found.until:
            found = self._look_up(number)
            if found.until == float("inf"):
                self._known[number] = found
            else:  # values that are none of a registry's may each have another id
                if len(self._unknown) >= _UNKNOWN_MOST:
                    self._unknown.clear()
                self._unknown[number] = found
        return number, found

    def _look_up(self, number: int) -> WriterSchema[W]:
        """The writer of an id. An unknown id is asked for again after a while, and not for every value."""
        try:
            found = self._registry.by_id(number)
            if found.kind != self._kind:
                return WriterSchema(None, f"schema id {number} is {found.kind}, not {self._kind}")
            return self._read(found)
        except UnknownSchema as error:
            return WriterSchema(None, str(error), None, self._clock() + _ASK_AGAIN_SECONDS)
        except NotReadHere:
            raise
        except DecodeError as error:
            return WriterSchema(None, f"schema id {number}: {error}")


def decoded(
    values: pa.BinaryArray, take: Callable[[bytes], DecodedValue], column: Callable[[Sequence[object]], pa.StructArray]
) -> Decoded:
    """The rows of the values, as ``take`` reads each and ``column`` makes an array of the records."""
    found = [TOMBSTONE if value is None else take(value) for value in values.to_pylist()]
    records, errors = [one.record for one in found], [one.error for one in found]
    rows = _fitted(records, errors, column)
    drifts = [None if error else one.drift for one, error in zip(found, errors, strict=True)]
    return Decoded(
        rows=rows,
        errors=pa.array(errors, pa.string()),
        schema_ids=pa.array([one.schema_id for one in found], pa.int32()),
        drift=pa.array(drifts, pa.string()),
    )


def _fitted(
    records: list[object], errors: list[str | None], column: Callable[[Sequence[object]], pa.StructArray]
) -> pa.StructArray:
    try:
        return column(records)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass  # one of them does not fit: find which
    for at, record in enumerate(records):
        try:
            column([record])
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            records[at], errors[at] = None, f"does not fit the columns: {str(error)[:200]}"
    return column(records)


def drift_of(names: Sequence[str]) -> str | None:
    """How fields that are no columns are told, None when there are none."""
    if not names:
        return None
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"fields that are no columns: {', '.join(sorted(names)[:_SHOWN])}{more}"
