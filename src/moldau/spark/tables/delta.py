"""Delta tables through delta-rs, no jar: files and the ledger's line in one commit of the table's log.

The line is in the commit's own metadata; an application transaction of the pipeline (``moldau:NAME``, counting up) is
in the same commit, so that of two drivers that race delta-rs refuses the second. The table object is kept and brought
up to date by what is new in the log, so a batch costs the same however many came before.
Source: the Delta protocol, "Transaction Identifiers" and "Commit Provenance". Read next: ledger.py.
"""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from moldau.spark.nullable import nullable_columns
from moldau.spark.tables.columns import check_partitions, new_columns
from moldau.spark.tables.delta_columns import (
    columns_of,
    refuse_lacking,
    refuse_lossy_partitions,
    refuse_mapped,
    refuse_nulls,
    refuse_rules,
    required_of,
)
from moldau.spark.tables.delta_lines import OLD_COMMITS, before_ledgers, line_in, marked, renumbered
from moldau.spark.tables.delta_merge import merge_small
from moldau.spark.tables.delta_past import (
    KEEP_LOG,
    TableCommit,
    commit_file,
    commits,
    deleted,
    idle,
    keep_no_longer,
    old_files,
    paths_of,
    refuse_clone,
    refuse_escapes,
    restore,
    used,
)
from moldau.spark.tables.files import DataFile, FileLayout, gone, now_ms
from moldau.spark.tables.ledger import (
    LINE,
    LedgerEntry,
    LedgerError,
    Raced,
    TableError,
    marker,
    refuse_removed,
    refuse_rewind,
)
from moldau.spark.tables.own_files import remove
from moldau.spark.tables.stores import Store

_LOG_LEAST_HOURS = 1
"""The ledger's last line is in the log: it has to outlive a maintenance, whatever the files' retention is."""
_TRIES = 5
_EXPIRES = "delta.enableExpiredLogCleanup"


class DeltaFormat:
    """One Delta table as ``Table`` needs it."""

    def __init__(self, store: Store, partition_by: Sequence[str] = ()) -> None:
        self.store, self.partition_by = store, list(partition_by)
        self._table: DeltaTable | None = None
        self._last: dict[str, tuple[int, LedgerEntry]] = {}
        """Each pipeline's newest line, and the version of the table that has it for its newest."""

    @property
    def layout(self) -> FileLayout:
        return FileLayout(self.partition_by)

    def prepare(self, schema: pa.Schema, *, evolve: bool) -> None:
        """See that there is a table with these columns: make it, or add the columns it lacks when ``evolve``."""
        refuse_lossy_partitions(str(self.store), schema, self.partition_by)
        wanted = Schema.from_arrow(nullable_columns(schema))
        table = self._open()
        if table is None:
            refuse_escapes(self.store)
            self.store.make_folder()
            DeltaTable.create(
                self.store.uri, wanted, mode="ignore", partition_by=self.partition_by or None,
                storage_options=self.store.options or None,
            )  # fmt: skip
            table = self._open()
            assert table is not None, "it was made just now"
        more = self._new_columns(table, wanted, evolve=evolve)
        if more:
            by_name = {field.name: field for field in wanted.fields}
            table.alter.add_columns([by_name[name] for name in more], post_commithook_properties=KEEP_LOG)
            table.update_incremental()

    def check(self, schema: pa.Schema, *, evolve: bool, merged: bool = False) -> None:
        """TableError when ``prepare`` would refuse these columns, or ``commit`` files with them; nothing is made or
        changed. What is ``merged`` in, delta-rs holds against the table's rules."""
        refuse_lossy_partitions(str(self.store), schema, self.partition_by)
        if (table := self._open()) is not None:
            self._new_columns(table, Schema.from_arrow(schema), evolve=evolve)
            if not merged:
                refuse_rules(str(self.store), table)

    def required(self) -> list[str]:
        """The columns that may not be null; none where there is no table yet."""
        table = self._open()
        return [] if table is None else required_of(table)

    def _new_columns(self, table: DeltaTable, wanted: Schema, *, evolve: bool) -> list[str]:
        """The columns that the table lacks; TableError when the rows do not fit it."""
        refuse_mapped(str(self.store), table)
        check_partitions(str(self.store), table.metadata().partition_columns, self.partition_by)
        ours = columns_of(wanted)
        refuse_lacking(str(self.store), table, ours)
        return new_columns(str(self.store), columns_of(table.schema()), ours, evolve=evolve)

    def last(self, pipeline: str, query_id: str) -> LedgerEntry | None:
        """The pipeline's newest line, None when it never wrote here; LedgerError when the log has lost it."""
        table = self._open()
        if table is None:
            return None
        kept = self._kept(table, pipeline)
        if kept is not None:
            return kept
        sequence = table.transaction_version(f"moldau:{pipeline}")
        found = self._search(table, pipeline, sequence)
        if found is None and sequence is not None:
            raise LedgerError(
                f"{self.store}: pipeline {pipeline!r} wrote here, but its last line is no longer in the table's log "
                "(expired by another program, or taken back by a restore).",
                "Call table.adopt(positions) with the offsets where the table ends.",
            )
        if found is None:
            found = before_ledgers(self.store, table, pipeline, query_id)
        if found is not None:
            self._last[pipeline] = table.version(), found
        return found

    def _kept(self, table: DeltaTable, pipeline: str) -> LedgerEntry | None:
        """The line that was found or written last, if it is still in the table's newest commit.

        By that one file, since delta-rs lists the whole folder of the log for whatever it is asked.
        """
        version, line = self._last.get(pipeline, (-1, None))
        if line is None or version != table.version():
            return None
        commit = self.store.read(commit_file(version))
        return line if commit and json.dumps(line.to_json(), ensure_ascii=False).encode() in commit else None

    def _search(self, table: DeltaTable, pipeline: str, sequence: int | None) -> LedgerEntry | None:
        """The newest line that still counts: what a restore took back counts no more."""
        for limit in (1, 20, 500, None):
            history = commits(self.store, table, limit)
            bound: int | None = None
            for commit in history:
                if bound is not None and commit.version > bound:
                    continue
                if commit.said.get("operation") == "RESTORE":
                    bound = self._restored_to(table, commit)
                entry = line_in(commit, pipeline)
                if entry is not None:
                    return entry if bound is None or sequence is None else renumbered(entry, sequence)
            if limit is None or table.version() < limit:
                return None
            if limit == 500 and sequence is None and pipeline not in self._last and table.version() > 5000:
                return None  # no transaction of this name, and nothing in the last 500 commits
        return None

    def _restored_to(self, table: DeltaTable, commit: TableCommit) -> int:
        """The version that a restore went back to; of a restore to a moment, the newest one with the same files."""
        told = commit.said.get("operationParameters")
        version = told.get("version") if isinstance(told, Mapping) else None
        if version is not None:
            return int(version)
        restored = commit.version
        files = self._files_of(restored)
        for each in commits(self.store, table):
            if each.version < restored and self._files_of(each.version) == files:
                return each.version
        raise LedgerError(
            f"{self.store}: version {restored} is a restore to a moment, and to which version cannot be told.",
            "Call table.adopt(positions) with the offsets where the table ends.",
        )

    def _files_of(self, version: int) -> set[str]:
        found = DeltaTable(self.store.uri, version=version, storage_options=self.store.options or None)
        return set(found.file_uris())

    def lost(self, pipeline: str) -> LedgerEntry | None:
        """A line with nothing but the pipeline's number, where the log holds no more."""
        table = self._open()
        sequence = None if table is None else table.transaction_version(f"moldau:{pipeline}")
        return None if sequence is None else LedgerEntry(pipeline, int(sequence), "", -1, None, None, 0, "lost")

    def commit(self, files: Sequence[DataFile], entry: LedgerEntry) -> None:
        """Add the files and the line in one commit; Raced when another writer of the pipeline was first.

        On the very version that ``last`` saw: brought up to date in between, another driver's commit would be no
        conflict any more. TableError where the rows break a rule of the table.
        """
        if files and self._table is not None:
            refuse_rules(str(self.store), self._table)
            refuse_nulls(self.store, self._table, files)
        self._transact(
            entry,
            [
                AddAction(each.path, each.size, dict(each.partition), now_ms(), True, json.dumps(each.stats))
                for each in files
            ],
        )

    def _transact(self, entry: LedgerEntry, actions: list[AddAction | RemoveAction]) -> DeltaTable:
        """The table, yet to be brought up to date, after one commit of the actions and the line.

        Raced when it is not what ``last`` saw.
        """
        table = self._judged(entry)
        try:
            table.create_write_transaction(
                actions, "append", table.schema(), table.metadata().partition_columns or None,
                commit_properties=marked(entry), post_commithook_properties=KEEP_LOG,
            )  # fmt: skip
        except (CommitFailedError, DeltaError) as error:
            raise Raced(str(error)) from error
        self._last[entry.pipeline] = table.version() + 1, entry  # or a later one, if another writer came between
        return table

    def merge(self, rows: pa.Table, entry: LedgerEntry, *, keys: Sequence[str], delete_when: str | None) -> None:
        """Replace the rows of the same keys, add new ones, delete where the condition holds: as ``commit``."""
        table = self._judged(entry)
        names = [name.replace('"', '""') for name in keys]
        same = " AND ".join(f'(old."{name}" IS NOT DISTINCT FROM new."{name}")' for name in names)
        merger = table.merge(
            rows, same, source_alias="new", target_alias="old", commit_properties=marked(entry),
            post_commithook_properties=KEEP_LOG,
        )  # fmt: skip
        if delete_when is not None:
            merger = merger.when_matched_delete(predicate=delete_when)
            merger = merger.when_matched_update_all().when_not_matched_insert_all(predicate=f"NOT ({delete_when})")
        else:
            merger = merger.when_matched_update_all().when_not_matched_insert_all()
        try:
            merger.execute()
        except (CommitFailedError, DeltaError) as error:
            if "commit" not in str(error).lower() and not isinstance(error, CommitFailedError):
                raise
            raise Raced(str(error)) from error
        table.update_incremental()
        self._last[entry.pipeline] = table.version(), entry

    def overwrite(self, rows: pa.Table, entry: LedgerEntry) -> None:
        """Put these rows in the place of all that the table has: as ``commit``."""
        table = self._judged(entry)
        try:
            write_deltalake(
                table, rows, mode="overwrite", commit_properties=marked(entry), post_commithook_properties=KEEP_LOG
            )
        except (CommitFailedError, DeltaError) as error:
            raise Raced(str(error)) from error
        table.update_incremental()
        self._last[entry.pipeline] = table.version(), entry

    def added(self, entry: LedgerEntry) -> Sequence[str] | None:
        """The files that the pipeline's newest batch added; None when they are not in the table as they were."""
        table = self._open()
        for commit in [] if table is None else commits(self.store, table, OLD_COMMITS):
            there = line_in(commit, entry.pipeline)
            if there is None or there.what == "kept":
                continue
            if (there.query_id, there.batch_id, there.what) != (entry.query_id, entry.batch_id, "batch"):
                return None
            assert table is not None, "it has a history"
            version = commit.version
            try:
                before = set(self._paths(version - 1)) if version else set()
                new = [path for path in self._paths(version) if path not in before]
            except DeltaError:  # the log of that version was expired
                return None
            if any(uri.endswith(f"/{path}") for uri in deleted(table) for path in new):
                return None  # a removal by path leaves a file with a deletion vector where it is
            return new if set(new) <= set(self._paths(table.version())) else None
        return None

    def take_back(self, entry: LedgerEntry) -> bool:
        """Remove what the pipeline's newest batch added, in one commit with a line after which that batch, or another
        one that begins there, may come: what others wrote since stays. False where ``added`` finds nothing, and where
        its files were merged with others meanwhile: then the rows stay, and any batch may come."""
        last, paths = self.last(entry.pipeline, entry.query_id), self.added(entry)
        if last is None or paths is None:
            return False
        line = marker(last, "rewind", entry.start)
        # delta-rs quotes a path that is removed once more.
        table = self._transact(line, [RemoveAction(urllib.parse.unquote(path), True, now_ms()) for path in paths])
        table.update_incremental()
        # A compaction changes no rows, so delta-rs sees no conflict with one that came between the look and the commit.
        if set(paths) <= set(self._paths(self._version_with(table, line) - 1)):
            return True
        self.commit((), marker(line, "reset", None))
        return False

    def _version_with(self, table: DeltaTable, line: LedgerEntry) -> int:
        """The version of the table that a line came with."""
        for commit in commits(self.store, table, OLD_COMMITS):
            there = line_in(commit, line.pipeline)
            if there is not None and there.sequence == line.sequence and there.what == line.what:
                return commit.version
        raise Raced(f"the log of line {line.sequence} of pipeline {line.pipeline!r} is gone already")

    def _paths(self, version: int) -> list[str]:
        """The files of a version as its log names them."""
        found = DeltaTable(self.store.uri, version=version, storage_options=self.store.options or None)
        return paths_of(found)

    def _judged(self, entry: LedgerEntry) -> DeltaTable:
        """The table as ``last`` saw it; Raced when the line is not the one that follows there."""
        table = self._table
        assert table is not None, "last was asked"
        sequence = table.transaction_version(f"moldau:{entry.pipeline}")
        if sequence is None:  # the table forgets it where it was told to: delta.setTransactionRetentionDuration
            version, line = self._last.get(entry.pipeline, (-1, None))
            sequence = None if line is None or version != table.version() else line.sequence
        if (-1 if sequence is None else sequence) != entry.sequence - 1:
            raise Raced(f"the table has line {sequence} of pipeline {entry.pipeline!r} already")
        return table

    def rewind(self, pipeline: str, batch_id: int) -> LedgerEntry:
        """Take the table back to the end of a batch, by a restore; the line of that batch. LedgerError without it."""
        table, version, entry = self._version_of(pipeline, batch_id)
        newest = self.last(pipeline, "") or entry
        if version != table.version():  # delta-rs restores no table to where it is
            restore(self.store, table, version)
        self._last.clear()
        found = renumbered(entry, newest.sequence)
        self._last[pipeline] = table.version(), found
        return found

    def rows_at(self, pipeline: str, batch_id: int) -> int:
        """How many rows ``rewind`` would leave; LedgerError where it would refuse."""
        _, version, _ = self._version_of(pipeline, batch_id)
        options = self.store.options or None
        return int(DeltaTable(self.store.uri, version=version, storage_options=options).count())

    def _version_of(self, pipeline: str, batch_id: int) -> tuple[DeltaTable, int, LedgerEntry]:
        """The table, its version at the end of a batch, and the batch's line."""
        table = self._open()
        later: list[LedgerEntry] = []
        for commit in [] if table is None else commits(self.store, table):
            if isinstance(line := commit.said.get(LINE), str):
                later.append(LedgerEntry.from_json(line))
            entry = line_in(commit, pipeline)
            if entry is not None and entry.batch_id == batch_id and entry.what == "batch":
                assert table is not None, "it has a history"
                refuse_rewind(str(self.store), entry, later)
                refuse_removed(str(self.store), entry, self._gone_since(table, commit.version))
                return table, commit.version, entry
        raise LedgerError(f"{self.store}: batch {batch_id} of pipeline {pipeline!r} is not in the table's log any more")

    def _gone_since(self, table: DeltaTable, version: int) -> int:
        """How many files of a version, that the table has no more, are removed; LedgerError without its log."""
        try:
            then = set(self._paths(version))
        except DeltaError as error:
            raise LedgerError(f"{self.store}: the log of version {version} is gone in part: {error}") from error
        return gone(self.store, map(urllib.parse.unquote, then - set(self._paths(table.version()))))

    def maintain(
        self,
        *,
        target_bytes: int,
        retention_hours: int,
        dry_run: bool = False,
        restate: Callable[[], None] = lambda: None,
    ) -> Mapping[str, int]:
        """Merge small files, drop files that no version of the last hours needs, and expire the log before them.

        Safe beside a running stream: merging changes no rows, so neither stands in the other's way. What is old goes
        also where files cannot be merged: a disk that is full for the merge is full until then; and the log expires
        where neither can be done. What it keeps counts: where a listing cannot begin in the middle of a folder, as on
        a disk, each commit reads the names of all files of the log, several times.
        """
        table = self._open()
        if table is None:
            return {}
        schema = pa.schema(table.schema().to_arrow())
        refuse_lossy_partitions(str(self.store), schema, table.metadata().partition_columns)
        hours = max(_LOG_LEAST_HOURS, retention_hours)
        merged, into = 0, 0
        failed: BaseException | None = None
        old: Sequence[str] = ()
        try:
            if not dry_run:
                self._keep_lines(table, hours)  # a merge's commit expires the log, whatever it is told
                refuse_clone(self.store, table)
                told = keep_no_longer(table, hours)
                merged, into = merge_small(self.store, table, target_bytes, told, self._paths)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of delta-rs is no Exception
            failed = error
        table.update_incremental()
        try:
            old = old_files(self.store, table, retention_hours)
        except DeltaError as error:  # of a folder of others, which may not be read, or a name that is no text
            failed = failed or TableError(f"{self.store}: files in it cannot be listed, so none was removed: {error}")
        removed = len(old) if dry_run else remove(self.store, old, lambda: used(table))
        if not dry_run:
            table.create_checkpoint()
            # Behind the checkpoint: whatever the table says of its log, only what is before one expires.
            restate()
            self._keep_lines(table, hours)
            if table.metadata().configuration.get(_EXPIRES, "true").lower() != "false":
                table.cleanup_metadata()
        if failed is not None:
            raise failed
        return {"merged": merged, "into": into, "removed": removed}

    def _keep_lines(self, table: DeltaTable, hours: int) -> None:
        """Write the last lines once more of the pipelines that wrote nothing since: the log loses what is old."""
        for pipeline in idle(self.store, table, hours):
            for _ in range(_TRIES):
                try:
                    last = self.last(pipeline, "")
                    if last is not None and last.sequence >= 0:
                        self.commit((), last.restated())
                except Raced:  # it writes just now, or another program changes the table
                    continue
                except LedgerError:  # it lost its line before
                    pass
                break

    def count(self) -> int:
        """Rows in the table."""
        table = self._open()
        return 0 if table is None else int(table.count()) - self.deleted()

    def deleted(self) -> int:
        """Rows that files hold and the table does not: of deletion vectors."""
        table = self._open()
        return 0 if table is None else sum(deleted(table).values())

    def data_files(self) -> Iterator[tuple[Store, str, int]]:
        """The files of the newest version: where each lies, and the size that the log says."""
        table = self._open()
        found = [] if table is None else pa.table(table.get_add_actions()).select(["path", "size_bytes"]).to_pylist()
        for each in found:
            yield self.store, urllib.parse.unquote(each["path"]), each["size_bytes"]

    def read(self) -> pa.Table:
        """The whole table, on this machine."""
        table = self._open()
        if table is None:
            raise TableError(f"{self.store} is no table")
        # delta-rs's own way to the files is a filesystem in Python: pyarrow's threads then still let go of files while
        # the interpreter ends, and the process aborts after all its work was done.
        return table.to_pyarrow_table(filesystem=self.store.for_threads())

    def _open(self) -> DeltaTable | None:
        """The table as it is now, None when there is none or it was removed since it was opened."""
        if self._table is not None and self._is_gone(self._table):
            self._table = None
            self._last.clear()
        if self._table is None:
            try:
                self._table = DeltaTable(self.store.uri, storage_options=self.store.options or None)
            except TableNotFoundError:
                return None
            except (DeltaError, OSError) as error:
                raise TableError(f"{self.store}: the table's log cannot be read: {error}") from error
        else:
            try:
                self._table.update_incremental()
            except (DeltaError, OSError) as error:
                raise TableError(f"{self.store}: the table's log cannot be read on: {error}") from error
        return self._table

    def _is_gone(self, table: DeltaTable) -> bool:
        """Whether the newest commit is no file any more, and there is no table: a commit alone may be expired."""
        if self.store.size(commit_file(table.version())) is not None:
            return False
        return not DeltaTable.is_deltatable(self.store.uri, self.store.options or None)
