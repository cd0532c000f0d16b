"""What a run is refused by where checkpoint and books do not belong together, and what leads on, as commands.

Read next: folder.py (when a checkpoint is lost), unfinished.py.
"""

from __future__ import annotations

from moldau.pipeline.begun import ABANDON
from moldau.pipeline.books import BATCH, NotBalanced
from moldau.pipeline.folder import BrokenPipelineFile, PipelineFolder
from moldau.pipeline.said import RESET
from moldau.pipeline.spec import Pipeline
from moldau.pipeline.unfinished import unfinished
from moldau.spark.tables import LedgerError
from moldau.spark.tables.ledger import starting_offsets


def refuse_lost_checkpoint(pipeline: Pipeline, folder: PipelineFolder) -> None:
    """BrokenPipelineFile where a run would begin anew, and the books say that it goes on: all would be read twice."""
    if folder.has_lost_checkpoint():
        raise BrokenPipelineFile(f"{folder.lost_checkpoint}: {way_on(pipeline, folder)}")


def refuse_contradictions(folder: PipelineFolder) -> None:
    """NotBalanced where Spark has committed what the books do not have, as with a checkpoint that is another
    pipeline's: a run with nothing new to read would end as if all were well."""
    if found := folder.contradictions():
        raise NotBalanced(f"{'; '.join(found)}: restore what is missing, or {RESET}")


def way_on(pipeline: Pipeline, folder: PipelineFolder) -> str:
    """What leads on from a checkpoint that is gone."""
    end = end_of_books(pipeline, folder)
    told = f"restore it, or {RESET}" + ("" if end is None else f"; --to '{end}' goes on where the books end")
    for one in unfinished(pipeline, folder):
        if one.kind == BATCH:
            told += f". {one.to_text()}: before a reset {ABANDON}, else its rows stand there twice"
    return told


def end_of_books(pipeline: Pipeline, folder: PipelineFolder) -> str | None:
    """Where the newest batch of the books ended, as a reset is told; None of a table's feed, or where it is not
    known."""
    last = folder.books.last()
    if last is None or last.totals.end is None or pipeline.source.feed is not None:
        return None
    try:
        return starting_offsets(tuple(last.totals.end))
    except LedgerError:
        return None
