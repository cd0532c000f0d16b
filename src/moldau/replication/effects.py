"""The effects of the partition machine: an ordered list, which the broker carries out one after another.

Decides nothing. The broker executes them on storage, fetchers, purgatory and controller. An empty tuple is the common
result and costs nothing. Read next: ``partition.py``.
"""

from __future__ import annotations

from moldau.model.named import NamedTuple


class AssignEpoch(NamedTuple):
    """Write (epoch, start offset) into the log's epoch table and its checkpoint, before any record of that epoch."""

    epoch: int
    start_offset: int


class Truncate(NamedTuple):
    """Cut the log so that it ends at ``offset``, epoch table included; the high watermark was lowered already."""

    offset: int


class Restart(NamedTuple):
    """Delete the whole log and begin again, empty, at ``offset`` (the leader no longer has what this replica needs)."""

    offset: int


class AdvanceLogStart(NamedTuple):
    """The leader's log now begins at ``offset``: forget what is below."""

    offset: int


class HighWatermark(NamedTuple):
    """The high watermark moved up to ``offset``: look at delayed fetches and produces of this partition."""

    offset: int


class Follow(NamedTuple):
    """Fetch from ``leader`` under ``leader_epoch``, replacing any other fetching of this partition."""

    leader: int
    leader_epoch: int


class StopFollowing(NamedTuple):
    """Stop fetching this partition."""


class StartedLeading(NamedTuple):
    """Produces may be taken under ``leader_epoch``."""

    leader_epoch: int


class StoppedLeading(NamedTuple):
    """Answer all delayed requests of this partition with NOT_LEADER_OR_FOLLOWER."""


class AlterIsr(NamedTuple):
    """Send AlterPartition; its response returns through ``Partition.isr_answered`` with the same ``serial``.

    ``isr`` pairs each broker id with the broker epoch that this leader saw in its fetches, or -1 (KIP-903).
    """

    serial: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]


class IsrChanged(NamedTuple):
    """The controller agreed: for the log line, the metrics, and produces that wait for a large enough ISR."""

    before: tuple[int, ...]
    after: tuple[int, ...]


Effect = (
    AssignEpoch | Truncate | Restart | AdvanceLogStart | HighWatermark | Follow | StopFollowing | StartedLeading
    | StoppedLeading | AlterIsr | IsrChanged
)  # fmt: skip
Effects = tuple[Effect, ...]
NOTHING: Effects = ()
