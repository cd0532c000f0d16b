"""The follower's arithmetic: where to truncate when the leader's log diverges, and what follows.

Decides: the truncation point (KIP-101, KIP-279, KIP-320). Does not truncate or fetch. Read next: ``partition.py``.
"""

from __future__ import annotations

from enum import Enum, auto

from moldau.model import Code
from moldau.replication.epochs import NO_EPOCH, EpochTable


class Next(Enum):
    """What a follower's broker does with a fetch response, after the effects."""

    DROP = auto()  # it belongs to another epoch or position: forget it, records too (KAFKA-7786)
    APPEND = auto()  # append its records verbatim, then call Partition.appended_from_leader
    REFETCH = auto()  # the log was cut: fetch again at the new position
    BACK_OFF = auto()  # the leader cannot answer now: fetch again a little later
    AWAIT_IMAGE = auto()  # this replica is stale: stop fetching until the image changes
    ASK_RANGE = auto()  # out of range: learn the leader's log start and end, then call Partition.out_of_range


def truncation_point(own: EpochTable, own_end: int, answered_epoch: int, answered_end: int) -> int:
    """Return the offset a follower's log must end at, given the leader's (largest epoch <= ours, where it ends there).

    Without the leader's epoch, cut to the end of our largest epoch below it; the next fetch asks again from there
    (KIP-279: the epoch matters, not its end alone, or fast leader changes leave logs that differ). The result is never
    above either end.
    """
    epoch, end = own.end_offset_for(answered_epoch, own_end)
    if epoch == NO_EPOCH:
        return min(answered_end, own_end)
    if epoch != answered_epoch:
        return min(end, own_end)
    return min(end, answered_end, own_end)


AFTER_ERROR = {
    Code.FENCED_LEADER_EPOCH: Next.AWAIT_IMAGE,
    Code.OFFSET_OUT_OF_RANGE: Next.ASK_RANGE,
}
"""What follows an error in a fetch response; all others mean BACK_OFF (the leader lags behind us, or fails)."""
