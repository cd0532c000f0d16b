"""Lets a pipeline begin elsewhere: the checkpoint is set aside, and the tables take whatever comes next."""

from __future__ import annotations

from dataclasses import replace

from moldau.pipeline.folder import Folder
from moldau.pipeline.sinks import open_table
from moldau.pipeline.spec import Pipeline, TableSink
from moldau.spark.tables import LedgerError, Table


def reset(pipeline: Pipeline, folder: Folder, start: str) -> str | None:
    """Begin at ``start`` next time; the name of the checkpoint that was set aside, None when there was none.

    Cut off at any point it may be called again: a table that takes whatever comes takes it still.
    """
    for table in _tables(pipeline, folder):
        try:
            there = table.last()
        except LedgerError:  # its line was expired: reset is what mends that
            there = table.format.lost(pipeline.name)
        if there is not None:
            table.reset()
    folder.begin_at(start)
    return folder.set_checkpoint_aside()


def _tables(pipeline: Pipeline, folder: Folder) -> list[Table]:
    """Every table that the pipeline writes, those of its topics as far as the books know topics."""
    last = folder.books.last()
    topics = [] if last is None else sorted(last.totals.topics)
    places = [
        replace(sink, table=sink.table.replace("{topic}", topic))
        for sink in pipeline.sinks
        if isinstance(sink, TableSink)
        for topic in (topics if "{topic}" in sink.table else [""])
    ]
    found = [open_table(sink, pipeline.name) for sink in places]
    if pipeline.dead_letters.table is not None:
        found.append(Table(pipeline.dead_letters.table, pipeline=pipeline.name))
    return found
