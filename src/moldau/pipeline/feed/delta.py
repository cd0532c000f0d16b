"""The versions of a Delta table, out of its log.

A version with change files has them read (they say of each row what happened); another one has the files that it added
read as inserts, and those that it removed as deletes where the change data feed was on. Without the feed nothing tells
which rows of a removed file are gone, so such a version is refused.
Source: the Delta protocol, "Change Data Files", "Reader Requirements". Read next: planning.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from moldau.pipeline.feed.changes import FeedError, Piece, RowChange, Version
from moldau.spark.tables.stores import Store, open_store

_LOG = re.compile(r"_delta_log/(\d{20})\.json")
_ROWS_AT_ONCE = 10_000
_MODE = "delta.columnMapping.mode"
_FEED = "delta.enableChangeDataFeed"

Action = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ReadParquet:
    """Reads a file of a Delta table: its columns by name, partition columns as the log has them."""

    place: str
    options: Mapping[str, str]
    path: str
    partition: Mapping[str, str | None]

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        store = open_store(self.place, self.options)
        with store.filesystem.open_input_file(store.at(self.path)) as file:
            for batch in pq.ParquetFile(file).iter_batches(_ROWS_AT_ONCE):
                arrays = [self._column(batch, field) for field in schema]
                names = list(schema.names)
                if "_change_type" in batch.schema.names:
                    arrays.append(batch.column("_change_type").cast(pa.string()))
                    names.append("_change_type")
                yield pa.RecordBatch.from_arrays(arrays, names)

    def _column(self, batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
        if field.name in self.partition:
            return pa.repeat(constant(self.partition[field.name], field.type), batch.num_rows)
        if field.name in batch.schema.names:
            return batch.column(field.name).cast(field.type)
        return pa.nulls(batch.num_rows, field.type)


def constant(text: str | None, kind: pa.DataType) -> pa.Scalar:
    """The value of a partition column, from the text that the log has of it: an empty one is null."""
    if not text:
        return pa.scalar(None, kind)
    if pa.types.is_binary(kind):
        return pa.scalar(text.encode(), kind)
    if pa.types.is_timestamp(kind):
        naive = pa.scalar(text.rstrip("Z").replace("T", " ")).cast(pa.timestamp("us"))
        return naive if kind.tz is None else naive.cast(pa.int64()).cast(kind)
    return pa.scalar(text).cast(kind)


class DeltaFeed:
    """One Delta table at a place."""

    def __init__(self, place: str, options: Mapping[str, str]) -> None:
        self.name = place
        self._store: Store = open_store(place, options)

    def id(self) -> str:
        return str(self._table().metadata().id)

    def newest(self) -> int:
        return self._table().version()

    def first(self) -> int | None:
        oldest = self._oldest()
        return None if oldest == 0 else oldest - 1

    def before(self, version: int) -> int | None:
        newest, oldest = self.newest(), self._oldest()
        if not oldest <= version <= newest + 1:
            raise FeedError(f"{self.name} has versions {oldest} to {newest} in its log, and no {version}")
        return None if version == 0 else version - 1

    def following(self, done: int | None) -> Sequence[int]:
        return range(0 if done is None else done + 1, self.newest() + 1)

    def changes(self, number: int, before: pa.Schema | None) -> Version:
        actions = self._actions(number)
        told = [one["metaData"] for one in actions if "metaData" in one]
        schema = _schema(self.name, number, told[-1]) if told else before
        if schema is None:
            schema = _schema(self.name, number, self._metadata(number))
        files = [(kind, one[kind]) for one in actions for kind in ("cdc", "add", "remove") if kind in one]
        changed = [one for kind, one in files if kind == "cdc"]
        added = [one for kind, one in files if kind == "add" and one.get("dataChange")]
        removed = [one for kind, one in files if kind == "remove" and one.get("dataChange")]
        if changed:
            pieces = [self._piece(number, one, None) for one in changed]
            return Version(number, _time(actions), schema, pieces, takes_back=any(map(self._takes_back, pieces)))
        if removed and not self._has_feed(number, told):
            raise FeedError(
                f"{self.name}, version {number} deletes or updates rows, and does not say which: set {_FEED} on the "
                "table before such a version, and go on after this one with `moldau pipeline reset`"
            )
        if any(one.get("deletionVector") for one in (*added, *removed)):
            raise FeedError(f"{self.name}, version {number} has deletion vectors, which are not read here")
        pieces = [self._piece(number, one, RowChange.DELETE) for one in removed]
        pieces += [self._piece(number, one, RowChange.INSERT) for one in added]
        return Version(number, _time(actions), schema, pieces, takes_back=bool(removed))

    def whole(self, number: int) -> Version:
        table = self._table(number)
        if "deletionVectors" in (table.protocol().reader_features or ()):
            raise FeedError(f"{self.name}, version {number} may have deletion vectors, which are not read here")
        schema = _schema(self.name, number, self._metadata(number))
        found = pa.table(table.get_add_actions(flatten=False)).to_pylist()
        files = [
            {
                "path": one["path"],
                "partitionValues": {name: _text(value) for name, value in (one.get("partition") or {}).items()},
            }
            for one in sorted(found, key=lambda one: str(one["path"]))
        ]
        pieces = [self._piece(number, one, RowChange.INSERT) for one in files]
        return Version(number, _time_of(table), schema, pieces)

    def _piece(self, number: int, action: Action, change: RowChange | None) -> Piece:
        path = unquote(str(action["path"]))
        if "://" in path or path.startswith("/"):
            raise FeedError(f"{self.name}, version {number} names a file of another table: {path}")
        partition = action.get("partitionValues") or {}
        assert isinstance(partition, Mapping), "the log maps names to texts"
        reading = ReadParquet(self.name, self._store.options, path, dict(partition))
        try:
            with self._store.filesystem.open_input_file(self._store.at(path)) as file:
                rows = pq.ParquetFile(file).metadata.num_rows
        except FileNotFoundError:
            raise FeedError(
                f"{self.name}, version {number}: the file {path} is gone, the table was vacuumed: begin anew with "
                "`moldau pipeline reset --to snapshot`"
            ) from None
        return Piece(reading, path, change, 0, rows)

    def _takes_back(self, piece: Piece) -> bool:
        """Whether a change file says of a row that it was deleted or updated."""
        with self._store.filesystem.open_input_file(self._store.at(piece.name)) as file:
            found = pq.ParquetFile(file).read(["_change_type"])["_change_type"].unique().to_pylist()
        return found not in ([], ["insert"])

    def _actions(self, number: int) -> list[Mapping[str, Action]]:
        content = self._store.read(f"_delta_log/{number:020d}.json")
        if content is None:
            raise FeedError(
                f"{self.name}: version {number} is not in its log any more, which begins with version "
                f"{self._oldest()}: begin anew with `moldau pipeline reset --to snapshot` or --to earliest"
            )
        # As bytes: the lines of a text end at U+0085 or U+2028 as well, which values within the JSON may have.
        return [json.loads(line) for line in content.splitlines() if line.strip()]

    def _has_feed(self, number: int, told: Sequence[Action]) -> bool:
        metadata = told[-1] if told else self._metadata(number)
        configuration = metadata.get("configuration") or {}
        assert isinstance(configuration, Mapping), "the log maps names to texts"
        return str(configuration.get(_FEED, "false")).lower() == "true"

    def _metadata(self, number: int) -> Action:
        table = self._table(number)
        return {"schemaString": table.schema().to_json(), "configuration": table.metadata().configuration}

    def _oldest(self) -> int:
        found = [int(one[1]) for name in self._store.names("_delta_log", ".json") if (one := _LOG.fullmatch(name))]
        if not found:
            raise FeedError(f"{self.name}: its log has no version left: begin anew with --to snapshot")
        return min(found)

    def _table(self, version: int | None = None) -> DeltaTable:
        try:
            return DeltaTable(self._store.uri, version=version, storage_options=self._store.options or None)
        except DeltaError as error:
            raise FeedError(f"{self.name} cannot be opened as a Delta table: {error}") from error


def _text(value: object) -> str | None:
    """The text that the log has of a partition column's value."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return value.decode() if isinstance(value, bytes) else str(value).replace("+00:00", "")


def _time(actions: Sequence[Mapping[str, Action]]) -> int:
    return next((int(str(one["commitInfo"].get("timestamp") or 0)) for one in actions if "commitInfo" in one), 0)


def _time_of(table: DeltaTable) -> int:
    return next((int(one.get("timestamp") or 0) for one in table.history(1)), 0)


def _schema(name: str, number: int, metadata: Action) -> pa.Schema:
    """The columns that a version says, as Spark would have them."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    configuration = metadata.get("configuration") or {}
    assert isinstance(configuration, Mapping), "the log maps names to texts"
    if configuration.get(_MODE, "none") != "none":
        raise FeedError(f"{name}, version {number}: its columns are mapped ({_MODE}), which is not read here")
    return to_arrow_schema(StructType.fromJson(json.loads(str(metadata["schemaString"]))), timezone="UTC")
