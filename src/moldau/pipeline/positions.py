"""A pipeline's positions: where it is in each partition, how far behind, and what a run would do with its file.

Asks the cluster and the tables, writes nothing. Read next: books.py, folder.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from moldau.model import TopicPartition
from moldau.pipeline.folder import Folder
from moldau.pipeline.running import cluster_of
from moldau.pipeline.source_options import source_options
from moldau.pipeline.spec import Pipeline, TableSink
from moldau.spark.offsets import decode as decode_offset
from moldau.spark.start import EARLIEST, LATEST

if TYPE_CHECKING:
    from moldau.pipeline.books import Totals
    from moldau.spark.planner import Planner
    from moldau.spark.tables import Table

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Lag:
    """A partition: where the pipeline is (None: it has not begun there), what is in the log, and how much is left."""

    topic: str
    partition: int
    position: int | None
    start: int
    end: int

    @property
    def lag(self) -> int:
        return self.end - max(self.start, self.position or 0)


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that a run would do; ``changes`` tells what is made or changed from what stays."""

    what: str
    how: str
    changes: bool


def positions(folder: Folder) -> Offsets | None:
    """Where the newest batch of the books ended; None before the first."""
    last = folder.books.last()
    if last is None or last.totals.end is None or (folder.start() is not None and not folder.has_checkpoint()):
        return None
    return decode_offset(json.loads(last.totals.end[0])).offsets


def lags(pipeline: Pipeline, folder: Folder) -> list[Lag]:
    """Every partition of the source with its lag. OptionError when a topic is not there, Unreachable, OSError."""
    planner = _planner(pipeline, folder)
    try:
        there = planner.existing()
        starts, ends = (planner.edge(which, there).offsets for which in (EARLIEST, LATEST))
    finally:
        planner.line.close()
    at = positions(folder) or {}
    return [
        Lag(one.topic, one.partition, at.get(one), starts.get(one, 0), ends.get(one, 0)) for one in sorted(ends)
    ]  # fmt: skip


def plan(pipeline: Pipeline, folder: Folder) -> list[Step]:
    """What a run would do now: where it begins, which tables it makes, adds columns to, or cannot write."""
    return [*_source_steps(pipeline, folder), *_sink_steps(pipeline, folder)]


def _source_steps(pipeline: Pipeline, folder: Folder) -> list[Step]:
    found = lags(pipeline, folder)
    left = sum(one.lag for one in found)
    topics = ", ".join(sorted({one.topic for one in found})) or "no topic yet"
    steps = [Step(f"source {topics}", f"{len(found)} partitions, {left:,} offsets to read", False)]
    last = folder.books.last()
    if not folder.has_checkpoint():
        start = folder.start() or pipeline.source.start
        steps.append(Step("checkpoint", f"a new one, which begins at {start}", True))
    elif last is not None:
        steps.append(Step("checkpoint", f"goes on after batch {last.batch}; 'start' has no effect", False))
        known = {one.topic for one in found if one.position is not None}
        present = {one.topic for one in found}
        new, gone = sorted(present - known), sorted(set(last.totals.topics) - present)
        steps += [Step(f"topic {topic}", "new to this pipeline: read from its first record", True) for topic in new]
        steps += [Step(f"topic {topic}", "read until now, and no more", True) for topic in gone]
    return steps


def _sink_steps(pipeline: Pipeline, folder: Folder) -> list[Step]:
    from moldau.pipeline.sinks import open_format
    from moldau.spark.tables import TableError

    last = folder.books.last()
    known: Sequence[str] = [] if last is None else list(last.totals.sinks)
    steps = []
    for sink in pipeline.sinks:
        if not isinstance(sink, TableSink):
            steps.append(Step(f"topic {sink.topic}", "records are added, marked", False))
            continue
        late = f", from batch {last.batch + 1} on" if last is not None and sink.name not in known else ""
        if "{topic}" in sink.table:
            steps.append(Step(f"table {sink.table}", f"one for each topic{late}", bool(late) or last is None))
            continue
        try:
            entry = open_format(sink, sink.table).last(pipeline.name, "")
        except TableError as error:
            steps.append(Step(f"table {sink.table}", f"cannot be written: {error}", True))
            continue
        if entry is None:
            steps.append(Step(f"table {sink.table}", f"new to this pipeline{late}", True))
        else:
            steps.append(Step(f"table {sink.table}", f"goes on after batch {entry.batch_id}", False))
    steps += [
        Step(f"table {name}", "written until now, and no more", True)
        for name in known
        if name not in {sink.name for sink in pipeline.sinks}
    ]
    return steps


def verified(pipeline: Pipeline, totals: Totals) -> list[dict[str, object]]:
    """The sinks with the rows that the books say and the rows that the tables hold (None: not to be counted).

    A place with ``{topic}`` is the sum of its topics' tables; dead letters are counted too. A table with keys keeps
    the latest row of each, and a topic keeps doubles of a batch that ran twice: neither is counted. One that others
    write to as well holds more.
    """
    from moldau.pipeline.sinks import open_table
    from moldau.spark.tables import Table

    found: list[dict[str, object]] = []
    for sink in pipeline.sinks:
        there = None
        if isinstance(sink, TableSink) and not sink.keys:
            topics = sorted(totals.topics) if "{topic}" in sink.table else [""]
            places = [replace(sink, table=sink.table.replace("{topic}", topic)) for topic in topics]
            there = sum(_count(open_table(one, pipeline.name)) for one in places)
        found.append({"sink": sink.name, "rows": totals.sinks.get(sink.name, 0), "there": there})
    letters = pipeline.dead_letters.table
    if letters is not None and letters in totals.dead:
        found.append(
            {"sink": letters, "rows": totals.dead[letters], "there": _count(Table(letters, pipeline=pipeline.name))}
        )
    return found


def _count(table: Table) -> int:
    """The rows of a table, none where there is no table."""
    return 0 if table.last() is None else table.count()


def reset_cost(pipeline: Pipeline, folder: Folder, start: str) -> tuple[Offsets, int, int]:
    """Where ``start`` comes to now, how many offsets would be read again, and how many would be left out.

    OptionError when it is no position.
    """
    from moldau.spark.options import parse

    options = parse(source_options(pipeline, cluster_of(pipeline), start=start), "stream")
    planner = _planner(pipeline, folder)
    try:
        there = planner.existing()
        to = planner.resolve(options.start, there, "startingOffsets").offsets
    finally:
        planner.line.close()
    at = positions(folder) or {}
    again = sum(max(0, at[one] - offset) for one, offset in to.items() if one in at)
    left_out = sum(max(0, offset - at[one]) for one, offset in to.items() if one in at)
    return to, again, left_out


def as_start(offsets: Offsets) -> str:
    """Offsets as ``startingOffsets``."""
    found: dict[str, dict[str, int]] = {}
    for source in sorted(offsets):
        found.setdefault(source.topic, {})[str(source.partition)] = offsets[source]
    return json.dumps(found)


def _planner(pipeline: Pipeline, folder: Folder) -> Planner:
    from moldau.spark.client_feed import open_feed
    from moldau.spark.options import parse
    from moldau.spark.planner import Planner

    return Planner(parse(source_options(pipeline, cluster_of(pipeline), start=folder.start()), "stream"), open_feed)
