"""Shows a query's positions to group tools: every finished batch's end, committed to a consumer group.

Spark keeps positions in its checkpoint and commits nothing, so lag is invisible outside. The option ``publishGroup``
commits when Spark tells the source that a batch is done, which is at the start of the next one: right for a query that
runs on, one batch late, and never for the last batch of ``availableNow``. This listener hears of each as it ends:
``spark.streams.addListener(PublishPositions("host:9092", "my-query"))``. For showing only; nothing is ever read back.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

from moldau.client.client import ClientOptions
from moldau.client.sync import Cluster
from moldau.model import Code, TopicPartition
from moldau.model.protocol import Protocol
from moldau.spark.offsets import decode

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )


_PATIENCE = ClientOptions(api_timeout_ms=5000)
"""All listeners of a session hear of progress on one thread, which none should hold up."""


class Committing(Protocol):
    """What is asked of a cluster; ``moldau.client.sync.Cluster`` has it."""

    def commit(self, group_id: str, offsets: dict[TopicPartition, int], /) -> Mapping[TopicPartition, Code]: ...

    def close(self) -> None: ...


def _open(bootstrap_servers: str) -> Cluster:
    return Cluster(bootstrap_servers, options=_PATIENCE)


class PublishPositions(StreamingQueryListener):
    """Commits the positions of one query (by name; of all, when None) to a group. A failure is a warning, no more."""

    def __init__(
        self,
        bootstrap_servers: str,
        group_id: str,
        query: str | None = None,
        open_cluster: Callable[[str], Committing] = _open,
    ) -> None:
        self._bootstrap, self._group, self._query = bootstrap_servers, group_id, query
        self._open = open_cluster
        self._cluster: Committing | None = None

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing is read yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """A batch is done."""
        progress = event.progress
        if self._query is not None and progress.name != self._query:
            return
        for source in progress.sources:
            positions = positions_of(source.endOffset)
            if positions:
                self._publish(positions)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing new."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """What was done has been published; the connection is opened again should another query begin."""
        self._close()

    def _close(self) -> None:
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.close()

    def _publish(self, positions: dict[TopicPartition, int]) -> None:
        try:
            if self._cluster is None:
                self._cluster = self._open(self._bootstrap)
            codes = self._cluster.commit(self._group, positions)
        except Exception as error:  # a listener that raises would be dropped, and nobody would hear of it
            self._close()
            warnings.warn(f"positions were not published to group {self._group}: {error}", stacklevel=2)
            return
        refused = {str(partition): code.name for partition, code in codes.items() if code is not Code.NONE}
        if refused:
            warnings.warn(f"positions were refused by group {self._group}: {refused}", stacklevel=2)


def positions_of(offset: str | None) -> dict[TopicPartition, int]:
    """The positions in the offset of a query's source; empty when it is another kind of source."""
    try:
        found = json.loads(offset or "null")
        return dict(decode(found).offsets) if isinstance(found, dict) else {}
    except (ValueError, AttributeError, TypeError):
        return {}
