"""When a segment is full, or old enough, for another to begin.

Decides from size, first and newest timestamp, index size and configuration; ``log.py`` does the rolling. The rules are
those of Apache Kafka: time is counted in the records' own timestamps where they have any.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from moldau.ports import Random
from moldau.storage.config import LogConfig
from moldau.storage.segment import Mark, Segment


class Incoming(NamedTuple):
    """What is about to be appended: bytes in all, batches, the time."""

    size: int
    marks: Sequence[Mark]
    now_ms: int


def roll_due(active: Segment, incoming: Incoming, config: LogConfig, jitter_ms: int) -> bool:
    """Whether ``incoming`` belongs into a new segment rather than into the (not empty) active one."""
    if active.size + incoming.size > config.roll_bytes:
        return True
    began = active.begin_timestamp()
    if began is not None and began >= 0:
        marks = incoming.marks
        newest = marks[0].max_timestamp if len(marks) == 1 else max(mark.max_timestamp for mark in marks)
        waited = newest - began
    else:
        waited = incoming.now_ms - active.created_ms
    # A record must become compactable in time, and the active segment is never compacted (KIP-354).
    most = min(config.segment_ms, config.max_compaction_lag_ms) if config.compact else config.segment_ms
    return waited > most - jitter_ms or active.index_full(config.segment_index_bytes)


def jitter(config: LogConfig, random: Random | None) -> int:
    """How much earlier than segment.ms the next segment rolls, so that not all partitions roll together."""
    most = min(config.segment_jitter_ms, config.segment_ms)
    return random.below(most) if random is not None and most > 0 else 0
