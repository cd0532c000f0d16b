"""A planned batch of a table's feed as rows: the table's columns, what happened, and where, in one order always.

One task reads the pieces one after the other, so that a topic has the changes of a key in the order of versions, and
a batch that is run again has the same rows at the same places. Of a version that takes rows back the deleted ones come
first; those whose key the version writes again are told as replaced. Read next: planning.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from moldau.model.counted import counted
from moldau.pipeline import columns as names
from moldau.pipeline.feed.changes import Piece, PlannedBatch, RowChange, VersionSlice
from moldau.pipeline.stages import arrow_schema
from moldau.spark.rows import quoted, row_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AGAIN = "its key is written again in the same version"
_CHANGES = {
    "insert": RowChange.INSERT,
    "update_postimage": RowChange.UPDATE,
    "update_preimage": RowChange.DELETE,
    "delete": RowChange.DELETE,
}
"""What Delta's change files say of a row; what a row was before an update is gone by it."""

Keyed = tuple[object, ...]


def rows_of(spark: SparkSession, planned: PlannedBatch, topic: str, keys: Sequence[str]) -> DataFrame:
    """The batch as rows that the stages after decoding take."""
    from pyspark.sql import functions as fn
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = full_schema(planned.schema)

    def read(given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in given:
            for part in planned.slices:
                yield from _slice(part, planned.schema, topic, keys)

    found = spark.range(0, 1, 1, 1).mapInArrow(read, from_arrow_schema(schema))
    text = row_json(fn.struct(*map(quoted, planned.schema.names), *names.FEED)).cast("binary")
    return found.withColumn(names.VALUE, text)  # what dead letters keep of a row


def full_schema(fields: pa.Schema) -> pa.Schema:
    """The table's columns, and those of the pipeline's own."""
    return arrow_schema(pa.schema([*fields, (names.CHANGE, pa.string()), (names.VERSION, pa.int64())]))


def _slice(part: VersionSlice, schema: pa.Schema, topic: str, keys: Sequence[str]) -> Iterator[pa.RecordBatch]:
    at = part.first
    written = _keys(_changes(part.pieces, schema, deletes=False), keys) if part.takes_back else set()
    turns = (True, False) if part.takes_back else (False,)
    for deletes in turns:
        for rows, changes in _changes(part.pieces, schema, deletes=deletes):
            reasons: list[str | None] = [None] * rows.num_rows
            if deletes:
                reasons = [AGAIN if key in written else None for key in _key(rows, keys)]
            yield _whole(rows, changes, reasons, part, topic=topic, first=at)
            at += rows.num_rows


def _changes(
    pieces: Iterable[Piece], schema: pa.Schema, *, deletes: bool
) -> Iterator[tuple[pa.RecordBatch, list[str]]]:
    """The deleted rows of the pieces, or the others, each batch with what happened to its rows."""
    for piece in pieces:
        if piece.change is not None and (piece.change is RowChange.DELETE) != deletes:
            continue
        for batch in _from(piece, schema):
            if piece.change is not None:
                yield batch, [piece.change.value] * batch.num_rows
                continue
            changes = [_CHANGES[one] for one in batch.column("_change_type").to_pylist()]
            chosen = pa.array([(one is RowChange.DELETE) == deletes for one in changes])
            rows = batch.select(list(schema.names)).filter(chosen)
            if rows.num_rows:
                yield rows, [one.value for one in changes if (one is RowChange.DELETE) == deletes]


def _from(piece: Piece, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The piece's rows, none before its first."""
    skip, left = piece.first, piece.rows
    for batch in piece.reading.batches(schema):
        skipped = min(skip, batch.num_rows)
        skip -= skipped
        taken = min(batch.num_rows - skipped, left)
        left -= taken
        if taken:
            yield batch.slice(skipped, taken)
        if not left:
            return
    raise EOFError(f"{piece.name} has {counted(left, 'row')} less than when the batch was planned")


def _keys(found: Iterable[tuple[pa.RecordBatch, list[str]]], keys: Sequence[str]) -> set[Keyed]:
    return {key for rows, _ in found for key in _key(rows, keys)}


def _key(rows: pa.RecordBatch, keys: Sequence[str]) -> Iterator[Keyed]:
    """What stands in the key's columns, of each row, as values that can be compared."""
    named = {name.lower(): name for name in rows.schema.names}  # as Spark, which does not tell cases apart
    found = [[_comparable(one) for one in rows.column(named[name.lower()]).to_pylist()] for name in keys]
    return iter(zip(*found, strict=True))


def _comparable(value: object) -> object:
    return json.dumps(value, default=str, sort_keys=True) if isinstance(value, (list, dict)) else value


def _whole(
    rows: pa.RecordBatch,
    changes: list[str],
    reasons: Sequence[str | None],
    part: VersionSlice,
    *,
    topic: str,
    first: int,
) -> pa.RecordBatch:
    """The rows with the pipeline's own columns."""
    schema, count = full_schema(rows.schema), rows.num_rows
    at = pa.scalar(part.at_ms * 1000, pa.int64()).cast(pa.timestamp("us", "UTC"))
    made = {
        names.CHANGE: pa.array(changes, pa.string()),
        names.VERSION: pa.repeat(pa.scalar(part.number, pa.int64()), count),
        names.TOPIC: pa.repeat(pa.scalar(topic), count),
        names.PARTITION: pa.repeat(pa.scalar(0, pa.int32()), count),
        names.OFFSET: pc.add(pa.array(range(count), pa.int64()), first),
        names.TIMESTAMP: pa.repeat(at, count),
        names.REASON: pa.array(reasons, pa.string()),
    }
    own = schema.names[len(rows.schema) :]
    arrays = [made.get(name, pa.nulls(count, schema.field(name).type)) for name in own]
    return pa.RecordBatch.from_arrays([*rows.columns, *arrays], schema=schema)
