"""Records that got out of reach before they were read: what they are called, and where a query says it left them out.

With ``onDataLoss=skip`` a batch's end offset, which Spark shows in every ``StreamingQueryProgress`` and keeps in the
checkpoint, names what the batch steps over. ``skipped`` reads it back, and ``listener`` makes a listener that warns
of it in the program that runs the query. Read next: offsets.py (finding losses), planner.py (fail or skip).
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from moldau.model import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryListener,
        StreamingQueryProgress,
    )

SKIPPED_KEY = "#skipped"
"""In a stream's offset: {"topic-partition": what is left out}; no topic can have this name."""
_MARKED = re.compile(r"([^;()]+) \(position (\d+), found (\d+)\)(?:; |$)")


class LossKind(StrEnum):
    """How records got out of reach before they were read."""

    PARTITION_GONE = "the partition is gone"
    NOT_LISTED = "it is not in the list of what is read any more"
    TOPIC_RECREATED = "the topic was deleted and made anew"
    LOG_WENT_BACK = "the log ends before the position: its end was cut off"
    LOG_DIVERGED = "the log was cut off before the position and has grown past it: other records are there now"
    RECORDS_EXPIRED = "the log now begins after the position: older records expired"
    NEW_PARTITION_CUT = "a partition found new does not begin at offset 0: older records expired"
    EXPIRED_MEANWHILE = "the log's beginning moved into the last batch: records may have expired while it was read"
    EXPIRED_IN_BATCH = "the log's beginning moved into this batch: records may have expired while it was read"


class Loss(NamedTuple):
    """Records lost in one partition: reading stood at ``position``, what is there now begins or ends at ``found``."""

    kind: LossKind
    partition: TopicPartition
    position: int
    found: int

    def __str__(self) -> str:
        return f"{self.partition}: {self.kind} (position {self.position}, found {self.found})"


class DataLossError(RuntimeError):
    """Records were lost and the options say to stop."""

    def __init__(self, losses: Iterable[Loss | str]) -> None:
        self.losses = tuple(losses)
        super().__init__(
            "some records can no longer be read:\n  "
            + "\n  ".join(map(str, self.losses))
            + "\nSet onDataLoss=skip (or failOnDataLoss=false) to go on with what is there."
        )


def warn(loss: Loss | str) -> None:
    """Say in this process what is left out; Spark puts what a worker says into the log of its executor."""
    warnings.warn(f"records lost, going on: {loss}", stacklevel=3)


def mark(losses: Iterable[Loss]) -> dict[str, str]:
    """What an offset says of these losses, by partition."""
    said: dict[str, str] = {}
    for loss in losses:
        one = f"{loss.kind} (position {loss.position}, found {loss.found})"
        before = said.get(str(loss.partition))
        said[str(loss.partition)] = one if before is None else f"{before}; {one}"
    return said


def skipped(offset: str | Mapping[str, object] | None) -> dict[str, str]:
    """What the batch that ends at this offset of a query's source left out, by partition; most often nothing."""
    try:
        found = json.loads(offset or "null") if isinstance(offset, str) or offset is None else offset
        said = found.get(SKIPPED_KEY, {}) if isinstance(found, Mapping) else {}
        return {str(partition): str(what) for partition, what in said.items()} if isinstance(said, Mapping) else {}
    except (ValueError, TypeError):
        return {}


def marked(offset: str) -> list[Loss]:
    """The same as ``Loss``es; kinds that this version does not know are left out."""
    kinds = {kind.value: kind for kind in LossKind}
    found = []
    for name, said in skipped(offset).items():
        topic, _, number = name.rpartition("-")
        found += [
            Loss(kinds[kind], TopicPartition(topic, int(number)), int(position), int(at))
            for kind, position, at in _MARKED.findall(said)
            if kind in kinds and number.isdecimal()
        ]
    return found


def losses_of(progress: StreamingQueryProgress) -> list[str]:
    """What one ``StreamingQueryProgress`` says was left out, over all its sources."""
    sources = progress["sources"] if isinstance(progress, Mapping) else progress.sources
    ends = [each["endOffset"] if isinstance(each, Mapping) else each.endOffset for each in sources]
    return [f"{partition}: {what}" for end in ends for partition, what in skipped(end).items()]


def warn_of(name: str | None, batch_id: int, progress: StreamingQueryProgress) -> None:
    """Warn in this process of what a batch left out."""
    for each in losses_of(progress):
        warnings.warn(f"query {name or '(no name)'}, batch {batch_id}: records lost, going on: {each}", stacklevel=2)


def listener() -> StreamingQueryListener:
    """Warns of skipped records in this process: ``spark.streams.addListener(moldau.spark.losses.listener())``."""
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class WarnOfLosses(StreamingQueryListener):
        """Looks at the end of every batch."""

        def onQueryStarted(self, event: QueryStartedEvent) -> None:
            """Nothing is read yet."""

        def onQueryProgress(self, event: QueryProgressEvent) -> None:
            """A batch is done."""
            warn_of(event.progress.name, event.progress.batchId, event.progress)

        def onQueryIdle(self, event: QueryIdleEvent) -> None:
            """Nothing new."""

        def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
            """Every batch was looked at."""

    return WarnOfLosses()
