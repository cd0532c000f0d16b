"""The blocking client against the same scripted brokers, from a thread without a loop."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading

import pytest

from moldau.client.client import ClientOptions
from moldau.client.consumer import Consumer, ConsumerOptions
from moldau.client.lines import ConnectionOptions, RequestTimedOut
from moldau.client.reading import EARLIEST, LATEST, FetchOptions, visible
from moldau.client.sockets import SocketLine, SocketLines, drive
from moldau.client.sync import Cluster, Refused, Unreachable
from moldau.model import Code, TopicPartition
from moldau.wire import batch
from moldau.wire.messages.k01_fetch import FetchRequest
from moldau.wire.messages.k03_metadata import MetadataRequest, MetadataResponse
from moldau.wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.packages.client.fake_broker import HANG_UP, SILENCE
from tests.packages.client.mini_cluster import MiniCluster, in_thread

QUICK = ClientOptions(api_timeout_ms=60_000, retry_backoff_ms=5, retry_backoff_max_ms=20, unknown_topic_grace_ms=30)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def mini():
    with in_thread(MiniCluster(2, {"t": 2, "other": 1})) as cluster:
        yield cluster


@pytest.fixture
def cluster(mini):
    with Cluster(mini.bootstrap, options=QUICK) as cluster:
        yield cluster


def one(value, **kind):
    return batch.build([(1_000, None, value, [])], **kind)


def test_a_script_asks_writes_reads_and_commits(cluster):
    topics = cluster.topics()
    assert {name: sorted(topic.partitions) for name, topic in topics.items()} == {"t": [0, 1], "other": [0]}
    assert topics["t"].topic_id == b"t".ljust(16, b".")
    assert list(cluster.topics(["t", "nope"])) == ["t"]
    assert sorted(cluster.brokers()) == [0, 1]
    assert cluster.cluster_id() == "mini"
    assert cluster.produce(T1, one(b"a")).base_offset == 0
    assert cluster.produce(T1, one(b"b"), acks=0).code is Code.NONE
    cluster.produce(T1, one(b"c"))
    assert cluster.offsets({T1: LATEST, T0: EARLIEST})[T1].offset == 3
    got = cluster.fetch(T1, 1)
    assert [r.value for r in visible(got, 1)] == [b"b", b"c"]
    assert cluster.commit("g", {T1: 2}) == {T1: Code.NONE}
    assert cluster.committed("g")[T1].offset == 2
    assert cluster.producer_id() == (101, 0)


def test_a_range_is_read_with_the_next_fetch_under_way(cluster, mini):
    for i in range(50):
        mini.logs[T0].append(one(b"%d" % i))
    under_way = []
    values = []
    for got in cluster.fetch_range(T0, 10, 45, FetchOptions(max_bytes=200, max_wait_ms=10)):
        under_way.append(sum(len(line._pending) for line in cluster.client._open.values()))
        values += [int(r.value or b"") for r in visible(got, 10, 45)]
    assert values == list(range(10, 45))
    assert under_way[:-1] == [1] * (len(under_way) - 1)


def test_an_abandoned_range_does_not_spoil_what_is_asked_next(cluster, mini):
    for i in range(50):
        mini.logs[T0].append(one(b"%d" % i))
    for got in cluster.fetch_range(T0, 0, 50, FetchOptions(max_bytes=200)):
        assert got.records
        break
    assert cluster.offsets({T0: LATEST})[T0].offset == 50
    assert [r.value for r in visible(cluster.fetch(T0, 49), 49)] == [b"49"]


def test_a_moved_leader_and_a_lost_connection_are_overcome(cluster, mini):
    cluster.produce(T0, one(b"x"))
    mini.move(T0, 1)
    assert cluster.fetch(T0, 0).records
    turns = iter([True])
    mini.mischief = lambda n, m, s: HANG_UP if isinstance(m, FetchRequest) and next(turns, False) else None
    assert cluster.fetch(T0, 0).records


def test_refusals_about_one_thing_are_raised(cluster, mini):
    answer = MetadataResponse(topics=[MetadataResponse.MetadataResponseTopic(name="t", error_code=29)])
    mini.mischief = lambda n, m, s: answer if isinstance(m, MetadataRequest) else None
    with pytest.raises(Refused, match="'t': TOPIC_AUTHORIZATION_FAILED"):
        cluster.topics(["t"])


def test_nobody_there_is_unreachable_after_a_while():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        hasty = ClientOptions(api_timeout_ms=500, retry_backoff_ms=5)
        with Cluster(address, options=hasty) as cluster, pytest.raises(Unreachable, match="refused"):
            cluster.topics()


def test_a_consumer_polls_over_blocking_lines(cluster, mini):
    for i in range(6):
        mini.logs[T0].append(one(b"a%d" % i))
        mini.logs[T1].append(one(b"b%d" % i))
    consumer = Consumer(cluster.client, ConsumerOptions(max_wait_ms=10))
    consumer.assign({T0: EARLIEST, T1: 3})
    values = []
    while len(values) < 9:
        for chunk in cluster.run(consumer.poll(60_000)):
            values += [r.value for r in chunk.records()]
    assert sorted(values) == [b"a0", b"a1", b"a2", b"a3", b"a4", b"a5", b"b3", b"b4", b"b5"]
    assert (consumer.position(T0), consumer.position(T1)) == (6, 6)


def heartbeat_cluster(answer):
    mini = MiniCluster(1, {})
    mini.mischief = lambda n, m, s: answer(m) if isinstance(m, HeartbeatRequest) else None
    return in_thread(mini)


def line_to(mini, **options):
    return drive(SocketLines(ConnectionOptions(**options)).connect("127.0.0.1", mini.nodes[0].port))


def test_no_time_at_all_is_too_little():
    with heartbeat_cluster(lambda m: HeartbeatResponse()) as mini:
        line = line_to(mini)
        with pytest.raises(RequestTimedOut):
            line.ask(HeartbeatRequest(), timeout_ms=0).take()


def test_pipelined_answers_are_matched_in_whatever_order_they_are_taken():
    with heartbeat_cluster(lambda m: HeartbeatResponse(throttle_time_ms=m.generation_id)) as mini:
        line = line_to(mini)
        asks = [line.ask(HeartbeatRequest(generation_id=i)) for i in range(50)]
        assert [ask.take().throttle_time_ms for ask in reversed(asks)] == list(reversed(range(50)))
        line.close()


def test_a_silent_broker_is_given_up_and_the_line_with_it():
    with heartbeat_cluster(lambda m: SILENCE) as mini:
        line = line_to(mini)
        first, second = (line.ask(HeartbeatRequest(), timeout_ms=t) for t in (40, 60_000))
        with pytest.raises(RequestTimedOut):
            first.take()
        assert line.closed
        with pytest.raises(ConnectionError):
            second.take()
        with pytest.raises(ConnectionError):
            line.ask(HeartbeatRequest()).take()
        with pytest.raises(ConnectionError):
            line.tell(HeartbeatRequest())


@pytest.mark.parametrize(
    "answer",
    [b"\x00\x00\x00\x03abc", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x08\x00\x00\x00\x63abcd",
     b"\x00\x00\x00\x05\x00\x00\x00\x01\x01"],
)  # fmt: skip
def test_bytes_that_cannot_be_read_end_the_line(answer):
    with heartbeat_cluster(lambda m: answer) as mini:
        line = line_to(mini)
        with pytest.raises(ConnectionError):
            line.ask(HeartbeatRequest()).take()
        assert line.closed


def test_large_requests_and_answers_go_through_whole(cluster, mini):
    big = bytes(range(256)) * 40_000
    assert cluster.produce(T0, one(big)).code is Code.NONE
    (record,) = visible(cluster.fetch(T0, 0, FetchOptions(max_bytes=64 << 20)), 0)
    assert record.value == big


def test_answers_are_read_into_the_room_that_was_given(mini):
    given = []

    def room(size):
        given.append(size)
        return memoryview(bytearray(size))

    with Cluster(mini.bootstrap, connection=ConnectionOptions(room=room)) as cluster:
        assert set(cluster.topics(["t"])) == {"t"}
    assert 4 in given
    assert max(given) > 4


def test_a_refused_connection_is_told_as_such():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError):
            SocketLine("127.0.0.1", bound.getsockname()[1])


def test_an_old_broker_is_asked_again_for_its_versions():
    with in_thread(MiniCluster(1, {}, {18: (0, 1), 3: (0, 5), 12: (0, 1)})) as mini:
        line = line_to(mini)
        assert mini.nodes[0].handshakes == [4, 1]
        assert line.versions[3] == (0, 5)
        line.close()


def test_many_threads_each_with_their_own_cluster(mini):
    for i in range(20):
        mini.logs[T0].append(one(b"%d" % i))
    found = []

    def work():
        with Cluster(mini.bootstrap, options=QUICK) as cluster:
            found.append(sum(len(list(visible(got, 0))) for got in cluster.fetch_range(T0, 0, 20)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [20] * 4


def test_a_coroutine_that_waits_on_a_loop_is_a_bug_that_is_told():
    with pytest.raises(AssertionError, match="handed control back"):
        drive(asyncio.sleep(0))


def test_a_line_on_which_the_other_end_has_hung_up_is_closed_before_anything_is_sent() -> None:
    """A produce on it would be lost, and could not be sent again: it may have been written."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        for reset in (False, True):
            line = SocketLine(*server.getsockname())
            there, _ = server.accept()
            assert not line.closed
            if reset:
                there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            there.close()
            while not line.closed:
                pass
            assert line.fileno() == -1


def test_a_wait_that_is_interrupted_ends_its_connection_so_that_nothing_waits_behind_what_was_asked(monkeypatch):
    """A member that was interrupted while it joined could not say that it left: the answer to its join was due first,
    or the rest of a frame."""

    def interrupted(size, deadline):
        raise KeyboardInterrupt

    with heartbeat_cluster(lambda m: SILENCE) as mini:
        line = line_to(mini)
        monkeypatch.setattr(line, "_read", interrupted)
        with pytest.raises(KeyboardInterrupt):
            line.ask(HeartbeatRequest()).take()
        assert line.closed
