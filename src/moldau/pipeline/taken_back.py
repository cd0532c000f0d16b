"""What tables that were taken back, as ``moldau spark rewind`` does, hold no more of what the books count.

Read next: resetting.py, which has it noted.
"""

from __future__ import annotations

from moldau.pipeline.books import TakenBack, waiting
from moldau.pipeline.folder import Folder
from moldau.pipeline.positions import fewer, verified
from moldau.pipeline.replays import Replays
from moldau.pipeline.resetting import tables_of
from moldau.pipeline.spec import Pipeline
from moldau.pipeline.unfinished import unfinished
from moldau.spark.tables import LedgerError, Table


def taken_back(pipeline: Pipeline, folder: Folder) -> TakenBack:
    """What tables whose newest line says that they were taken back have less than by the books, and no reset has noted
    yet. A table that does not keep every row tells nothing, nor does one whose files are damaged."""
    last = folder.books.last()
    names = {name for name, table in tables_of(pipeline, folder) if _is_taken_back(table)}
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


def _is_taken_back(table: Table) -> bool:
    try:
        last = table.last()
    except LedgerError:
        return False
    return last is not None and last.what == "rewind"
