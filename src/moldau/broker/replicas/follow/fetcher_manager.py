"""Following: who fetches which partitions from which leader, who has num.replica.fetchers fetchers, one by default.

Decides nothing about replication; it keeps the assignment of partitions to fetchers and closes fetchers that have
nothing left to follow. Read next: ``replicas/follow/fetcher.py``, the conversation with one leader.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from moldau.broker.replicas.follow.fetcher import Fetcher
from moldau.broker.replicas.host import ReplicaHost
from moldau.broker.replicas.replica import Key, Replica

LOOKED_AT_ONCE = 1000
"""Partitions whose log starts are compared in one turn of the loop."""
Place = tuple[int, int]
"""(leader, which of its fetchers)."""


class FetcherManager:
    """All fetchers of a broker, by leader and number."""

    def __init__(self, replicas: ReplicaHost) -> None:
        self._replicas = replicas
        self._count: int = replicas.deps.config["num.replica.fetchers"]
        self._fetchers: dict[Place, Fetcher] = {}
        self._place_of: dict[Key, Place] = {}

    def follow(self, replica: Replica, leader: int) -> None:
        """Fetch this partition from ``leader``, under the machine's present leader epoch, and from nobody else."""
        topic_id, number = replica.key
        place = leader, (int.from_bytes(topic_id[-4:], "big") + number) % self._count
        before = self._place_of.get(replica.key)
        if before is not None and before != place:
            self.unfollow(replica)
        self._place_of[replica.key] = place
        fetcher = self._fetchers.get(place)
        if fetcher is None:
            fetcher = self._fetchers[place] = Fetcher(self._replicas, leader)
        fetcher.follow(replica)

    def unfollow(self, replica: Replica) -> None:
        """Fetch this partition from nobody."""
        place = self._place_of.pop(replica.key, None)
        if place is None:
            return
        fetcher = self._fetchers[place]
        fetcher.unfollow(replica)
        if not fetcher.followed:
            fetcher.stop()
            del self._fetchers[place]

    def flushed(self, replica: Replica) -> None:
        """What was fetched is durable, as far as that is wanted: fetch on."""
        place = self._place_of.get(replica.key)
        if place is not None:
            self._fetchers[place].flushed(replica)

    def starts_moved_in_slices(self) -> Generator[None, None, None]:
        """Retention has looked at all logs: tell leaders of those whose start moved. Pauses after some."""
        for at, (key, (leader, number)) in enumerate(list(self._place_of.items()), 1):
            fetcher, replica = self._fetchers.get((leader, number)), self._replicas.by_key.get(key)
            if fetcher is not None and replica is not None:
                fetcher.start_moved(replica)
            if not at % LOOKED_AT_ONCE:
                yield

    def reconfigure(self) -> None:
        """num.replica.fetchers may have changed: share the partitions out anew."""
        count: int = self._replicas.deps.config["num.replica.fetchers"]
        if count == self._count:
            return
        self._count = count
        followed = [(one.replica, f.leader) for f in self._fetchers.values() for one in f.followed.values()]
        for replica, leader in followed:
            self.follow(replica, leader)

    def __iter__(self) -> Iterator[Fetcher]:
        return iter(self._fetchers.values())

    def __len__(self) -> int:
        """How many fetchers there are."""
        return len(self._fetchers)

    def brokers_changed(self, ids: set[int]) -> None:
        """These brokers registered anew, moved, or were fenced or unfenced."""
        for (leader, _), fetcher in self._fetchers.items():
            if leader in ids:
                fetcher.leader_changed()

    def stop(self) -> None:
        for fetcher in self._fetchers.values():
            fetcher.stop()
        self._fetchers.clear()
        self._place_of.clear()
