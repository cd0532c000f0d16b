"""A pipeline's positions: where it is in each partition, how far behind, and what a run would do with its file.

Asks the cluster and the tables, writes nothing. Read next: books.py, folder.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from moldau.model import TopicPartition
from moldau.model.counted import counted
from moldau.pipeline.absent import absent_topics
from moldau.pipeline.books import BACKFILL, BATCH, REPLAY, names_of
from moldau.pipeline.checkpoints import damage
from moldau.pipeline.clusters import cluster_of
from moldau.pipeline.feed.positions import PlannedStep, feed_steps
from moldau.pipeline.folder import PipelineFolder
from moldau.pipeline.lost import way_on
from moldau.pipeline.maintained import plans
from moldau.pipeline.source_options import asked_once, source_options
from moldau.pipeline.spec import Pipeline, TableSink
from moldau.spark.losses import Loss, LossKind
from moldau.spark.offsets import Positions, find_losses, recreated
from moldau.spark.offsets import decode as decode_offset
from moldau.spark.start import EARLIEST, LATEST, OfGroup

if TYPE_CHECKING:
    from moldau.pipeline.books import BookTotals, TakenBack
    from moldau.pipeline.unfinished import Unfinished
    from moldau.spark.planner import Planner
    from moldau.spark.tables import Table
    from moldau.spark.tables.files import TableContents
    from moldau.spark.tables.ledger import LedgerEntry

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class PipelineLag:
    """A partition: where the pipeline is, or is to begin (None: nobody has said it), what is in the log, and how much
    is left."""

    topic: str
    partition: int
    position: int | None
    start: int
    end: int
    loss: Loss | None = None
    """What was lost here since the pipeline stood at its position: by default a run is refused then."""

    @property
    def next(self) -> int:
        """The offset from which a run reads on, once what was lost is left out."""
        anew = self.loss is not None and self.loss.kind is LossKind.TOPIC_RECREATED
        return min(max(self.start, 0 if anew else self.position or 0), self.end)

    @property
    def lag(self) -> int:
        return self.end - self.next


def positions(folder: PipelineFolder) -> Offsets | None:
    """Where the newest batch of the books ended; None before the first, and after a reset."""
    found = _ended(folder)
    return None if found is None else found.offsets


def _ended(folder: PipelineFolder) -> Positions | None:
    """The same with the ids of the topics that it read."""
    last = folder.books.last()
    if last is None or last.totals.end is None or (not folder.has_checkpoint() and not folder.has_lost_checkpoint()):
        return None
    return decode_offset(json.loads(last.totals.end[0]))


def _begin(folder: PipelineFolder) -> Offsets:
    """Where the first batch begins, as far as a reset has told; nothing once it is under way."""
    start = None if folder.has_checkpoint() else folder.start()
    return decode_offset(json.loads(start)).offsets if start is not None and start.startswith("{") else {}


def lags(pipeline: Pipeline, folder: PipelineFolder) -> list[PipelineLag]:
    """Every partition of the source with its lag. OptionError when a topic is not there, Unreachable, OSError."""
    planner = _planner(pipeline, folder)
    try:
        there = planner.existing()
        starts, ends = (planner.edge(which, there) for which in (EARLIEST, LATEST))
        at = _ended(folder)
        lost = [] if at is None else find_losses(at, starts, ends, planner.diverged(at, ends))
    finally:
        planner.line.close()
    losses, known = {one.partition: one for one in lost}, _begin(folder) if at is None else at.offsets
    return [
        PipelineLag(
            one.topic, one.partition, known.get(one), starts.offsets.get(one, 0), ends.offsets[one], losses.get(one)
        )
        for one in sorted(ends.offsets)
    ]


def plan(pipeline: Pipeline, folder: PipelineFolder) -> list[PlannedStep]:
    """What a run would do now: where it begins, which tables it makes, adds columns to, or cannot write."""
    source = _feed_steps(pipeline, folder) if pipeline.source.feed is not None else _source_steps(pipeline, folder)
    maintenance = [PlannedStep(f"maintenance of {name}", how, False) for name, how in plans(pipeline)]
    return [*source, *_unfinished_steps(pipeline, folder), *_sink_steps(pipeline, folder), *maintenance]


def _feed_steps(pipeline: Pipeline, folder: PipelineFolder) -> list[PlannedStep]:
    found = feed_steps(pipeline, folder)
    if not folder.has_lost_checkpoint():
        return found
    return [*(one for one in found if one.what != "checkpoint"), *_lost_steps(pipeline, folder)]


def _lost_steps(pipeline: Pipeline, folder: PipelineFolder) -> list[PlannedStep]:
    return [
        PlannedStep("checkpoint", f"{folder.lost_checkpoint}: a run is refused", True),
        PlannedStep("way on", way_on(pipeline, folder), True),
    ]


def _unfinished_steps(pipeline: Pipeline, folder: PipelineFolder) -> list[PlannedStep]:
    """What was begun and is finished first, or has to be."""
    from moldau.pipeline.unfinished import unfinished

    half = folder.cut_off_reset()
    reset = [] if half is None else [PlannedStep("reset", f"{half}; until then a run is refused", True)]

    hows = {
        BATCH: "a run finishes it, and is refused where the file would give other rows than then",
        REPLAY: "the next `dlq replay` finishes it first",
        BACKFILL: "the next `backfill` finishes it first",
    }
    found = unfinished(pipeline, folder)
    return [*reset, *(PlannedStep(one.name, f"{one.to_text()}; {hows[one.kind]}", True) for one in found)]


def _source_steps(pipeline: Pipeline, folder: PipelineFolder) -> list[PlannedStep]:
    found = lags(pipeline, folder)
    left = sum(one.lag for one in found)
    topics = ", ".join(sorted({one.topic for one in found})) or "no topic yet"
    steps = [
        PlannedStep(f"source {topics}", f"{counted(len(found), 'partition')}, {counted(left, 'offset')} to read", False)
    ]
    on_loss = "a run is refused" if pipeline.source.on_loss == "fail" else "a run goes on with what is there"
    steps += [
        PlannedStep(f"partition {one.loss.partition}", f"{one.loss.kind}: {on_loss}", True)
        for one in found
        if one.loss is not None
    ]
    last = folder.books.last()
    if (damaged := damage(folder.store)) is not None:
        steps.append(PlannedStep("checkpoint", f"{damaged}; until then a run is refused", True))
    elif folder.has_lost_checkpoint():
        steps += _lost_steps(pipeline, folder)
    elif contradictions := folder.contradictions():
        steps += [PlannedStep("books", f"{text}: a run is refused", True) for text in contradictions]
    elif not folder.has_checkpoint():
        start = folder.start() or pipeline.source.start
        steps.append(PlannedStep("checkpoint", f"a new one, which begins at {start}", True))
    elif last is not None:
        batch = "" if last.totals.newest is None else f" after batch {last.totals.newest[1]}"
        steps.append(PlannedStep("checkpoint", f"goes on{batch}; 'start' has no effect", False))
        known = {one.topic for one in found if one.position is not None}
        present = {one.topic for one in found}
        ended = _ended(folder)
        read = set() if ended is None else {one.topic for one in ended.offsets}
        new, gone = sorted(present - known), sorted(read - present)
        steps += [
            PlannedStep(f"topic {topic}", "new to this pipeline: read from its first record", True) for topic in new
        ]
        steps += [PlannedStep(f"topic {topic}", f"{LossKind.NOT_LISTED}: {on_loss}", True) for topic in gone]
    return steps


def _sink_steps(pipeline: Pipeline, folder: PipelineFolder) -> list[PlannedStep]:
    from moldau.spark.tables import Table

    last, absent = folder.books.last(), absent_topics(pipeline)
    known: Sequence[str] = [] if last is None else list(last.totals.sinks)
    at = None if last is None or not folder.has_checkpoint() else last.totals.end
    steps = []
    for sink in pipeline.sinks:
        if not isinstance(sink, TableSink):
            steps.append(_topic_step(f"topic {sink.topic}", absent.get(sink.name)))
            continue
        late = f", from batch {last.batch + 1} on" if last is not None and sink.name not in known else ""
        if "{topic}" in sink.table:
            steps.append(PlannedStep(f"table {sink.table}", f"one for each topic{late}", bool(late) or last is None))
            continue
        steps.append(_table_step(f"table {sink.table}", partial(_last_of, sink, pipeline.name), late, at))
    letters = pipeline.dead_letters
    if letters.table is not None:
        table = Table(letters.table, pipeline=pipeline.name)
        steps.append(_table_step(f"dead letters {letters.table}", table.last, "", at))
    if letters.topic is not None:
        steps.append(_topic_step(f"dead letters topic {letters.topic}", absent.get(letters.topic)))
    steps += [
        PlannedStep(f"table {name}", "written until now, and no more", True)
        for name in known
        if name not in {sink.name for sink in pipeline.sinks}
    ]
    return steps


def _topic_step(name: str, absent: str | None) -> PlannedStep:
    return PlannedStep(name, absent or "records are added, marked", absent is not None)


def _table_step(name: str, last: Callable[[], LedgerEntry | None], late: str, at: Sequence[str] | None) -> PlannedStep:
    """What a run does with a table: ``last`` gives its newest line of the pipeline, ``at`` is where the checkpoint goes
    on, None where that is not known."""
    from moldau.spark.tables import LedgerError, TableError
    from moldau.spark.tables.ledger import ANYONE, OffsetOrder, place, starting_offsets

    try:
        entry = last()
    except TableError as error:
        return PlannedStep(name, f"cannot be written: {error}", True)
    if entry is None:
        return PlannedStep(name, f"new to this pipeline{late}", True)
    if entry.query_id == ANYONE and entry.end is None:
        return PlannedStep(name, "takes whatever batch comes next", False)
    order = None if at is None or entry.end is None else place(entry.end, at)
    if entry.query_id == ANYONE and entry.end is not None and order in (None, OffsetOrder.EQUAL):
        return PlannedStep(name, f"goes on where it ends: {' and '.join(entry.end)}", False)
    if at is not None and entry.end is not None and (entry.query_id == ANYONE or order is OffsetOrder.BEFORE):
        what = "was taken back" if entry.what == "rewind" else "ends elsewhere"
        if entry.query_id != ANYONE:  # by a rewind that was killed, or another program; or the file named it no more
            what = f"ends with batch {entry.batch_id}, at {' and '.join(entry.end)}"
        try:
            where = f"`moldau pipeline reset FILE --to '{starting_offsets(entry.end)}'` begins where it ends"
        except LedgerError:
            where = "`moldau pipeline reset FILE --to POSITION` begins elsewhere"
        return PlannedStep(
            name, f"{what}, and the checkpoint goes on at {' and '.join(at)}: a run is refused; {where}", True
        )
    return PlannedStep(name, f"goes on after batch {entry.batch_id}", False)


def _last_of(sink: TableSink, pipeline: str) -> LedgerEntry | None:
    from moldau.pipeline.sinks import open_format

    return open_format(sink, sink.table).last(pipeline, "")


def verified(
    pipeline: Pipeline,
    totals: BookTotals,
    begun: Sequence[Unfinished] = (),
    back: TakenBack | None = None,
    *,
    only: Container[str] | None = None,
) -> list[dict[str, object]]:
    """The sinks (``only`` some) with the rows that the books say, the rows that the tables' files hold (None: not to be
    counted), and which of these files are damaged: gone, of another size, or not to be read.

    A place with ``{topic}`` is the sum of its topics' tables; dead letters are counted too. A table with keys keeps
    the latest row of each, and a topic keeps doubles of a batch that ran twice: neither is counted. One that others
    write to as well holds more; of dead letters those of this pipeline are counted. ``unfinished`` are rows of batches
    that were ``begun`` and are not in the books yet, ``taken_back`` those that went ``back`` before a reset.
    """
    from moldau.pipeline.sinks import open_table
    from moldau.spark.tables import Table

    found: list[dict[str, object]] = []
    for sink in pipeline.sinks:
        if only is not None and sink.name not in only:
            continue
        there, damaged = None, list[str]()
        if isinstance(sink, TableSink):
            topics = sorted(totals.topics) if "{topic}" in sink.table else [""]
            places = [replace(sink, table=sink.table.replace("{topic}", topic)) for topic in topics]
            tables = [_held(partial(open_table, one), pipeline.name) for one in places]
            there = None if sink.keys else sum(one.rows for one in tables)
            damaged = [text for one in tables for text in one.damaged]
        found.append(
            {"sink": sink.name, "rows": totals.sinks.get(sink.name, 0), "there": there, "damaged": damaged}
        )  # fmt: skip
    letters = pipeline.dead_letters.table
    if letters is not None and letters in totals.dead and (only is None or letters in only):
        held = _held_of(lambda name: Table(letters, pipeline=name), pipeline.name)
        found.append(
            {"sink": letters, "rows": totals.dead[letters], "there": held.rows, "damaged": list(held.damaged)}
        )  # fmt: skip
    more: dict[str, int] = {}
    for part in (part for one in begun for part in one.parts):
        more[part.sink] = more.get(part.sink, 0) + part.entry.rows
    gone = {} if back is None else back.rows
    return [
        {**one, "unfinished": more.get(str(one["sink"]), 0), "taken_back": gone.get(str(one["sink"]), 0)}
        for one in found
    ]


def fewer(sink: Mapping[str, object]) -> int:
    """How many rows fewer than it should a table that ``verified`` looked at holds; 0 where they are not counted."""
    rows, more, back, there = sink["rows"], sink["unfinished"], sink["taken_back"], sink["there"]
    assert isinstance(rows, int), "a count"
    assert isinstance(more, int), "a count"
    assert isinstance(back, int), "a count"
    return rows + more - back - there if isinstance(there, int) else 0


def differences(sinks: Sequence[Mapping[str, object]]) -> list[str]:
    """What is wrong with the tables that ``verified`` looked at: rows that differ, and damaged files."""
    found = []
    for sink in sinks:
        less, there = fewer(sink), sink["there"]
        if isinstance(there, int) and less:
            unbooked = f", and {sink['unfinished']:,} of what is not finished" if sink["unfinished"] else ""
            back = f", of which {sink['taken_back']:,} were taken back before" if sink["taken_back"] else ""
            why = f"{less:,} less (removed, or taken back as `moldau spark rewind` does)"
            if less < 0:
                why = f"{-less:,} more (as where another pipeline or program writes to the table, too)"
            books = f"by the books {sink['rows']:,}{back}{unbooked}"
            found.append(f"{sink['sink']} holds {counted(there, 'row')}, {books}: {why}")
        files = sink["damaged"]
        if isinstance(files, list) and files:
            more = f" (and {counted(len(files) - 1, 'more file')} of this table)" if len(files) > 1 else ""
            found.append(f"{files[0]}{more}")
    return found


def _held(opened: Callable[[str], Table], pipeline: str) -> TableContents:
    """What the files of a table hold, nothing where there is none of the pipeline."""
    from moldau.pipeline.sinks import is_written
    from moldau.spark.tables.files import TableContents

    return opened(pipeline).held() if is_written(opened, pipeline) else TableContents(0, [])


def _held_of(opened: Callable[[str], Table], pipeline: str) -> TableContents:
    """What a table of dead letters holds of a pipeline: others may use the same table."""
    import pyarrow as pa

    found, names = _held(opened, pipeline), names_of(pipeline)
    if found.damaged or not found.rows:
        return found
    column = pa.chunked_array(opened(pipeline).read()["pipeline"])
    return found._replace(rows=sum(name in names for name in column.to_pylist()))


def reset_cost(pipeline: Pipeline, folder: PipelineFolder, start: str) -> tuple[Offsets, int, int]:
    """Where ``start`` comes to now, how many offsets would be read again, and how many would be left out.

    Read again is what the books have, and what a table has of a batch that is half written. What expired is neither:
    where a run goes on after losses it begins with the oldest record that is left. OptionError when it is no position,
    one that no record has yet, one of a group that committed none, or one whose records have expired and at which a run
    would be refused.
    """
    from moldau.spark.given import OptionError
    from moldau.spark.options import parse

    options = parse(source_options(pipeline, cluster_of(pipeline), start=start), "stream")
    planner = _planner(pipeline, folder)
    try:
        there = planner.existing()
        begins = planner.edge(EARLIEST, there).offsets  # before the position is told, which may be this one and moves
        if isinstance(options.start, OfGroup) and not planner.committed(options.start.group_id, there):
            raise OptionError("--to", start, "that group has committed nothing in what the pipeline reads")
        to = planner.resolve(options.start, there, "startingOffsets").offsets
        ends = planner.edge(LATEST, there).offsets
    finally:
        planner.line.close()
    expired = [f"{one} begins at {begins[one]:,}" for one, at in sorted(to.items()) if at < begins.get(one, at)]
    if expired and pipeline.source.on_loss == "fail":
        raise OptionError("--to", start, f"records have expired there, and a run is refused: {', '.join(expired)}")
    to = {one: max(offset, begins.get(one, offset)) for one, offset in to.items()}
    beyond = [f"{one} ends at {ends[one]:,}" for one, offset in sorted(to.items()) if offset > ends.get(one, offset)]
    if beyond:
        raise OptionError("--to", start, f"that is beyond the end: {', '.join(beyond)}")
    before = _ended(folder) or Positions({}, {})
    at = {one: 0 if recreated(before, there, one) else offset for one, offset in before.offsets.items()}
    written = dict(at)
    for one in _ends_of(pipeline, folder):
        written = {**one, **written, **{each: max(end, written.get(each, 0)) for each, end in one.items()}}
    again = sum(max(0, written[one] - offset) for one, offset in to.items() if one in written)
    left_out = sum(max(0, offset - at[one]) for one, offset in to.items() if one in at)
    return to, again, left_out


def _ends_of(pipeline: Pipeline, folder: PipelineFolder) -> list[Offsets]:
    """Where the batch ends that is half written, as each table that has it says."""
    from moldau.pipeline.unfinished import unfinished

    parts = [part for one in unfinished(pipeline, folder) if one.kind == BATCH for part in one.parts]
    return [decode_offset(json.loads(part.entry.end[0])).offsets for part in parts if part.entry.end]


def as_start(offsets: Offsets) -> str:
    """Offsets as ``startingOffsets``."""
    found: dict[str, dict[str, int]] = {}
    for source in sorted(offsets):
        found.setdefault(source.topic, {})[str(source.partition)] = offsets[source]
    return json.dumps(found)


def _planner(pipeline: Pipeline, folder: PipelineFolder) -> Planner:
    """A planner for who looks on: it asks once, where a run has hours and asks again. A command, a page and a scrape
    are waited for."""
    from moldau.spark.client_feed import open_feed
    from moldau.spark.options import parse
    from moldau.spark.planner import Planner

    options = parse(source_options(pipeline, cluster_of(pipeline), start=folder.start()), "stream")
    return Planner(asked_once(options), open_feed)
