"""What a data source over a cluster's files reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow

    from moldau.clusterdata.columns import Column


class PlainTable(ABC):
    """What a source reads: columns, tasks that share nothing, and the batches of a task. Spark sends it to workers."""

    columns: tuple[Column, ...]
    split_bytes: int = 32 << 20
    """How much a partition of Spark's has to read, about."""

    @abstractmethod
    def tasks(self) -> Sequence[object]:
        """The work, cut up."""

    @abstractmethod
    def batches(self, task: Any) -> Iterator[pyarrow.RecordBatch]:  # Any: each table has tasks of its own
        """The rows of a task."""
