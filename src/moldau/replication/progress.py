"""The progress of one follower, as its leader knows it from fetches in this leader epoch, and nothing older.

Decides: when the follower was last caught up (the time that replica.lag.time.max.ms is counted from). Does not decide
who is in the ISR; ``partition.py`` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

UNKNOWN = -1


class Progress:
    """One follower as its leader sees it. New with every leader epoch: a fetch of an older one proves nothing."""

    __slots__ = ("broker_epoch", "last_caught_up_ms", "last_fetch_leader_end", "last_fetch_ms", "leo", "log_start")

    def __init__(self, last_caught_up_ms: int | None) -> None:
        """``last_caught_up_ms`` is the election's time for a member of the ISR, None (never) for others."""
        self.leo = UNKNOWN
        self.log_start = UNKNOWN
        self.broker_epoch = UNKNOWN
        self.last_caught_up_ms = last_caught_up_ms
        self.last_fetch_leader_end = UNKNOWN
        self.last_fetch_ms: int | None = None

    @property
    def fetched(self) -> bool:
        """Return whether it has fetched in this leader epoch at all."""
        return self.leo != UNKNOWN

    def fetched_from(self, offset: int, log_start: int, leader_end: int, now_ms: int) -> None:
        """Note a fetch at ``offset``: the follower holds all below. It is caught up if that is our end, and was at its
        previous fetch if it has reached what was our end then: a steady stream of appends must not look like lag. Never
        less recently than it was before: a session that its follower has left may be heard of after the next one."""
        caught_up_ms = None
        if offset >= leader_end:
            caught_up_ms = now_ms
        elif self.last_fetch_ms is not None and offset >= self.last_fetch_leader_end:
            caught_up_ms = self.last_fetch_ms
        if caught_up_ms is not None:
            before = self.last_caught_up_ms
            self.last_caught_up_ms = caught_up_ms if before is None else max(before, caught_up_ms)
        self.leo = offset
        self.log_start = log_start
        self.last_fetch_leader_end = leader_end
        self.last_fetch_ms = now_ms

    def caught_up(self, leader_end: int, now_ms: int, lag_max_ms: int) -> bool:
        """Return whether it holds all we have, or did within the last ``lag_max_ms``."""
        if self.leo == leader_end:
            return True
        return self.last_caught_up_ms is not None and now_ms - self.last_caught_up_ms <= lag_max_ms


def drop(followers: Mapping[int, Progress], before: Sequence[int], after: Sequence[int]) -> list[int]:
    """Return the progress of a replica that left the ISR. Until it fetches again it is not waited for nor added: a
    broker that dies or leaves is removed from one partition after another, and fenced after the last one."""
    dropped = [broker for broker in before if broker not in after and broker in followers]
    for broker in dropped:
        followers[broker].last_caught_up_ms = None
    return dropped
