"""How much of a log waits for compaction, and whether it is worth a run.

Decides from what is committed and known to be durable, min.compaction.lag.ms and max.compaction.lag.ms. Read next:
``compaction.py`` (the run), ``compactions.py`` (which log of a broker is next).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.model.named import NamedTuple

if TYPE_CHECKING:
    from moldau.storage.log import Log

LONG_MAX = (1 << 63) - 1


class Dirt(NamedTuple):
    """How much of a log waits for compaction: the first segment not yet compacted, one past the last that may be."""

    ratio: float
    first: int
    last: int
    overdue: bool


def measure(log: Log, now_ms: int) -> Dirt | None:
    """What could be compacted now; None for a log without compaction or with nothing to do.

    OSError or CorruptLog when a segment cannot be read that min.compaction.lag.ms or max.compaction.lag.ms asks about.
    """
    config = log.config
    segments = log.segments
    if not config.compact or len(segments) < 2:
        return None
    if log.known_producers is None and log.dir.on_cut is not None:
        return None  # what is decided is being read again, in steps (``truncation.restore_in_slices``)
    first = log.segment_at(max(log.cleaned_to, segments[0].base_offset))
    last = len(segments) - 1  # never the active one
    if log.awaits_file:  # nor the last that has a file: a crash must find one that says where the log ends
        last -= 1
    # Not beyond what the checkpoint says is durable: a start that reads a compacted segment would take its gaps for
    # losses.
    limit = min(log.producers.stable_offset(log.high_watermark), log.restart_point)
    unsaved = next((segment.base_offset for segment in segments if segment in log.sealed or segment.saving), limit)
    limit = min(limit, unsaved)
    while last > first and segments[last].base_offset > limit:
        last -= 1
    if config.min_compaction_lag_ms > 0:
        newest = now_ms - config.min_compaction_lag_ms
        last = next((n for n in range(first, last) if segments[n].largest_timestamp() > newest), last)
    dirty = sum(segment.size for segment in segments[first:last])
    if last <= first or not dirty:
        return None
    overdue = False
    if config.max_compaction_lag_ms < LONG_MAX:
        began = segments[first].begin_timestamp()
        overdue = began is not None and 0 <= began < now_ms - config.max_compaction_lag_ms
    return Dirt(dirty / sum(segment.size for segment in segments[:last]), first, last, overdue)


def is_due(log: Log, dirt: Dirt) -> bool:
    """Whether the dirt has reached min.cleanable.dirty.ratio, or a record max.compaction.lag.ms."""
    return dirt.overdue or dirt.ratio >= log.config.min_cleanable_dirty_ratio


def dirty_bytes(log: Log) -> int:
    """The size of the sealed segments that were never compacted."""
    first = log.segment_at(max(log.cleaned_to, log.segments[0].base_offset))
    return sum(segment.size for segment in log.segments[first:-1])
