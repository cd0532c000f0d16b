"""Tables of plain Parquet files with a log of versions beside them: ``_moldau/log/N.json``, each put if absent.

Version N lists the files it adds and removes and carries all state that a writer needs (columns, the newest ledger line
of each pipeline), so that a batch reads one small file and writes one, however many came before. Of two writers of one
version the store lets one in. Every hundred versions are summed up in one file for readers. Not for readers that list
folders: ask ``files()``. Read next: stores.py, ledger.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from moldau.spark.nullable import nullable_columns
from moldau.spark.tables.columns import check_partitions, new_columns
from moldau.spark.tables.files import DataFile, FileLayout, folder_of, gone, now_ms, read_footers, written_as
from moldau.spark.tables.ledger import LedgerEntry, LedgerError, Raced, TableError, refuse_removed, refuse_rewind
from moldau.spark.tables.own_files import own, remove, within
from moldau.spark.tables.stores import Store

if TYPE_CHECKING:
    from pyarrow import fs

_SUM = 100
_MERGES = 100
"""So many merges are one version: to see what the table has, all versions are read."""
_LOG = "_moldau/log"


@dataclass(frozen=True)
class ManifestVersion:
    """One version of the table: what it changed, and the state that goes on."""

    number: int
    add: Sequence[DataFile] = ()
    remove: Sequence[str] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    partition_by: Sequence[str] = ()
    lines: Mapping[str, str] = field(default_factory=dict)
    at_ms: int = 0

    def to_json(self) -> bytes:
        return json.dumps({**self.__dict__, "add": [list(each) for each in self.add]}).encode()

    @classmethod
    def from_json(cls, content: bytes) -> ManifestVersion:
        found = json.loads(content)
        found["add"] = [DataFile(*each) for each in found["add"]]
        return cls(**found)


class ParquetFormat:
    """One Parquet table with a manifest, as ``Table`` needs it."""

    def __init__(self, store: Store, partition_by: Sequence[str] = ()) -> None:
        self.store, self.partition_by = store, list(partition_by)
        self._newest: ManifestVersion | None = None
        self._columns: dict[str, str] = {}

    @property
    def layout(self) -> FileLayout:
        return FileLayout(self.partition_by, keep_columns=True)

    def prepare(self, schema: pa.Schema, *, evolve: bool) -> None:
        """Compare the columns with the table's; new ones are let in with the batch when ``evolve``."""
        ours = _columns(schema)
        newest = self._look()
        self._columns = dict(ours) if newest is None else dict(newest.columns)
        if newest is None:
            self.store.make_folder()
            return
        self.check(schema, evolve=evolve)
        self._columns.update(ours)

    def check(self, schema: pa.Schema, *, evolve: bool) -> None:
        """TableError when ``prepare`` would refuse these columns; nothing is made or changed."""
        if (newest := self._look()) is not None:
            check_partitions(str(self.store), newest.partition_by, self.partition_by)
            new_columns(str(self.store), _bare(newest.columns), _columns(schema), evolve=evolve)

    def last(self, pipeline: str, query_id: str) -> LedgerEntry | None:
        """The pipeline's newest line, None when it never wrote here."""
        newest = self._look()
        if newest is not None and self.store.size(_name(newest.number)) is None:  # the table was removed
            self._newest = None
            newest = self._look()
        line = None if newest is None else newest.lines.get(pipeline)
        return None if line is None else LedgerEntry.from_json(line)

    def lost(self, pipeline: str) -> LedgerEntry | None:
        """Lines are never lost here."""
        return None

    def commit(self, files: Sequence[DataFile], entry: LedgerEntry) -> None:
        """The next version, with the files and the line; Raced when another writer made that version."""
        before = self._newest
        if before is not None:  # another writer may have added columns since the rows were looked at
            new_columns(str(self.store), _bare(before.columns), _bare(self._columns), evolve=True)
        lines = {} if before is None else dict(before.lines)
        self._put(before, files, (), {**lines, entry.pipeline: entry.to_json()})

    def rewind(self, pipeline: str, batch_id: int) -> LedgerEntry:
        """Take back every version after a batch's, by a version that removes what they added; the batch's line."""
        newest, number, entry = self._version_of(pipeline, batch_id)
        found = replace(entry, sequence=LedgerEntry.from_json(newest.lines[pipeline]).sequence)
        self._take_back(newest, number, found)
        return found

    def rows_at(self, pipeline: str, batch_id: int) -> int:
        """How many rows ``rewind`` would leave; LedgerError where it would refuse."""
        _, number, _ = self._version_of(pipeline, batch_id)
        return sum(each.rows for each in self.files(up_to=number))

    def _version_of(self, pipeline: str, batch_id: int) -> tuple[ManifestVersion, int, LedgerEntry]:
        """The newest version, the number of the version at the end of a batch, and the batch's line."""
        newest = self._look()
        later: set[str] = set()
        for number in range(newest.number if newest is not None else -1, -1, -1):
            version = self._read(number)
            if version is None:
                break
            line = version.lines.get(pipeline)
            entry = None if line is None else LedgerEntry.from_json(line)
            if entry is not None and entry.batch_id == batch_id and entry.what == "batch":
                assert newest is not None, "it has versions"
                since = later - {*version.lines.values()}
                refuse_rewind(str(self.store), entry, [LedgerEntry.from_json(each) for each in since])
                now = {each.path for each in self.files(up_to=newest.number)}
                then = (each.path for each in self.files(up_to=number))
                refuse_removed(str(self.store), entry, gone(self.store, (one for one in then if one not in now)))
                return newest, number, entry
            later.update(version.lines.values())
        raise LedgerError(f"{self.store}: batch {batch_id} of pipeline {pipeline!r} is not in the table's log any more")

    def _take_back(self, newest: ManifestVersion, number: int, entry: LedgerEntry) -> None:
        """One more version, with the files of version ``number``, and the line of the batch that it ends with."""
        before = {each.path: each for each in self.files(up_to=number)}
        now = {each.path for each in self.files(up_to=newest.number)}
        again = [each for path, each in before.items() if path not in now]
        lines = {**newest.lines, entry.pipeline: entry.to_json()}
        self._put(newest, again, sorted(now - before.keys()), lines)

    def files(self, *, up_to: int | None = None) -> list[DataFile]:
        """The files of the newest version, or of version ``up_to``."""
        found: dict[str, DataFile] = {}
        for version in self._versions(up_to):
            for path in version.remove:
                found.pop(path, None)
            found.update({each.path: each for each in version.add})
        return list(found.values())

    def count(self) -> int:
        """Rows in the table."""
        return sum(each.rows for each in self.files())

    def data_files(self) -> Iterator[tuple[Store, str, int]]:
        """The files of the newest version: where each lies, and the size that the log says."""
        for each in self.files():
            yield self.store, each.path, each.size

    def read(self) -> pa.Table:
        """The whole table, on this machine; columns that a file lacks are null."""
        files = self.store.for_threads()
        parts = [self._rows(files, each) for each in self.files()]
        if not parts:
            raise TableError(f"{self.store} has no rows")
        return pa.concat_tables(parts, promote_options="default")

    @staticmethod
    def _rows(files: fs.FileSystem, file: DataFile) -> pa.Table:
        with files.open_input_file(file.path) as opened:
            return pq.read_table(opened)

    def maintain(
        self,
        *,
        target_bytes: int,
        retention_hours: int,
        dry_run: bool = False,
        restate: Callable[[], None] = lambda: None,
    ) -> Mapping[str, int]:
        """Merge small files of one folder of values into larger ones, and remove what no recent version needs: this
        also where files cannot be merged, as a disk that is full for the merge is full until then."""
        restate()
        try:
            merged, into = self._merge_small(target_bytes, dry_run)
        except Exception:
            self._remove(retention_hours, dry_run)
            raise
        return {"merged": merged, "into": into, "removed": self._remove(retention_hours, dry_run)}

    def _merge_small(self, target_bytes: int, dry_run: bool) -> tuple[int, int]:
        small: dict[str, list[DataFile]] = {}
        for each in self.files():
            if each.size < target_bytes // 2:
                small.setdefault(json.dumps(dict(each.partition), sort_keys=True), []).append(each)
        parts = [part for group in small.values() for part in _parts(group, target_bytes)]
        merged = into = 0
        for at in range(0, len(parts), _MERGES):
            done = parts[at : at + _MERGES]
            if not dry_run:
                done = self._merge(done)
            merged, into = merged + sum(map(len, done)), into + len(done)
        return merged, into

    def _merge(self, parts: Sequence[list[DataFile]]) -> list[list[DataFile]]:
        """Put one file in the place of several, for each of the parts, in one version; those of which no other writer
        took a file away meanwhile."""
        new = [(part, self._one_of(part)) for part in parts]
        while True:  # a batch that was committed meanwhile stands in nobody's way
            newest = self._look()
            assert newest is not None, "it has files"
            there = {each.path for each in self.files(up_to=newest.number)}
            if made := [part for part, one in new if one.path in there]:
                return made  # the version is there, and whoever was asked for it did not say so
            done = [one for one in new if all(each.path in there for each in one[0])]
            for one in new:
                if one not in done:  # its rows would be in the table twice, or again
                    self.store.delete(one[1].path)
            if not done:
                return []
            try:
                add, remove = [one for _, one in done], [each.path for part, _ in done for each in part]
                self._put(newest, add, remove, dict(newest.lines))
            except Raced:
                new = done
                continue
            return [part for part, _ in done]

    def _one_of(self, part: Sequence[DataFile]) -> DataFile:
        """A file with the rows of several, which no version knows yet."""
        files = self.store.for_threads()
        tables = [self._rows(files, each) for each in part]
        folder = folder_of(0).replace("batch-", "merged-")
        inside = "/".join(each for each in part[0].path.split("/")[1:-1])
        name = "/".join(filter(None, (folder, inside, "part-0.parquet")))
        self.store.make_folder(name.rpartition("/")[0])
        with self.store.filesystem.open_output_stream(self.store.at(name)) as file:
            rows = pa.concat_tables(tables, promote_options="default")
            pq.write_table(rows, file, **written_as(rows.schema))
        (found,) = read_footers(self.store, folder)
        return found

    def _remove(self, retention_hours: int, dry_run: bool) -> int:
        oldest_ms = now_ms() - retention_hours * 3_600_000
        needed, logged = {each.path for each in self.files()}, set[str]()
        for version in self._versions(None):
            logged.update(version.remove)
            if version.at_ms >= oldest_ms:  # taken away lately: a reader of the version before may still need it
                needed |= set(version.remove)
        unknown = [name for name in self.store.names("", ".parquet") if name not in needed]
        replaced = within(self.store, filter(logged.__contains__, unknown))
        ours = [*replaced, *own(self.store, (one for one in unknown if one not in logged))]
        old = [name for name in ours if self.store.written_ms(name, oldest_ms) < oldest_ms]
        return len(old) if dry_run else remove(self.store, old, lambda: {each.path for each in self.files()})

    def _put(
        self, before: ManifestVersion | None, add: Sequence[DataFile], remove: Sequence[str], lines: Mapping[str, str]
    ) -> None:
        number = 0 if before is None else before.number + 1
        columns = {**({} if before is None else before.columns), **self._columns}
        by = self.partition_by if before is None else before.partition_by  # whoever marks the table need not know
        version = ManifestVersion(number, add, list(remove), columns, by, lines, now_ms())
        if not self.store.put_if_absent(_name(number), version.to_json()):
            raise Raced(f"version {number} was made by another writer")
        self._newest = version
        if number % _SUM == _SUM - 1:
            self._sum_up(number)

    def _sum_up(self, number: int) -> None:
        """One file for the last hundred versions; whoever is second finds it there with the same content."""
        versions = [self._read(each) for each in range(number - _SUM + 1, number + 1)]
        add: dict[str, DataFile] = {}
        gone: dict[str, None] = {}
        for version in versions:
            for path in () if version is None else version.remove:
                add.pop(path, None)
                gone[path] = None
            add.update({each.path: each for each in (() if version is None else version.add)})
        remove = [path for path in gone if path not in add]  # one that was given back is there
        last = versions[-1]
        assert last is not None, "it was written just now"
        told = ManifestVersion(
            number, list(add.values()), remove, last.columns, last.partition_by, last.lines, last.at_ms
        )
        self.store.put_if_absent(f"_moldau/sums/{number // _SUM:020d}.json", told.to_json())

    def _versions(self, up_to: int | None) -> Iterator[ManifestVersion]:
        """The versions in order, a hundred at a time where they are summed up."""
        if up_to is None:
            newest = self._look()
            up_to = -1 if newest is None else newest.number
        at = 0
        while at <= up_to:
            if at % _SUM == 0 and at + _SUM - 1 <= up_to:
                content = self.store.read(f"_moldau/sums/{at // _SUM:020d}.json")
                if content is not None:
                    summed = self._parsed(f"_moldau/sums/{at // _SUM:020d}.json", content)
                    gone = set(summed.remove)
                    kept = [each for each in summed.add if each.path not in gone]
                    yield ManifestVersion(summed.number, kept, summed.remove, at_ms=summed.at_ms)
                    at += _SUM
                    continue
            version = self._read(at)
            if version is None:
                raise TableError(f"{self.store}: version {at} is missing from the table's log")
            yield version
            at += 1

    def _look(self) -> ManifestVersion | None:
        """The newest version: the one known last, and what came after it."""
        if self._newest is None:
            self._newest = self._find()
        while True:
            number = 0 if self._newest is None else self._newest.number + 1
            version = self._read(number)
            if version is None:
                return self._newest
            self._newest = version

    def _find(self) -> ManifestVersion | None:
        """A version near the newest, by doubling steps: the log has no gaps."""
        step, low = 1, -1
        while self.store.size(_name(low + step)) is not None:
            low, step = low + step, step * 2
        while step > 1:
            step //= 2
            if self.store.size(_name(low + step)) is not None:
                low += step
        return None if low < 0 else self._read(low)

    def _read(self, number: int) -> ManifestVersion | None:
        content = self.store.read(_name(number))
        return None if content is None else self._parsed(_name(number), content)

    def _parsed(self, name: str, content: bytes) -> ManifestVersion:
        """A file of the log; TableError names one that holds something else."""
        try:
            return ManifestVersion.from_json(content)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            why = f"{type(error).__name__}: {error}"
            raise TableError(
                f"{self.store}/{name} is damaged ({why}): restore it from a copy; the table cannot be read without it"
            ) from None


def _name(number: int) -> str:
    return f"{_LOG}/{number:020d}.json"


def _parts(group: Sequence[DataFile], target_bytes: int) -> Iterator[list[DataFile]]:
    """Runs of at least two files that together come to about the target."""
    part: list[DataFile] = []
    for each in group:
        part.append(each)
        if sum(one.size for one in part) >= target_bytes:
            yield part
            part = []
    if len(part) > 1:
        yield part


def _columns(schema: pa.Schema) -> dict[str, str]:
    """The columns with their types, as a version keeps them."""
    return {column.name: str(column.type) for column in nullable_columns(schema)}


def _bare(columns: Mapping[str, str]) -> dict[str, str]:
    """The columns of a version without what earlier ones said of parts that the first batch had no null in."""
    return {name: kind.replace(" not null", "") for name, kind in columns.items()}
