"""Brokers with group coordinators behind real sockets and files, under the model controller of data_cluster.py.

``client`` is one member: it asks in the version a test wants. Use the fixture ``groups`` of the tests, which makes
DataCluster build brokers of this kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from moldau.broker.groups.coordinator import Coordinator
from moldau.image import Delta
from moldau.model import Code
from moldau.wire.messages.k08_offset_commit import OffsetCommitRequest
from moldau.wire.messages.k09_offset_fetch import OffsetFetchRequest
from moldau.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupResponse
from moldau.wire.messages.k12_heartbeat import HeartbeatRequest
from moldau.wire.messages.k14_sync_group import SyncGroupRequest
from moldau.wire.messages.k19_create_topics import CreateTopicsResponse
from moldau.wire.records import metadata as records
from tests.packages.broker.data_cluster import TOPIC, DataCluster, MiniBroker, until

OFFSETS_ID = bytes([9] * 16)
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100",
    "offsets.commit.timeout.ms": "60000",  # no machine is too slow for the log of a group
}  # fmt: skip


class GroupBroker(MiniBroker):
    """A data plane with a coordinator; ``controller_channel`` reaches a controller that creates whatever is wished."""

    def __init__(self, cluster: DataCluster, id: int, folder: Path, settings: dict[str, str]) -> None:
        super().__init__(cluster, id, folder, {**SETTINGS, **settings})
        self.controller_channel = self
        self.creating: Counter[str] = Counter()
        self.created: list[Any] = []

    async def start(self) -> None:
        await super().start()
        self.coordinator = Coordinator(self.world, self, self.replicas, self.config)
        self.replicas.on_started_leading.append(self.coordinator.begin_leading)
        self.replicas.on_stopped_leading.append(self.coordinator.cease_leading)

    async def send_with_retry(
        self, message: Any, timeout_ms: int = 0, who: Any = None, client: Any = None
    ) -> CreateTopicsResponse:
        answer = CreateTopicsResponse()
        for topic in message.topics:
            self.created.append(topic)
            self.cluster.create(*self.cluster.live, topic=topic.name, id=OFFSETS_ID, partitions=topic.num_partitions)
            answer.topics.append(CreateTopicsResponse.CreatableTopicResult(name=topic.name))
        return answer

    def kill(self) -> None:
        self.coordinator.stop()
        super().kill()


class GroupCluster(DataCluster):
    """Its brokers coordinate groups; the one partition of __consumer_offsets is on all of them."""

    def commit(self, *batch: Any) -> None:
        delta = Delta()
        for record in batch:
            self.offset += 1
            self.image.apply(record, self.offset, delta)
        for broker in list(self.live.values()):
            broker.apply(delta)
            broker.coordinator.apply(self.image, delta)  # type: ignore[attr-defined]

    async def make_topics(self) -> None:
        """The groups' log, led by the first broker, and the topic that groups read."""
        live = sorted(self.live)
        self.create(*live, topic="__consumer_offsets", id=OFFSETS_ID)
        self.create(*live)
        await self.loaded(live[0])

    async def loaded(self, id: int) -> None:
        """Wait until a broker coordinates."""
        await until(lambda: self.shard(id) is not None and self.shard(id).phase.value == "active", "a loaded shard")

    def coordinator(self, id: int) -> Coordinator:
        found: Coordinator = self.brokers[id].coordinator  # type: ignore[attr-defined]
        return found

    def shard(self, id: int) -> Any:
        led = self.coordinator(id).shards.get(0)
        return None if led is None else led.shard

    def lead(self, leader: int, isr: tuple[int, ...]) -> None:
        """Move the groups' log to another leader."""
        self.commit(records.PartitionChangeRecord(topic_id=OFFSETS_ID, partition_id=0, leader=leader, isr=list(isr)))

    def log(self, id: int) -> Any:
        return self.brokers[id].replicas.by_key[(OFFSETS_ID, 0)].log

    # ---- a member's side

    async def commit_offset(self, id: int, offset: int, version: int = 9, **fields: Any) -> Code:
        """Commit offset of partition 0 of the topic; "outside" any generation unless ``fields`` say more."""
        part = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_leader_epoch=3, committed_metadata="note"
        )
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, topic_id=bytes([7] * 16), partitions=[part])
        answer = await self.ask(id, OffsetCommitRequest(group_id="g", topics=[topic], **fields), version)
        return Code(answer.topics[0].partitions[0].error_code)

    async def committed(self, id: int, group_id: str = "g") -> tuple[Code, int]:
        """(code, committed offset) of partition 0 of the topic."""
        topics = [OffsetFetchRequest.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
        group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group_id, topics=topics)
        found = (await self.ask(id, OffsetFetchRequest(groups=[group]), 9)).groups[0]
        if found.error_code:
            return Code(found.error_code), -1
        part = found.topics[0].partitions[0]
        return Code(part.error_code), part.committed_offset

    async def join(self, id: int, version: int = 9, **fields: Any) -> JoinGroupResponse:
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"\x00\x00\x00\x00\x00\x00")
        # No machine is so slow that a member which lives is removed; a test that wants one removed says how soon.
        times = {"session_timeout_ms": 120_000, "rebalance_timeout_ms": 120_000}
        fields = {**times, "protocol_type": "consumer", **fields}
        answer: JoinGroupResponse = await self.ask(
            id, JoinGroupRequest(group_id="g", protocols=[protocol], **fields), version
        )
        return answer

    async def member(self, id: int, version: int = 9, **fields: Any) -> JoinGroupResponse:
        """Join in as many steps as it takes."""
        first = await self.join(id, version, **fields)
        if first.error_code == Code.MEMBER_ID_REQUIRED:
            first = await self.join(id, version, member_id=first.member_id, **fields)
        assert first.error_code == Code.NONE, Code(first.error_code)
        return first

    async def sync(
        self, id: int, joined: JoinGroupResponse, version: int = 5, given: Mapping[str, bytes] | None = None
    ) -> Any:
        """Sync; the leader gives ``given`` by member id, or its own name to itself."""
        assignments = [
            SyncGroupRequest.SyncGroupRequestAssignment(member_id=one, assignment=data)
            for one, data in (given or {}).items()
        ]
        request = SyncGroupRequest(
            group_id="g", generation_id=joined.generation_id, member_id=joined.member_id, assignments=assignments
        )
        return await self.ask(id, request, version)

    async def heartbeat(self, id: int, joined: JoinGroupResponse, version: int = 4) -> Code:
        request = HeartbeatRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id)
        return Code((await self.ask(id, request, version)).error_code)
