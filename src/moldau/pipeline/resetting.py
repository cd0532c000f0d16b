"""Lets a pipeline begin elsewhere: the checkpoint is set aside, and the tables take whatever comes next.

What tables lost that were taken back before is noted in the books, so that these balance from then on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from moldau.pipeline.books import TakenBack
from moldau.pipeline.feed.changes import Position
from moldau.pipeline.feed.checkpoint import FeedCheckpoint
from moldau.pipeline.folder import PipelineFolder
from moldau.pipeline.sinks import open_table
from moldau.pipeline.spec import Pipeline, TableSink
from moldau.spark.tables import LedgerError, Table, TableError
from moldau.spark.tables.ledger import ANYONE


def reset(
    pipeline: Pipeline,
    folder: PipelineFolder,
    start: str,
    back: TakenBack | None = None,
    *,
    latest: Position | None = None,
) -> str | None:
    """Begin at ``start`` next time; the name of the checkpoint that was set aside, None when there was none. ``back``
    is what tables do not hold any more, as ``taken_back`` finds it: they forget here that they were taken back.
    ``latest`` is what that word came to, of a table's feed.

    Cut off at any point it may be called again, and has to be: a table that takes whatever comes takes it still, and
    what is noted as taken back is not found again. Until then nothing else may hold the pipeline.
    """
    folder.begin_reset(start)
    if back is not None and back != TakenBack():
        folder.books.take_back(back)
    for _, table in tables_of(pipeline, folder):
        try:
            there = table.last()
        except LedgerError:  # its line was expired: reset is what mends that
            there = table.format.lost(pipeline.name)
        if there is not None:
            table.reset()
    folder.begin_at(start)
    aside = folder.set_checkpoint_aside()
    if latest is not None:
        FeedCheckpoint(folder).keep_latest(latest)
    folder.end_reset()
    return aside


def let_in(pipeline: Pipeline, folder: PipelineFolder, query: str) -> None:
    """Let each table take the replays or backfills ``query``, where the newest that it has are of another folder, or of
    before folders had names of their own for them: those are over, since this one holds the pipeline."""
    for _, table in tables_of(pipeline, folder):
        try:
            last = table.last()
        except LedgerError:
            last = table.format.lost(pipeline.name)
        except (TableError, OSError):  # what is the matter with it, the batch says when it comes there
            continue
        if last is not None and last.query_id not in (ANYONE, query):
            table.reset()


def tables_of(pipeline: Pipeline, folder: PipelineFolder, more: Sequence[str] = ()) -> list[tuple[str, Table]]:
    """Every table that the pipeline writes with the sink that it is of, those of its topics as far as the file or the
    books know topics, and of ``more`` topics."""
    last = folder.books.last()
    topics = sorted({*pipeline.source.topics, *(() if last is None else last.totals.topics), *more})
    found = [
        (sink.name, open_table(replace(sink, table=sink.table.replace("{topic}", topic)), pipeline.name))
        for sink in pipeline.sinks
        if isinstance(sink, TableSink)
        for topic in (topics if "{topic}" in sink.table else [""])
    ]
    letters = pipeline.dead_letters.table
    if letters is not None:
        found.append((letters, Table(letters, pipeline=pipeline.name)))
    return found
