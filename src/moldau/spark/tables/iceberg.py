"""Iceberg tables through pyiceberg and any of its catalogs (SQL, REST, ...), no jar.

The files and the ledger's line go into one commit to the catalog: the line is a property of the snapshot, for the
history, and of the table (``moldau.ledger.PIPELINE``), where it outlives the expiry of snapshots. The catalog refuses
a commit on a table that has moved on, so of two drivers one is let in, and a commit whose answer was lost is looked for
before it is made again. Read next: ledger.py, catalogs.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from typing import TYPE_CHECKING

import pyarrow as pa

from moldau.spark.nullable import nullable_columns
from moldau.spark.tables.catalogs import NoAnswer, answering, settings_read, with_hdfs, without_reads
from moldau.spark.tables.columns import ColumnsError, check_partitions, new_columns
from moldau.spark.tables.files import DataFile, FileLayout
from moldau.spark.tables.ledger import LINE, LOST, LedgerEntry, LedgerError, Raced, TableError, refuse_rewind
from moldau.spark.tables.stores import Store, open_store

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table as IcebergTable
    from pyiceberg.table.metadata import TableMetadata

DELETED = "write.metadata.delete-after-commit.enabled"
MADE_WITH = {"commit.manifest-merge.enabled": "true", DELETED: "true"}
"""A table that is made here has pyiceberg merge a hundred manifests into one, of which each commit lists all, and
remove all but the last hundred of the files of metadata, of which each commit writes one with every snapshot."""
SNAPSHOTS_MOST = 1000
"""So many are kept, however young: a commit reads and writes all of them."""
GC, KEPT_LEAST = "gc.enabled", "history.expire.min-snapshots-to-keep"
"""Iceberg's own properties: that nothing may be expired, and how many snapshots each branch keeps, however old."""


class IcebergFormat:
    """One Iceberg table, ``namespace.name`` of a catalog, as ``Table`` needs it.

    ``partition_by`` partitions by the values of columns (identity). ``storage_options`` are delta-rs's, for the store
    into which executors write the files; the catalog has its own for its metadata.
    """

    def __init__(
        self,
        catalog: Catalog,
        name: str,
        *,
        location: str,
        partition_by: Sequence[str] = (),
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self.catalog = with_hdfs(without_reads(catalog), location)
        self.name, self.partition_by = name, list(partition_by)
        self.store: Store = open_store(location, storage_options)
        self._table: IcebergTable | None = None

    @property
    def layout(self) -> FileLayout:
        return FileLayout(self.partition_by, keep_columns=True)

    def prepare(self, schema: pa.Schema, *, evolve: bool) -> None:
        """See that there is a table with these columns: make it, or add the columns it lacks when ``evolve``."""
        table = self._open()
        if table is None:
            table = self._table = self._create(schema)
        if more := self._new_columns(table, schema, evolve=evolve):
            from pyiceberg.exceptions import CommitFailedException

            try:
                with answering(self.name), table.update_schema() as update:
                    update.union_by_name(nullable_columns(pa.schema([schema.field(name) for name in more])))
            except CommitFailedException as error:
                raise TableError(f"table {self.name} was changed by another writer, run the batch again") from error

    def check(self, schema: pa.Schema, *, evolve: bool) -> None:
        """TableError when ``prepare`` would refuse these columns; nothing is made or changed."""
        table = self._open()
        if table is None:
            self._refuse_lacking(schema)
        else:
            self._new_columns(table, schema, evolve=evolve)

    def _new_columns(self, table: IcebergTable, schema: pa.Schema, *, evolve: bool) -> list[str]:
        """The columns that the table lacks; TableError when the rows do not fit it."""
        check_partitions(self.name, [each.name for each in table.spec().fields], self.partition_by)
        columns = table.schema().as_arrow()
        there = {column.name: _bare(column.type) for column in columns}
        ours = {column.name: _bare(column.type) for column in schema}
        more = new_columns(self.name, there, ours, evolve=evolve)
        if unmet := _unmet(columns, schema):
            raise ColumnsError(
                f"table {self.name}: {', '.join(unmet)} may not be NULL there, and may be in the rows: have the "
                "transformation say what stands for NULL, as coalesce(...), or let the table have it, by Spark's "
                f"ALTER TABLE ... ALTER COLUMN {unmet[0]} DROP NOT NULL"
            )
        return more

    def _refuse_lacking(self, schema: pa.Schema) -> None:
        """TableError where Iceberg lacks the type of a column."""
        lacking = [f"{column.name} ({column.type})" for column in schema if _is_lacking(column.type)]
        if lacking:
            raise TableError(f"table {self.name}: Iceberg has no such type, cast to int: {', '.join(lacking)}")

    def _create(self, schema: pa.Schema) -> IcebergTable:
        self._refuse_lacking(schema)
        self.store.make_folder()
        namespace = self.name.rpartition(".")[0]
        place = f"file://{self.store.base}" if self.store.local else self.store.uri
        from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError

        with answering(self.name):
            self.catalog.create_namespace_if_not_exists(namespace)
            try:  # one commit, or a crash between two would leave a table that is not partitioned
                with self.catalog.create_table_transaction(
                    self.name, schema=nullable_columns(schema), location=place, properties=MADE_WITH
                ) as change:
                    if self.partition_by:
                        with change.update_spec() as update:
                            for column in self.partition_by:
                                update.add_field(column, "identity", column)
            except (CommitFailedException, TableAlreadyExistsError):  # another writer has made it
                pass
            return self.catalog.load_table(self.name)

    def last(self, pipeline: str, query_id: str) -> LedgerEntry | None:
        """The pipeline's newest line, None when it never wrote here."""
        table = self._open()
        line = None if table is None else table.properties.get(f"{LINE}.{pipeline}")
        found = None if line is None else LedgerEntry.from_json(line)
        if found is None or table is None:
            return found
        told, whole = self._told(table, pipeline)
        if (told is None and whole) or found.what == LOST:
            raise LedgerError(
                f"{self.name}: pipeline {pipeline!r} wrote here, but the table holds none of its batches any more: it "
                "was rolled back.",
                "Call table.adopt(positions) with the offsets where the table ends.",
            )
        if told is not None and told.sequence != found.sequence:
            # The table was rolled back to an older snapshot: what came after it is gone, its number is not.
            return LedgerEntry(pipeline, found.sequence, told.query_id, told.batch_id, told.start, told.end, told.rows)
        return found

    @staticmethod
    def _told(table: IcebergTable, pipeline: str) -> tuple[LedgerEntry | None, bool]:
        """The newest line among the snapshots that the table stands on, and whether all of them are still known."""
        at = table.current_snapshot()
        while at is not None:
            line = at.summary.additional_properties.get(LINE) if at.summary is not None else None
            entry = None if line is None else LedgerEntry.from_json(line)
            if entry is not None and entry.pipeline == pipeline:
                return entry, True
            if at.sequence_number == 1:  # the table's first: where snapshots were expired, the oldest has a later one
                return None, True
            at = None if at.parent_snapshot_id is None else table.snapshot_by_id(at.parent_snapshot_id)
        return None, False

    def lost(self, pipeline: str) -> LedgerEntry | None:
        """The line of a pipeline whose batches a roll-back has taken away."""
        table = self._open()
        line = None if table is None else table.properties.get(f"{LINE}.{pipeline}")
        return None if line is None else LedgerEntry.from_json(line)

    def commit(self, files: Sequence[DataFile], entry: LedgerEntry) -> None:
        """Files and line in one commit on the version that ``last`` saw; Raced when the table has moved on.

        Also when the answer was lost: the version that was judged lets one commit in, so whoever looks again knows.
        """
        from pyiceberg.exceptions import CommitFailedException

        table = self._table
        assert table is not None, "last was asked"
        self._refuse_nan(table, files)
        line = entry.to_json()
        root = f"file://{self.store.base}" if self.store.local else self.store.uri
        table.metadata = _newest(table.metadata)
        table.metadata.properties["commit.retry.num-retries"] = "0"  # for this object alone: judge before a retry
        told = {LINE: line}
        try:
            with answering(self.name), table.transaction() as change:
                if files:
                    paths = [f"{root}/{each.path}" for each in files]
                    change.add_files(paths, snapshot_properties=told, check_duplicate_files=False)
                else:  # a snapshot without rows, so that this commit, too, stands on the version that was judged
                    change.append(table.schema().as_arrow().empty_table(), snapshot_properties=told)
                change.set_properties({f"{LINE}.{entry.pipeline}": line})
        except (CommitFailedException, NoAnswer) as error:
            raise Raced(str(error)) from error

    def _refuse_nan(self, table: IcebergTable, files: Sequence[DataFile]) -> None:
        """ColumnsError where a partition is NaN: pyiceberg would take it for NULL, by the bounds of its file."""
        kinds = {column.name: column.type for column in table.schema().as_arrow()}
        for name in self.partition_by:
            if pa.types.is_floating(kinds[name]) and any(each.partition.get(name) == "nan" for each in files):
                raise ColumnsError(f"table {self.name}: {name} is NaN in some of the rows, which no partition can be")

    def rewind(self, pipeline: str, batch_id: int) -> LedgerEntry:
        """Take the table back to the snapshot of a batch; the batch's line. LedgerError when it was expired."""
        table, snapshot_id, entry = self._snapshot_of(pipeline, batch_id)
        now = self.last(pipeline, "")
        with answering(self.name):
            table.manage_snapshots().rollback_to_snapshot(snapshot_id).commit()
            table.refresh()
        number = entry.sequence if now is None else now.sequence
        return LedgerEntry(pipeline, number, entry.query_id, batch_id, entry.start, entry.end, entry.rows)

    def rows_at(self, pipeline: str, batch_id: int) -> int:
        """How many rows ``rewind`` would leave; LedgerError where it would refuse."""
        table, snapshot_id, _ = self._snapshot_of(pipeline, batch_id)
        return int(table.scan(snapshot_id=snapshot_id).count())

    def _snapshot_of(self, pipeline: str, batch_id: int) -> tuple[IcebergTable, int, LedgerEntry]:
        """The table, its snapshot at the end of a batch, and the batch's line."""
        table = self._open()
        later: list[LedgerEntry] = []
        for snapshot in reversed([] if table is None else table.snapshots()):
            line = snapshot.summary.additional_properties.get(LINE) if snapshot.summary is not None else None
            entry = None if line is None else LedgerEntry.from_json(line)
            later += [] if entry is None else [entry]
            if table is None or entry is None or (entry.pipeline, entry.batch_id) != (pipeline, batch_id):
                continue
            if entry.what != "batch":
                continue
            refuse_rewind(self.name, entry, later)
            return table, snapshot.snapshot_id, entry
        raise LedgerError(f"{self.name}: batch {batch_id} of pipeline {pipeline!r} is in no snapshot any more")

    def maintain(
        self,
        *,
        target_bytes: int,
        retention_hours: int,
        dry_run: bool = False,
        restate: Callable[[], None] = lambda: None,
    ) -> Mapping[str, int]:
        """Expire snapshots older than the retention, and those beyond the newest thousand, as far as the table's own
        properties let them go.

        pyiceberg does not merge files; that is for another engine.
        """
        from datetime import datetime, timedelta

        restate()
        if not dry_run:
            self._keep_taken_back()
        table = self._open()
        if table is None:
            return {}
        limit = datetime.now(UTC) - timedelta(hours=retention_hours)
        before = len(table.snapshots())
        if before > SNAPSHOTS_MOST:
            newest_ms = sorted(each.timestamp_ms for each in table.snapshots())[-SNAPSHOTS_MOST]
            limit = max(limit, datetime.fromtimestamp(newest_ms / 1000, UTC))
        if not dry_run and table.properties.get(GC, "true").lower() != "false":
            with answering(self.name):
                if DELETED not in table.properties:
                    with table.transaction() as change:
                        change.set_properties({DELETED: "true"})
                old = _older(table, limit.timestamp() * 1000)
                table.maintenance.expire_snapshots().by_ids(old).commit()
                table.refresh()
        return {"merged": 0, "into": 0, "removed": 0, "expired": before - len(table.snapshots())}

    def _keep_taken_back(self) -> None:
        """Write the lines once more of the pipelines whose batches a roll-back has taken away: that is told by the
        snapshots that the table stands on, and without them each batch that the properties name would be there."""
        table = self._open()
        for name in [] if table is None else [*table.properties]:
            if not name.startswith(f"{LINE}."):
                continue
            table = self._open()
            assert table is not None, "it was there just now"
            found = LedgerEntry.from_json(table.properties[name])
            told, whole = self._told(table, found.pipeline)
            if told is not None and told.sequence != found.sequence:
                self.commit((), replace(told, sequence=found.sequence).restated())
            elif told is None and whole:
                self.commit((), replace(found, sequence=found.sequence + 1, rows=0, what=LOST))

    def count(self) -> int:
        """Rows in the table."""
        table = self._open()
        return 0 if table is None else int(table.scan().count())

    def data_files(self) -> Iterator[tuple[Store, str, int]]:
        """The files of the newest snapshot: where each lies, and the size that the metadata says."""
        table = self._open()
        for task in () if table is None else table.scan().plan_files():
            path, size = task.file.file_path, task.file.file_size_in_bytes
            folder, _, name = path.rpartition("/")
            yield open_store(folder, self.store.options), name, size

    def read(self) -> pa.Table:
        """The whole table, on this machine."""
        table = self._open()
        if table is None:
            raise TableError(f"{self.name} is no table of this catalog")
        return table.scan().to_arrow()

    def _open(self) -> IcebergTable | None:
        from pyiceberg.exceptions import NoSuchTableError

        with answering(self.name):
            if self._table is None:
                try:
                    self._table = self.catalog.load_table(self.name)
                except NoSuchTableError:
                    return None
            else:
                self._table.refresh()
        return self._table


def of_catalog(catalog: str, name: str, storage_options: Mapping[str, str] | None = None) -> IcebergFormat:
    """The table of this name in a catalog of .pyiceberg.yaml or the environment. TableError when it is not there."""
    with settings_read():
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NoSuchTableError

    try:
        with answering(name), settings_read():
            found = with_hdfs(load_catalog(catalog))
    except ValueError as error:
        raise TableError(f"catalog {catalog} cannot be opened: {error}") from error
    try:
        with answering(name):
            location = found.load_table(name).location()
    except NoSuchTableError:
        raise TableError(f"{name} is no table of catalog {catalog}") from None
    return IcebergFormat(found, name, location=location, storage_options=storage_options)


def _older(table: IcebergTable, before_ms: float) -> list[int]:
    """The snapshots older than a time that no tag names, and that no branch is to keep."""
    least, kept = table.properties.get(KEPT_LEAST, "1"), set[int]()
    for ref in table.refs().values():
        at, left = table.snapshot_by_id(ref.snapshot_id), 1
        if ref.snapshot_ref_type == "branch":
            left = max(1, ref.min_snapshots_to_keep or (int(least) if least.isdecimal() else 1))
        while at is not None and left:
            kept.add(at.snapshot_id)
            at, left = None if at.parent_snapshot_id is None else table.snapshot_by_id(at.parent_snapshot_id), left - 1
    return [
        one.snapshot_id for one in table.snapshots() if one.timestamp_ms < before_ms and one.snapshot_id not in kept
    ]


def _newest(metadata: TableMetadata) -> TableMetadata:
    """What a commit is made on: of the snapshots the newest alone. pyiceberg copies all of it at each step of a commit,
    and sends the catalog what changes, which keeps the other snapshots. By the log of metadata files, which has a
    hundred unless the table says otherwise, it deletes those that are too old, where the table wants that."""
    now = metadata.current_snapshot()
    few = {"snapshots": [] if now is None else [now], "snapshot_log": []}
    return metadata.model_copy(update=few)


def _is_lacking(kind: pa.DataType) -> bool:
    """Whether Iceberg would keep this type as a wider one, so that the table would not fit the rows it was made for."""
    parts = [kind.field(index).type for index in range(kind.num_fields)]
    return pa.types.is_int8(kind) or pa.types.is_int16(kind) or any(map(_is_lacking, parts))


def _unmet(there: Iterable[pa.Field], ours: Iterable[pa.Field], parent: str = "") -> list[str]:
    """The columns, and parts of columns, that may not be null in a table, and that rows lack or may have as null."""
    found, rows = list[str](), {column.name: column for column in ours}
    for column in there:
        name, row = f"{parent}{column.name}", rows.get(column.name)
        if not column.nullable and (row is None or row.nullable):
            found.append(name)
        elif row is not None:
            found += _unmet(_parts(column.type), _parts(row.type), f"{name}.")
    return found


def _parts(kind: pa.DataType) -> list[pa.Field]:
    """The fields of a struct, the elements of a list, and keys and values of a map, by Iceberg's names."""
    if pa.types.is_struct(kind):
        return list(kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [kind.value_field.with_name("element")]
    return [kind.key_field.with_name("key"), kind.item_field.with_name("value")] if pa.types.is_map(kind) else []


def _bare(kind: pa.DataType) -> str:
    """A type without the widths of offsets and the nullability of parts, which change no row."""
    if pa.types.is_struct(kind):
        return "struct<" + ",".join(f"{part.name}:{_bare(part.type)}" for part in kind) + ">"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list<{_bare(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{_bare(kind.key_type)},{_bare(kind.item_type)}>"
    return str(kind).removeprefix("large_")
