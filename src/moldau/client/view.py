"""What a client knows of a cluster: brokers, topics with ids, leaders. A cache that is replaced piece by piece.

Decides nothing; client.py says when to ask again. A leader that was learnt with a higher epoch is never overwritten by
an older answer (KIP-320). Source: protocol guide, Metadata; KIP-516 (topic ids).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from moldau.model import NO_UUID, Code, TopicPartition
from moldau.model.named import NamedTuple
from moldau.wire.messages.k03_metadata import MetadataResponse
from moldau.wire.messages.k60_describe_cluster import DescribeClusterResponse


class Broker(NamedTuple):
    """Where a broker listens."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class Partition(NamedTuple):
    """Who leads a partition (-1: nobody) and who follows. ``code`` is what the broker had to say about it."""

    index: int  # type: ignore[assignment]  # Kafka's noun wins over tuple.index
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]
    code: Code = Code.NONE


class Topic(NamedTuple):
    """A topic; ``topic_id`` is NO_UUID from brokers older than topic ids."""

    name: str
    topic_id: bytes
    partitions: dict[int, Partition]
    internal: bool = False


class Outcome(NamedTuple):
    """What became of one thing."""

    code: Code
    message: str | None = None
    topic_id: bytes = NO_UUID

    @property
    def ok(self) -> bool:
        return self.code is Code.NONE


class View:
    """The cache. ``cluster_id`` and ``controller_id`` are None until a broker says them."""

    def __init__(self) -> None:
        self.brokers: dict[int, Broker] = {}
        self.topics: dict[str, Topic] = {}
        self.names: dict[bytes, str] = {}
        self.cluster_id: str | None = None
        self.controller_id: int | None = None

    def leader(self, partition: TopicPartition) -> int | None:
        """The node id of a partition's leader, None when it is not known or there is none."""
        topic = self.topics.get(partition.topic)
        known = topic.partitions.get(partition.partition) if topic is not None else None
        return known.leader if known is not None and known.leader in self.brokers else None

    def leader_epoch(self, partition: TopicPartition) -> int:
        """Under which epoch we take the leader for the leader, -1 when that is not known.

        Said with every fetch, so that a broker that leads no more, or follows with a shorter log, does not answer in
        the leader's place (KIP-320).
        """
        topic = self.topics.get(partition.topic)
        known = topic.partitions.get(partition.partition) if topic is not None else None
        return known.leader_epoch if known is not None else -1

    def topic_id(self, name: str) -> bytes:
        topic = self.topics.get(name)
        return topic.topic_id if topic is not None else NO_UUID

    def forget(self, name: str) -> None:
        """Drop a topic that is not there any more."""
        topic = self.topics.pop(name, None)
        if topic is not None:
            self.names.pop(topic.topic_id, None)

    def learn(self, response: MetadataResponse, whole: bool) -> Mapping[str, Code]:
        """Take over an answer; ``whole`` when all topics were asked for. Gives the code of each topic that has one."""
        self.brokers = {b.node_id: Broker(b.node_id, b.host, b.port, b.rack) for b in response.brokers}
        self.cluster_id = response.cluster_id if response.cluster_id is not None else self.cluster_id
        self.controller_id = response.controller_id if response.controller_id >= 0 else None
        troubles: dict[str, Code] = {}
        named: set[str] = set()
        for found in response.topics:
            name = found.name if found.name is not None else self.names.get(found.topic_id, "")
            if found.error_code == Code.LEADER_NOT_AVAILABLE and not found.partitions and not whole:  # being made
                troubles[name] = Code.LEADER_NOT_AVAILABLE
            elif found.error_code in (Code.NONE, Code.LEADER_NOT_AVAILABLE):
                self._take(name, found)
                named.add(name)
            else:
                troubles[name] = Code(found.error_code)
                if found.error_code in (Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID):
                    self.forget(name)
        if whole:
            for name in set(self.topics) - named:
                self.forget(name)
        return troubles

    def learn_controllers(self, response: DescribeClusterResponse) -> None:
        """Take over a controller's answer: ``brokers`` are the controllers then, and ``controller_id`` leads them."""
        self.brokers = {c.broker_id: Broker(c.broker_id, c.host, c.port, c.rack) for c in response.brokers}
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id if response.controller_id in self.brokers else None

    def _take(self, name: str, found: MetadataResponse.MetadataResponseTopic) -> None:
        before = self.topics.get(name)
        if before is not None and before.topic_id != found.topic_id:
            self.forget(name)  # made anew under the old name: epochs start again
            before = None
        partitions = {}
        for p in found.partitions:
            now = Partition(
                p.partition_index, p.leader_id, p.leader_epoch, list(p.replica_nodes), list(p.isr_nodes),
                list(p.offline_replicas), Code(p.error_code),
            )  # fmt: skip
            old = before.partitions.get(p.partition_index) if before is not None else None
            newer = old is not None and old.leader_epoch > now.leader_epoch >= 0  # without an epoch: as it is told
            partitions[p.partition_index] = old if old is not None and newer else now
        self.topics[name] = Topic(name, found.topic_id, partitions, found.is_internal)
        if found.topic_id != NO_UUID:
            self.names[found.topic_id] = name


def by_topic(partitions: Collection[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers by topic, sorted."""
    topics: dict[str, list[int]] = {}
    for p in sorted(partitions):
        topics.setdefault(p.topic, []).append(p.partition)
    return topics
