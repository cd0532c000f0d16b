"""What Spark tells its listeners of a batch, as far as ours look at it. The values are of Spark's own classes."""

from __future__ import annotations

import uuid

from pyspark.sql.streaming.listener import QueryProgressEvent, SinkProgress, SourceProgress, StreamingQueryProgress


def source_progress(end: str | None) -> SourceProgress:
    """One source: the end of the batch, as text; Spark's types have no None, which it tells of a source without one."""
    return SourceProgress("", "", end, "", 0, 0.0, 0.0, {})  # type: ignore[arg-type]  # see above


def query_progress(*ends: str | None, name: str = "q", batch_id: int = 0) -> StreamingQueryProgress:
    """One batch of a query whose sources end there."""
    return StreamingQueryProgress(
        id=uuid.UUID(int=1), runId=uuid.UUID(int=2), name=name, timestamp="", batchId=batch_id, batchDuration=0,
        durationMs={}, eventTime={}, stateOperators=[], sources=[source_progress(end) for end in ends],
        sink=SinkProgress("", 0, {}), numInputRows=None, inputRowsPerSecond=None, processedRowsPerSecond=None,
        observedMetrics={},
    )  # fmt: skip


def progress_event(*ends: str | None, name: str = "q", batch_id: int = 0) -> QueryProgressEvent:
    """What a listener is given of it."""
    return QueryProgressEvent(query_progress(*ends, name=name, batch_id=batch_id))
