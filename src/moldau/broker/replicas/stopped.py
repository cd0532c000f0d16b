"""Replicas that stopped and were not deleted (StopReplica in ZooKeeper mode): their logs wait for what comes next.

They neither lead nor follow until LeaderAndIsr gives them a part again; a request that deletes them, or an image
without them, deletes their logs. Empty in KRaft mode.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import count

from moldau.broker.replicas.replica import Replica
from moldau.image import Image
from moldau.image import Partition as Assigned
from moldau.image.partition import Key
from moldau.model import TopicPartition
from moldau.model.protocol import Protocol

log = logging.getLogger(__name__)


BEGUN_AT_ONCE = 4
"""Replicas that are opened again in one turn of the loop: each touches the disk."""


class Retiring(Protocol):
    """Where replicas are taken from."""

    me: int
    by_key: dict[Key, Replica]

    def retire(self, key: Key, *, deleted: bool = False) -> TopicPartition | None:
        """End a replica, and leave its log as it is; None if no replica was here."""


class StoppedReplicas:
    """One broker's."""

    def __init__(self, replicas: Retiring) -> None:
        self._replicas = replicas
        self._partitions: dict[Key, TopicPartition] = {}
        self._resuming: dict[Key, TopicPartition] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._partitions

    def __bool__(self) -> bool:
        return bool(self._partitions)

    def stop(self, key: Key) -> None:
        """End leading or following, and keep the log. Nothing for a replica that is not here, or stopped already."""
        partition = None if key in self else self._replicas.retire(key)
        if partition is not None:
            self._partitions[key] = partition
            log.info("%s: stopped; its log is kept", partition)

    def resume(self, keys: Iterable[Key]) -> None:
        """They have a part again: the image's next change of each begins it."""
        for key in keys:
            self._partitions.pop(key, None)

    def clear(self) -> None:
        """All have the part that the image gives them: this broker has become the controller. Until they have it who
        ends them finds them as stopped: their topic may go, or be marked for deletion once more, before that."""
        self._resuming.update(self._partitions)
        self._partitions.clear()

    def begin_in_slices(self, image: Image, assign: Callable[[str, Assigned, bool], None]) -> Iterator[None]:
        """Give those that have their part again what the image says of it, which may be no news."""
        for at in count(1):
            if not self._resuming:
                return
            key, partition = self._resuming.popitem()
            assigned = image.partition(*key)
            if assigned is not None and self._replicas.me in assigned.replicas and key not in self._replicas.by_key:
                assign(partition.topic, assigned, False)
                if not at % BEGUN_AT_ONCE:
                    yield

    def end(self) -> None:
        """The broker stops: none begins any more."""
        self._resuming.clear()

    def take(self, key: Key) -> TopicPartition | None:
        """A stopped replica's partition, which is to be here no longer; None if it was not stopped."""
        return self._partitions.pop(key, None) or self._resuming.pop(key, None)
