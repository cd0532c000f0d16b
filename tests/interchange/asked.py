"""Administration asked of one node of a cluster, whoever runs it: the same requests, on a connection to that node.
Groups are asked of their coordinators, which that node names.

Clients send such requests to the broker that Metadata names as controller, which in KRaft mode is any: so each broker
is asked here by itself, and must pass on to the active controller what it cannot answer. On ZooKeeper only the
controller creates, moves, elects and deletes: it is asked that which the node in question names.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

from moldau.client import sync
from moldau.client.groups import Committed, commit, committed, delete_groups, describe_groups
from moldau.client.lines import ConnectionOptions, shake_hands
from moldau.client.sockets import SocketLine, drive
from moldau.cluster.kills.cluster_poller import Address
from moldau.model import Code, TopicPartition
from moldau.wire.messages.k03_metadata import MetadataRequest
from moldau.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from moldau.wire.messages.k19_create_topics import CreateTopicsRequest
from moldau.wire.messages.k20_delete_topics import DeleteTopicsRequest
from moldau.wire.messages.k32_describe_configs import DescribeConfigsRequest
from moldau.wire.messages.k37_create_partitions import CreatePartitionsRequest
from moldau.wire.messages.k43_elect_leaders import ElectLeadersRequest
from moldau.wire.messages.k44_incremental_alter_configs import IncrementalAlterConfigsRequest
from moldau.wire.messages.k45_alter_partition_reassignments import AlterPartitionReassignmentsRequest
from moldau.wire.messages.k46_list_partition_reassignments import ListPartitionReassignmentsRequest
from moldau.wire.messages.k49_alter_client_quotas import AlterClientQuotasRequest
from moldau.wire.messages.k55_describe_quorum import DescribeQuorumRequest
from moldau.wire.schema import Message, Request, ResponseT

_OPTIONS = ConnectionOptions(client_id="interchange", request_timeout_ms=30_000, connect_timeout_ms=5_000)
_TOPIC = 2
_SET = 0
_PREFERRED = 0
_RETENTION = ("retention.ms", "86400000")
PATIENCE_S = 60.0
GROUPS = 6
"""So many groups are made through each node."""


class Asked:
    """One node's answers. A context manager."""

    def __init__(self, place: Address) -> None:
        self._line = SocketLine(*place, _OPTIONS)
        self._line.versions = drive(shake_hands(self._line, _OPTIONS, self._line.peer))

    def __enter__(self) -> Asked:
        return self

    def __exit__(self, *_: object) -> None:
        self._line.close()

    def controller(self) -> Address:
        """Where the controller is, as this node says; in KRaft mode brokers name one of themselves."""
        told = self.ask(MetadataRequest(topics=[], allow_auto_topic_creation=False))
        return next((one.host, one.port) for one in told.brokers if one.node_id == told.controller_id)

    def ask(self, request: Request[ResponseT]) -> ResponseT:
        """The answer to a request."""

        async def answer() -> ResponseT:
            return await self._line.ask(request)

        return drive(answer())


def administer(place: Address, name: str, brokers: list[int], *, zookeeper: bool = False) -> Iterator[str]:
    """Make, change, move and remove a topic and a quota through one node; what was refused or did not come about.

    What follows the first of these is not to be trusted: ask for no more."""
    with ExitStack() as open_:
        node = open_.enter_context(Asked(place))
        controller = open_.enter_context(Asked(node.controller())) if zookeeper else node
        yield from _refused(controller, CreateTopicsRequest(topics=[_new(name)], timeout_ms=30_000))
        yield from _until(lambda: len(_partitions(node, name)) == 1, f"topic {name} is shown")
        yield from _refused(node, _retention_of(name))
        yield from _until(lambda: _retention(node, name) == _RETENTION[1], f"retention.ms of {name} is shown")
        yield from _refused(controller, CreatePartitionsRequest(topics=[_more(name)], timeout_ms=30_000))
        yield from _until(lambda: len(_partitions(node, name)) == 2, f"{name} has two partitions")
        turned = brokers[1:] + brokers[:1]
        yield from _refused(controller, _to(name, turned))
        yield from _until(
            lambda: [one.replica_nodes for one in _partitions(node, name)[:1]] == [turned], f"{name}-0 is at {turned}"
        )
        yield from _until(lambda: not _moving(controller), "no reassignment is under way")
        yield from _until(
            lambda: [set(one.isr_nodes) for one in _partitions(node, name)[:1]] == [set(turned)], f"{name}-0 is in sync"
        )
        elected = controller.ask(_election(name))
        yield from [f"ElectLeaders: {elected}"] if elected.error_code else []
        yield from _until(
            lambda: [one.leader_id for one in _partitions(node, name)[:1]] == turned[:1],
            f"{name}-0 is led by {turned[0]}",
        )
        yield from _refused(node, _quota(name))
        yield from [] if zookeeper else _refused(node, _quorum())
        yield from _refused(controller, _removal(name))
        yield from _until(lambda: not _partitions(node, name), f"{name} is gone")


def refusals(place: Address, topic: str, *, zookeeper: bool = False) -> dict[str, list[str]]:
    """What cannot be done, asked for through one node: request -> codes, in the order of what it names. ``topic`` does
    not move, and its replicas are in sync."""
    wrong = [_new(topic), _new("many", replicas=99), _new("a b"), _new("odd", ("no.such.setting", "1"))]
    none = "no-such-topic"
    with ExitStack() as open_:
        node = open_.enter_context(Asked(place))
        controller = open_.enter_context(Asked(node.controller())) if zookeeper else node
        asked: list[tuple[Asked, Request[Message]]] = [
            (controller, CreateTopicsRequest(topics=wrong, timeout_ms=30_000)),
            (controller, CreatePartitionsRequest(topics=[_more(topic, 1), _more(none)], timeout_ms=30_000)),
            (node, _retention_of(topic, "never")),
            (node, _retention_of(none)),
            (node, _described(none)),
            (controller, _to(topic, [97, 98, 99])),
            (controller, _to(topic, None)),
            (controller, _to(none, [1])),
            (controller, _election(topic)),
            (controller, _election(none)),
            (controller, _removal(none)),
        ]
        controller.ask(_election(topic))  # whoever led: from now on there is nothing to elect
        found: dict[str, list[str]] = {}
        for number, (whom, request) in enumerate(asked):
            codes = [Code(one).name for one in _codes(whom.ask(request)) if one]
            found[f"{number}: {type(request).__name__}"] = codes
    with sync.Cluster("{}:{}".format(*place)) as cluster:
        gone = cluster.run(delete_groups(cluster.client, ["no-such-group"]))
        found["DeleteGroups"] = [one.code.name for one in gone.values()]
        described = cluster.run(describe_groups(cluster.client, ["no-such-group"]))
        found["DescribeGroups"] = [one.group_state for one in described.values()]
    return found


def administer_groups(place: Address, name: str, read: TopicPartition) -> Iterator[str]:
    """Commit for new groups through one node, look at them and delete them; what was refused or is not as it should.

    What follows the first of these is not to be trusted, as of ``administer``."""
    at = {f"{name}-{n}": Committed(n + 1) for n in range(GROUPS)}
    with sync.Cluster("{}:{}".format(*place)) as cluster:
        client = cluster.client
        for group, offset in at.items():
            codes = cluster.run(commit(client, group, {read: offset}))
            yield from [f"commit of {group}: {codes}"] if codes != {read: Code.NONE} else []
            code, found = cluster.run(committed(client, group))
            if code is not Code.NONE or {key: one.offset for key, one in found.items()} != {read: offset.offset}:
                yield f"{group} has committed {found}: {code.name}"
        states = {group: one.group_state for group, one in cluster.run(describe_groups(client, at)).items()}
        yield from [f"states of groups: {states}"] if states != dict.fromkeys(at, "Empty") else []
        gone = cluster.run(delete_groups(client, at))
        yield from [f"deletion of {group}: {one}" for group, one in gone.items() if not one.ok]
        left = {group: one.group_state for group, one in cluster.run(describe_groups(client, at)).items()}
        yield from [f"states of deleted groups: {left}"] if left != dict.fromkeys(at, "Dead") else []


def coordinators_of(place: Address, groups: list[str]) -> dict[str, int]:
    """Who coordinates each of the groups, as one node says."""
    with Asked(place) as node:
        answer = node.ask(FindCoordinatorRequest(coordinator_keys=groups))
    return {one.key: one.node_id for one in answer.coordinators}


def _new(name: str, setting: tuple[str, str] = ("min.insync.replicas", "2"), replicas: int = 3) -> Any:  # Any: a struct
    config = CreateTopicsRequest.CreatableTopicConfig(name=setting[0], value=setting[1])
    return CreateTopicsRequest.CreatableTopic(
        name=name, num_partitions=1, replication_factor=replicas, configs=[config]
    )


def _more(name: str, count: int = 2) -> Any:  # Any: a struct of the message
    return CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=None)


def _election(name: str) -> ElectLeadersRequest:
    one = ElectLeadersRequest.TopicPartitions(topic=name, partitions=[0])
    return ElectLeadersRequest(election_type=_PREFERRED, topic_partitions=[one], timeout_ms=30_000)


def _retention_of(name: str, value: str = _RETENTION[1]) -> IncrementalAlterConfigsRequest:
    request = IncrementalAlterConfigsRequest
    config = request.AlterableConfig(name=_RETENTION[0], config_operation=_SET, value=value)
    return request(resources=[request.AlterConfigsResource(resource_type=_TOPIC, resource_name=name, configs=[config])])


def _described(name: str) -> DescribeConfigsRequest:
    request = DescribeConfigsRequest
    one = request.DescribeConfigsResource(resource_type=_TOPIC, resource_name=name, configuration_keys=[_RETENTION[0]])
    return request(resources=[one])


def _retention(node: Asked, name: str) -> str | None:
    configs = node.ask(_described(name)).results[0].configs
    return str(configs[0].value) if configs else None


def _to(name: str, replicas: list[int] | None) -> AlterPartitionReassignmentsRequest:
    request = AlterPartitionReassignmentsRequest
    part = request.ReassignablePartition(partition_index=0, replicas=replicas)
    return request(timeout_ms=30_000, topics=[request.ReassignableTopic(name=name, partitions=[part])])


def _moving(node: Asked) -> bool:
    return bool(node.ask(ListPartitionReassignmentsRequest(timeout_ms=30_000)).topics)


def _quota(user: str) -> AlterClientQuotasRequest:
    request = AlterClientQuotasRequest
    entity = request.EntityData(entity_type="client-id", entity_name=user)
    limit = request.OpData(key="producer_byte_rate", value=1e9)
    return request(entries=[request.EntryData(entity=[entity], ops=[limit])])


def _quorum() -> DescribeQuorumRequest:
    request = DescribeQuorumRequest
    part = request.PartitionData(partition_index=0)
    return request(topics=[request.TopicData(topic_name="__cluster_metadata", partitions=[part])])


def _removal(name: str) -> DeleteTopicsRequest:
    request = DeleteTopicsRequest
    state = request.DeleteTopicState(name=name)
    return request(topics=[state], topic_names=[name], timeout_ms=30_000)


def _partitions(node: Asked, name: str) -> list[Any]:  # Any: structs of the message
    """Partitions as a node tells them, by number; none when it does not know the topic."""
    wanted = MetadataRequest.MetadataRequestTopic(name=name)
    topics = node.ask(MetadataRequest(topics=[wanted], allow_auto_topic_creation=False)).topics
    known = topics and not topics[0].error_code
    return sorted(topics[0].partitions, key=lambda one: one.partition_index) if known else []


def _refused(node: Asked, request: Request[Message]) -> Iterator[str]:
    """A text for every error code in an answer, wherever it stands."""
    answer = node.ask(request)
    if any(_codes(answer)):
        yield f"{type(request).__name__}: {answer}"


def _codes(part: Any) -> Iterator[int]:  # Any: a message or a struct of one
    for name, value in vars(part).items():
        if name == "error_code":
            yield value
        elif isinstance(value, list):
            for each in value:
                yield from _codes(each)


def _until(shown: Callable[[], bool], what: str) -> Iterator[str]:
    """Nothing once it is so; that it did not come about when it is not in time."""
    deadline = time.monotonic() + PATIENCE_S
    while not shown():
        if time.monotonic() > deadline:
            yield f"not within {PATIENCE_S:g} s: {what}"
            return
        time.sleep(0.05)
