"""When a segment is full, or old enough, for another to begin.

Decides from size, first and newest timestamp, index size and configuration; ``log.py`` does the rolling. The rules are
those of Apache Kafka: time is counted in the records' own timestamps where they have any.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.ports import Random
from moldau.storage.batch_extent import BatchExtent
from moldau.storage.config import LogConfig
from moldau.storage.index import TIME_ENTRY_BYTES
from moldau.storage.segment import Segment


class RollParams:
    """How far one segment may grow. Made anew for each, since ``jitter_ms`` (taken off its time) is rolled for each."""

    __slots__ = ("_bytes", "_entries", "_index_bytes", "_ms", "jitter_ms")

    def __init__(self, config: LogConfig, random: Random | None) -> None:
        most = min(config.segment_jitter_ms, config.segment_ms)
        self.jitter_ms = random.below(most) if random is not None and most > 0 else 0
        # A record must become compactable in time, and the active segment is never compacted (KIP-354).
        time = min(config.segment_ms, config.max_compaction_lag_ms) if config.compact else config.segment_ms
        self._ms = time - self.jitter_ms
        self._bytes = config.roll_bytes
        self._index_bytes = config.segment_index_bytes
        self._entries = config.segment_index_bytes // TIME_ENTRY_BYTES - 1

    def exceeded(self, active: Segment, size: int, extents: Sequence[BatchExtent], now_ms: int) -> bool:
        """Whether ``size`` bytes of new batches belong into a new segment rather than into the active one."""
        began = active.first_timestamp
        if (  # one batch, an ordinary segment: nearly always
            began is not None
            and began >= 0
            and len(extents) == 1
            and extents[0].max_timestamp - began <= self._ms
            and active.size + size <= self._bytes
            and active.entries < self._entries
        ):
            return False
        if not active.size:
            return False
        if active.size + size > self._bytes:
            return True
        began = active.begin_timestamp()
        if began is not None and began >= 0:
            waited = max(extent.max_timestamp for extent in extents) - began
        else:
            waited = now_ms - active.created_ms
        return waited > self._ms or active.index_full(self._index_bytes)
