"""The tables of the sources over files: what their options mean, how the work is cut up, who reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from moldau.clusterdata import metadata as of_metadata
from moldau.clusterdata import segments as of_segments
from moldau.clusterdata.columns import Column, arrow_batches
from moldau.clusterdata.jobs import JOBS
from moldau.clusterdata.jobs.options import HOUR_MS, LONGEST_MS, JobOptions
from moldau.clusterdata.metadata import Point
from moldau.clusterdata.state_changes import lines
from moldau.clusterdata.state_changes.arrow import batches as state_log_batches
from moldau.spark.given import Given, OptionError, duration_ms, size_bytes
from moldau.spark.own.options import choice, names_of, time_ms, whole
from moldau.spark.own.table import PlainTable

if TYPE_CHECKING:
    import pyarrow

HIGH_WATERMARK = "highWatermark"


class _StateLog(PlainTable):
    def __init__(self, paths: tuple[str, ...], split_bytes: int, columns: tuple[Column, ...]) -> None:
        self._paths, self.split_bytes, self.columns = paths, split_bytes, columns

    def tasks(self) -> Sequence[lines.FileRange]:
        files = dict.fromkeys(file for path in self._paths for file in lines.files_of(path))
        return [one for file in files for one in lines.ranges(file, self.split_bytes)]

    def batches(self, task: lines.FileRange) -> Iterator[pyarrow.RecordBatch]:
        return state_log_batches(task, self.columns)


def state_log(given: Given, paths: tuple[str, ...]) -> PlainTable:
    """State-change logs. ``splitBytes`` is how much of a file a task reads; ``columns`` are those that are made."""
    text = given.get("splitBytes")
    split_bytes = PlainTable.split_bytes if text is None else max(size_bytes("splitBytes", text), 1)
    known = {one.name: one for one in lines.COLUMNS}
    names = names_of(given, "columns") or tuple(known)
    if not set(names) <= set(known) or len(set(names)) < len(names):
        raise OptionError("columns", given.get("columns"), f"names of {', '.join(known)}, each once, are expected")
    return _StateLog(paths, split_bytes, tuple(known[name] for name in names))


class _Segments(PlainTable):
    def __init__(self, paths: tuple[str, ...], mode: str, topics: tuple[str, ...], until: str, checksums: bool) -> None:
        self._paths, self._mode, self._topics, self._until, self._checksums = paths, mode, topics, until, checksums
        self.columns = of_segments.BATCH_COLUMNS if mode == "batches" else of_segments.RECORD_COLUMNS

    def tasks(self) -> Sequence[of_segments.ListedSegment]:
        found = {one.path: one for path in self._paths for one in of_segments.segments(path, self._topics)}
        return list(found.values())

    def batches(self, task: of_segments.ListedSegment) -> Iterator[pyarrow.RecordBatch]:
        until = int(self._until) if self._until.isdigit() else None
        if self._until == HIGH_WATERMARK:
            until = task.high_watermark
        if self._mode == "records":
            return arrow_batches(self.columns, of_segments.record_rows(task, until))
        return arrow_batches(self.columns, of_segments.batch_rows(task, until, checksums=self._checksums))


def segments(given: Given, paths: tuple[str, ...]) -> PlainTable:
    """Segments in the mode ``batches`` or ``records``, up to an offset, to the high watermark, or to their end."""
    mode = choice(given, "mode", ("batches", "records"), "batches")
    until = given.get("until") or "end"
    if until not in ("end", HIGH_WATERMARK) and not (until.isascii() and until.isdigit()):
        raise OptionError("until", until, f"allowed are end, {HIGH_WATERMARK} and an offset")
    checksums = choice(given, "checksums", ("true", "false"), "true") == "true"
    if not checksums and mode == "records":
        raise OptionError("checksums", "false", "records are read out of batches whose checksums are right")
    return _Segments(paths, mode, names_of(given, "topics"), until, checksums)


class _Metadata(PlainTable):
    def __init__(self, paths: tuple[str, ...], table: str, points: tuple[Point | None, Point]) -> None:
        self._paths, self._table, self._points = paths, table, points
        if table == "records":
            self.columns = of_metadata.RECORD_COLUMNS
        elif table == "diff":
            self.columns = of_metadata.DIFF_COLUMNS
        else:
            self.columns = of_metadata.TABLES[table]

    def tasks(self) -> Sequence[object]:
        found = of_metadata.files(self._paths[0])
        if self._table != "records":
            return [found]
        return [(path, True) for _, path in found.snapshots] + [(one.path, False) for one in found.segments]

    def batches(self, task: Any) -> Iterator[pyarrow.RecordBatch]:  # Any: a file's name, or all files of an image
        return arrow_batches(self.columns, self._rows(task))

    def _rows(self, task: Any) -> Iterator[tuple[object, ...]]:  # Any: as above
        before, after = self._points
        if self._table == "records":
            return of_metadata.file_rows(task[0], snapshot=task[1])
        image = of_metadata.image_at(task, after)
        if before is None:
            return of_metadata.table_rows(image, self._table)
        return of_metadata.diff_rows(of_metadata.image_at(task, before), image)


def metadata(given: Given, paths: tuple[str, ...]) -> PlainTable:
    """``table`` is ``records``, a table of the image, or ``diff``: from a point to another."""
    if len(paths) > 1:
        raise OptionError("paths", ", ".join(paths), "one folder is read; of the logs below it, the furthest")
    table = choice(given, "table", ("records", *of_metadata.TABLES, "diff"), "records")
    after = _point(given, "asOf")
    before = _point(given, "from")
    if table == "records" and after != Point():
        raise OptionError("table", table, "asOf... is of images; of records, filter the columns offset and timestamp")
    if (table == "diff") != (before != Point()):
        raise OptionError("table", table, "diff, and nothing else, needs fromOffset or fromTime")
    return _Metadata(paths, table, (before if table == "diff" else None, after))


def _point(given: Given, name: str) -> Point:
    offset, time = whole(given, f"{name}Offset", 0), time_ms(given, f"{name}Time")
    if offset is not None and time is not None:
        raise OptionError(f"{name}Time", given.get(f"{name}Time"), f"not together with {name}Offset")
    return Point(offset, time)


class _Job(PlainTable):
    def __init__(self, name: str, options: JobOptions) -> None:
        self._name, self._options = name, options
        self.columns = JOBS[name].columns

    def tasks(self) -> Sequence[object]:
        return JOBS[self._name].plan(self._options)

    def batches(self, task: object) -> Iterator[pyarrow.RecordBatch]:
        return arrow_batches(self.columns, JOBS[self._name].rows(task, self._options))


def job(given: Given, paths: tuple[str, ...]) -> PlainTable:
    """The table of a job; options that it does not take are refused."""
    name = choice(given, "job", tuple(JOBS))
    for option in ("topics", "groups", "transactionalIds", "every", "maxTransactionTimeout"):
        if option not in JOBS[name].options:
            given.refuse(option, f"the job {name} does not take it")
    every = given.get("every")
    every_ms = HOUR_MS if every is None else duration_ms("every", every)
    if every_ms < 1:
        raise OptionError("every", every, "at least 1ms")
    topics, groups, ids = (names_of(given, option) for option in ("topics", "groups", "transactionalIds"))
    longest = given.get("maxTransactionTimeout")
    longest_ms = LONGEST_MS if longest is None else duration_ms("maxTransactionTimeout", longest)
    return _Job(name, JobOptions(paths, topics, groups, every_ms, ids, longest_ms))
