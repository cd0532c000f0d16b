"""Requests that name thousands of things: the loop turns while a controller's handler makes requests and answers of
them, and while a broker looks what it has of them."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from moldau.broker.api import (
    k03_metadata,
    k13_leave_group,
    k19_create_topics,
    k33_alter_configs,
    k34_alter_replica_log_dirs,
    k35_describe_log_dirs,
    k37_create_partitions,
    k43_elect_leaders,
    k44_incremental_alter_configs,
    k45_alter_partition_reassignments,
    k46_list_partition_reassignments,
    k49_alter_client_quotas,
    k55_describe_quorum,
    k57_update_features,
)
from moldau.broker.controller.topic_creation import create_automatically
from moldau.broker.services import BrokerServices, ControllerServices, QuorumServices
from moldau.controller import replies, requests
from moldau.controller.facts import FINE
from moldau.groups.facts import LeaveReply
from moldau.image import Delta
from moldau.image.partition import Partition
from moldau.image.quotas import quota_record
from moldau.model import Code, TopicPartition
from moldau.model.value import replace
from moldau.wire.messages.k03_metadata import MetadataRequest
from moldau.wire.messages.k13_leave_group import LeaveGroupRequest
from moldau.wire.messages.k19_create_topics import CreateTopicsRequest, CreateTopicsResponse
from moldau.wire.messages.k33_alter_configs import AlterConfigsRequest
from moldau.wire.messages.k34_alter_replica_log_dirs import AlterReplicaLogDirsRequest
from moldau.wire.messages.k35_describe_log_dirs import DescribeLogDirsRequest
from moldau.wire.messages.k37_create_partitions import CreatePartitionsRequest
from moldau.wire.messages.k43_elect_leaders import ElectLeadersRequest
from moldau.wire.messages.k44_incremental_alter_configs import IncrementalAlterConfigsRequest
from moldau.wire.messages.k45_alter_partition_reassignments import AlterPartitionReassignmentsRequest
from moldau.wire.messages.k46_list_partition_reassignments import ListPartitionReassignmentsRequest
from moldau.wire.messages.k49_alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from moldau.wire.messages.k55_describe_quorum import DescribeQuorumRequest
from moldau.wire.messages.k57_update_features import UpdateFeaturesRequest
from tests.packages.broker.context import ContextValue, OpenConnection
from tests.packages.broker.doubles import PlaneDouble, controller_services, node_config
from tests.packages.broker.test_metadata import full
from tests.packages.doubles import UNUSED, LoopTasks, manual_world

STEP, MANY = 50, 1_000
NAMES = [f"topic-{number}" for number in range(MANY)]
NUMBERS = list(range(MANY))


class Agreeing:
    """A controller to which everything is fine."""

    active = True

    def __init__(self, tasks: LoopTasks) -> None:
        self.tasks = tasks
        self.turns_before = 0

    def connection_is_of(self, connection: Hashable | None, broker_id: int) -> None: ...

    async def predecessor_is_gone(self, broker_id: int) -> bool:
        return False

    async def submit(self, request: Any) -> Any:
        self.turns_before = self.tasks.turns
        match request:
            case requests.CreateTopics():
                return replies.TopicsCreated(topics=tuple(replies.TopicResult(name=one.name) for one in request.topics))
            case requests.CreatePartitions():
                return replies.PartitionsCreated(topics=tuple((one.name, FINE) for one in request.topics))
            case requests.ElectLeaders():
                return replies.LeadersElected(partitions=tuple((*one, FINE) for one in request.partitions or ()))
            case requests.AlterPartitionReassignments():
                moved = tuple((move.topic, move.partition, FINE) for move in request.moves)
                return replies.ReassignmentsAltered(partitions=moved)
            case requests.ListPartitionReassignments():
                moving = tuple(
                    (topic, Partition(b"x" * 16, number, (1,), (1,), leader=1))
                    for topic, number in request.partitions or ()
                )
                return replies.ReassignmentsListed(partitions=moving)
            case requests.AlterConfigs() | requests.IncrementalAlterConfigs():
                done = tuple((one.resource_type, one.resource_name, FINE) for one in request.resources)
                return replies.ConfigsAltered(resources=done)
        raise AssertionError(request)


def node(tasks: LoopTasks, **parts: object) -> BrokerServices:
    """A broker with these parts."""
    return replace(full(1, 3, world=manual_world(tasks=tasks, step=STEP)), **parts)


def controller(agreeing: Agreeing) -> ControllerServices:
    """A controller with live brokers, which have been told everything."""
    return controller_services(
        full(1, 3).image,
        world=manual_world(tasks=agreeing.tasks, step=STEP),
        plane=PlaneDouble(next_offset=1, told={0: 1, 1: 1, 2: 1}),
        controller=agreeing,
    )


MOVE = AlterPartitionReassignmentsRequest.ReassignablePartition
CONTROL: dict[Any, Any] = {
    k19_create_topics: CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic(name=name) for name in NAMES]),
    k33_alter_configs: AlterConfigsRequest(
        resources=[AlterConfigsRequest.AlterConfigsResource(resource_type=2, resource_name=name) for name in NAMES]
    ),
    k37_create_partitions: CreatePartitionsRequest(
        topics=[CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=2) for name in NAMES]
    ),
    k43_elect_leaders: ElectLeadersRequest(
        topic_partitions=[ElectLeadersRequest.TopicPartitions(topic="a", partitions=NUMBERS)]
    ),
    k44_incremental_alter_configs: IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type=2, resource_name=name) for name in NAMES
        ]
    ),
    k45_alter_partition_reassignments: AlterPartitionReassignmentsRequest(
        topics=[
            AlterPartitionReassignmentsRequest.ReassignableTopic(
                name="a", partitions=[MOVE(partition_index=number, replicas=[1]) for number in NUMBERS]
            )
        ]
    ),
    k46_list_partition_reassignments: ListPartitionReassignmentsRequest(
        topics=[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics(name="a", partition_indexes=NUMBERS)]
    ),
}


def items(answer: Any) -> int:
    """How many things an answer tells of: items of its lists, and of theirs."""
    lists = [found for field in answer.fields if isinstance(found := getattr(answer, field.name), list)]
    below = [items(one) for found in lists for one in found if hasattr(one, "fields")]
    return max(sum(below), sum(map(len, lists)))


@pytest.mark.parametrize("module", CONTROL, ids=lambda module: module.__name__.rpartition(".")[2])
def test_the_loop_turns_while_asks_are_made_and_while_their_answers_are(module: Any) -> None:
    async def scenario() -> None:
        agreeing = Agreeing(LoopTasks())
        context = ContextValue(api_version=1, client_id="client")
        answer = await module.control(controller(agreeing), CONTROL[module], context)
        assert items(answer) >= MANY
        assert agreeing.turns_before >= MANY // STEP
        assert agreeing.tasks.turns - agreeing.turns_before >= MANY // STEP

    asyncio.run(scenario())


class Refusing(Agreeing):
    """A controller that refuses requests as a whole."""

    async def submit(self, request: Any) -> Any:
        self.turns_before = self.tasks.turns
        return replies.Refused(Code.POLICY_VIOLATION, "too many")


def test_the_loop_turns_while_very_many_topics_are_refused_together() -> None:
    """A hundred thousand held it for 149 ms of computing."""

    async def scenario() -> None:
        refusing = Refusing(LoopTasks())
        context = ContextValue(api_version=5, client_id="client")
        answer = await k19_create_topics.control(controller(refusing), CONTROL[k19_create_topics], context)
        assert {topic.error_code for topic in answer.topics} == {Code.POLICY_VIOLATION}
        assert len(answer.topics) == MANY
        assert refusing.tasks.turns - refusing.turns_before >= MANY // STEP

    asyncio.run(scenario())


async def waited(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


@dataclass(frozen=True)
class Directory:
    """A log directory."""

    path: str
    offline: str | None = None


@dataclass(frozen=True)
class DescribedLog:
    """A log, as a description of its directory shows it."""

    dir: Directory
    size: int = 7
    high_watermark: int = 9
    log_end_offset: int = 4


class Volume:
    """A disk with some room."""

    def free_bytes(self, path: str) -> int:
        return 100

    def total_bytes(self, path: str) -> int:
        return 1_000


@dataclass(frozen=True)
class FutureLogs:
    """Logs on their way to another directory."""

    logs: Mapping[TopicPartition, DescribedLog] = field(default_factory=dict)


class Dirs:
    """Directories with a log for each of a topic's partitions."""

    def __init__(self) -> None:
        self.dirs = [Directory("/one"), Directory("/lost", "gone")]
        self.logs = {TopicPartition("a", number): DescribedLog(self.dirs[0]) for number in NUMBERS}
        self.futures = FutureLogs()
        self.disk = Volume()


class Moving:
    """Replicas that may all move to another directory."""

    @property
    def alter_log_dirs(self) -> Moving:
        return self

    def alter(self, partition: TopicPartition, path: str) -> Code:
        return Code.NONE


class Creating:
    """A channel to a controller that creates no topic; ``asked``: how often the loop had turned when it was asked."""

    def __init__(self, tasks: LoopTasks) -> None:
        self.tasks = tasks
        self.asked: list[int] = []

    async def send_with_retry(self, request: CreateTopicsRequest, *_: object) -> CreateTopicsResponse:
        self.asked.append(self.tasks.turns)
        result = CreateTopicsResponse.CreatableTopicResult
        return CreateTopicsResponse(
            topics=[result(name=topic.name, error_code=Code.POLICY_VIOLATION) for topic in request.topics]
        )


@pytest.mark.parametrize("named", [True, False])
def test_the_loop_turns_while_directories_are_described(named: bool) -> None:
    async def scenario() -> None:
        tasks = LoopTasks()
        made = node(tasks, log_dirs=Dirs())
        topics = [DescribeLogDirsRequest.DescribableLogDirTopic(topic="a", partitions=NUMBERS[:900])] if named else None
        answer = await waited(k35_describe_log_dirs.handle(made, DescribeLogDirsRequest(topics=topics), ContextValue()))
        one, lost = answer.results
        assert len(one.topics[0].partitions) == (900 if named else MANY)
        assert {part.offset_lag for part in one.topics[0].partitions} == {5}
        assert (one.total_bytes, one.usable_bytes) == (1_000, 100)
        assert lost.error_code == Code.KAFKA_STORAGE_ERROR
        assert tasks.turns >= MANY // STEP

    asyncio.run(scenario())


def test_the_loop_turns_while_moves_between_directories_begin() -> None:
    async def scenario() -> None:
        tasks = LoopTasks()
        made = node(tasks, replicas=Moving())
        request = AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDirsRequest.AlterReplicaLogDir(
                    path="/one",
                    topics=[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(name="a", partitions=NUMBERS)],
                )
            ]
        )
        answer = await waited(k34_alter_replica_log_dirs.handle(made, request, ContextValue()))
        assert {part.error_code for part in answer.results[0].partitions} == {Code.NONE}
        assert items(answer) == MANY
        assert tasks.turns >= 3 * MANY // STEP

    asyncio.run(scenario())


def test_the_loop_turns_while_it_is_found_out_which_topics_are_to_be_created() -> None:
    async def scenario() -> None:
        channel = Creating(LoopTasks())
        made = node(channel.tasks, config=node_config(), controller_channel=channel)
        topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in ("topic-0", *NAMES[1:], *NAMES[1:])]
        context = ContextValue(api_version=12, connection=OpenConnection(since_ms=1 << 60))
        answer = await waited(
            k03_metadata.handle(made, MetadataRequest(topics=topics, allow_auto_topic_creation=True), context)
        )
        assert len(answer.topics) == MANY
        assert channel.asked[0] >= 2 * MANY // STEP - 1

    asyncio.run(scenario())


def test_topics_that_are_refused_for_one_reason_are_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        channel = Creating(LoopTasks())
        made = node(channel.tasks, controller_channel=channel)
        assert len(await create_automatically(made, NAMES)) == MANY
        assert channel.tasks.turns - channel.asked[0] >= MANY // STEP, "the loop turned while it was found out why"
        assert not made.creating, "nothing is remembered of names that clients made up"

    asyncio.run(scenario())
    (line,) = [
        record.getMessage() for record in caplog.records if record.name == "moldau.broker.controller.topic_creation"
    ]
    assert "topic-0 and 999 others" in line


def leaving(*ids: str) -> LeaveGroupRequest:
    identity = LeaveGroupRequest.MemberIdentity
    return LeaveGroupRequest(group_id="g", members=[identity(member_id=id, reason="over") for id in ids])


class Groups:
    """A coordinator of a group that every second member is in; ``refuses`` from so many requests on."""

    def __init__(self, refuses: int = MANY) -> None:
        self.refuses = refuses
        self.most = self.asked = 0

    def submit(self, requests: Any, finish: Any) -> Any:
        (leave,) = requests
        self.asked += 1
        self.most = max(self.most, len(leave.leavers))
        if self.asked >= self.refuses:
            return finish([LeaveReply(Code.NOT_COORDINATOR)])
        codes = (Code.NONE, Code.UNKNOWN_MEMBER_ID)
        answer = finish([LeaveReply(Code.NONE, tuple((one, codes[len(one.member_id) % 2]) for one in leave.leavers))])
        if self.asked % 2:
            return answer
        later = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(later.set_result, answer)
        return later


@pytest.mark.parametrize("refuses", [MANY, 4])
def test_many_members_leave_in_parts_with_one_line_of_the_log(refuses: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "moldau.broker.api")

    async def scenario() -> None:
        tasks, groups = LoopTasks(), Groups(refuses)
        made = node(tasks, load_coordinator=lambda: groups)
        answer = await waited(k13_leave_group.handle(made, leaving(*NAMES), ContextValue(api_version=5)))
        assert groups.most == STEP
        if refuses < MANY:
            assert (answer.error_code, answer.members) == (Code.NOT_COORDINATOR, [])
            return
        assert [member.member_id for member in answer.members] == NAMES
        assert {member.error_code for member in answer.members} == {Code.NONE, Code.UNKNOWN_MEMBER_ID}
        assert tasks.turns >= MANY // STEP

    asyncio.run(scenario())
    (line,) = [record.getMessage() for record in caplog.records if record.name == "moldau.broker.api.k13_leave_group"]
    assert "999 others" in line


def test_no_more_assignments_are_put_to_the_controller_than_it_needs_to_refuse_them() -> None:
    async def scenario() -> None:
        seen: list[Any] = []

        class Refusing(Agreeing):
            async def submit(self, request: Any) -> Any:
                seen.append(request.topics[0])
                return replies.Refused(Code.NOT_CONTROLLER)

        made = controller(Refusing(LoopTasks()))
        by_hand = CreateTopicsRequest.CreatableReplicaAssignment
        assignments = [by_hand(partition_index=number, broker_ids=[1]) for number in range(20_000)]
        topics = [CreateTopicsRequest.CreatableTopic(name="a", assignments=assignments)]
        await k19_create_topics.control(
            made, CreateTopicsRequest(topics=topics), ContextValue(api_version=7, client_id="client")
        )
        more = [CreatePartitionsRequest.CreatePartitionsAssignment(broker_ids=[1]) for _ in range(20_000)]
        grown = [CreatePartitionsRequest.CreatePartitionsTopic(name="a", count=20_001, assignments=more)]
        await k37_create_partitions.control(
            made, CreatePartitionsRequest(topics=grown), ContextValue(api_version=3, client_id="client")
        )
        assert [len(one.assignments) for one in seen] == [10_001, 10_001]

    asyncio.run(scenario())


def test_the_loop_turns_while_a_broker_looks_whether_it_knows_of_many_quotas(monkeypatch: pytest.MonkeyPatch) -> None:
    """60,000 were looked for in one step, and again every 2 ms."""
    quota = "producer_byte_rate"
    entries = [
        AlterClientQuotasRequest.EntryData(
            entity=[AlterClientQuotasRequest.EntityData(entity_type="user", entity_name=name)],
            ops=[AlterClientQuotasRequest.OpData(key=quota, value=7.0)],
        )
        for name in NAMES
    ]

    async def scenario() -> None:
        tasks = LoopTasks()
        broker = node(tasks)
        known = [quota_record((("user", name),), quota, 7.0) for name in NAMES]
        broker.metadata.image.apply_all(known, 1, Delta())
        told = AlterClientQuotasResponse(entries=[AlterClientQuotasResponse.EntryData() for _ in NAMES])

        async def forward(*_: object) -> AlterClientQuotasResponse:
            return told

        monkeypatch.setattr(k49_alter_client_quotas, "forward", forward)
        context: Any = ContextValue(api_version=1)
        assert await k49_alter_client_quotas.handle(broker, AlterClientQuotasRequest(entries=entries), context) is told
        assert tasks.turns >= MANY // STEP

    asyncio.run(scenario())


def test_features_and_quorums_that_cannot_be_are_not_looked_at_one_by_one() -> None:
    """Of 60,000 each was answered in one step: 226 and 122 ms."""
    kind = DescribeQuorumRequest
    features = [UpdateFeaturesRequest.FeatureUpdateKey(feature=str(number)) for number in range(1_001)]
    partitions = [kind.PartitionData(partition_index=number) for number in range(1_000)]

    async def scenario() -> None:
        of = controller(Agreeing(LoopTasks()))
        voter = QuorumServices(
            config=of.config, world=of.world, cluster_id=of.cluster_id, metadata=of.metadata,
            plane=UNUSED, controller=UNUSED,
        )  # fmt: skip
        context: Any = ContextValue(api_version=1)
        set_them = await k57_update_features.control(voter, UpdateFeaturesRequest(feature_updates=features), context)
        assert (set_them.error_code, set_them.results) == (Code.INVALID_REQUEST, [])
        asked = kind(topics=[kind.TopicData(topic_name="x", partitions=partitions)])
        for answered in (
            await k55_describe_quorum.handle(node(LoopTasks()), asked, context),
            await waited(k55_describe_quorum.control(voter, asked, context)),
        ):
            assert (answered.error_code, answered.topics) == (Code.INVALID_REQUEST, [])

    asyncio.run(scenario())
