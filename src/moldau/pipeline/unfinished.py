"""What was begun and is not in the books: a batch of the stream that is half written, replays and backfills that were
cut off. Each can be given up: tables lose what they have of it, and what was planned waits again.

A batch whose rows a table cannot give back (formats but Delta, tables with keys, files that were merged since) and what
topics have stays there, and stands there twice once the batch is written anew. Read next: begun.py, replays.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from moldau.model.counted import counted
from moldau.pipeline import books, replay_plans
from moldau.pipeline.begun import BegunBatch, Note
from moldau.pipeline.checkpoints import query_of
from moldau.pipeline.folder import PipelineFolder
from moldau.pipeline.ranges import ends
from moldau.pipeline.resetting import tables_of
from moldau.pipeline.spec import Pipeline
from moldau.spark.tables import BatchKey, TableError
from moldau.spark.tables.ledger import ANYONE, LedgerEntry

if TYPE_CHECKING:
    from moldau.spark.tables import Table


@dataclass(frozen=True, slots=True)
class TablePart:
    """What one table has of a batch; ``sink`` is how the books call the place."""

    sink: str
    table: Table
    entry: LedgerEntry

    @property
    def removable(self) -> bool:
        """Whether exactly these rows can be taken out of the table."""
        return self.table.can_take_back(self.entry)

    @property
    def place(self) -> str:
        return str(self.table.store).rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True)
class Unfinished:
    """Something that was begun and is not in the books. ``plan`` is the file of a replay's or backfill's plan."""

    kind: str
    key: BatchKey
    parts: Sequence[TablePart]
    topics: Sequence[str]
    plan: str | None = None
    begins: str | None = None
    """Where a backfill ends: there a pipeline that never ran is to begin."""

    @property
    def name(self) -> str:
        return f"{self.kind} {self.key.batch_id}"

    def to_text(self) -> str:
        """What it is and who has it, in a line."""
        has = [f"{one.place} ({counted(one.entry.rows, 'row')})" for one in self.parts]
        has += [f"topic {one} (perhaps)" for one in self.topics]
        if self.plan is None:
            return f"{self.name} is half written: it is in {', '.join(has)}, and not in the books"
        return f"{self.name} was cut off" + (f": what it was writing is in {', '.join(has)}" if has else "")

    def cost(self) -> list[str]:
        """What giving it up does, a sentence for each place."""
        found = [
            f"{one.place}: {counted(one.entry.rows, 'row of it is', 'rows of it are')} removed" if one.removable
            else f"{one.place}: {counted(one.entry.rows, 'row of it stays', 'rows of it stay')}, and may stand there "
            "twice afterwards"
            for one in self.parts
        ]  # fmt: skip
        found += [f"topic {one}: what it has of it stays, and stands there twice afterwards" for one in self.topics]
        if self.kind == books.BATCH:
            found.append("the next run takes its records anew, with the file as it is then")
        elif self.kind == books.REPLAY:
            found.append("its dead letters wait again, in `dlq list`")
        else:
            found.append("its batches that are in the books stay; the rest of its range is not read")
        return found


def unfinished(pipeline: Pipeline, folder: PipelineFolder, *, exactly: bool = False) -> list[Unfinished]:
    """All that was begun and is not in the books. What is the matter with a table that cannot be read is told by a run;
    with ``exactly`` its error is raised: a batch is given up in all tables, or in none."""
    parts = _Parts(folder, exactly=exactly)
    return [*_stream(pipeline, folder, parts), *_replays(pipeline, folder, parts), *_backfills(pipeline, folder, parts)]


def abandon(folder: PipelineFolder, one: Unfinished) -> list[str]:
    """Give it up; a sentence for each table whose rows stay although they were to be removed. Cut off at any point it
    may be called again."""
    stay = []
    for part in one.parts:
        removable = part.removable
        if removable and part.table.take_back(part.entry):
            continue
        if removable:
            rows = counted(part.entry.rows, "row stays", "rows stay")
            stay.append(f"{part.place}: its files were merged meanwhile, and its {rows}")
        if one.kind == books.BATCH:
            part.table.reset()
    if one.plan is None:
        BegunBatch(folder.store, one.kind).abandon(one.key)
        return stay
    if one.begins is not None and folder.books.last() is None and folder.start() == one.begins:
        folder.begin_anew()  # else the first run would begin where the backfill was to end
    folder.store.write(one.plan.replace(".json", ".abandoned"), b"")
    return stay


def _stream(pipeline: Pipeline, folder: PipelineFolder, parts: _Parts) -> list[Unfinished]:
    note, line = BegunBatch(folder.store, books.BATCH).note(), folder.books.newest_of_stream()
    query, is_lost = query_of(folder.store), folder.has_lost_checkpoint()
    if query is None:
        query = _of_lost_checkpoint(note, line)
    elif folder.contradictions():  # Spark may have committed what the books do not have
        return []
    if query is None:
        return []

    def is_new(batch_query: str, batch: int) -> bool:
        booked = line is not None and line.query == query and batch <= line.batch
        return batch_query == query and batch >= 0 and not booked

    if note is not None and not is_new(note.query, note.batch):
        return []  # what was begun last is in the books, so no table need be asked
    more = () if note is None else note.sources
    found = [one for one in parts.of(pipeline, more) if is_new(one.entry.query_id, one.entry.batch_id)]
    # Without a checkpoint a reset may have been told of it: that has let tables take whatever comes next.
    told = query_of(folder.store) is None and not is_lost and not found
    topics = () if note is None or told else note.topics
    if not found and not topics:
        return []
    number = max(one.entry.batch_id for one in found) if found else note.batch if note is not None else 0
    return [Unfinished(books.BATCH, BatchKey(query, number), found, topics)]


def _of_lost_checkpoint(note: Note | None, line: books.BookLine | None) -> str | None:
    """The query of a batch that was begun and whose checkpoint is gone: it is the one that the books lack next."""
    if note is None or not note.judged:
        return None
    follows = note.batch == 0 if line is None else (note.query, note.batch) == (line.query, line.batch + 1)
    return note.query if follows else None


def _replays(pipeline: Pipeline, folder: PipelineFolder, parts: _Parts) -> list[Unfinished]:
    if pipeline.dead_letters.table is None:
        return []
    return [
        _planned(pipeline, parts, books.REPLAY, BatchKey(one.query, one.number), one.number)
        for one in replay_plans.planned(folder)
        if one.waits and replay_plans.line_of(folder, one) is None
    ]


def _backfills(pipeline: Pipeline, folder: PipelineFolder, parts: _Parts) -> list[Unfinished]:
    from moldau.pipeline.backfill import Backfills

    if pipeline.source.feed is not None:
        return []
    backfills = Backfills(pipeline, folder)
    return [
        replace(
            _planned(pipeline, parts, books.BACKFILL, BatchKey(backfills.query(), batch), one.number),
            begins=ends([span for each in one.batches for span in each]),
        )
        for one in backfills.planned()
        if one.waits and (batch := backfills.next_of(one)) is not None
    ]


def _planned(pipeline: Pipeline, parts: _Parts, kind: str, key: BatchKey, number: int) -> Unfinished:
    note = BegunBatch(parts.folder.store, kind).note_of(key)
    found = [
        one
        for one in parts.of(replace(pipeline, name=f"{pipeline.name}.{kind}"), note.sources)
        if (one.entry.query_id, one.entry.batch_id) == key[:2]
    ]
    return Unfinished(kind, key, found, note.topics, f"{kind}s/{number:09d}.json")


class _Parts:
    """Looks into tables; ``exactly``: an error in one is raised."""

    def __init__(self, folder: PipelineFolder, *, exactly: bool) -> None:
        self.folder, self._exactly = folder, exactly

    def of(self, pipeline: Pipeline, topics: Sequence[str]) -> list[TablePart]:
        """The newest batch of each table that the pipeline writes, those of these topics among them."""
        found = []
        for sink, table in tables_of(pipeline, self.folder, topics):
            try:
                entry = table.last()
            except (TableError, OSError):  # it says what is wrong when the pipeline runs
                if self._exactly:
                    raise
                continue
            if entry is not None and entry.query_id != ANYONE:
                found.append(TablePart(sink, table, entry))
        return found
