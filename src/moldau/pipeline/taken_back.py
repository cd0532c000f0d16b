"""What tables that were taken back, as ``moldau spark rewind`` does, hold no more of what the books count.

Read next: resetting.py, which has it noted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moldau.pipeline.books import TakenBack, waiting
from moldau.pipeline.folder import PipelineFolder
from moldau.pipeline.lost import end_of_books
from moldau.pipeline.positions import fewer, verified
from moldau.pipeline.replays import Replays
from moldau.pipeline.resetting import tables_of
from moldau.pipeline.spec import Pipeline, TableSink
from moldau.pipeline.unfinished import unfinished
from moldau.spark.tables import LedgerError, Table


def taken_back(pipeline: Pipeline, folder: PipelineFolder, *, accept: bool = False) -> TakenBack:
    """What tables whose newest line says that they were taken back have less than by the books, and no reset has noted
    yet; with ``accept`` what any table has less, whatever took it away. A table that does not keep every row tells
    nothing, nor does one whose files are damaged."""
    last = folder.books.last()
    names = {name for name, _ in tables_of(pipeline, folder)} if accept else tables_taken_back(pipeline, folder)
    if last is None or not names:
        return TakenBack()
    rows, before = dict[str, int](), folder.books.taken_back()
    for sink in verified(pipeline, last.totals, unfinished(pipeline, folder), before, only=names):
        if (less := fewer(sink)) > 0 and not sink["damaged"]:
            rows[str(sink["sink"])] = less
    gone = 0
    letters = pipeline.dead_letters.table
    if letters is not None and letters in rows:
        there = sum(one.records for one in Replays(pipeline, folder).waiting())
        # No more than rows are missing: letters of a replay that was cut off wait for its end, and are no loss.
        gone = min(rows[letters], max(0, waiting(last.totals, before) - there))
    return TakenBack(rows, gone)


def way_on(pipeline: Pipeline, folder: PipelineFolder, sinks: Sequence[Mapping[str, object]]) -> str | None:
    """What lets the books balance where tables that ``verified`` looked at hold fewer rows; None where none does, or
    where one was taken back and its reset is to come, which reads again what went, and has the books count it no
    more."""
    if not any(fewer(one) > 0 and not one["damaged"] for one in sinks) or tables_taken_back(pipeline, folder):
        return None
    end = end_of_books(pipeline, folder)
    position, where = ("POSITION", "there") if end is None else (f"'{end}'", "where the books end")
    return (
        "where the rows that are missing are gone for good (deleted, or taken back before a reset that did not note"
        f" it), `moldau pipeline reset FILE --to {position} --accept-missing` lets the books count them no more, and"
        f" the next run goes on {where}"
    )


def tables_taken_back(pipeline: Pipeline, folder: PipelineFolder) -> set[str]:
    """The sinks with a table whose newest line says that it was taken back, or is of a batch before the newest one of
    the books: by a `moldau spark rewind` that was killed, or by another program."""
    last = folder.books.last()
    newest = None if last is None else last.totals.newest
    many = {sink.name for sink in pipeline.sinks if isinstance(sink, TableSink) and "{topic}" in sink.table}
    return {
        name
        for name, table in tables_of(pipeline, folder)
        if _is_taken_back(table, None if name in many else newest)  # not each topic has records in each batch
    }


def _is_taken_back(table: Table, newest: tuple[str, int] | None) -> bool:
    try:
        last = table.last()
    except LedgerError:
        return False
    if last is None or newest is None:
        return last is not None and last.what == "rewind"
    return last.what == "rewind" or (last.query_id == newest[0] and last.batch_id < newest[1])
