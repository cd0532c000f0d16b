"""What no client should send, sent to a running cluster: each time a clear answer, nothing lost, every node still up.

The codes are those that Apache Kafka answers with (protocol guide; KIP-98, KIP-390, KIP-455). Nodes that cannot even
start are in test_bad_start.py, a full disk in test_full_disk.py.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from crc32c import crc32c
from foreign import read_confluent, write_confluent

import moldau
from moldau.client.admin import (
    AlterOp,
    NewTopic,
    Resource,
    ResourceType,
    alter_configs,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    reassign,
)
from moldau.client.client import CoordinatorKind, ForCoordinator
from moldau.client.sockets import SocketLine, drive
from moldau.model import Code, TopicPartition
from moldau.wire import batch
from moldau.wire.messages.k00_produce import ProduceRequest
from moldau.wire.messages.k01_fetch import FetchRequest
from moldau.wire.messages.k02_list_offsets import ListOffsetsRequest
from moldau.wire.messages.k08_offset_commit import OffsetCommitRequest
from moldau.wire.messages.k11_join_group import JoinGroupRequest
from moldau.wire.messages.k12_heartbeat import HeartbeatRequest
from moldau.wire.messages.k18_api_versions import ApiVersionsRequest
from moldau.wire.messages.k22_init_producer_id import InitProducerIdRequest

TOPIC = "canary"
NOBODY_IS_SLOW = {"broker.session.timeout.ms": "30000"}
"""Sessions that a machine under load does not eat: leaders stay, and a request that is asked once finds them."""
FRAME_BYTES_MAX = 100 << 20
"""socket.request.max.bytes by default."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[moldau.Cluster]:
    with moldau.Cluster(brokers=3, config=NOBODY_IS_SLOW) as cluster:
        cluster.create_topic(TOPIC, partitions=1, replication_factor=3, config={"min.insync.replicas": "2"})
        write_confluent(cluster.bootstrap_servers, TOPIC, [(b"k", b"0")])
        yield cluster


@pytest.fixture(autouse=True)
def _unharmed(cluster: moldau.Cluster) -> Iterator[None]:
    """After each test the same processes run; the canary has what it had, takes one record more, and gives it
    back."""
    before = [cluster.pid(id) for id in (1, 2, 3)]
    end = end_of(cluster)
    yield
    assert [cluster.pid(id) for id in (1, 2, 3)] == before
    assert end_of(cluster) == end, "something was written that should have been refused"
    write_confluent(cluster.bootstrap_servers, TOPIC, [(b"k", str(end).encode())])
    values = [value for _, value in read_confluent(cluster.bootstrap_servers, TOPIC, end + 1)]
    assert values == [str(n).encode() for n in range(end + 1)]


def end_of(cluster: moldau.Cluster) -> int:
    canary = TopicPartition(TOPIC, 0)
    return cluster.client().offsets({canary: -1})[canary].offset


def line_to_leader(cluster: moldau.Cluster) -> Any:
    """The client's connection to the canary's leader."""
    client = cluster.client().client
    leader = cluster.leader(TOPIC, 0)
    return drive(client.line(leader))


def ask(cluster: moldau.Cluster, request: Any, version: int | None = None) -> Any:
    async def asked() -> Any:
        return await line_to_leader(cluster).ask(request, version=version)

    return drive(asked())


# ---- frames ----------------------------------------------------------------------------------------------------------


def frame(body: bytes, size: int | None = None) -> bytes:
    return struct.pack(">i", len(body) if size is None else size) + body


def header(key: int, version: int, client: bytes = b"test") -> bytes:
    return struct.pack(">hhih", key, version, 1, len(client)) + client


HUGE = struct.pack(">i", 0x7FFFFFFF)
VARINT_WITHOUT_END = b"\xff" * 12

FRAMES = {
    "a negative size": frame(b"", -1),
    "the lowest size": frame(b"", -(1 << 31)),
    "a size above the limit": frame(b"x" * 1000, FRAME_BYTES_MAX + 1),
    "the highest size": frame(b"x" * 1000, 0x7FFFFFFF),
    "nothing at all": frame(b""),
    "half a header": frame(b"\x00\x03\x00"),
    "http": b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 600,
    "a client id longer than the frame": frame(struct.pack(">hhih", 3, 1, 1, 1000) + b"x"),
    "a client id that is no text": frame(header(3, 1, b"\xff\xfe") + b"\x00\x00\x00\x00"),
    "an unknown api": frame(header(999, 0)),
    "a negative api": frame(header(-1, 0)),
    "a version from the future": frame(header(3, 99)),
    "a negative version": frame(header(3, -1)),
    "a request cut short": frame(header(3, 1) + b"\x00\x00"),
    "an array longer than the frame": frame(header(3, 1) + HUGE),
    "a string longer than the frame": frame(header(3, 1) + struct.pack(">ih", 1, 0x7FFF) + b"x"),
    "a negative string": frame(header(3, 1) + struct.pack(">ih", 1, -5)),
    "a varint without end": frame(header(3, 12) + b"\x00" + VARINT_WITHOUT_END),
    "a compact array longer than the frame": frame(header(3, 12) + b"\x00" + b"\xff\xff\xff\xff\x07"),
    "more tags than bytes": frame(header(18, 3) + b"\xff\xff\xff\xff\x07"),
    "a tag longer than the frame": frame(header(18, 3) + b"\x01\x00\xff\xff\xff\xff\x07"),
    "records longer than the frame": frame(header(0, 3) + struct.pack(">hhiih", -1, -1, 1000, 1, 6) + TOPIC.encode()
                                           + struct.pack(">iii", 1, 0, 0x7FFFFFFF)),
    "an inter-broker request": frame(header(62, 0) + b"\x00" + b"\x00" * 40),
}  # fmt: skip


def hear(sock: socket.socket) -> bytes:
    """All that comes until the other side hangs up."""
    said = b""
    try:
        while part := sock.recv(65536):
            said += part
    except ConnectionResetError:
        pass
    return said


@pytest.mark.parametrize("what", FRAMES)
@pytest.mark.parametrize("listener", ["broker", "controller"])
def test_a_frame_that_is_none_ends_its_connection_and_no_other(
    cluster: moldau.Cluster, what: str, listener: str
) -> None:
    node = cluster.node(cluster.leader(TOPIC, 0))
    port = node.port if listener == "broker" else node.controller_port
    bystander = SocketLine("127.0.0.1", port)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
        sock.sendall(FRAMES[what])

        assert hear(sock) == b""
    assert drive(_versions(bystander)).error_code == Code.NONE
    bystander.close()


async def _versions(line: SocketLine) -> Any:
    return await line.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), version=3)


def test_frames_that_promise_much_and_send_little_take_no_memory(cluster: moldau.Cluster) -> None:
    id = cluster.leader(TOPIC, 0)
    before = resident_kib(cluster.pid(id))
    held = []
    for _ in range(30):
        sock = socket.create_connection(("127.0.0.1", cluster.node(id).port))
        sock.sendall(struct.pack(">i", FRAME_BYTES_MAX - 1) + b"x" * 100)
        held.append(sock)
    assert end_of(cluster) > 0  # answered after all of them
    grown = resident_kib(cluster.pid(id)) - before
    for sock in held:
        sock.close()

    assert grown < 30 * 512  # 512 KiB per connection (law X1)


def resident_kib(pid: int) -> int:
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


# ---- produce ---------------------------------------------------------------------------------------------------------

BATCH = batch.build([(1_700_000_000_000, b"k", b"value", [])])
CRC_AT, MAGIC_AT, LENGTH_AT, COUNT_AT, DELTA_AT, ATTRIBUTES_AT = 17, 16, 8, 57, 23, 21


def with_bytes(at: int, value: bytes, *, sound: bool = True) -> bytes:
    """The batch with some bytes replaced; ``sound``: with a checksum to match."""
    data = bytearray(BATCH)
    data[at : at + len(value)] = value
    if sound:
        struct.pack_into(">I", data, CRC_AT, crc32c(bytes(data[21:])))
    return bytes(data)


def produce(cluster: moldau.Cluster, records: bytes | None, acks: int = -1, topic: str = TOPIC, index: int = 0) -> Any:
    """What the leader of the canary says to a batch, in words of its own."""
    part = ProduceRequest.PartitionProduceData(index=index, records=records)
    request = ProduceRequest(
        acks=acks,
        timeout_ms=60_000,
        topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[part])],
    )
    return ask(cluster, request, version=9).responses[0].partition_responses[0]


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (with_bytes(CRC_AT, b"\x00\x00\x00\x00", sound=False), Code.CORRUPT_MESSAGE),
        (with_bytes(len(BATCH) - 2, b"X", sound=False), Code.CORRUPT_MESSAGE),
        (BATCH[:-1], Code.INVALID_RECORD),
        (BATCH[:30], Code.INVALID_RECORD),
        (with_bytes(LENGTH_AT, struct.pack(">i", 0x7FFFFFFF)), Code.INVALID_RECORD),
        (with_bytes(LENGTH_AT, struct.pack(">i", -1)), Code.CORRUPT_MESSAGE),
        (with_bytes(MAGIC_AT, b"\x07"), Code.CORRUPT_MESSAGE),
        (with_bytes(COUNT_AT, struct.pack(">i", 5)), Code.INVALID_RECORD),
        (with_bytes(COUNT_AT, struct.pack(">i", -1)), Code.INVALID_RECORD),
        (with_bytes(DELTA_AT, struct.pack(">i", 1_000_000)), Code.INVALID_RECORD),
        (with_bytes(DELTA_AT, struct.pack(">i", -2)), Code.INVALID_RECORD),
        (with_bytes(ATTRIBUTES_AT, struct.pack(">h", 0x20)), Code.INVALID_RECORD),
        (BATCH + BATCH, Code.INVALID_RECORD),
        (batch.build([(0, b"k", b"v" * 1_100_000, [])]), Code.MESSAGE_TOO_LARGE),
    ],
    ids=[
        "checksum zero", "a byte flipped", "cut short", "cut in its header", "length huge", "length negative",
        "format 7", "more records counted", "a negative count", "last offset far away", "last offset negative",
        "a control batch", "two batches", "more than a megabyte",
    ],
)  # fmt: skip
def test_a_batch_that_is_none_is_refused_and_not_written(cluster: moldau.Cluster, records: bytes, code: Code) -> None:
    assert Code(produce(cluster, records).error_code) is code


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_acks_that_do_not_exist_are_refused(cluster: moldau.Cluster, acks: int) -> None:
    assert Code(produce(cluster, BATCH, acks=acks).error_code) is Code.INVALID_REQUIRED_ACKS


def test_topics_and_partitions_that_are_not_there_are_unknown(cluster: moldau.Cluster) -> None:
    unknown = Code.UNKNOWN_TOPIC_OR_PARTITION
    assert Code(produce(cluster, BATCH, topic="nowhere").error_code) is unknown
    assert Code(produce(cluster, BATCH, index=7).error_code) is unknown
    assert Code(produce(cluster, BATCH, index=-1).error_code) is unknown
    assert Code(fetch(cluster, 0, topic="nowhere").error_code) is unknown
    assert Code(fetch(cluster, 0, index=7).error_code) is unknown
    assert cluster.client().topics(["nowhere"]) == {}


# ---- reading ---------------------------------------------------------------------------------------------------------


def fetch(cluster: moldau.Cluster, offset: int, topic: str = TOPIC, index: int = 0, **more: Any) -> Any:
    part = FetchRequest.FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
    for name in ("current_leader_epoch", "partition_max_bytes"):
        if name in more:
            setattr(part, name, more.pop(name))
    settings = {"max_wait_ms": 100, "min_bytes": 1, "max_bytes": 1 << 20} | more
    request = FetchRequest(topics=[FetchRequest.FetchTopic(topic=topic, partitions=[part])], **settings)
    return ask(cluster, request, version=12).responses[0].partitions[0]


@pytest.mark.parametrize("offset", [-1, -5, 1 << 40, (1 << 63) - 1, -(1 << 63)])
def test_an_offset_that_is_not_there_is_out_of_range(cluster: moldau.Cluster, offset: int) -> None:
    found = fetch(cluster, offset)

    assert Code(found.error_code) is Code.OFFSET_OUT_OF_RANGE
    assert not found.records


def test_a_leader_epoch_of_the_past_is_fenced_and_one_of_the_future_unknown(cluster: moldau.Cluster) -> None:
    assert Code(fetch(cluster, 0, current_leader_epoch=1_000_000).error_code) is Code.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize(
    "sizes", [{"max_bytes": -1}, {"partition_max_bytes": -1}, {"min_bytes": -1}, {"max_wait_ms": -1}]
)
def test_negative_sizes_of_a_fetch_do_no_harm(cluster: moldau.Cluster, sizes: dict[str, Any]) -> None:
    assert Code(fetch(cluster, 0, **sizes).error_code) in (Code.NONE, Code.INVALID_REQUEST)


@pytest.mark.parametrize("timestamp", [-100, -(1 << 63)])
def test_a_timestamp_with_no_meaning_is_answered(cluster: moldau.Cluster, timestamp: int) -> None:
    part = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topic = ListOffsetsRequest.ListOffsetsTopic(name=TOPIC, partitions=[part])
    response = ask(cluster, ListOffsetsRequest(replica_id=-1, topics=[topic]), version=6)

    assert Code(response.topics[0].partitions[0].error_code) in (Code.NONE, Code.UNSUPPORTED_VERSION)


@pytest.mark.parametrize("offset", [-2, 1 << 40])
def test_records_are_not_deleted_beyond_the_end(cluster: moldau.Cluster, offset: int) -> None:
    canary = TopicPartition(TOPIC, 0)
    answers = cluster.client().run(delete_records(cluster.client().client, {canary: offset}))

    assert answers[canary][0] is Code.OFFSET_OUT_OF_RANGE


# ---- administration --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        (NewTopic(name="t", partitions=1, replication_factor=4), Code.INVALID_REPLICATION_FACTOR),
        (NewTopic(name="t", partitions=1, replication_factor=0), Code.INVALID_REPLICATION_FACTOR),
        (NewTopic(name="t", partitions=1, replication_factor=-2), Code.INVALID_REPLICATION_FACTOR),
        (NewTopic(name="t", partitions=1, replication_factor=32767), Code.INVALID_REPLICATION_FACTOR),
        (NewTopic(name="t", partitions=0, replication_factor=1), Code.INVALID_PARTITIONS),
        (NewTopic(name="t", partitions=-7, replication_factor=1), Code.INVALID_PARTITIONS),
        (NewTopic(name="t", partitions=0x7FFFFFFF, replication_factor=1), Code.POLICY_VIOLATION),
        (NewTopic(name="", partitions=1, replication_factor=1), Code.INVALID_TOPIC_EXCEPTION),
        (NewTopic(name="..", partitions=1, replication_factor=1), Code.INVALID_TOPIC_EXCEPTION),
        (NewTopic(name="../../etc", partitions=1, replication_factor=1), Code.INVALID_TOPIC_EXCEPTION),
        (NewTopic(name="two words", partitions=1, replication_factor=1), Code.INVALID_TOPIC_EXCEPTION),
        (NewTopic(name="n\u00e4me", partitions=1, replication_factor=1), Code.INVALID_TOPIC_EXCEPTION),
        (NewTopic(name="n" * 250, partitions=1, replication_factor=1), Code.INVALID_TOPIC_EXCEPTION),
        (NewTopic(name="nul\0", partitions=1, replication_factor=1), Code.INVALID_TOPIC_EXCEPTION),
        (NewTopic(name=TOPIC, partitions=1, replication_factor=1), Code.TOPIC_ALREADY_EXISTS),
        (NewTopic(name="t", assignment={0: (1, 1)}), Code.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic(name="t", assignment={0: (1, 99)}), Code.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic(name="t", assignment={0: (-1,)}), Code.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic(name="t", assignment={0: ()}), Code.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic(name="t", assignment={1: (1,)}), Code.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic(name="t", assignment={0: (1,), 1: (1, 2)}), Code.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic(name="t", partitions=1, replication_factor=1, configs={"no.key": "1"}), Code.INVALID_CONFIG),
        (NewTopic(name="t", partitions=1, replication_factor=1, configs={"retention.ms": "x"}), Code.INVALID_CONFIG),
        (NewTopic(name="t", partitions=1, replication_factor=1, configs={"segment.bytes": "-1"}), Code.INVALID_CONFIG),
        (NewTopic(name="t", partitions=1, replication_factor=1, configs={"retention.ms": None}), Code.INVALID_CONFIG),
    ],
    ids=lambda value: value.name if isinstance(value, Code) else None,
)  # fmt: skip
def test_an_impossible_topic_is_refused_in_words(cluster: moldau.Cluster, wish: NewTopic, code: Code) -> None:
    outcome = cluster.client().run(create_topics(cluster.client().client, [wish]))[wish.name]

    assert outcome.code is code
    assert outcome.message
    assert set(cluster.client().topics()) - {"__consumer_offsets"} == {TOPIC}


@pytest.mark.parametrize("count", [1, 0, -1, 0x7FFFFFFF])
def test_a_partition_count_that_is_no_growth_is_refused(cluster: moldau.Cluster, count: int) -> None:
    outcome = cluster.client().run(create_partitions(cluster.client().client, {TOPIC: count}))[TOPIC]

    assert outcome.code in (Code.INVALID_PARTITIONS, Code.POLICY_VIOLATION)
    assert len(cluster.client().topics([TOPIC])[TOPIC].partitions) == 1


@pytest.mark.parametrize("replicas", [(), (1, 1), (1, 99), (-1, 2)])
def test_a_move_to_nowhere_is_refused(cluster: moldau.Cluster, replicas: tuple[int, ...]) -> None:
    canary = TopicPartition(TOPIC, 0)
    whole, each = cluster.client().run(reassign(cluster.client().client, {canary: replicas}))

    assert Code.INVALID_REPLICA_ASSIGNMENT in (whole.code, each[canary].code)


@pytest.mark.parametrize(
    ("resource", "key", "value", "code"),
    [
        (Resource(ResourceType.TOPIC, TOPIC), "retention.ms", "-5", Code.INVALID_CONFIG),
        (Resource(ResourceType.TOPIC, TOPIC), "max.message.bytes", "99999999999", Code.INVALID_CONFIG),
        (Resource(ResourceType.TOPIC, TOPIC), "cleanup.policy", "burn", Code.INVALID_CONFIG),
        (Resource(ResourceType.TOPIC, TOPIC), "no.key", "1", Code.INVALID_CONFIG),
        (Resource(ResourceType.TOPIC, "nowhere"), "retention.ms", "5", Code.UNKNOWN_TOPIC_OR_PARTITION),
        (Resource(ResourceType.BROKER, ""), "log.retention.ms", "soon", Code.INVALID_REQUEST),
    ],
)
def test_a_bad_setting_is_refused_with_key_and_reason(
    cluster: moldau.Cluster, resource: Resource, key: str, value: str, code: Code
) -> None:
    change = {resource: [(key, AlterOp.SET, value)]}
    outcome = cluster.client().run(alter_configs(cluster.client().client, change))[resource]

    assert outcome.code is code
    assert outcome.message
    assert code is not Code.INVALID_CONFIG or key in outcome.message


# ---- groups and producers --------------------------------------------------------------------------------------------


def coordinator_ask(cluster: moldau.Cluster, group: str, request: Any, highest: int | None = None) -> Any:
    """What a group's coordinator says at once, whatever it is; once it has read what it coordinates."""
    where = ForCoordinator(CoordinatorKind.GROUP, group)
    nobody = HeartbeatRequest(group_id=group, generation_id=0, member_id="nobody")

    def ready() -> bool:
        answer = drive(cluster.client().client.ask(nobody, where, codes=lambda _: ()))
        return Code(answer.error_code) is Code.UNKNOWN_MEMBER_ID

    cluster.wait_until(ready, "the coordinator knows its groups")
    return drive(cluster.client().client.ask(request, where, codes=lambda _: (), highest=highest))


def join(**fields: Any) -> JoinGroupRequest:
    protocols = [JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")]
    settings = {"group_id": "g", "session_timeout_ms": 10_000, "protocol_type": "consumer", "protocols": protocols}
    return JoinGroupRequest(**(settings | {"rebalance_timeout_ms": 10_000} | fields))


@pytest.mark.parametrize(
    ("request_of", "code"),
    [
        (lambda: join(group_id=""), Code.INVALID_GROUP_ID),
        (lambda: join(session_timeout_ms=1), Code.INVALID_SESSION_TIMEOUT),
        (lambda: join(session_timeout_ms=-1), Code.INVALID_SESSION_TIMEOUT),
        (lambda: join(session_timeout_ms=0x7FFFFFFF), Code.INVALID_SESSION_TIMEOUT),
        (lambda: join(protocols=[]), Code.INCONSISTENT_GROUP_PROTOCOL),
        (lambda: join(protocol_type=""), Code.INCONSISTENT_GROUP_PROTOCOL),
        (lambda: join(member_id="nobody"), Code.UNKNOWN_MEMBER_ID),
        (lambda: HeartbeatRequest(group_id="g", generation_id=-7, member_id="x"), Code.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_member_that_cannot_be_is_refused(cluster: moldau.Cluster, request_of: Callable[[], Any], code: Code) -> None:
    assert Code(coordinator_ask(cluster, "g", request_of()).error_code) is code


def test_offsets_that_make_no_sense_are_not_committed(cluster: moldau.Cluster) -> None:
    kind = OffsetCommitRequest

    def commit(offset: int, metadata: str = "", topic: str = TOPIC) -> Code:
        part = kind.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=metadata
        )
        topics = [kind.OffsetCommitRequestTopic(name=topic, partitions=[part])]
        response = coordinator_ask(cluster, "committers", kind(group_id="committers", topics=topics), 9)
        return Code(response.topics[0].partitions[0].error_code)

    assert commit(0, metadata="m" * 5000) is Code.OFFSET_METADATA_TOO_LARGE
    assert commit(0, topic="nowhere") is Code.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(1) is Code.NONE


def test_a_sequence_that_leaves_some_out_is_refused_and_one_that_repeats_is_answered_again(
    cluster: moldau.Cluster,
) -> None:
    cluster.create_topic("sequences", replication_factor=3)
    response = ask_anyone(cluster, InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0))
    me = {"producer_id": response.producer_id, "producer_epoch": response.producer_epoch}

    def send(sequence: int, **other: int) -> Any:
        data = batch.build([(0, None, b"v", [])], base_sequence=sequence, **(me | other))
        part = ProduceRequest.PartitionProduceData(index=0, records=data)
        topics = [ProduceRequest.TopicProduceData(name="sequences", partition_data=[part])]
        request = ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=topics)
        line = drive(cluster.client().client.line(cluster.leader("sequences", 0)))

        async def asked() -> Any:
            return await line.ask(request, version=9)

        return drive(asked()).responses[0].partition_responses[0]

    first = send(0)
    while Code(first.error_code) is Code.NOT_LEADER_OR_FOLLOWER:  # which has not made the folder of it yet
        first = send(0)
    again, gap = send(0), send(5)
    assert (Code(first.error_code), first.base_offset) == (Code.NONE, 0)
    assert (Code(again.error_code), again.base_offset) == (Code.NONE, 0)
    assert Code(gap.error_code) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert Code(send(1, producer_epoch=me["producer_epoch"] + 1).error_code) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(1).base_offset == 1
    drive(delete_topics(cluster.client().client, ["sequences"]))


def ask_anyone(cluster: moldau.Cluster, request: Any) -> Any:
    return cluster.client().run(cluster.client().client.ask(request))
