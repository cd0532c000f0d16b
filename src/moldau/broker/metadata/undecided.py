"""What an image loses although nobody has decided it: replicas that stay as they are, logs that are only set aside, and
partitions of which clients are told all the same.

In ZooKeeper mode an image is read from znodes, which any client may damage or remove. Told by the plane before it
changes the image; the replicas ask when they carry the change out. Empty in KRaft mode.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from moldau.image import Image, Partition, Topic
from moldau.image.delta import Delta, PartitionDelta
from moldau.image.partition import Key
from moldau.model import TopicPartition

log = logging.getLogger(__name__)

UNKNOWN = -1
"""The leader epoch of a partition of which nothing can be read: one that is known here may be an old one."""


class Undecided:
    """One broker's. ``kept``: nobody can decide about these now; a change that leaves them out changes nothing.

    Beside them it knows the partitions whose logs are set aside when they go, each until it is taken.
    """

    def __init__(self) -> None:
        self.may_be_partial = False
        """Whether a topic may lack partitions: in ZooKeeper mode. There they are counted each time clients ask."""
        self.kept: frozenset[Key] = frozenset()
        self.awaited: Mapping[TopicPartition, bytes] = {}
        """Replicas of this broker, as it starts, and their topics' ids: the assignment stands, and nobody has decided
        who leads. Their logs stay."""
        self._last_awaited: dict[tuple[str, bytes], int] = {}
        """Name and id of a topic -> the highest number of its partitions, where some are awaited, be it elsewhere."""
        self._vanished: set[TopicPartition] = set()
        self._unread: dict[bytes, Topic] = {}
        """Id of a topic in the image -> the topic as it was known, where something of it could not be read since."""
        self._by_id: dict[bytes, Topic] = {}

    def topic_of_replica(self, image: Image, broker_id: int, partition: TopicPartition) -> bytes | None:
        """The topic id of a partition that has a replica on the broker, or is to have one; None of another."""
        assigned = image.partition(image.names.get(partition.topic, b""), partition.partition)
        if assigned is None:
            return self.awaited.get(partition)
        return assigned.topic_id if broker_id in assigned.replicas else None

    def wait_for(self, replicas: Mapping[TopicPartition, bytes], last: Mapping[tuple[str, bytes], int]) -> None:
        """``replicas``: see ``awaited``. ``last``: name and id of a topic -> the highest number of its partitions that
        somebody has decided of, where this broker may know of fewer."""
        self.awaited = replicas
        self._last_awaited = dict(last)
        for partition, id in replicas.items():
            topic = (partition.topic, id)
            self._last_awaited[topic] = max(partition.partition, self._last_awaited.get(topic, -1))

    def vanish(self, partitions: Iterable[TopicPartition], *, only: bool = False) -> None:
        """These are about to go, and nobody has decided it. ``only``: no others."""
        self._vanished = set(partitions) if only else self._vanished.union(partitions)

    def unread(self, topics: Iterable[tuple[bytes, Topic]]) -> None:
        """These topics, each under the id that it has in the image, have partitions that the image does not."""
        self._unread = dict(topics)
        self._by_id = {known.id: known for known in self._unread.values()}

    def topic(self, image: Image, id: bytes) -> Topic | None:
        """The topic of an id as ``whole`` has it, None when there is none."""
        found = image.topics.get(id)
        if found is None and (known := self._by_id.get(id)) is not None:
            found = image.topic(known.name)
        whole = None if found is None else self.whole(found)
        return whole if whole is not None and whole.id == id else None

    def whole(self, topic: Topic) -> Topic:
        """A topic with all its partitions: those too of which nothing can be read, as they were known, or else led by
        nobody, and without a leader epoch. Clients count partitions to find the one of a key or of a group: in a topic
        with fewer of them it is another.
        """
        if not self.may_be_partial:
            return topic
        known, parts = self._unread.get(topic.id), topic.partitions
        count = max(max(parts, default=-1), self._last_awaited.get((topic.name, topic.id), -1)) + 1
        if known is None and len(parts) == count:
            return topic
        id = topic.id
        if known is not None:
            unread = {number: each._replace(leader_epoch=UNKNOWN) for number, each in known.partitions.items()}
            id, parts = known.id, {**unread, **parts}
            count = max(count, max(parts, default=-1) + 1)
        every = {n: parts.get(n) or Partition(id, n, (), (), leader_epoch=UNKNOWN) for n in range(count)}
        return Topic(topic.name, id, None, every)

    def decided(self, image: Image, delta: Delta) -> list[PartitionDelta]:
        """The changes that are to be carried out: not those that leave out what is kept, and the end of all partitions
        of a topic that goes, also of those that the image lacked."""
        changes = [each for each in delta.changes(image) if each.after is not None or each.key not in self.kept]
        gone = [known for id, known in self._unread.items() if id in delta.topics and id not in image.topics]
        if gone:
            named = {change.key for change in changes}
            parts = [(topic.name, part) for topic in gone for part in topic.partitions.values()]
            changes += [PartitionDelta(name, part.key, part, None) for name, part in parts if part.key not in named]
        return changes

    def take(self, partition: TopicPartition) -> bool:
        """Whether the partition goes although nobody has decided it. The next one of that name is another."""
        if partition not in self._vanished:
            return False
        self._vanished.remove(partition)
        log.warning("the log of %s is set aside: nobody has decided that it is to go", partition)
        return True
