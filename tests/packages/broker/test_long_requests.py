"""One request about very much: the loop turns between slices of it, and what is asked twice is answered once."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Callable, Generator
from typing import Any

from moldau.broker.api import (
    k02_list_offsets,
    k10_find_coordinator,
    k16_list_groups,
    k21_delete_records,
    k23_offset_for_leader_epoch,
    k32_describe_configs,
    k42_delete_groups,
    k47_offset_delete,
    k75_describe_topic_partitions,
)
from moldau.broker.groups.coordinator import Coordinator
from moldau.broker.metadata.undecided import Undecided
from moldau.broker.replicas.manager import ReplicaManager
from moldau.broker.services import BrokerServices
from moldau.groups import partition
from moldau.image import Image
from moldau.image.configs import ResourceType
from moldau.model import Code
from moldau.model.value import replace
from moldau.ports import Handle
from moldau.wire.messages.k02_list_offsets import ListOffsetsRequest
from moldau.wire.messages.k03_metadata import MetadataRequest, MetadataResponse
from moldau.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from moldau.wire.messages.k16_list_groups import ListGroupsRequest
from moldau.wire.messages.k21_delete_records import DeleteRecordsRequest
from moldau.wire.messages.k23_offset_for_leader_epoch import OffsetForLeaderEpochRequest
from moldau.wire.messages.k32_describe_configs import DescribeConfigsRequest
from moldau.wire.messages.k42_delete_groups import DeleteGroupsRequest
from moldau.wire.messages.k47_offset_delete import OffsetDeleteRequest
from moldau.wire.messages.k75_describe_topic_partitions import DescribeTopicPartitionsRequest
from tests.packages.broker.context import ContextValue
from tests.packages.broker.doubles import broker_services, node_config
from tests.packages.broker.test_metadata import full, shown
from tests.packages.doubles import LoopTasks, manual_world

STEP = 100
MANY = 1000
LONG = 30_000


class Turns(LoopTasks):
    """The loop's turns: how many there were, and the most work of one."""

    def __init__(self) -> None:
        super().__init__()
        self.work = self.most = 0

    def call_soon(self, call: Callable[[], object]) -> Handle:
        self.work = 0
        return super().call_soon(call)

    def turned(self) -> None:
        self.turns += 1
        self.work = 0

    def did(self, much: int) -> None:
        self.work += much
        self.most = max(self.most, self.work)

    async def end(self, answer: Any) -> Any:
        """The answer, however a handler gives it."""
        if isinstance(answer, Generator):
            while True:
                try:
                    next(answer)
                except StopIteration as end:
                    return await self.end(end.value)
                self.turned()
        return await answer if inspect.isawaitable(answer) else answer


class NoReplicas(ReplicaManager):
    """Replicas of a broker that has none; ``find`` counts as work how often it is asked for one."""

    def __init__(self, turns: Turns | None = None) -> None:
        self.undecided = Undecided()
        self._turns = turns

    def find(self, topic: str, number: int) -> Code:
        assert self._turns is not None
        self._turns.did(1)
        return Code.UNKNOWN_TOPIC_OR_PARTITION


def hashing(turns: Turns, monkeypatch: Any) -> BrokerServices:
    """A node that coordinates no group, and counts the characters that it hashes."""

    def counted(text: str) -> int:
        turns.did(len(text))
        return 0

    monkeypatch.setattr(partition, "java_hash", counted)
    image = full(1, 3).image
    image.names["__consumer_offsets"] = image.names["topic-0"]
    node = broker_services(
        image,
        world=manual_world(tasks=turns, step=STEP),
        replicas=NoReplicas(),
        creating=Counter({"__consumer_offsets": 0}),
    )
    coordinator = Coordinator(node.world, node.metadata, node.replicas, node.config)
    return replace(node, load_coordinator=lambda: coordinator)


def test_no_turn_hashes_more_than_one_long_group_id(monkeypatch: Any) -> None:
    """A request of 100 MB brings 3,000 of them: they were hashed in one step of ten seconds."""
    monkeypatch.setattr("moldau.broker.groups.coordinator.groups_config", lambda config: None)
    names = [f"{number:02}" + "g" * LONG for number in range(50)]

    async def scenario() -> None:
        for module, request, version in (
            (k10_find_coordinator, FindCoordinatorRequest(key_type=0, coordinator_keys=names), 4),
            (k42_delete_groups, DeleteGroupsRequest(groups_names=names), 2),
        ):
            turns = Turns()
            node = hashing(turns, monkeypatch)
            context = ContextValue(api_version=version, listener="PLAINTEXT")
            answer = await turns.end(module.handle(node, request, context))  # type: ignore[attr-defined]
            assert len(getattr(answer, "coordinators", None) or answer.results) == len(names)
            assert turns.most <= LONG + 2, module
            assert turns.turns >= len(names) - 1, module

    asyncio.run(scenario())


def test_a_topic_that_is_named_often_is_told_once() -> None:
    """A hundred thousand times a topic of 200 partitions was an answer of 840 MB, for a request of 600 KB."""
    asked = MetadataRequest.MetadataRequestTopic
    tasks = LoopTasks()
    fake = full(1, 200, world=manual_world(tasks=tasks))
    (id,) = fake.image.topics
    absent = [asked(name="absent"), asked(topic_id=bytes([9] * 16))]
    topics = [asked(name="topic-0"), asked(topic_id=id), *absent] * 1000
    answer = MetadataResponse.decode(shown(fake, MetadataRequest(topics=topics), 12), 12)
    told = [(topic.name, topic.error_code) for topic in answer.topics]
    assert told == [
        ("topic-0", Code.NONE),
        ("absent", Code.UNKNOWN_TOPIC_OR_PARTITION),
        (None, Code.UNKNOWN_TOPIC_ID),
    ]
    assert tasks.turns >= 40  # what is left out is work as well


def test_no_shard_looks_at_filters_that_can_be_true_of_no_group() -> None:
    requests: list[Any] = []

    class Listing(Coordinator):
        def __init__(self) -> None: ...

        """A coordinator that is asked to list its groups."""

        def submit_all(self, request: Any, finish: Any) -> None:
            requests.append(request)

    node = broker_services(coordinator=Listing())
    words = [f"state-{number}" for number in range(1000)]
    for states in (words, [*words, "stable", "Empty"], []):
        k16_list_groups.handle(
            node, ListGroupsRequest(states_filter=states, types_filter=["Classic", *words]), ContextValue()
        )
    assert [request.states for request in requests] == [{"state-0"}, {"stable", "Empty"}, frozenset()]
    assert {request.types for request in requests} == {frozenset({"Classic"})}


def test_partitions_of_many_topics_are_looked_up_in_slices() -> None:
    turns = Turns()
    kind = ListOffsetsRequest
    parts = [kind.ListOffsetsPartition(partition_index=0, timestamp=-1)]
    topics = [kind.ListOffsetsTopic(name=f"t{number}", partitions=parts) for number in range(20_000)]
    node = broker_services(replicas=NoReplicas(turns))
    work = k02_list_offsets.handle(node, kind(topics=topics), ContextValue(api_version=7))
    answer = asyncio.run(turns.end(work))
    assert len(answer.topics) == 20_000
    assert turns.most <= k02_list_offsets.AT_ONCE


def long_lookups() -> list[tuple[Any, Any]]:
    """A handler and a request of each kind that looks partitions up, each of a topic of its own."""

    def topics(kind: Any, topic: str, part: str) -> Any:
        names = [{"topic" if kind is OffsetForLeaderEpochRequest else "name": f"t{n}"} for n in range(MANY)]
        return kind(topics=[getattr(kind, topic)(**name, partitions=[getattr(kind, part)()]) for name in names])

    page = DescribeTopicPartitionsRequest
    return [
        (
            k23_offset_for_leader_epoch,
            topics(OffsetForLeaderEpochRequest, "OffsetForLeaderTopic", "OffsetForLeaderPartition"),
        ),
        (k21_delete_records, topics(DeleteRecordsRequest, "DeleteRecordsTopic", "DeleteRecordsPartition")),
        (k47_offset_delete, topics(OffsetDeleteRequest, "OffsetDeleteRequestTopic", "OffsetDeleteRequestPartition")),
        (k75_describe_topic_partitions, page(topics=[page.TopicRequest(name=f"t{n}") for n in range(MANY)])),
    ]


def test_no_turn_looks_up_more_partitions_than_a_step_should_hold() -> None:
    """The epochs' ends, records to delete, offsets to forget, pages of topics: a hundred thousand held the loop."""
    turns = Turns()

    class Names(dict[str, bytes]):
        def __contains__(self, name: object) -> bool:
            turns.did(1)
            return False

        def get(self, name: str, other: Any = None) -> Any:
            turns.did(1)
            return other

    image = Image()
    image.names = Names()

    class Forgetting(Coordinator):
        def __init__(self) -> None: ...

        """A coordinator that forgets offsets."""

        def submit(self, requests: Any, finish: Any) -> Any:
            return finish([(Code.NONE, [])])

    node = broker_services(
        image,
        config=node_config(max_request_partition_size_limit="2000"),
        world=manual_world(tasks=turns, step=STEP),
        replicas=NoReplicas(turns),
        coordinator=Forgetting(),
    )
    for module, request in long_lookups():
        turns.most = turns.turns = turns.work = 0

        async def scenario(module: Any = module, request: Any = request) -> None:
            answer = await turns.end(module.handle(node, request, None))
            assert len(answer.topics) == MANY

        asyncio.run(scenario())
        assert turns.most <= STEP, module
        assert turns.turns >= MANY // STEP - 1, module


def test_settings_are_described_in_slices_and_a_resource_once(monkeypatch: Any) -> None:
    turns = Turns()
    entry = k32_describe_configs._entry

    def counted(*asked: Any) -> Any:
        turns.did(1)
        return entry(*asked)

    monkeypatch.setattr(k32_describe_configs, "_entry", counted)
    fake = full(1, 3)
    kind = DescribeConfigsRequest.DescribeConfigsResource
    names = [f"no-such-setting-{number}" for number in range(1000)]
    asked = [
        kind(resource_type=ResourceType.TOPIC, resource_name="topic-0", configuration_keys=keys)
        for keys in (None, ["retention.ms", *names], [*names, "retention.ms"])
    ] * 100
    request = DescribeConfigsRequest(resources=asked)
    answer = asyncio.run(turns.end(k32_describe_configs.handle(fake, request, ContextValue(kind="broker"))))
    everything, one = answer.results
    assert len(everything.configs) > 20
    assert [config.name for config in one.configs] == ["retention.ms"]
    assert turns.most <= k32_describe_configs.ENTRIES_AT_ONCE
