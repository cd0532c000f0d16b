"""A few scripted brokers that share a log in memory: enough of Kafka to hold a client against, with mischief on demand.

Appends with sequence checks (KIP-98), moves leaders, notes what it was asked. ``mischief`` may answer anything first.
Read next: fake_broker.py; test_client.py, test_producer.py, test_sync.py.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from moldau.model import Code, TopicPartition
from moldau.wire import batch
from moldau.wire.messages.k00_produce import ProduceRequest, ProduceResponse
from moldau.wire.messages.k01_fetch import FetchRequest, FetchResponse
from moldau.wire.messages.k02_list_offsets import ListOffsetsRequest, ListOffsetsResponse
from moldau.wire.messages.k03_metadata import MetadataRequest, MetadataResponse
from moldau.wire.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitResponse
from moldau.wire.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from moldau.wire.messages.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from moldau.wire.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.packages.client.fake_broker import ALL_VERSIONS, FakeBroker

Mischief = Callable[[int, Any, Callable[[], Any]], Any]
"""Gets node id, request and what would answer it; None lets things take their course."""


class Log:
    """One partition: its batches, who leads it, and the last sequence of each producer."""

    def __init__(self, leader: int) -> None:
        self.leader = leader
        self.epoch = 0
        self.batches: list[bytes] = []
        self.end = 0
        self.start = 0
        self.sequences: dict[int, tuple[int, int, int, int]] = {}

    def append(self, data: bytes) -> tuple[Code, int]:
        head = batch.read_header(data)
        assert batch.check(data, 0, head) is Code.NONE
        if head.producer_id >= 0:
            epoch, first, last, offset = self.sequences.get(head.producer_id, (head.producer_epoch, 0, -1, 0))
            if (head.base_sequence, head.last_sequence) == (first, last):
                return Code.NONE, offset  # the same batch again
            if head.base_sequence != (last + 1) & 0x7FFFFFFF:
                return Code.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            self.sequences[head.producer_id] = (epoch, head.base_sequence, head.last_sequence, self.end)
        whole = bytearray(data)
        batch.patch(whole, 0, self.end, self.epoch)
        self.batches.append(bytes(whole))
        base, self.end = self.end, self.end + head.count
        return Code.NONE, base

    def read(self, offset: int, max_bytes: int) -> bytes:
        out = b""
        for data in self.batches:
            if batch.read_header(data).next_offset > offset:
                if out and len(out) + len(data) > max_bytes:
                    break
                out += data
        return out

    @property
    def values(self) -> list[bytes | None]:
        return [record.value for data in self.batches for record in batch.records(data)]


class MiniCluster:
    """``topics``: name -> number of partitions. Node ids are 0, 1, ..."""

    def __init__(self, nodes: int, topics: dict[str, int], ranges: dict[int, tuple[int, int]] | None = None) -> None:
        self.nodes = [FakeBroker(lambda m, h, n=n: self._serve(n, m), ranges or ALL_VERSIONS) for n in range(nodes)]
        self.ids = {name: name.encode().ljust(16, b".") for name in topics}
        self.logs = {
            TopicPartition(name, index): Log(index % nodes) for name, count in topics.items() for index in range(count)
        }
        self.committed: dict[tuple[str, TopicPartition], int] = {}
        self.coordinator = 0
        self.mischief: Mischief = lambda node, message, serve: None
        self.asked: list[tuple[int, str]] = []
        self._next_producer_id = 100

    async def start(self) -> MiniCluster:
        for node in self.nodes:
            await node.start()
        return self

    async def stop(self) -> None:
        for node in self.nodes:
            await node.stop()

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def move(self, partition: TopicPartition, leader: int) -> None:
        log = self.logs[partition]
        log.leader, log.epoch = leader, log.epoch + 1

    def _serve(self, node: int, message: Any) -> Any:
        name = type(message).__name__.removesuffix("Request")
        self.asked.append((node, name))

        def serve() -> Any:
            return getattr(self, "_" + name)(node, message)

        answer = self.mischief(node, message, serve)
        return serve() if answer is None else answer

    def _Metadata(self, node: int, message: MetadataRequest) -> MetadataResponse:
        kind = MetadataResponse
        names = list(self.ids) if message.topics is None else [t.name for t in message.topics]
        topics = []
        for name in names:
            if name not in self.ids:
                topics.append(kind.MetadataResponseTopic(error_code=3, name=name))
                continue
            parts = [
                kind.MetadataResponsePartition(
                    partition_index=p.partition, leader_id=log.leader, leader_epoch=log.epoch,
                    replica_nodes=[log.leader], isr_nodes=[log.leader],
                )
                for p, log in self.logs.items()
                if p.topic == name
            ]  # fmt: skip
            topics.append(kind.MetadataResponseTopic(name=name, topic_id=self.ids[name], partitions=parts))
        brokers = [
            kind.MetadataResponseBroker(node_id=i, host="127.0.0.1", port=b.port) for i, b in enumerate(self.nodes)
        ]
        return kind(brokers=brokers, cluster_id="mini", controller_id=0, topics=topics)

    def _log(self, node: int, name: str, topic_id: bytes, index: int) -> tuple[Code, Log | None]:
        by_id = [n for n, known in self.ids.items() if known == topic_id]
        if not name and not by_id:
            return Code.UNKNOWN_TOPIC_ID, None
        log = self.logs.get(TopicPartition(name or by_id[0], index))
        if log is None:
            return Code.UNKNOWN_TOPIC_OR_PARTITION, None
        return (Code.NONE, log) if log.leader == node else (Code.NOT_LEADER_OR_FOLLOWER, None)

    def _Produce(self, node: int, message: ProduceRequest) -> ProduceResponse | None:
        kind = ProduceResponse
        responses = []
        for topic in message.topic_data:
            parts = []
            for p in topic.partition_data:
                code, log = self._log(node, topic.name, topic.topic_id, p.index)
                base = -1
                if log is not None:
                    code, base = log.append(bytes(p.records or b""))
                parts.append(kind.PartitionProduceResponse(index=p.index, error_code=code, base_offset=base))
            responses.append(
                kind.TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=parts)
            )
        return kind(responses=responses) if message.acks else None

    def _Fetch(self, node: int, message: FetchRequest) -> FetchResponse:
        kind = FetchResponse
        responses = []
        for topic in message.topics:
            parts = []
            for p in topic.partitions:
                code, log = self._log(node, topic.topic, topic.topic_id, p.partition)
                part = kind.PartitionData(partition_index=p.partition, error_code=code, records=b"")
                if log is not None:
                    part.high_watermark = part.last_stable_offset = log.end
                    part.log_start_offset = log.start
                    if not log.start <= p.fetch_offset <= log.end:
                        part.error_code = Code.OFFSET_OUT_OF_RANGE
                    else:
                        part.records = log.read(p.fetch_offset, p.partition_max_bytes)
                parts.append(part)
            responses.append(kind.FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=parts))
        return kind(responses=responses)

    def _ListOffsets(self, node: int, message: ListOffsetsRequest) -> ListOffsetsResponse:
        kind = ListOffsetsResponse
        assert message.replica_id == -1
        topics = []
        for topic in message.topics:
            parts = []
            for p in topic.partitions:
                code, log = self._log(node, topic.name, b"", p.partition_index)
                part = kind.ListOffsetsPartitionResponse(partition_index=p.partition_index, error_code=code)
                if log is not None:
                    young = [r for data in log.batches for r in batch.records(data) if r.timestamp >= p.timestamp]
                    special = {-1: log.end, -2: log.start}
                    part.offset = special.get(p.timestamp, young[0].offset if young else -1)
                parts.append(part)
            topics.append(kind.ListOffsetsTopicResponse(name=topic.name, partitions=parts))
        return kind(topics=topics)

    def _FindCoordinator(self, node: int, message: FindCoordinatorRequest) -> FindCoordinatorResponse:
        broker = self.nodes[self.coordinator]
        where = {"node_id": self.coordinator, "host": "127.0.0.1", "port": broker.port}
        found = [FindCoordinatorResponse.Coordinator(key=key, **where) for key in message.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found, **where)

    def _OffsetCommit(self, node: int, message: OffsetCommitRequest) -> OffsetCommitResponse:
        kind = OffsetCommitResponse
        code = Code.NONE if node == self.coordinator else Code.NOT_COORDINATOR
        topics = []
        for topic in message.topics:
            for p in topic.partitions:
                if code is Code.NONE:
                    key = (message.group_id, TopicPartition(topic.name, p.partition_index))
                    self.committed[key] = p.committed_offset
            parts = [
                kind.OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code)
                for p in topic.partitions
            ]
            topics.append(kind.OffsetCommitResponseTopic(name=topic.name, partitions=parts))
        return kind(topics=topics)

    def _OffsetFetch(self, node: int, message: OffsetFetchRequest) -> OffsetFetchResponse:
        kind = OffsetFetchResponse
        group_id = message.groups[0].group_id if message.groups else message.group_id
        asked = message.groups[0].topics if message.groups else message.topics
        code = Code.NONE if node == self.coordinator else Code.NOT_COORDINATOR
        old, new = [], []
        wanted = {(t.name, i) for t in asked or () for i in t.partition_indexes}
        if asked is None:
            wanted = {(p.topic, p.partition) for g, p in self.committed if g == group_id}
        for name in sorted({n for n, _ in wanted}):
            here = sorted(i for n, i in wanted if n == name)
            offsets = {i: self.committed.get((group_id, TopicPartition(name, i)), -1) for i in here}
            old.append(kind.OffsetFetchResponseTopic(name=name, partitions=[
                kind.OffsetFetchResponsePartition(partition_index=i, committed_offset=o) for i, o in offsets.items()
            ]))  # fmt: skip
            new.append(kind.OffsetFetchResponseTopics(name=name, partitions=[
                kind.OffsetFetchResponsePartitions(partition_index=i, committed_offset=o) for i, o in offsets.items()
            ]))  # fmt: skip
        group = kind.OffsetFetchResponseGroup(group_id=group_id, topics=new, error_code=code)
        return kind(topics=old, error_code=code, groups=[group])

    def _InitProducerId(self, node: int, message: InitProducerIdRequest) -> InitProducerIdResponse:
        self._next_producer_id += 1
        return InitProducerIdResponse(producer_id=self._next_producer_id, producer_epoch=0)


@contextmanager
def in_thread(cluster: MiniCluster) -> Iterator[MiniCluster]:
    """Runs a cluster on a loop in another thread, for clients that block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(cluster.start(), loop).result(60)
        yield cluster
        asyncio.run_coroutine_threadsafe(cluster.stop(), loop).result(60)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()
