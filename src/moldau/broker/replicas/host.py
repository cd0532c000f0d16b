"""The replica manager as its parts see it: where they find replicas, have effects done, and tell what has failed.

Decides nothing: ``replicas/manager.py`` is what it describes. The parts import this and not the manager, which imports
them.
"""

from __future__ import annotations

from collections.abc import Callable

from moldau.broker.purgatory import DelayedOperationPurgatory
from moldau.broker.replicas.deps import ReplicaManagerDeps
from moldau.broker.replicas.examinations import Examinations
from moldau.broker.replicas.fetch.cold_reads import ColdReads
from moldau.broker.replicas.replica import Key, Replica
from moldau.broker.replicas.throttles import Throttles
from moldau.image import Image
from moldau.model import Code, TopicPartition
from moldau.model.protocol import Protocol
from moldau.replication.effects import Effects
from moldau.storage import LogDirs, LogError


class ReplicaHost(Protocol):
    """All replicas of a broker, with what they share."""

    me: int
    deps: ReplicaManagerDeps
    logs: LogDirs
    by_key: dict[Key, Replica]
    by_partition: dict[TopicPartition, Replica]
    unreachable: dict[Key, TopicPartition]
    on_lost: Callable[[], object]
    purgatory: DelayedOperationPurgatory
    examinations: Examinations
    cold_reads: ColdReads
    throttles: Throttles
    failed_fetches: int

    @property
    def image(self) -> Image: ...

    @property
    def awaits_disk(self) -> bool:
        """Whether a log's flush, recovery point or folder is under way, which its next fetch waits for."""

    def find(self, topic: str, number: int) -> Replica | Code: ...

    def find_by_id(self, topic_id: bytes, number: int) -> Replica | Code: ...

    def act(self, replica: Replica, effects: Effects) -> None:
        """Do what a machine asks."""

    def failed(self, error: LogError) -> None:
        """Storage failed."""

    def place(self, key: Key) -> None:
        """The log of the replica lies in another directory now, or in none."""

    def flushed(self, replica: Replica) -> None:
        """What the replica fetched is durable, as far as that is wanted: fetch on."""

    def settled(self, replica: Replica) -> None:
        """The replica may answer for more of its log."""
