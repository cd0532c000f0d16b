"""Lets a pipeline begin elsewhere: the checkpoint is set aside, and the tables take whatever comes next."""

from __future__ import annotations

from moldau.pipeline.folder import Folder
from moldau.pipeline.sinks import open_table
from moldau.pipeline.spec import Pipeline, TableSink
from moldau.spark.tables import LedgerError, Table


def reset(pipeline: Pipeline, folder: Folder, start: str) -> str | None:
    """Begin at ``start`` next time; the name of the checkpoint that was set aside, None when there was none.

    Cut off at any point it may be called again: a table that takes whatever comes takes it still.
    """
    tables = [
        open_table(sink, pipeline.name)
        for sink in pipeline.sinks
        if isinstance(sink, TableSink) and "{topic}" not in sink.table
    ]
    if pipeline.dead_letters.table is not None:
        tables.append(Table(pipeline.dead_letters.table, pipeline=pipeline.name))
    for table in tables:
        try:
            there = table.last()
        except LedgerError:  # its line was expired: reset is what mends that
            there = table.format.lost(pipeline.name)
        if there is not None:
            table.reset()
    folder.begin_at(start)
    return folder.set_checkpoint_aside()
