"""Values of the partition machine: a broker's role, the configs it obeys, and an ISR change in flight.

Decides nothing. Read next: ``partition.py``.
"""

from __future__ import annotations

from enum import Enum

NOBODY = -1
"""The leader of a partition that has none."""


class Role(Enum):
    """The role of this broker for the partition."""

    IDLE = "idle"  # on disk, and not assigned by the image yet
    LEADER = "leader"
    FOLLOWER = "follower"
    OFFLINE = "offline"  # its log directory failed
    REMOVED = "removed"


class Limits:
    """The two settings that replication obeys; shared by all partitions of a topic, changed in place by the broker."""

    __slots__ = ("min_insync_replicas", "replica_lag_time_max_ms")

    def __init__(self, min_insync_replicas: int = 1, replica_lag_time_max_ms: int = 30_000) -> None:
        self.min_insync_replicas = min_insync_replicas
        self.replica_lag_time_max_ms = replica_lag_time_max_ms


class Proposal:
    """An ISR change that the controller has not answered. Until it has, both ISRs may be the true one."""

    __slots__ = ("asked_ms", "isr", "waiting")

    def __init__(self, isr: tuple[int, ...], asked_ms: int) -> None:
        self.isr = isr
        self.asked_ms = asked_ms
        self.waiting = False  # refused as stale: the image will resolve it, or a sweep asks again
