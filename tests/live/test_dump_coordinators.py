"""kafka-dump-log.sh on records of Kafka's own topics, as Kafka 4.3.1's own: the same bytes on both streams, the same
exit status. Records are made up, of every type and version that Kafka has, sound and not; and an Apache Kafka broker's.
"""

from __future__ import annotations

import random
import re
import socket
import struct
import uuid
from collections.abc import Sequence
from pathlib import Path

import confluent_kafka
import pytest
from classic import ours
from confluent_kafka.admin import AdminClient, NewTopic
from foreign import poll_messages
from kafka_peer import KafkaPeer, java_tool, wait_until
from tests.golden.dump_records import (
    CLUSTER,
    KINDS,
    OFFSETS,
    SHARE_STATE,
    TRANSACTIONS,
    Entry,
    Kind,
    cut,
    odd,
    sound,
    spoiled,
    strangers,
    versions,
)
from tests.golden.java_tools import JavaTools

from moldau.admin.classic.java_values import java_decimal
from moldau.wire.batch import build
from moldau.wire.records.streams_groups import StreamsGroupTopologyValue
from moldau.wire.schema import Message, Struct, at

DUMP = "org.apache.kafka.tools.DumpLogSegments"
EMPTY_STRUCT = (',"classicMemberMetadata":{"sessionTimeoutMs":0,"supportedProtocols":[]}', "")
"""What Kafka's tool shows of the one tagged struct, if that holds nothing but tagged fields that nobody knows."""
DECIMAL = re.compile(r'(?<="value":)-?\d+\.\d+(E-?\d+)?(?=,"remove")')
"""A quota: Java before 19 writes some with other digits than the fewest that tell it from other numbers."""
SPOILED = 300
"""How many spoiled records of each type and version are compared."""


def same(java: JavaTools, arguments: Sequence[str]) -> str:
    """What both say to the arguments; of traces, the lines that are about the failure."""
    mine, theirs = ours("kafka-dump-log.sh", arguments), java.run(DUMP, arguments)
    told = "".join(line for line in theirs.err.splitlines(keepends=True) if not line.startswith("\t"))
    out = DECIMAL.sub(lambda found: java_decimal(float(found[0])), theirs.out.replace(*EMPTY_STRUCT))
    assert (mine.out, mine.err, mine.status) == (out, told, theirs.status)
    return mine.out


def same_of(java: JavaTools, folder: Path, entries: Sequence[Entry], *options: str) -> str:
    """What both say of a log with these records, each in a batch of its own."""
    file = folder / f"{0:020d}.log"
    file.write_bytes(b"".join(build([(0, *entry, ())], base_offset=offset) for offset, entry in enumerate(entries)))
    return same(java, [*options, "--files", str(file)])


def named(kind: Kind) -> str:
    return kind.value.__name__


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_records_of_every_type_and_version_are_shown_as_kafka_shows_them(
    java: JavaTools, tmp_path: Path, kind: Kind
) -> None:
    for version in versions(kind):
        said = same_of(java, tmp_path, [sound(kind, version, seed) for seed in range(60)], kind.option)
        assert kind.key is None or said.count(f'payload: {{"version":"{version}"') == 60


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_tombstones_and_versions_that_there_are_not_are_told_as_kafka_tells_them(
    java: JavaTools, tmp_path: Path, kind: Kind
) -> None:
    said = same_of(java, tmp_path, list(odd(kind)), kind.option)
    assert kind.key is None or "payload: <DELETE>" in said


@pytest.mark.parametrize("option", dict.fromkeys(kind.option for kind in KINDS))
def test_records_of_types_that_there_are_not_are_told_as_kafka_tells_them(
    java: JavaTools, tmp_path: Path, option: str
) -> None:
    same_of(java, tmp_path, list(strangers(option)), option)
    for key in (None, b""):
        for value in (None, b"", b"\0\0"):
            same_of(java, tmp_path, [Entry(key, value)], option)


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_records_that_are_cut_short_are_told_as_kafka_tells_them(java: JavaTools, tmp_path: Path, kind: Kind) -> None:
    for version in versions(kind):
        same_of(java, tmp_path, list(cut(sound(kind, version, 2))), kind.option)


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_spoiled_records_are_told_as_kafka_tells_them(java: JavaTools, tmp_path: Path, kind: Kind) -> None:
    """Lengths that cannot be, text that is no UTF-8, tagged fields that are not known or of another size."""
    for version in versions(kind):
        rng = random.Random(f"{named(kind)} {version}")
        records = [spoiled(rng, sound(kind, version, rng.randrange(60))) for _ in range(SPOILED)]
        same_of(java, tmp_path, records, kind.option)


def test_of_several_decoders_both_take_the_same(java: JavaTools, tmp_path: Path) -> None:
    options = sorted({kind.option for kind in KINDS})
    records = [sound(kind, 0, 1) for kind in KINDS if kind.key is not None][::5]
    for one in options:
        for other in options:
            same_of(java, tmp_path, records, one, other, "--skip-record-metadata", "--value-decoder-class", "nosuch")


# ---- what a broker wrote


class StreamsGroupHeartbeatRequest(Message, key=88, versions=(0, 0)):
    """What a member of a streams group says (KIP-1071)."""

    Topology = StreamsGroupTopologyValue

    class TaskIds(Struct):
        subtopology_id: str = at(0, "string")
        partitions: list[int] = at(0, ["int32"])

    class Endpoint(Struct):
        host: str = at(0, "string")
        port: int = at(0, "uint16")

    class KeyValue(Struct):
        key: str = at(0, "string")
        value: str = at(0, "string")

    class TaskOffset(Struct):
        subtopology_id: str = at(0, "string")
        partition: int = at(0, "int32")
        offset: int = at(0, "int64")

    group_id: str = at(0, "string")
    member_id: str = at(0, "string")
    member_epoch: int = at(0, "int32")
    endpoint_information_epoch: int = at(0, "int32")
    instance_id: str | None = at(0, "string", null=0, default=None)
    rack_id: str | None = at(0, "string", null=0, default=None)
    rebalance_timeout_ms: int = at(0, "int32", default=60_000)
    topology: StreamsGroupTopologyValue | None = at(0, "Topology", null=0, default=None)
    active_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = at(0, ["TaskIds"], null=0, default=None)
    standby_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = at(0, ["TaskIds"], null=0, default=None)
    warmup_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = at(0, ["TaskIds"], null=0, default=None)
    process_id: str | None = at(0, "string", null=0, default=None)
    user_endpoint: StreamsGroupHeartbeatRequest.Endpoint | None = at(0, "Endpoint", null=0, default=None)
    client_tags: list[StreamsGroupHeartbeatRequest.KeyValue] | None = at(0, ["KeyValue"], null=0, default=None)
    task_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None = at(0, ["TaskOffset"], null=0, default=None)
    task_end_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None = at(0, ["TaskOffset"], null=0, default=None)
    shutdown_application: bool = at(0, "bool")


def answer(port: int, request: Message) -> bytes:
    """The bytes that the broker on this port answers with."""
    asked = struct.pack(">hhih", request.api_key, 0, 1, -1) + b"\0" + request.encode(0)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as line:
        line.sendall(struct.pack(">i", len(asked)) + asked)
        stream = line.makefile("rb")
        return stream.read(int.from_bytes(stream.read(4)))


def streams_group(port: int) -> None:
    """A member of a streams group comes, is given its tasks, and goes."""
    heartbeat, topology = StreamsGroupHeartbeatRequest, StreamsGroupTopologyValue
    changelog = topology.TopicInfo(
        name="s-changelog", topic_configs=[topology.TopicConfig(key="cleanup.policy", value="compact")]
    )
    part = topology.Subtopology(subtopology_id="0", source_topics=["told"], state_changelog_topics=[changelog])
    member = str(uuid.uuid4())
    joins = heartbeat(
        group_id="streams", member_id=member, rack_id="r", topology=topology(epoch=1, subtopologies=[part]),
        active_tasks=[], standby_tasks=[], warmup_tasks=[], process_id="p",
        user_endpoint=heartbeat.Endpoint(host="h", port=8080),
        client_tags=[heartbeat.KeyValue(key="tag", value="value")],
    )  # fmt: skip
    wait_until(lambda: b"\x05told" in answer(port, joins), "the tasks of a streams group's member")
    answer(port, heartbeat(group_id="streams", member_id=member, member_epoch=-1))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of an Apache Kafka broker that has stopped: it had groups of every kind, and a transaction."""
    folder = tmp_path_factory.mktemp("broker")
    one_partition = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    properties = {f"{name}.num.partitions": 1 for name in one_partition}
    with KafkaPeer(1, properties | {"group.streams.initial.rebalance.delay.ms": 0}, folder) as peer:
        where = {"bootstrap.servers": peer.bootstrap_servers}
        admin = AdminClient({"bootstrap.servers": peer.bootstrap_servers})
        admin.create_topics([NewTopic("told", 2, 1)])["told"].result(120)
        producer = confluent_kafka.Producer(where | {"transactional.id": "t"})
        producer.init_transactions(120)
        producer.begin_transaction()
        for number in range(10):
            producer.produce("told", b"v", partition=number % 2)
        producer.commit_transaction(120)
        for protocol, topics in (("classic", "told"), ("consumer", "told"), ("consumer", "^to.*")):
            settings = {"group.id": f"{protocol} {topics}", "group.protocol": protocol, "auto.offset.reset": "earliest"}
            consumer = confluent_kafka.Consumer(where | settings)
            consumer.subscribe([topics])
            poll_messages(consumer, 1)
            consumer.commit(asynchronous=False)
            consumer.close()
        earliest = [
            "--entity-type",
            "groups",
            "--entity-name",
            "shared",
            "--add-config",
            "share.auto.offset.reset=earliest",
        ]
        java_tool("kafka-configs", "--bootstrap-server", peer.bootstrap_servers, "--alter", *earliest)
        shares = ["--topic", "told", "--group", "shared", "--max-messages", "5"]
        name = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
        said = java_tool(name, "--bootstrap-server", peer.bootstrap_servers, *shares).stdout
        assert said == "v\n" * 5
        streams_group(peer.ports[1][0])
        peer.stop_node(1)
        return peer.data_dir(1)


def told_types(said: str) -> set[int]:
    return {int(number) for number in re.findall(r'key: {"type":"(\d+)"', said)}


def test_what_a_broker_wrote_is_shown_as_kafka_shows_it(java: JavaTools, written: Path) -> None:
    """All types of records of its topics but those that Kafka 4.3.1 writes no more: 0 and 4 of groups."""
    for option, topic, types in (
        (OFFSETS, "__consumer_offsets", {kind.number for kind in KINDS if kind.option == OFFSETS} - {0, 4}),
        (TRANSACTIONS, "__transaction_state", {0}),
        (SHARE_STATE, "__share_group_state", {0, 1}),
        (CLUSTER, "__cluster_metadata", set()),
    ):
        files = ",".join(map(str, sorted((written / f"{topic}-0").glob("*.log"))))
        said = same(java, [option, "--files", files])
        assert told_types(said) == types
        same(java, [option, "--skip-record-metadata", "--files", files])
