"""Bad input to every administration request: each bad item is refused by a named error, the good ones beside it happen,
and what is only to be validated changes nothing. Through ``moldau.client``, on bare requests.

Departures from Apache Kafka are few and named here: a setting that nobody knows is refused (Kafka keeps it on brokers).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from foreign import wait_led
from kafka_peer import wait_until

from moldau.client import sync
from moldau.client.client import ANYONE, CONTROLLER, ForNode
from moldau.model import Code
from moldau.wire.messages.k19_create_topics import CreateTopicsRequest
from moldau.wire.messages.k20_delete_topics import DeleteTopicsRequest
from moldau.wire.messages.k21_delete_records import DeleteRecordsRequest
from moldau.wire.messages.k32_describe_configs import DescribeConfigsRequest
from moldau.wire.messages.k33_alter_configs import AlterConfigsRequest
from moldau.wire.messages.k37_create_partitions import CreatePartitionsRequest
from moldau.wire.messages.k43_elect_leaders import ElectLeadersRequest
from moldau.wire.messages.k44_incremental_alter_configs import IncrementalAlterConfigsRequest
from moldau.wire.messages.k45_alter_partition_reassignments import AlterPartitionReassignmentsRequest
from moldau.wire.messages.k46_list_partition_reassignments import ListPartitionReassignmentsRequest
from moldau.wire.messages.k55_describe_quorum import DescribeQuorumRequest
from moldau.wire.messages.k57_update_features import UpdateFeaturesRequest
from moldau.wire.messages.k60_describe_cluster import DescribeClusterRequest
from moldau.wire.messages.k64_unregister_broker import UnregisterBrokerRequest

Fresh = Callable[[str], str]
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


class Asking:
    """A client that takes answers as they are: codes inside are what is tested."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.cluster = sync.Cluster(bootstrap)

    def __call__(self, message: Any, to: Any = CONTROLLER) -> Any:
        return self.cluster.run(self.cluster.client.ask(message, to, codes=lambda response: ()))

    def topics(self) -> dict[str, Any]:
        return self.cluster.topics()

    def create(self, name: str, partitions: int = 1, replication_factor: int = 3) -> None:
        wish = topic(name, num_partitions=partitions, replication_factor=replication_factor)
        (made,) = self(CreateTopicsRequest(topics=[wish], timeout_ms=60_000)).topics
        assert made.error_code == Code.NONE, made

        wait_led(self.bootstrap, name, partitions, replication_factor)


@pytest.fixture(scope="module")
def ask(bootstrap_servers: str) -> Iterator[Asking]:
    asking = Asking(bootstrap_servers)
    yield asking
    asking.cluster.close()


def codes(items: Any, code: str = "error_code") -> list[Code]:
    return [Code(getattr(item, code)) for item in items]


# ---- topics


def topic(name: str, **fields: Any) -> CreateTopicsRequest.CreatableTopic:
    return CreateTopicsRequest.CreatableTopic(name=name, **{"num_partitions": 1, "replication_factor": 1, **fields})


def by_hand(*assignments: tuple[int, list[int]], **fields: Any) -> dict[str, Any]:
    kind = CreateTopicsRequest.CreatableReplicaAssignment
    given = [kind(partition_index=number, broker_ids=brokers) for number, brokers in assignments]
    return {"num_partitions": -1, "replication_factor": -1, "assignments": given, **fields}


def configured(key: str, value: str | None) -> dict[str, Any]:
    return {"configs": [CreateTopicsRequest.CreatableTopicConfig(name=key, value=value)]}


BAD_TOPICS: list[tuple[str, dict[str, Any], Code]] = [
    ("", {}, Code.INVALID_TOPIC_EXCEPTION),
    (".", {}, Code.INVALID_TOPIC_EXCEPTION),
    ("a/b", {}, Code.INVALID_TOPIC_EXCEPTION),
    ("x" * 250, {}, Code.INVALID_TOPIC_EXCEPTION),
    ("ü", {}, Code.INVALID_TOPIC_EXCEPTION),
    ("__cluster_metadata", {}, Code.INVALID_REQUEST),
    ("p-zero", {"num_partitions": 0}, Code.INVALID_PARTITIONS),
    ("p-negative", {"num_partitions": -2}, Code.INVALID_PARTITIONS),
    ("p-too-many", {"num_partitions": 2_000_000_000}, Code.POLICY_VIOLATION),
    ("rf-zero", {"replication_factor": 0}, Code.INVALID_REPLICATION_FACTOR),
    ("rf-negative", {"replication_factor": -3}, Code.INVALID_REPLICATION_FACTOR),
    ("rf-too-large", {"replication_factor": 9}, Code.INVALID_REPLICATION_FACTOR),
    ("unknown-key", configured("nope", "1"), Code.INVALID_CONFIG),
    ("bad-value", configured("retention.ms", "soon"), Code.INVALID_CONFIG),
    ("no-value", configured("retention.ms", None), Code.INVALID_CONFIG),
    ("not-a-policy", configured("cleanup.policy", "burn"), Code.INVALID_CONFIG),
    ("out-of-bounds", configured("min.insync.replicas", "0"), Code.INVALID_CONFIG),
    ("no-replicas-list", configured("leader.replication.throttled.replicas", "what"), Code.INVALID_CONFIG),
    ("hand-and-count", by_hand((0, [1]), num_partitions=1), Code.INVALID_REQUEST),
    ("hand-and-factor", by_hand((0, [1]), replication_factor=1), Code.INVALID_REQUEST),
    ("hand-twice-a-broker", by_hand((0, [1, 1])), Code.INVALID_REPLICA_ASSIGNMENT),
    ("hand-unknown-broker", by_hand((0, [7])), Code.INVALID_REPLICA_ASSIGNMENT),
    ("hand-not-from-zero", by_hand((1, [1])), Code.INVALID_REPLICA_ASSIGNMENT),
    ("hand-negative", by_hand((-1, [1])), Code.INVALID_REPLICA_ASSIGNMENT),
    ("hand-uneven", by_hand((0, [1]), (1, [1, 2])), Code.INVALID_REPLICA_ASSIGNMENT),
    ("hand-nobody", by_hand((0, [])), Code.INVALID_REPLICA_ASSIGNMENT),
    ("hand-twice-a-partition", by_hand((0, [1]), (0, [2])), Code.INVALID_REPLICA_ASSIGNMENT),
]


def test_topics_that_cannot_be_are_refused_one_by_one_and_a_good_one_is_made(ask: Asking, fresh: Fresh) -> None:
    good, there = fresh("good"), fresh("there")
    ask.create(there)
    wishes = [topic(name, **fields) for name, fields, _ in BAD_TOPICS]
    wishes += [topic("twice"), topic("twice", num_partitions=2), topic(there), topic(good)]
    answer = ask(CreateTopicsRequest(topics=wishes, timeout_ms=60_000))
    found = {result.name: Code(result.error_code) for result in answer.topics}
    wanted = {name: code for name, _, code in BAD_TOPICS}
    wanted |= {"twice": Code.INVALID_REQUEST, there: Code.TOPIC_ALREADY_EXISTS, good: Code.NONE}
    assert found == wanted
    assert all(result.error_message for result in answer.topics if result.error_code)
    wait_until(lambda: good in ask.topics(), "every broker knows the good one")
    assert not {name for name, _, _ in BAD_TOPICS} & set(ask.topics())


def test_names_that_metrics_cannot_tell_apart_are_refused(ask: Asking, fresh: Fresh) -> None:
    dotted = fresh("metric.one")
    ask.create(dotted)
    answer = ask(CreateTopicsRequest(topics=[topic(dotted.replace(".", "_"))], timeout_ms=60_000))
    assert codes(answer.topics) == [Code.INVALID_TOPIC_EXCEPTION]


def test_a_creation_that_is_only_validated_creates_nothing(ask: Asking, fresh: Fresh) -> None:
    name = fresh("dry")
    wishes = [topic(name, num_partitions=2), topic("bad", replication_factor=9)]
    answer = ask(CreateTopicsRequest(topics=wishes, validate_only=True, timeout_ms=60_000))
    assert codes(answer.topics) == [Code.NONE, Code.INVALID_REPLICATION_FACTOR]
    assert answer.topics[0].num_partitions == 2
    ask.create(name)


def test_topics_that_are_not_there_are_not_deleted_and_the_others_are(ask: Asking, fresh: Fresh) -> None:
    name, twice = fresh("deleted"), fresh("twice")
    ask.create(name)
    ask.create(twice)
    state = DeleteTopicsRequest.DeleteTopicState
    id = ask.topics()[name].topic_id
    wishes = [
        state(name="nowhere"), state(name=""), state(name=None, topic_id=b"?" * 16), state(name=None),
        state(name="both", topic_id=b"?" * 16), state(name=twice), state(name=twice), state(name=None, topic_id=id),
    ]  # fmt: skip
    answer = ask(DeleteTopicsRequest(topics=wishes, timeout_ms=60_000))
    named = ((bytes(r.topic_id).hex() if r.name is None else r.name, r.error_code) for r in answer.responses)
    found = sorted((name, Code(code)) for name, code in named)
    assert found == sorted(
        [
            ("nowhere", Code.UNKNOWN_TOPIC_OR_PARTITION), ("", Code.UNKNOWN_TOPIC_OR_PARTITION),
            ((b"?" * 16).hex(), Code.UNKNOWN_TOPIC_ID), (bytes(16).hex(), Code.INVALID_REQUEST),
            ("both", Code.INVALID_REQUEST), (twice, Code.INVALID_REQUEST), (twice, Code.INVALID_REQUEST),
            (name, Code.NONE),
        ]
    )  # fmt: skip
    wait_until(lambda: name not in ask.topics(), "it is gone")
    assert twice in ask.topics()


@pytest.mark.parametrize(
    ("count", "assignments", "code"),
    [
        (3, None, Code.INVALID_PARTITIONS),
        (2, None, Code.INVALID_PARTITIONS),
        (0, None, Code.INVALID_PARTITIONS),
        (-1, None, Code.INVALID_PARTITIONS),
        (2_000_000_000, None, Code.POLICY_VIOLATION),
        (4, [], Code.INVALID_REPLICA_ASSIGNMENT),
        (4, [[]], Code.INVALID_REPLICA_ASSIGNMENT),
        (4, [[1]], Code.INVALID_REPLICA_ASSIGNMENT),
        (4, [[1, 1]], Code.INVALID_REPLICA_ASSIGNMENT),
        (4, [[1, 9]], Code.INVALID_REPLICA_ASSIGNMENT),
        (4, [[1, 2], [2, 3]], Code.INVALID_REPLICA_ASSIGNMENT),
        (5, [[1, 2]], Code.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_partitions_that_cannot_be_added_are_refused(
    ask: Asking, fresh: Fresh, count: int, assignments: list[list[int]] | None, code: Code
) -> None:
    bad, good = fresh("bad"), fresh("good")
    ask.create(bad, 3, 2)
    ask.create(good, 1)
    kind = CreatePartitionsRequest
    given = None if assignments is None else [kind.CreatePartitionsAssignment(broker_ids=ids) for ids in assignments]
    wishes = [
        kind.CreatePartitionsTopic(name=bad, count=count, assignments=given),
        kind.CreatePartitionsTopic(name="nowhere", count=2, assignments=None),
        kind.CreatePartitionsTopic(name=good, count=2, assignments=None),
    ]
    answer = ask(kind(topics=wishes, timeout_ms=60_000))
    found = {result.name: Code(result.error_code) for result in answer.results}
    assert found == {bad: code, "nowhere": Code.UNKNOWN_TOPIC_OR_PARTITION, good: Code.NONE}
    wait_led(ask.bootstrap, good, 2)
    assert len(ask.topics()[bad].partitions) == 3


def test_an_increase_that_is_only_validated_adds_nothing(ask: Asking, fresh: Fresh) -> None:
    name = fresh("dry")
    ask.create(name)
    wish = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=9, assignments=None)
    answer = ask(CreatePartitionsRequest(topics=[wish], timeout_ms=60_000, validate_only=True))
    assert codes(answer.results) == [Code.NONE]
    assert len(ask.topics()[name].partitions) == 1


# ---- settings

ELIGIBLE = pytest.mark.of_quorum("no eligible leader replicas stand in ZooKeeper, so that this is allowed there")
SETTINGS: list[Any] = [
    (TOPIC, "nowhere", [("retention.ms", SET, "5")], Code.UNKNOWN_TOPIC_OR_PARTITION),
    (TOPIC, "", [("retention.ms", SET, "5")], Code.INVALID_REQUEST),
    (TOPIC, "T", [("nope", SET, "1")], Code.INVALID_CONFIG),
    (TOPIC, "T", [("nope", DELETE, None)], Code.INVALID_CONFIG),
    (TOPIC, "T", [("retention.ms", SET, "soon")], Code.INVALID_CONFIG),
    (TOPIC, "T", [("retention.ms", SET, None)], Code.INVALID_REQUEST),
    (TOPIC, "T", [("retention.ms", APPEND, "5")], Code.INVALID_CONFIG),
    (TOPIC, "T", [("cleanup.policy", APPEND, "burn")], Code.INVALID_CONFIG),
    (TOPIC, "T", [("retention.ms", 9, "5")], Code.INVALID_REQUEST),
    (TOPIC, "T", [("retention.ms", SET, "5"), ("retention.ms", SET, "6")], Code.INVALID_REQUEST),
    (TOPIC, "T", [("flush.ms", SET, "9"), ("segment.bytes", SET, "1")], Code.INVALID_CONFIG),
    (BROKER, "77", [("log.cleaner.backoff.ms", SET, "5")], Code.BROKER_ID_NOT_REGISTERED),
    (BROKER, "one", [("log.cleaner.backoff.ms", SET, "5")], Code.INVALID_REQUEST),
    (BROKER, "-1", [("log.cleaner.backoff.ms", SET, "5")], Code.INVALID_REQUEST),
    (BROKER, "1", [("node.id", SET, "5")], Code.INVALID_REQUEST),
    (BROKER, "1", [("nope", SET, "5")], Code.INVALID_CONFIG),
    (BROKER, "", [("listeners", SET, "PLAINTEXT://:1")], Code.INVALID_REQUEST),
    (BROKER, "", [("log.retention.ms", SET, "x")], Code.INVALID_REQUEST),
    (BROKER, "", [("num.replica.fetchers", SET, "0")], Code.INVALID_REQUEST),
    pytest.param(BROKER, "", [("min.insync.replicas", DELETE, None)], Code.INVALID_CONFIG, marks=ELIGIBLE),
    pytest.param(BROKER, "1", [("min.insync.replicas", SET, "2")], Code.INVALID_CONFIG, marks=ELIGIBLE),
    (LOGGER, "77", [("root", SET, "DEBUG")], Code.INVALID_REQUEST),
    (LOGGER, "", [("root", SET, "DEBUG")], Code.INVALID_REQUEST),
    (METRICS, "", [("interval.ms", SET, "1000")], Code.INVALID_REQUEST),
    (METRICS, "m", [("interval.ms", SET, "5")], Code.INVALID_REQUEST),
    (GROUP, "", [("consumer.session.timeout.ms", SET, "50000")], Code.INVALID_REQUEST),
    (0, "x", [("a", SET, "1")], Code.INVALID_REQUEST),
    (77, "x", [("a", SET, "1")], Code.INVALID_REQUEST),
]


def settings_of(ask: Asking, name: str, kind: int = TOPIC) -> dict[str, str]:
    """What is set on a resource itself."""
    wanted = DescribeConfigsRequest.DescribeConfigsResource(resource_type=kind, resource_name=name)
    wanted.configuration_keys = None
    (result,) = ask(DescribeConfigsRequest(resources=[wanted])).results
    return {entry.name: entry.value for entry in result.configs if entry.config_source in (1, 2, 3)}


@pytest.mark.parametrize(("kind", "name", "changes", "code"), SETTINGS)
def test_settings_that_cannot_be_are_refused_whole_and_those_beside_them_are_made(
    ask: Asking, fresh: Fresh, kind: int, name: str, changes: list[tuple[str, int, str | None]], code: Code
) -> None:
    bad, good = fresh("bad"), fresh("good")
    ask.create(bad)
    ask.create(good)
    request = IncrementalAlterConfigsRequest
    target = bad if name == "T" else name
    resources = [
        request.AlterConfigsResource(
            resource_type=each_kind,
            resource_name=each_name,
            configs=[request.AlterableConfig(name=k, config_operation=op, value=v) for k, op, v in each],
        )
        for each_kind, each_name, each in ((kind, target, changes), (TOPIC, good, [("retention.ms", SET, "777")]))
    ]
    answer = ask(request(resources=resources))
    assert codes(answer.responses) == [code, Code.NONE]
    assert answer.responses[0].error_message
    wait_until(lambda: settings_of(ask, good).get("retention.ms") == "777", "the good one is seen")
    assert settings_of(ask, bad) == settings_of(ask, "", BROKER), "nothing but what the whole cluster has"


def test_a_resource_named_twice_is_not_changed_and_what_is_only_validated_neither(ask: Asking, fresh: Fresh) -> None:
    name = fresh("same")
    ask.create(name)
    request = IncrementalAlterConfigsRequest
    wish = request.AlterConfigsResource(
        resource_type=TOPIC,
        resource_name=name,
        configs=[request.AlterableConfig(name="retention.ms", config_operation=SET, value="5")],
    )
    assert set(codes(ask(request(resources=[wish, wish])).responses)) == {Code.INVALID_REQUEST}
    assert codes(ask(request(resources=[wish], validate_only=True)).responses) == [Code.NONE]
    old = AlterConfigsRequest
    value = old.AlterableConfig(name="retention.ms", value="6")
    resource = old.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=[value])
    assert codes(ask(old(resources=[resource], validate_only=True)).responses) == [Code.NONE]
    ask.create(fresh("later"))
    assert "retention.ms" not in settings_of(ask, name)


@pytest.mark.parametrize(
    ("name", "values", "code"),
    [
        ("nowhere", [("retention.ms", "5")], Code.UNKNOWN_TOPIC_OR_PARTITION),
        ("T", [("retention.ms", "soon")], Code.INVALID_CONFIG),
        ("T", [("nope", "5")], Code.INVALID_CONFIG),
        ("T", [("retention.ms", None)], Code.INVALID_REQUEST),
        ("T", [("retention.ms", "5"), ("retention.ms", "6")], Code.INVALID_REQUEST),
    ],
)
def test_the_old_request_is_refused_alike(
    ask: Asking, fresh: Fresh, name: str, values: list[tuple[str, str | None]], code: Code
) -> None:
    mine = fresh("old")
    ask.create(mine)
    request = AlterConfigsRequest
    entries = [request.AlterableConfig(name=k, value=v) for k, v in values]
    wish = request.AlterConfigsResource(
        resource_type=TOPIC, resource_name=mine if name == "T" else name, configs=entries
    )
    assert codes(ask(request(resources=[wish])).responses) == [code]


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nowhere", Code.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", Code.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "a/b", Code.INVALID_TOPIC_EXCEPTION),
        (BROKER, "77", Code.INVALID_REQUEST),
        (BROKER, "x", Code.INVALID_REQUEST),
        (GROUP, "", Code.INVALID_REQUEST),
        (LOGGER, "77", Code.INVALID_REQUEST),
        (0, "x", Code.INVALID_REQUEST),
        (99, "x", Code.INVALID_REQUEST),
        (METRICS, "m", Code.NONE),
        (BROKER, "", Code.NONE),
    ],
)
def test_settings_are_described_where_there_are_any(ask: Asking, kind: int, name: str, code: Code) -> None:
    wanted = DescribeConfigsRequest.DescribeConfigsResource(resource_type=kind, resource_name=name)
    wanted.configuration_keys = None
    itself = DescribeConfigsRequest.DescribeConfigsResource(resource_type=BROKER, resource_name="1")
    itself.configuration_keys = ["node.id"]
    answer = ask(DescribeConfigsRequest(resources=[wanted, itself]), ForNode(1))
    assert codes(answer.results) == [code, Code.NONE]
    assert [entry.value for entry in answer.results[1].configs] == ["1"]


# ---- partitions


@pytest.mark.parametrize(
    ("number", "replicas", "code"),
    [
        (9, [1, 2], Code.UNKNOWN_TOPIC_OR_PARTITION),
        (-1, [1, 2], Code.UNKNOWN_TOPIC_OR_PARTITION),
        (0, [], Code.INVALID_REPLICA_ASSIGNMENT),
        (0, [1, 1], Code.INVALID_REPLICA_ASSIGNMENT),
        (0, [1, 9], Code.INVALID_REPLICA_ASSIGNMENT),
        (0, [-1, 1], Code.INVALID_REPLICA_ASSIGNMENT),
        (0, None, Code.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_moves_that_cannot_be_are_refused_and_the_others_begin(
    ask: Asking, fresh: Fresh, number: int, replicas: list[int] | None, code: Code
) -> None:
    bad, good = fresh("bad"), fresh("good")
    ask.create(bad, 1, 2)
    ask.create(good, 1, 2)
    kind = AlterPartitionReassignmentsRequest
    part = kind.ReassignablePartition
    answer = ask(
        kind(
            timeout_ms=60_000,
            topics=[
                kind.ReassignableTopic(name=bad, partitions=[part(partition_index=number, replicas=replicas)]),
                kind.ReassignableTopic(name="nowhere", partitions=[part(partition_index=0, replicas=[1])]),
                kind.ReassignableTopic(name=good, partitions=[part(partition_index=0, replicas=[3, 2, 1])]),
            ],
        )
    )
    assert answer.error_code == Code.NONE
    found = {topic.name: codes(topic.partitions) for topic in answer.responses}
    assert found == {bad: [code], "nowhere": [Code.UNKNOWN_TOPIC_OR_PARTITION], good: [Code.NONE]}
    wait_until(lambda: list(ask.topics()[good].partitions[0].replicas) == [3, 2, 1], "the good one moved")
    assert len(ask.topics()[bad].partitions[0].replicas) == 2


def test_a_change_of_the_replication_factor_is_refused_where_it_is_not_allowed(ask: Asking, fresh: Fresh) -> None:
    name = fresh("factor")
    ask.create(name, 1, 2)
    kind = AlterPartitionReassignmentsRequest
    move = kind.ReassignablePartition(partition_index=0, replicas=[1, 2, 3])
    wish = kind.ReassignableTopic(name=name, partitions=[move])
    answer = ask(kind(timeout_ms=60_000, topics=[wish], allow_replication_factor_change=False))
    assert codes(answer.responses[0].partitions) == [Code.INVALID_REPLICATION_FACTOR]


def test_moves_of_what_is_not_there_are_an_empty_list(ask: Asking, fresh: Fresh) -> None:
    kind = ListPartitionReassignmentsRequest
    for name in ("nowhere", ""):
        wanted = kind.ListPartitionReassignmentsTopics(name=name, partition_indexes=[0, -1])
        answer = ask(kind(topics=[wanted], timeout_ms=60_000))
        assert (answer.error_code, answer.topics) == (Code.NONE, [])


def test_elections_are_refused_partition_by_partition(ask: Asking, fresh: Fresh) -> None:
    name = fresh("elected")
    ask.create(name)
    kind = ElectLeadersRequest
    wishes = [
        kind.TopicPartitions(topic=name, partitions=[0, 9, -1]),
        kind.TopicPartitions(topic="nowhere", partitions=[0]),
    ]
    for election in (0, 1):
        answer = ask(kind(election_type=election, topic_partitions=wishes, timeout_ms=60_000))
        assert answer.error_code == Code.NONE
        found = {topic.topic: codes(topic.partition_result) for topic in answer.replica_election_results}
        unknown = Code.UNKNOWN_TOPIC_OR_PARTITION
        assert found == {name: [Code.ELECTION_NOT_NEEDED, unknown, unknown], "nowhere": [unknown]}
    answer = ask(kind(election_type=7, topic_partitions=wishes, timeout_ms=60_000))
    assert answer.error_code == Code.INVALID_REQUEST


def test_records_are_deleted_only_where_they_are(ask: Asking, fresh: Fresh) -> None:
    name = fresh("cut")
    ask.create(name)
    leader = ask.topics()[name].partitions[0].leader
    kind = DeleteRecordsRequest
    part = kind.DeleteRecordsPartition
    wishes = [
        kind.DeleteRecordsTopic(
            name=name,
            partitions=[part(partition_index=0, offset=5), part(partition_index=0, offset=-7), part(partition_index=9)],
        ),
        kind.DeleteRecordsTopic(name="nowhere", partitions=[part(partition_index=0, offset=0)]),
    ]
    unknown = Code.UNKNOWN_TOPIC_OR_PARTITION

    def answered() -> dict[str, list[Code]]:
        answer = ask(kind(topics=wishes, timeout_ms=60_000), ForNode(leader))
        return {t.name: codes(t.partitions) for t in answer.topics}

    wait_until(lambda: answered()[name][0] != Code.NOT_LEADER_OR_FOLLOWER, "the leader knows that it leads")
    assert answered() == {name: [Code.OFFSET_OUT_OF_RANGE, Code.OFFSET_OUT_OF_RANGE, unknown], "nowhere": [unknown]}


# ---- the cluster


@pytest.mark.of_quorum("feature levels are records of the metadata log")
@pytest.mark.parametrize(
    ("feature", "level", "how"),
    [
        ("tea.version", 1, 1),
        ("", 1, 1),
        ("metadata.version", 99, 1),
        ("metadata.version", 0, 3),
        ("metadata.version", -1, 1),
        ("metadata.version", 24, 1),
        ("metadata.version", 25, 9),
    ],
)
def test_levels_that_cannot_be_are_refused_and_refuse_all(ask: Asking, feature: str, level: int, how: int) -> None:
    kind = UpdateFeaturesRequest
    bad = kind.FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=how)
    good = kind.FeatureUpdateKey(feature="eligible.leader.replicas.version", max_version_level=0, upgrade_type=2)
    answer = ask(kind(feature_updates=[good, bad], timeout_ms=60_000))
    assert answer.error_code == Code.INVALID_UPDATE_VERSION
    assert answer.error_message
    only = kind(feature_updates=[good], validate_only=True, timeout_ms=60_000)
    assert ask(only).error_code == Code.NONE, "still to be had: nothing was changed"


@pytest.mark.of_quorum("a registration is a session's there, and goes with it; there are no voters")
def test_brokers_and_quorums_that_are_not_there_are_named_so(ask: Asking) -> None:
    assert ask(UpdateFeaturesRequest(timeout_ms=1000)).results == []
    for id in (77, -1):
        assert ask(UnregisterBrokerRequest(broker_id=id)).error_code == Code.BROKER_ID_NOT_REGISTERED
    assert ask(DescribeClusterRequest(endpoint_type=2), ANYONE).error_code == Code.MISMATCHED_ENDPOINT_TYPE
    assert ask(DescribeClusterRequest(endpoint_type=9), ANYONE).error_code == Code.UNSUPPORTED_ENDPOINT_TYPE
    kind = DescribeQuorumRequest
    for name, number in (("x", 0), ("__cluster_metadata", 1)):
        wanted = kind.TopicData(topic_name=name, partitions=[kind.PartitionData(partition_index=number)])
        (found,) = ask(kind(topics=[wanted])).topics
        assert codes(found.partitions) == [Code.UNKNOWN_TOPIC_OR_PARTITION]


def test_empty_requests_are_answered_with_nothing(ask: Asking) -> None:
    assert ask(CreateTopicsRequest(timeout_ms=1000)).topics == []
    assert ask(DeleteTopicsRequest(timeout_ms=1000)).responses == []
    assert ask(CreatePartitionsRequest(timeout_ms=1000)).results == []
    assert ask(IncrementalAlterConfigsRequest()).responses == []
    assert ask(AlterConfigsRequest()).responses == []
    assert ask(AlterPartitionReassignmentsRequest(timeout_ms=1000)).responses == []
    assert ask(DescribeConfigsRequest()).results == []
    assert ask(ElectLeadersRequest(topic_partitions=[], timeout_ms=1000)).replica_election_results == []
