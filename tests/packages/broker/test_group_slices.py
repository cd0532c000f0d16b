"""Requests of groups about many partitions: the loop turns between slices, and nothing gets lost at their edges."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from moldau.broker.api import k08_offset_commit, k09_offset_fetch, k15_describe_groups, k28_txn_offset_commit
from moldau.groups.facts import FetchReply
from moldau.image import Image
from moldau.model import Code
from moldau.ports import Handle
from moldau.wire.messages.k08_offset_commit import OffsetCommitRequest
from moldau.wire.messages.k09_offset_fetch import OffsetFetchRequest
from moldau.wire.messages.k15_describe_groups import DescribeGroupsRequest
from moldau.wire.messages.k28_txn_offset_commit import TxnOffsetCommitRequest
from moldau.wire.records.metadata import PartitionRecord, TopicRecord
from tests.packages.broker.context import ContextValue
from tests.packages.broker.data_cluster import run
from tests.packages.broker.doubles import broker_services
from tests.packages.broker.test_group_writes import Coordinator
from tests.packages.doubles import LoopTasks, manual_world

STEP = 100
TOPIC_ID = bytes([5] * 16)
PARTITIONS = 10_050


class Node(LoopTasks):
    """A node's handlers over one shard; ``most`` is how much was asked of it in one turn of the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.groups = Coordinator()
        image = Image()
        image.apply(TopicRecord(name="t", topic_id=TOPIC_ID))
        for number in range(PARTITIONS):
            image.apply(PartitionRecord(topic_id=TOPIC_ID, partition_id=number, replicas=[1], isr=[1], leader=1))
        world = manual_world(tasks=self, step=STEP)
        parts: Any = self  # Any: of both a handler's only call is here
        self.services = broker_services(image, world=world, coordinator=parts, replicas=parts)
        self.asked = self.most = 0

    def call_soon(self, call: Callable[[], object]) -> Handle:
        self.asked = 0
        return super().call_soon(call)

    def submit(self, requests: Any, finish: Any) -> Any:
        replies = []
        for request in requests:
            self.asked += len(getattr(request, "items", None) or (request,))
            self.groups.submit(request, "t")
            self.groups.flush()
            replies.append(self.groups.answers.pop("t"))
        self.most = max(self.most, self.asked)
        return finish(replies)

    async def answer(self, module: Any, request: Any, version: int) -> Any:
        request = type(request).decode(request.encode(version), version)
        answer = module.handle(self.services, request, ContextValue(api_version=version))
        return await answer if inspect.isawaitable(answer) else answer


def commits(count: int, unknown: int = 0) -> OffsetCommitRequest:
    kind = OffsetCommitRequest
    parts = [
        kind.OffsetCommitRequestPartition(partition_index=number, committed_offset=number, committed_metadata="")
        for number in (*range(count), *range(PARTITIONS, PARTITIONS + unknown))
    ]
    topic = kind.OffsetCommitRequestTopic(name="t", topic_id=TOPIC_ID, partitions=parts)
    return kind(group_id="g", generation_id_or_member_epoch=-1, topics=[topic])


def named(count: int) -> list[Any]:
    return [OffsetFetchRequest.OffsetFetchRequestTopics(name="t", topic_id=TOPIC_ID, partition_indexes=[*range(count)])]


@pytest.mark.parametrize("version", [8, 9, 10])
@pytest.mark.parametrize("all_of_them", [False, True])
def test_ten_thousand_offsets_are_committed_and_read_in_slices(version: int, all_of_them: bool) -> None:
    async def scenario() -> None:
        node = Node()
        answer = await node.answer(k08_offset_commit, commits(PARTITIONS, unknown=3), version)
        codes = [one.error_code for one in answer.topics[0].partitions]
        assert codes == [Code.NONE] * PARTITIONS + [Code.UNKNOWN_TOPIC_OR_PARTITION] * 3
        assert node.turns >= PARTITIONS // STEP
        node.turns = 0
        group = OffsetFetchRequest.OffsetFetchRequestGroup(
            group_id="g", topics=None if all_of_them else named(PARTITIONS)
        )
        twice = OffsetFetchRequest(groups=[group, group])
        answer = await node.answer(k09_offset_fetch, twice, version)
        assert [one.group_id for one in answer.groups] == ["g"]
        found = {one.partition_index: one.committed_offset for one in answer.groups[0].topics[0].partitions}
        assert found == {number: number for number in range(PARTITIONS)}
        assert node.turns >= PARTITIONS // STEP
        assert node.most <= 2 * STEP

    run(scenario)


@pytest.mark.parametrize("version", [1, 2, 7])
def test_one_groups_ten_thousand_offsets_are_read_in_slices_by_old_clients_too(version: int) -> None:
    async def scenario() -> None:
        node = Node()
        await node.answer(k08_offset_commit, commits(150), 8)
        answer = await node.answer(
            k09_offset_fetch,
            OffsetFetchRequest(
                group_id="g",
                topics=[OffsetFetchRequest.OffsetFetchRequestTopic(name="t", partition_indexes=[*range(PARTITIONS)])],
            ),
            version,
        )
        found = [one.committed_offset for one in answer.topics[0].partitions]
        assert found == [*range(150), *[-1] * (PARTITIONS - 150)]
        assert node.most <= 2 * STEP

    run(scenario)


def test_many_groups_that_are_not_coordinated_here_are_refused_in_slices_each_once() -> None:
    """Sixty thousand of them were one step of 372 ms."""

    class Elsewhere(Node):
        def submit(self, requests: Any, finish: Any) -> Any:
            self.asked += len(requests)
            self.most = max(self.most, self.asked)
            return finish([FetchReply(Code.NOT_COORDINATOR) for _ in requests])

    async def scenario() -> None:
        node = Elsewhere()
        ids = [f"group-{number}" for number in range(5_000)]
        groups = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id=id, topics=named(1)) for id in [*ids, ids[0]]]
        answer = await node.answer(k09_offset_fetch, OffsetFetchRequest(groups=groups), 8)
        assert sorted(one.group_id for one in answer.groups) == sorted(ids)
        assert {one.error_code for one in answer.groups} == {Code.NOT_COORDINATOR}
        assert node.most <= 2 * STEP

    run(scenario)


def test_many_offsets_of_a_transaction_are_refused_in_slices() -> None:
    """A hundred and twenty thousand of them were one step of 175 ms."""

    class Elsewhere(Node):
        def find(self, topic: str, index: int) -> Code:
            return Code.NOT_LEADER_OR_FOLLOWER

        def partition_of(self, group: str) -> int:
            return 0

    async def scenario() -> None:
        node = Elsewhere()
        kind = TxnOffsetCommitRequest
        parts = [
            kind.TxnOffsetCommitRequestPartition(partition_index=number, committed_metadata="")
            for number in range(PARTITIONS)
        ]
        topic = kind.TxnOffsetCommitRequestTopic(name="t", partitions=parts)
        answer = await node.answer(k28_txn_offset_commit, kind(group_id="g", topics=[topic, topic]), 3)
        for shown in answer.topics:
            assert [one.partition_index for one in shown.partitions] == [*range(PARTITIONS)]
            assert {one.error_code for one in shown.partitions} == {Code.NOT_COORDINATOR}
        assert node.turns >= 2 * PARTITIONS // STEP

    run(scenario)


def test_many_groups_are_described_in_slices_each_once() -> None:
    async def scenario() -> None:
        node = Node()
        await node.answer(k08_offset_commit, commits(1), 8)
        names = [f"group-{number}" for number in range(1_000)]
        answer = await node.answer(k15_describe_groups, DescribeGroupsRequest(groups=["g", *names, "g"]), 5)
        assert [one.group_id for one in answer.groups] == ["g", *names]
        assert answer.groups[0].group_state == "Empty"
        assert node.turns >= 1_000 // STEP
        assert node.most <= 2 * STEP

    run(scenario)


def test_a_request_about_a_few_is_answered_at_once() -> None:
    async def scenario() -> None:
        node = Node()
        answer = k08_offset_commit.handle(node.services, commits(20), ContextValue(api_version=8))
        assert not inspect.isawaitable(answer)
        answer = k09_offset_fetch.handle(
            node.services, OffsetFetchRequest(group_id="g", topics=named(20)), ContextValue(api_version=7)
        )
        assert not inspect.isawaitable(answer)
        assert node.turns == 0

    run(scenario)
