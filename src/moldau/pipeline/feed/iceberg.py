"""The snapshots of an Iceberg table: what each appended, on the line of parents of the current one.

``append`` is read, ``replace`` (rows written anew, as by a compaction) changes none and is passed over, and any other
operation is refused: its deleted rows are in no file of their own. Read next: planning.py.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from moldau.pipeline.feed.changes import FeedError, Piece, RowChange, Version

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot


@dataclass(frozen=True, slots=True)
class ReadFile:
    """Reads a data file as the table's columns, by their ids."""

    metadata: str
    """The table's metadata as JSON."""
    schema_id: int
    properties: Mapping[str, str]
    file: DataFile

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io import load_file_io
        from pyiceberg.io.pyarrow import ArrowScan
        from pyiceberg.table import FileScanTask

        metadata = _metadata(self.metadata)
        columns = next(one for one in metadata.schemas if one.schema_id == self.schema_id)
        io = load_file_io(dict(self.properties), metadata.location)
        found = ArrowScan(metadata, io, columns, AlwaysTrue()).to_record_batches([FileScanTask(self.file)])
        for batch in found:
            arrays = [batch.column(field.name).cast(field.type) for field in schema]
            yield pa.RecordBatch.from_arrays(arrays, list(schema.names))


@functools.lru_cache(maxsize=4)
def _metadata(text: str) -> TableMetadata:
    from pyiceberg.table.metadata import TableMetadataUtil

    return TableMetadataUtil.parse_raw(text)


class IcebergFeed:
    """One Iceberg table of a catalog; a version is the id of a snapshot."""

    def __init__(self, place: str, options: Mapping[str, str]) -> None:
        from moldau.spark.tables.catalogs import settings_read, with_hdfs, without_reads

        given = dict(options)
        with settings_read():
            from pyiceberg.catalog import load_catalog

            self._catalog = with_hdfs(without_reads(load_catalog(given.pop("catalog"), **given)), place)
        self.name = given.get("identifier") or f"default.{place.rstrip('/').rsplit('/', 1)[-1]}"
        self._known: Table | None = None

    def id(self) -> str:
        return str(self._open(fresh=True).metadata.table_uuid)

    def newest(self) -> int:
        found = self._open(fresh=True).current_snapshot()
        if found is None:
            raise FeedError(f"{self.name} has no snapshot yet")
        return int(found.snapshot_id)

    def first(self) -> int | None:
        line = self._line()
        return -line[0].snapshot_id if line else None

    def before(self, version: int) -> int | None:
        """Before a snapshot, as its negative id: catalogs forget the parent when they expire it."""
        if version not in [one.snapshot_id for one in self._line()]:
            raise FeedError(f"{self.name}: snapshot {version} is not among the parents of its current one")
        return -version

    def following(self, done: int | None) -> Sequence[int]:
        line = self._line()
        numbers = [int(one.snapshot_id) for one in line]
        if done in numbers:
            return numbers[numbers.index(done) + 1 :]
        if done is not None and -done in numbers:
            return numbers[numbers.index(-done) :]
        if done is None and (not line or (line[0].sequence_number or 0) <= 1):
            return numbers
        which = "(the first)" if done is None else abs(done)
        raise FeedError(
            f"{self.name}: snapshot {which} is not among the parents of its current one any more; it was expired, or "
            "the table rolled back: begin anew with `moldau pipeline reset --to snapshot` or --to earliest"
        )

    def changes(self, number: int, before: pa.Schema | None) -> Version:
        table = self._open()
        snapshot = self._snapshot(table, number)
        operation = "append" if snapshot.summary is None else snapshot.summary.operation.value
        if operation == "replace":
            return Version(number, snapshot.timestamp_ms, self._schema(table, snapshot)[1], [])
        if operation != "append":
            raise FeedError(
                f"{self.name}: snapshot {number} is an {operation}, and only appended rows are read: go on after it "
                "with `moldau pipeline reset`"
            )
        from pyiceberg.manifest import ManifestContent, ManifestEntryStatus

        schema_id, schema = self._schema(table, snapshot)
        files = [
            entry.data_file
            for manifest in snapshot.manifests(table.io)
            if manifest.content == ManifestContent.DATA and manifest.added_snapshot_id == number
            for entry in manifest.fetch_manifest_entry(table.io)
            if entry.status == ManifestEntryStatus.ADDED and entry.snapshot_id in (number, None)
        ]
        return Version(number, snapshot.timestamp_ms, schema, self._pieces(table, number, schema_id, files))

    def whole(self, number: int) -> Version:
        table = self._open()
        snapshot = self._snapshot(table, number)
        tasks = list(table.scan(snapshot_id=number).plan_files())
        if any(task.delete_files for task in tasks):
            raise FeedError(f"{self.name}: snapshot {number} has files of deletes, which are not read here")
        schema_id, schema = self._schema(table, snapshot)
        files = [task.file for task in tasks]
        return Version(number, snapshot.timestamp_ms, schema, self._pieces(table, number, schema_id, files))

    def _pieces(self, table: Table, number: int, schema_id: int, files: Sequence[DataFile]) -> list[Piece]:
        text = table.metadata.model_dump_json()
        found = []
        for file in sorted(files, key=lambda one: str(one.file_path)):
            if not table.io.new_input(file.file_path).exists():
                raise FeedError(
                    f"{self.name}: the file {file.file_path} of snapshot {number} is gone: begin anew with `moldau "
                    "pipeline reset --to snapshot`"
                )
            reading = ReadFile(text, schema_id, dict(table.io.properties), file)
            found.append(Piece(reading, str(file.file_path), RowChange.INSERT, 0, int(file.record_count)))
        return found

    def _schema(self, table: Table, snapshot: Snapshot) -> tuple[int, pa.Schema]:
        from pyiceberg.io.pyarrow import schema_to_pyarrow
        from pyspark.errors import PySparkException
        from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

        schema_id = table.schema().schema_id if snapshot.schema_id is None else snapshot.schema_id
        columns = schema_to_pyarrow(table.schemas()[schema_id], include_field_ids=False)
        try:
            return schema_id, to_arrow_schema(from_arrow_schema(columns), timezone="UTC")
        except PySparkException as error:
            raise FeedError(f"{self.name}: it has a column that Spark has no type for: {error}") from error

    def _snapshot(self, table: Table, number: int) -> Snapshot:
        found = table.snapshot_by_id(number)
        if found is None:
            raise FeedError(
                f"{self.name}: snapshot {number} was expired: begin anew with `moldau pipeline reset --to snapshot`"
            )
        return found

    def _line(self) -> list[Snapshot]:
        """The current snapshot and its parents as far as they are there, oldest first."""
        table = self._open()
        found, at = [], table.current_snapshot()
        while at is not None:
            found.append(at)
            at = None if at.parent_snapshot_id is None else table.snapshot_by_id(at.parent_snapshot_id)
        return found[::-1]

    def _open(self, *, fresh: bool = False) -> Table:
        from pyiceberg.exceptions import NoSuchTableError

        if self._known is None or fresh:
            try:
                self._known = self._catalog.load_table(self.name)
            except NoSuchTableError:
                raise FeedError(f"{self.name} is no table of its catalog") from None
        return self._known
