"""A topic of a cluster, as publishers write to it: made if need be, read from its end, appended to batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from moldau.client.admin import NewTopic, create_topics
from moldau.client.client import Refused
from moldau.client.partitioner import partition_of
from moldau.client.reading import EARLIEST, LATEST, FetchOptions
from moldau.client.sync import Cluster
from moldau.model import Code, TopicPartition
from moldau.publishing.records import PublishedRecord, key_of, place_in
from moldau.publishing.stream import Away, NotTaken
from moldau.wire import batch

WINDOW, WINDOW_MAX = 512, 16_384
"""How many offsets are read at once on the way back from the end: at first, and at most."""
FETCH = FetchOptions(max_wait_ms=0, max_bytes=1 << 20)
REPLICAS_MAX = 3
STATE_CHANGES, METRICS = "__moldau_state_changes", "__moldau_metrics"
CONFIGS: Mapping[str, Mapping[str, str]] = {
    STATE_CHANGES: {"cleanup.policy": "delete", "retention.ms": "604800000", "retention.bytes": "1073741824"},
    METRICS: {"cleanup.policy": "delete", "retention.ms": "172800000", "retention.bytes": "1073741824"},
}
"""What the topics are made with: a week and two days, a GiB of each at most."""


class ClusterTopic:
    """One topic, over a connection that nobody else uses at the same time. ``like``: the topic whose settings it is
    made with."""

    def __init__(self, cluster: Cluster, name: str, *, like: str, replicas: int | None = None) -> None:
        self.name = name
        self._cluster, self._like, self._replicas = cluster, like, replicas
        self._partitions: list[int] = []

    def is_there(self) -> bool:
        """Whether the cluster has it."""
        try:
            topic = self._cluster.topics([self.name]).get(self.name)
        except Refused as error:
            raise _trouble(error.code, str(error)) from error
        except OSError as error:
            raise Away(str(error)) from error
        self._partitions = sorted(topic.partitions) if topic is not None else []
        return topic is not None

    def ensure(self) -> None:
        """Make it with one partition, if it is not there. Of three replicas two must have what is acknowledged."""
        if self.is_there():
            return
        try:
            replicas = self._replicas or max(min(REPLICAS_MAX, len(self._cluster.brokers())), 1)
            configs = {**CONFIGS[self._like], "min.insync.replicas": str(max(replicas - 1, 1))}
            new = NewTopic(name=self.name, partitions=1, replication_factor=replicas, configs=configs)
            outcome = self._cluster.run(create_topics(self._cluster.client, [new]))[self.name]
        except Refused as error:
            raise _trouble(error.code, str(error)) from error
        except OSError as error:
            raise Away(str(error)) from error
        if outcome.code not in (Code.NONE, Code.TOPIC_ALREADY_EXISTS):
            raise _trouble(outcome.code, f"topic {self.name} is not made", outcome.message)
        self._partitions = []

    def partition_for(self, node: int) -> int:
        """As every client would choose it by the node's key."""
        return partition_of(key_of(node), len(self._known()))

    def producer(self) -> tuple[int, int]:
        """A new producer id and its epoch."""
        try:
            return self._cluster.producer_id()
        except Refused as error:
            raise Away(str(error)) from error
        except OSError as error:
            raise Away(str(error)) from error

    def append(self, partition: int, records: bytes) -> Code:
        """Write a batch with all in sync; what stands. Away where it is not known whether it is written."""
        written = self._cluster.produce(TopicPartition(self.name, partition), records)
        if written.code is Code.UNKNOWN_TOPIC_OR_PARTITION:
            self._partitions = []
        elif written.code.retriable or written.code is Code.NETWORK_EXCEPTION:
            raise Away(f"topic {self.name}: {written.message or written.code.name}")
        return written.code

    def newest(self, node: int) -> Iterator[PublishedRecord]:
        """The records of a node, the newest first. They stay in the partition in which they began, whatever the number
        of partitions is since."""
        if not self._partitions and not self.is_there():
            return
        first = self.partition_for(node)
        for partition in sorted(self._partitions, key=lambda one: one != first):
            began = False
            for one in self._backwards(partition, key_of(node)):
                began = True
                yield one
            if began:
                return

    def _known(self) -> list[int]:
        if not self._partitions and not self.is_there():
            self.ensure()
            if not self.is_there():
                raise Away(f"topic {self.name} is not there yet")
        return self._partitions

    def _backwards(self, partition: int, key: bytes) -> Iterator[PublishedRecord]:
        target = TopicPartition(self.name, partition)
        start, end = (self._offset(target, at) for at in (EARLIEST, LATEST))
        window = WINDOW
        while end > start:
            begin = max(start, end - window)
            yield from reversed(self._read(target, begin, end, key))
            end, window = begin, min(2 * window, WINDOW_MAX)

    def _offset(self, target: TopicPartition, at: int) -> int:
        found = self._cluster.offsets({target: at})[target]
        if found.code is not Code.NONE:
            raise _trouble(found.code, f"offsets of {target}")
        return found.offset

    def _read(self, target: TopicPartition, start: int, end: int, key: bytes) -> list[PublishedRecord]:
        found = []
        at = start
        while at < end:
            fetched = self._cluster.fetch(target, at, FETCH)
            if fetched.code is not Code.NONE:
                raise _trouble(fetched.code, f"records of {target}")
            for position, header in batch.headers(fetched.records):
                if header.is_control:
                    continue
                writer = (header.producer_id, header.producer_epoch), header.last_sequence
                for record in batch.records(fetched.records, position):
                    place = place_in(record.headers) if record.key == key and start <= record.offset < end else None
                    if place is not None:
                        value = record.value or b""
                        found.append(PublishedRecord(place, value, target.partition, record.timestamp, *writer))
            if fetched.next_offset <= at:
                if fetched.high_watermark < end:  # another leader, that has not heard of these yet
                    raise Away(f"records of {target} from {at} on are not shown yet")
                break
            at = fetched.next_offset
        return found


def _trouble(code: Code, what: str, message: str | None = None) -> Exception:
    """What is raised where the cluster answered so."""
    text = f"{what}: {message or code.name}"
    return Away(text) if code.retriable or code is Code.NETWORK_EXCEPTION else NotTaken(text)
