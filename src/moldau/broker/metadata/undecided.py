"""What an image loses although nobody has decided it: replicas that stay as they are, and logs that are only set aside.

In ZooKeeper mode an image is read from znodes, which any client may damage or remove. Told by the plane before it
changes the image; the replicas ask when they carry the change out. Empty in KRaft mode.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from moldau.image import Image
from moldau.image.delta import PartitionDelta
from moldau.image.partition import Key
from moldau.model import TopicPartition

log = logging.getLogger(__name__)


class Undecided:
    """One broker's. ``kept``: nobody can decide about these now; a change that leaves them out changes nothing.

    Beside them it knows the partitions whose logs are set aside when they go, each until it is taken.
    """

    def __init__(self) -> None:
        self.kept: frozenset[Key] = frozenset()
        self.awaited: Mapping[TopicPartition, bytes] = {}
        """Replicas of this broker, as it starts, and their topics' ids: the assignment stands, and nobody has decided
        who leads. Their logs stay."""
        self._vanished: set[TopicPartition] = set()

    def topic_of_replica(self, image: Image, broker_id: int, partition: TopicPartition) -> bytes | None:
        """The topic id of a partition that has a replica on the broker, or is to have one; None of another."""
        assigned = image.partition(image.names.get(partition.topic, b""), partition.partition)
        if assigned is None:
            return self.awaited.get(partition)
        return assigned.topic_id if broker_id in assigned.replicas else None

    def vanish(self, partitions: Iterable[TopicPartition], *, only: bool = False) -> None:
        """These are about to go, and nobody has decided it. ``only``: no others."""
        self._vanished = set(partitions) if only else self._vanished.union(partitions)

    def without_kept(self, changes: Iterable[PartitionDelta]) -> list[PartitionDelta]:
        """The changes that are to be carried out."""
        return [change for change in changes if change.after is not None or change.key not in self.kept]

    def take(self, partition: TopicPartition) -> bool:
        """Whether the partition goes although nobody has decided it. The next one of that name is another."""
        if partition not in self._vanished:
            return False
        self._vanished.remove(partition)
        log.warning("the log of %s is set aside: nobody has decided that it is to go", partition)
        return True
