"""A cluster in memory that answers a Feed's questions, so that planning and reading are tested without brokers."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence

from moldau.spark.decode import next_offset
from moldau.spark.feed import OffsetLost, Slice, Topic
from moldau.spark.frames import Aborted
from moldau.terms import TopicPartition
from moldau.wire.batch import build, read_header


class Log:
    """One partition: batches in order, and where its beginning has been cut."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.start = 0
        self.end = 0

    def append(self, *values: bytes, timestamp: int = 1000, **how: object) -> None:
        entries = [(timestamp + index, b"k", value, ()) for index, value in enumerate(values)]
        self.batches.append(build(entries, base_offset=self.end, **how))  # type: ignore[arg-type]
        self.end += len(values)

    def expire(self, offset: int) -> None:
        self.start = offset
        self.batches = [each for each in self.batches if read_header(each).next_offset > offset]

    def cut(self, offset: int) -> None:
        self.end = offset
        self.batches = [each for each in self.batches if read_header(each).base_offset < offset]


class Cluster:
    """Topics by name; ``generation`` makes a topic of the same name another one."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, Log] = {}
        self.ids: dict[str, bytes] = {}
        self.groups: dict[str, dict[TopicPartition, int]] = {}
        self.aborted: list[Aborted] = []
        self.asked: list[str] = []
        self.failures = 0
        self.generation = 0

    def create(self, topic: str, partitions: int = 1) -> None:
        self.generation += 1
        self.ids[topic] = hashlib.md5(f"{topic}/{self.generation}".encode()).digest()
        for number in range(partitions):
            self.logs[TopicPartition(topic, number)] = Log()

    def delete(self, topic: str) -> None:
        del self.ids[topic]
        self.logs = {source: log for source, log in self.logs.items() if source.topic != topic}

    def grow(self, topic: str) -> Log:
        number = sum(source.topic == topic for source in self.logs)
        return self.logs.setdefault(TopicPartition(topic, number), Log())

    def log(self, topic: str, partition: int = 0) -> Log:
        return self.logs[TopicPartition(topic, partition)]

    def open(self, options: object = None) -> MemoryFeed:
        return MemoryFeed(self)


class MemoryFeed:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def _ask(self, question: str) -> None:
        self.cluster.asked.append(question)
        if self.cluster.failures:
            self.cluster.failures -= 1
            raise ConnectionRefusedError(question)

    def topics(self, names: Collection[str] | None) -> Mapping[str, Topic]:
        self._ask("topics")
        return {
            name: Topic(id, tuple(each.partition for each in self.cluster.logs if each.topic == name), name[:2] == "__")
            for name, id in self.cluster.ids.items()
            if names is None or name in names
        }

    def offsets(self, asked: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        self._ask("offsets")
        return {source: self._offset(self.cluster.logs[source], at) for source, at in asked.items()}

    @staticmethod
    def _offset(log: Log, at: int) -> int:
        if at == -2:
            return log.start
        if at == -1:
            return log.end
        found: Sequence[int] = [
            header.base_offset for header in map(read_header, log.batches) if header.base_timestamp >= at
        ]
        return found[0] if found else -1

    def committed(self, group_id: str, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        self._ask("committed")
        return {each: at for each, at in self.cluster.groups.get(group_id, {}).items() if each in partitions}

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        self._ask("commit")
        self.cluster.groups[group_id] = dict(offsets)

    def fetch(self, source: TopicPartition, topic_id: bytes, offset: int, max_bytes: int) -> Slice:
        self._ask("fetch")
        log = self.cluster.logs.get(source)
        if log is None or topic_id != self.cluster.ids[source.topic]:
            raise OffsetLost("the topic is another one")
        if not log.start <= offset <= log.end:
            raise OffsetLost(f"offset {offset} is outside {log.start} to {log.end}")
        found, size = [], 0
        for batch in log.batches:
            if read_header(batch).next_offset > offset and (not size or size + len(batch) <= max_bytes):
                found.append(batch)
                size += len(batch)
        return Slice(b"".join(found), log.start, log.end, self.cluster.aborted)

    def slices(self, source: TopicPartition, topic_id: bytes, span: range, max_bytes: int) -> Iterator[Slice]:
        at = span.start
        while at < span.stop:
            found = self.fetch(source, topic_id, at, max_bytes)
            if not found.records:
                return
            yield found
            at = next_offset(found.records, at)

    def close(self) -> None:
        self.cluster.asked.append("close")
