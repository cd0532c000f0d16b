"""What Spark tells its listeners of a batch, as far as ours look at it. The names are Spark's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class SourceProgress:
    """One source: the end of the batch, as text."""

    endOffset: str | None


@dataclass(frozen=True)
class QueryProgress:
    """One batch of a query."""

    sources: Sequence[SourceProgress]
    name: str = "q"
    batchId: int = 0


@dataclass(frozen=True)
class ProgressEvent:
    """What a listener is given."""

    progress: QueryProgress
