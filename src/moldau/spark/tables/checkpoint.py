"""From where to where a batch reads: out of the offset log in the query's checkpoint.

Spark writes ``offsets/N`` before it runs batch N: two lines of its own, then one line per source with the offsets at
the batch's end; the batch begins where ``offsets/N-1`` ends. Where the very first batch begins Spark keeps to itself
for sources in Python; there the pinned first positions are taken, when they lie in the checkpoint.
Source: Spark's HDFSMetadataLog and OffsetSeqLog, version 1. Read next: ledger.py.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from moldau.model.protocol import Protocol
from moldau.spark.query import query_id
from moldau.spark.tables.ledger import BatchKey, Offsets, TableError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PIN = "initial-offsets.json"
"""The name that docs/spark.md recommends for ``initialOffsetsLocation``."""


class CheckpointFiles(Protocol):
    """Reads small files of a checkpoint; ``stores.Store`` has it."""

    def read(self, name: str) -> bytes | None:
        """The file's content, None when there is none."""


def key_of(rows: DataFrame, batch_id: int, *, checkpoint: str | None = None, name: str | None = None) -> BatchKey:
    """The key of the batch that ``foreachBatch`` is handing over just now, with its offsets where they can be read.

    ``checkpoint`` is the query's checkpointLocation: a classic session knows it by itself, Spark Connect does not.
    ``name`` stands for the query.
    """
    from moldau.spark.tables.stores import open_store

    query = name if name is not None else query_id(rows, checkpoint)
    place = checkpoint if checkpoint is not None else _checkpoint_of(rows, query)
    if place is None:
        return BatchKey(query, batch_id)
    start, end = offsets_of(open_store(place), batch_id)
    if start is None and end is not None and len(end) == 1:
        start = _planned_start(rows, query)
    return BatchKey(query, batch_id, start, end)


def offsets_of(checkpoint: CheckpointFiles, batch_id: int) -> tuple[Offsets | None, Offsets | None]:
    """The source offsets where the batch begins and where it ends, None where the checkpoint does not say."""
    end = _read_offsets(checkpoint, batch_id)
    if batch_id > 0:
        return _read_offsets(checkpoint, batch_id - 1), end
    pinned = checkpoint.read(PIN)
    if pinned is None or end is None or len(end) != 1:
        return None, end
    try:
        return (json.dumps(json.loads(pinned)["offsets"]),), end
    except (ValueError, KeyError, TypeError):
        return None, end


def _read_offsets(checkpoint: CheckpointFiles, batch_id: int) -> Offsets | None:
    content = checkpoint.read(f"offsets/{batch_id}")
    if content is None:
        return None
    version, _, *sources = lines_of(content) or ["", ""]
    if version != "v1":
        raise TableError(f"the checkpoint's offsets/{batch_id} is of version {version!r}; v1 is read")
    return tuple(sources)


def lines_of(content: bytes) -> list[str]:
    """The lines of a file of Spark's, cut as bytes: within a text U+0085 and U+2028 end a line as well, which names and
    values in its JSON may have."""
    return [line.decode() for line in content.splitlines()]


def _checkpoint_of(rows: DataFrame, query: str) -> str | None:
    """The checkpoint of a query in a classic session; None where it cannot be asked (Connect)."""
    try:
        execution = _execution(rows, query)
        return None if execution is None else str(execution.resolvedCheckpointRoot())
    except Exception:  # Connect has no such objects; another version of Spark may hide them
        return None


def _planned_start(rows: DataFrame, query: str) -> Offsets | None:
    """Where the batch that is running begins, out of its plan: the one place that says it of a query's first batch."""
    try:
        leaves = _execution(rows, query).lastExecution().logical().collectLeaves()
        found = [leaf for leaf in (leaves.apply(index) for index in range(leaves.size()))
                 if leaf.getClass().getSimpleName() == "StreamingDataSourceV2ScanRelation"]  # fmt: skip
        starts = {str(leaf.startOffset().get().json()) for leaf in found}
        return (starts.pop(),) if len(starts) == 1 else None
    except Exception:  # as above, and sources of another kind
        return None


def _execution(rows: DataFrame, query: str) -> Any:  # Any: an object of the JVM
    """The running query. ``foreachBatch`` has a clone of its session, which knows no queries; what all share does."""
    session: Any = rows.sparkSession  # Any: what is below it are objects of the JVM
    id = session._jvm.java.util.UUID.fromString(query)
    return session._jsparkSession.sharedState().activeStreamingQueries().get(id)
