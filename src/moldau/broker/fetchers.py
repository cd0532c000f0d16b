"""Following: who fetches which partitions from which leader. One fetcher per leader, however many partitions.

Decides nothing about replication; it keeps the assignment of partitions to fetchers and closes fetchers that have
nothing left to follow. Read next: ``fetcher.py``, the conversation with one leader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.broker.fetcher import Fetcher
from moldau.broker.replica import Key, Replica

if TYPE_CHECKING:
    from moldau.broker.replicas import Replicas


class Fetchers:
    """All fetchers of a broker, by leader."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self._by_leader: dict[int, Fetcher] = {}
        self._leader_of: dict[Key, int] = {}

    def follow(self, replica: Replica, leader: int) -> None:
        """Fetch this partition from ``leader``, under the machine's present leader epoch, and from nobody else."""
        before = self._leader_of.get(replica.key)
        if before is not None and before != leader:
            self.unfollow(replica)
        self._leader_of[replica.key] = leader
        fetcher = self._by_leader.get(leader)
        if fetcher is None:
            fetcher = self._by_leader[leader] = Fetcher(self._replicas, leader)
        fetcher.follow(replica)

    def unfollow(self, replica: Replica) -> None:
        """Fetch this partition from nobody."""
        leader = self._leader_of.pop(replica.key, None)
        if leader is None:
            return
        fetcher = self._by_leader[leader]
        fetcher.unfollow(replica)
        if not fetcher.followed:
            fetcher.stop()
            del self._by_leader[leader]

    def brokers_changed(self, ids: set[int]) -> None:
        """These brokers registered anew, moved, or were fenced or unfenced."""
        for id in ids & self._by_leader.keys():
            self._by_leader[id].leader_changed()

    def stop(self) -> None:
        for fetcher in self._by_leader.values():
            fetcher.stop()
        self._by_leader.clear()
        self._leader_of.clear()
