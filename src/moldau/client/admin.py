"""Administration of a cluster: topics, partitions, configs, elections, reassignments, brokers' log dirs, the quorum.

Each call is one request (or one per broker) and gives values: an ``Outcome`` per thing asked about, as the cluster
judged it. Does not wait until a change has reached every broker. Groups are in groups.py.
Works on event-loop and blocking clients alike (``Cluster.run``).
Sources: protocol guide; KIP-4, KIP-339, KIP-455, KIP-460, KIP-595, KIP-853. Read next: client.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import IntEnum

from moldau.client.client import ANYONE, CONTROLLER, CONTROLLERS, Client, ForNode, Refused, Target
from moldau.client.view import Outcome, by_topic
from moldau.model import NO_UUID, Code, TopicPartition
from moldau.model.named import NamedTuple
from moldau.model.value import field, value
from moldau.wire.messages.k03_metadata import MetadataRequest
from moldau.wire.messages.k19_create_topics import CreateTopicsRequest, CreateTopicsResponse
from moldau.wire.messages.k20_delete_topics import DeleteTopicsRequest
from moldau.wire.messages.k21_delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from moldau.wire.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from moldau.wire.messages.k34_alter_replica_log_dirs import AlterReplicaLogDirsRequest
from moldau.wire.messages.k35_describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from moldau.wire.messages.k37_create_partitions import CreatePartitionsRequest
from moldau.wire.messages.k43_elect_leaders import ElectLeadersRequest
from moldau.wire.messages.k44_incremental_alter_configs import IncrementalAlterConfigsRequest
from moldau.wire.messages.k45_alter_partition_reassignments import AlterPartitionReassignmentsRequest
from moldau.wire.messages.k46_list_partition_reassignments import ListPartitionReassignmentsRequest
from moldau.wire.messages.k55_describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from moldau.wire.messages.k60_describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from moldau.wire.messages.k64_unregister_broker import UnregisterBrokerRequest
from moldau.wire.messages.k74_list_config_resources import ListConfigResourcesRequest
from moldau.wire.messages.k80_add_raft_voter import AddRaftVoterRequest
from moldau.wire.messages.k81_remove_raft_voter import RemoveRaftVoterRequest

METADATA_LOG = TopicPartition("__cluster_metadata", 0)


class ResourceType(IntEnum):
    """What a configuration belongs to."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class AlterOp(IntEnum):
    """What to do with one configuration value (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigSource(IntEnum):
    """Where the value of a configuration comes from."""

    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    FILE = 4
    DEFAULT = 5
    LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ElectionType(IntEnum):
    """KIP-460: the first replica, or any that is left even if records are lost."""

    PREFERRED = 0
    UNCLEAN = 1


class Resource(NamedTuple):
    """Something that has a configuration; a broker's name is its id, empty for the default of all brokers."""

    type: ResourceType
    name: str


class ConfigEntry(NamedTuple):
    """One value of a configuration; ``source`` is Kafka's number, a ``ConfigSource`` unless it is newer than we are."""

    name: str
    value: str | None
    source: int
    read_only: bool
    sensitive: bool
    documentation: str | None
    synonyms: tuple[tuple[str, str | None, int], ...]


class Reassignment(NamedTuple):
    """A partition on its way: all replicas now, and those coming and going."""

    replicas: list[int]
    adding: list[int]
    removing: list[int]


@value(kw_only=True)
class NewTopic:
    """A topic to be made; -1 takes the cluster's default. ``assignment``: partition -> replicas, instead of counts."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str | None] = field(default_factory=dict)
    assignment: Mapping[int, Sequence[int]] | None = None


async def create_topics(
    client: Client, topics: Collection[NewTopic], *, validate_only: bool = False, timeout_ms: int = 30_000
) -> dict[str, Outcome]:
    """Make topics; one outcome each, with the new id (from brokers that know topic ids)."""
    kind = CreateTopicsRequest
    request = kind(
        topics=[
            kind.CreatableTopic(
                name=topic.name,
                num_partitions=topic.partitions if topic.assignment is None else -1,
                replication_factor=topic.replication_factor if topic.assignment is None else -1,
                assignments=[
                    kind.CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
                    for index, replicas in (topic.assignment or {}).items()
                ],
                configs=[kind.CreatableTopicConfig(name=key, value=value) for key, value in topic.configs.items()],
            )
            for topic in topics
        ],
        timeout_ms=timeout_ms,
        validate_only=validate_only,
    )
    response = await client.ask(request, CONTROLLER, codes=_topic_codes)
    return {t.name: Outcome(Code(t.error_code), t.error_message, t.topic_id) for t in response.topics}


async def delete_topics(client: Client, names: Collection[str], *, timeout_ms: int = 30_000) -> dict[str, Outcome]:
    """Delete topics by name; one outcome each."""
    request = DeleteTopicsRequest(
        topics=[DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=NO_UUID) for name in names],
        topic_names=list(names),
        timeout_ms=timeout_ms,
    )
    response = await client.ask(request, CONTROLLER, codes=lambda r: [t.error_code for t in r.responses])
    for name in names:
        client.view.forget(name)
    return {
        t.name: Outcome(Code(t.error_code), t.error_message, t.topic_id)
        for t in response.responses
        if t.name is not None  # none of them was asked for by its id
    }


async def create_partitions(
    client: Client,
    counts: Mapping[str, int],
    *,
    assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
    validate_only: bool = False,
    timeout_ms: int = 30_000,
) -> dict[str, Outcome]:
    """Raise the number of partitions of topics to the given counts; ``assignments``: the replicas of the new ones."""
    kind = CreatePartitionsRequest
    placed = {
        name: [kind.CreatePartitionsAssignment(broker_ids=list(replicas)) for replicas in given]
        for name, given in (assignments or {}).items()
    }
    request = kind(
        topics=[
            kind.CreatePartitionsTopic(name=name, count=count, assignments=placed.get(name))
            for name, count in counts.items()
        ],
        timeout_ms=timeout_ms,
        validate_only=validate_only,
    )
    response = await client.ask(request, CONTROLLER, codes=lambda r: [t.error_code for t in r.results])
    return {t.name: Outcome(Code(t.error_code), t.error_message) for t in response.results}


async def delete_records(
    client: Client, before: Mapping[TopicPartition, int], *, timeout_ms: int = 30_000
) -> dict[TopicPartition, tuple[Code, int]]:
    """Delete all records before an offset (-1: all there are) in each partition; code and new log start offset."""
    kind = DeleteRecordsRequest

    def build(partitions: list[TopicPartition]) -> DeleteRecordsRequest:
        topics: dict[str, list[DeleteRecordsRequest.DeleteRecordsPartition]] = {}
        for p in partitions:
            part = kind.DeleteRecordsPartition(partition_index=p.partition, offset=before[p])
            topics.setdefault(p.topic, []).append(part)
        return kind(
            topics=[kind.DeleteRecordsTopic(name=name, partitions=parts) for name, parts in topics.items()],
            timeout_ms=timeout_ms,
        )

    def read(response: DeleteRecordsResponse) -> dict[TopicPartition, tuple[int, int]]:
        return {
            TopicPartition(topic.name, p.partition_index): (p.error_code, p.low_watermark)
            for topic in response.topics
            for p in topic.partitions
        }

    answers = await client.per_leader(before, build, read, try_ms=timeout_ms + 5_000)  # followers are waited for
    return {p: (code, low if low is not None else -1) for p, (code, low) in answers.items()}


async def describe_configs(
    client: Client,
    resources: Collection[Resource],
    *,
    keys: Sequence[str] | None = None,
    documentation: bool = False,
    synonyms: bool = True,
) -> dict[Resource, tuple[Outcome, dict[str, ConfigEntry]]]:
    """The configuration of each resource: all keys, or the given ones. A broker is asked about itself."""
    kind = DescribeConfigsRequest
    out: dict[Resource, tuple[Outcome, dict[str, ConfigEntry]]] = {}
    for to, theirs in _who_knows(resources).items():
        request = kind(
            resources=[
                kind.DescribeConfigsResource(
                    resource_type=r.type, resource_name=r.name, configuration_keys=None if keys is None else list(keys)
                )
                for r in theirs
            ],
            include_synonyms=synonyms,
            include_documentation=documentation,
        )
        response = await client.ask(request, to, codes=lambda r: [one.error_code for one in r.results])
        for one in response.results:
            entries = {c.name: _entry(c) for c in one.configs}
            resource = Resource(ResourceType(one.resource_type), one.resource_name)
            out[resource] = (Outcome(Code(one.error_code), one.error_message), entries)
    return out


async def alter_configs(
    client: Client,
    changes: Mapping[Resource, Collection[tuple[str, AlterOp, str | None]]],
    *,
    validate_only: bool = False,
) -> dict[Resource, Outcome]:
    """Change single values: (key, what to do, value). One outcome per resource, which changes whole or not at all."""
    kind = IncrementalAlterConfigsRequest
    out: dict[Resource, Outcome] = {}
    if any(one.type is not ResourceType.BROKER_LOGGER for one in changes):
        await client.demand_controller()  # to which brokers pass it on
    for to, theirs in (_who_knows(changes) if not client.options.controllers else _who_writes(changes)).items():
        request = kind(
            resources=[
                kind.AlterConfigsResource(
                    resource_type=r.type,
                    resource_name=r.name,
                    configs=[kind.AlterableConfig(name=k, config_operation=op, value=v) for k, op, v in changes[r]],
                )
                for r in theirs
            ],
            validate_only=validate_only,
        )
        response = await client.ask(request, to, codes=lambda r: [one.error_code for one in r.responses])
        for one in response.responses:
            resource = Resource(ResourceType(one.resource_type), one.resource_name)
            out[resource] = Outcome(Code(one.error_code), one.error_message)
    return out


async def elect_leaders(
    client: Client, partitions: Collection[TopicPartition] | None, election: ElectionType = ElectionType.PREFERRED
) -> tuple[Code, dict[TopicPartition, Outcome]]:
    """Elect for the given partitions, or for all that need it (None). The code is that of the whole request.

    ELECTION_NOT_NEEDED says that the right replica leads already.
    """
    kind = ElectLeadersRequest
    topics = None if partitions is None else [
        kind.TopicPartitions(topic=name, partitions=indexes) for name, indexes in by_topic(partitions).items()
    ]  # fmt: skip
    response = await client.ask(kind(election_type=election, topic_partitions=topics, timeout_ms=30_000), CONTROLLER)
    return Code(response.error_code), {
        TopicPartition(topic.topic, p.partition_id): Outcome(Code(p.error_code), p.error_message)
        for topic in response.replica_election_results
        for p in topic.partition_result
    }


async def reassign(
    client: Client,
    targets: Mapping[TopicPartition, Sequence[int] | None],
    *,
    timeout_ms: int = 30_000,
    other_factor: bool = True,
) -> tuple[Outcome, dict[TopicPartition, Outcome]]:
    """Move partitions to the given replicas (None: call a move off). The first outcome is that of the whole request.

    ``other_factor``: whether a partition may get another number of replicas than it has (KIP-860).
    """
    kind = AlterPartitionReassignmentsRequest
    topics: dict[str, list[AlterPartitionReassignmentsRequest.ReassignablePartition]] = {}
    for p, replicas in targets.items():
        wanted = None if replicas is None else list(replicas)
        topics.setdefault(p.topic, []).append(kind.ReassignablePartition(partition_index=p.partition, replicas=wanted))
    request = kind(
        timeout_ms=timeout_ms,
        allow_replication_factor_change=other_factor,
        topics=[kind.ReassignableTopic(name=name, partitions=parts) for name, parts in topics.items()],
    )
    response = await client.ask(request, CONTROLLER, lowest=0 if other_factor else 1)
    return Outcome(Code(response.error_code), response.error_message), {
        TopicPartition(topic.name, p.partition_index): Outcome(Code(p.error_code), p.error_message)
        for topic in response.responses
        for p in topic.partitions
    }


async def reassignments(
    client: Client, partitions: Collection[TopicPartition] | None = None
) -> tuple[Outcome, dict[TopicPartition, Reassignment]]:
    """The moves under way, of the given partitions or all."""
    kind = ListPartitionReassignmentsRequest
    topics = None if partitions is None else [
        kind.ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)
        for name, indexes in by_topic(partitions).items()
    ]  # fmt: skip
    request = kind(topics=topics, timeout_ms=30_000)
    response = await client.ask(request, CONTROLLER, request_timeout_ms=client.try_ms)
    return Outcome(Code(response.error_code), response.error_message), {
        TopicPartition(topic.name, p.partition_index): Reassignment(p.replicas, p.adding_replicas, p.removing_replicas)
        for topic in response.topics
        for p in topic.partitions
    }


async def describe_log_dirs(
    client: Client, brokers: Collection[int] | None = None
) -> dict[int, list[DescribeLogDirsResponse.DescribeLogDirsResult]]:
    """Each broker's log dirs with their partitions, sizes and space, as it answered; all live brokers by default."""
    if brokers is None:
        await client.know([])
        brokers = list(client.view.brokers)
    request = DescribeLogDirsRequest(topics=None)
    return {b: (await client.ask(request, ForNode(b))).results for b in brokers}


async def alter_log_dirs(
    client: Client, moves: Mapping[int, Mapping[str, Collection[tuple[str, int]]]]
) -> dict[tuple[int, TopicPartition], Code]:
    """Have brokers copy replicas to other log directories: broker -> path -> (topic, partition); a code for each.

    REPLICA_NOT_AVAILABLE says that the broker has no such replica (yet).
    """
    kind = AlterReplicaLogDirsRequest
    out: dict[tuple[int, TopicPartition], Code] = {}
    for broker, by_path in moves.items():
        dirs = [
            kind.AlterReplicaLogDir(
                path=path,
                topics=[
                    kind.AlterReplicaLogDirTopic(name=name, partitions=numbers)
                    for name, numbers in by_topic([TopicPartition(*one) for one in replicas]).items()
                ],
            )
            for path, replicas in by_path.items()
        ]
        response = await client.ask(kind(dirs=dirs), ForNode(broker), codes=lambda r: ())
        for topic in response.results:
            for part in topic.partitions:
                out[broker, TopicPartition(topic.topic_name, part.partition_index)] = Code(part.error_code)
    return out


async def list_resources(client: Client, types: Collection[int]) -> list[tuple[ResourceType, str]]:
    """The resources of these types that have a configuration of their own (KIP-1142)."""
    response = await client.ask(ListConfigResourcesRequest(resource_types=list(types)), ANYONE)
    if response.error_code != Code.NONE:
        raise Refused(Code(response.error_code), "configuration resources")
    return [(ResourceType(one.resource_type), one.resource_name) for one in response.config_resources]


async def describe_cluster(client: Client, *, fenced: bool = False) -> DescribeClusterResponse:
    """Brokers, controller and id of the cluster, as a broker answered; ``fenced`` brokers too, where it can."""
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=False,
        endpoint_type=CONTROLLERS if client.options.controllers else 1,
        include_fenced_brokers=fenced,
    )
    return await client.ask(request, ANYONE)


async def describe_broker(client: Client, id: int) -> DescribeClusterResponse:
    """Brokers, controller and id of the cluster, as this broker answers, and no other for it."""
    request = DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=False)
    return await client.ask(request, ForNode(id))


async def partitions_told(client: Client, id: int) -> frozenset[TopicPartition]:
    """All partitions of which this broker tells, and no other for it; without those of which nothing could be read from
    ZooKeeper, which have no leader epoch."""
    response = await client.ask(MetadataRequest(topics=None, allow_auto_topic_creation=False), ForNode(id))
    named = ((topic.name, topic.partitions) for topic in response.topics if topic.name is not None)
    return frozenset(
        TopicPartition(name, one.partition_index)
        for name, partitions in named
        for one in partitions
        if one.leader_epoch >= 0
    )


async def ask_quorum(client: Client, *, timeout_ms: int | None = None) -> DescribeQuorumResponse:
    """All that the leader of the metadata quorum says of it, the addresses of voters included."""
    kind = DescribeQuorumRequest
    topic = kind.TopicData(
        topic_name=METADATA_LOG.topic, partitions=[kind.PartitionData(partition_index=METADATA_LOG.partition)]
    )
    return await client.ask(kind(topics=[topic]), CONTROLLER, timeout_ms=timeout_ms, request_timeout_ms=timeout_ms)


async def describe_quorum(
    client: Client, *, timeout_ms: int | None = None
) -> tuple[Outcome, DescribeQuorumResponse.PartitionData | None]:
    """The metadata quorum: leader, epoch, high watermark, voters and observers with their log ends."""
    response = await ask_quorum(client, timeout_ms=timeout_ms)
    if response.error_code != Code.NONE or not response.topics:
        return Outcome(Code(response.error_code), response.error_message), None
    part = response.topics[0].partitions[0]
    return Outcome(Code(part.error_code), part.error_message), part


async def add_voter(
    client: Client, voter_id: int, directory_id: bytes, endpoints: Collection[tuple[str, str, int]], *, timeout_ms: int
) -> Outcome:
    """Let a controller vote (KIP-853): its ``endpoints`` as (listener, host, port). REQUEST_TIMED_OUT while another
    change is under way, or when it has not caught up in time.
    """
    kind = AddRaftVoterRequest
    listeners = [kind.Listener(name=name, host=host, port=port) for name, host, port in endpoints]
    request = kind(
        cluster_id=None,
        timeout_ms=timeout_ms,
        voter_id=voter_id,
        voter_directory_id=directory_id,
        listeners=listeners,
    )
    patient_ms = timeout_ms + 5_000  # asked again before the answer comes, it would find its first request in the way
    response = await client.ask(request, CONTROLLER, timeout_ms=patient_ms, request_timeout_ms=patient_ms)
    return Outcome(Code(response.error_code), response.error_message)


async def remove_voter(client: Client, voter_id: int, directory_id: bytes) -> Outcome:
    """Let a controller vote no more (KIP-853), the leader too."""
    request = RemoveRaftVoterRequest(cluster_id=None, voter_id=voter_id, voter_directory_id=directory_id)
    response = await client.ask(request, CONTROLLER)
    return Outcome(Code(response.error_code), response.error_message)


async def unregister_broker(client: Client, broker_id: int) -> Outcome:
    """Make the cluster forget a broker that is down for good (KIP-500)."""
    response = await client.ask(UnregisterBrokerRequest(broker_id=broker_id), CONTROLLER)
    return Outcome(Code(response.error_code), response.error_message)


def _who_knows(resources: Collection[Resource]) -> dict[Target, list[Resource]]:
    """Only a broker itself knows its own file and loggers; everything else any broker can answer or forward."""
    out: dict[Target, list[Resource]] = {}
    for resource in resources:
        local = resource.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and resource.name
        out.setdefault(ForNode(int(resource.name)) if local else ANYONE, []).append(resource)
    return out


def _who_writes(resources: Collection[Resource]) -> dict[Target, list[Resource]]:
    """Who changes them where controllers are asked: the active one, but for loggers, which each node has of its own."""
    loggers = [one for one in resources if one.type is ResourceType.BROKER_LOGGER]
    others = [one for one in resources if one.type is not ResourceType.BROKER_LOGGER]
    return {**({CONTROLLER: others} if others else {}), **_who_knows(loggers)}


def _entry(config: DescribeConfigsResponse.DescribeConfigsResourceResult) -> ConfigEntry:
    source = config.config_source
    if source < 0:  # version 0 says only whether it is the default
        source = 5 if config.is_default else 1
    synonyms = tuple((s.name, s.value, s.source) for s in config.synonyms)
    return ConfigEntry(
        config.name, config.value, source, config.read_only, config.is_sensitive, config.documentation, synonyms
    )


def _topic_codes(response: CreateTopicsResponse) -> Iterator[int]:
    for topic in response.topics:
        yield topic.error_code
