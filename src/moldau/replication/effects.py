"""What the partition machine asks its shell to do: an ordered list, each finished before the next.

Decides nothing. The shell executes them against storage, the fetchers, the waiting room and the controller. An empty
tuple is the common answer and costs nothing. Read next: ``partition.py``.
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
    """Throw the whole log away and begin again, empty, at ``offset`` (the leader no longer has what we need)."""

    offset: int


class AdvanceLogStart(NamedTuple):
    """The leader's log now begins at ``offset``: forget what is below."""

    offset: int


class HighWatermark(NamedTuple):
    """The high watermark moved up to ``offset``: look at parked fetches and produces of this partition."""

    offset: int


class Follow(NamedTuple):
    """Fetch from ``leader`` under ``leader_epoch``, replacing any other fetching of this partition."""

    leader: int
    leader_epoch: int


class StopFollowing(NamedTuple):
    """Fetch this partition from nobody."""


class StartedLeading(NamedTuple):
    """Produces may be taken under ``leader_epoch``."""

    leader_epoch: int


class StoppedLeading(NamedTuple):
    """Everything parked on this partition is answered NOT_LEADER_OR_FOLLOWER."""


class AlterIsr(NamedTuple):
    """Send AlterPartition; its answer returns through ``Partition.isr_answered`` with the same ``serial``.

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
