"""What became of each partition of a controller's request in ZooKeeper mode; a code of NONE says that it was done."""

from __future__ import annotations

from moldau.image.partition import Key
from moldau.model import Code, TopicPartition
from moldau.model.named import NamedTuple


class RoleOutcome(NamedTuple):
    """The outcome of a partition that LeaderAndIsr has this broker lead or follow."""

    topic: str
    topic_id: bytes
    partition: int
    code: Code

    @property
    def key(self) -> Key:
        return self.topic_id, self.partition


class StopOutcome(NamedTuple):
    """The outcome of a partition whose replica here StopReplica stops or deletes."""

    topic: str
    partition: int
    code: Code

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)
