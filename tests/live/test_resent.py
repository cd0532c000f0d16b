"""Whose doing it is that a record stands twice in a log of a mixed cluster: by what the client says of itself."""

from __future__ import annotations

import ctypes
import logging
import time
from pathlib import Path
from unittest import mock

import confluent_kafka
import pytest
from mixed import KAFKA, MOLDAU, Load, MixedPeer

from moldau.cluster.kills.replicas import Stored, StoredReplica
from moldau.cluster.kills.resent import TIMED_OUT, NextEpochs

REFUSED = (
    "[thrd:127.0.0.1:45489/{}]: 127.0.0.1:45489/{}: ProduceRequest for t [0] with 1 message(s) failed due to skipped "
    "sequence numbers (PID{{Id:7,Epoch:{}}}, base seq 2 > next seq 1) caused by previous failed request "
    "(NOT_LEADER_FOR_PARTITION, actions Refresh,MsgNotPersisted, base seq 1..1, base msgid 2, 0ms ago): recovering"
)
BEGUN = (
    "[thrd:127.0.0.1:45489/1]: Beginning partition drain in state Assigned for PID{{Id:7,Epoch:{}}} epoch bump for 1 "
    "partition(s) with in-flight requests: {}"
)
PROGRAMS = {1: KAFKA, 2: MOLDAU}
NOT_LEADER, OUT_OF_ORDER = 6, 45
PRODUCE = 0
RTT_MS = 200


def told(*lines: tuple[str, str], excused: tuple[str, ...] = (KAFKA,)) -> NextEpochs:
    """A handler that was given lines of a producer's log: what each is of, and its text."""
    found = NextEpochs(lambda broker: PROGRAMS.get(broker, "nobody"), excused)
    for of, text in lines:
        found.handle(logging.LogRecord("x", logging.DEBUG, "", 0, "%s [%s] %s", (of, "rdkafka#producer-1", text), None))
    return found


def refused(broker: int, epoch: int = 0) -> tuple[str, str]:
    return "ERRSEQ", REFUSED.format(broker, broker, epoch)


def begun(reason: str = "skipped sequence numbers", epoch: int = 0) -> tuple[str, str]:
    return "DRAIN", BEGUN.format(epoch, reason)


def test_an_epoch_that_ended_since_a_broker_of_kafka_refused_a_batch_out_of_order_is_the_clients_own_doing() -> None:
    epochs = told(refused(1), begun())
    assert epochs.own_doing((7, 0))
    assert not epochs.own_doing((7, 1)), "it has not ended"
    assert not epochs.own_doing((8, 0)), "another producer's"


@pytest.mark.parametrize(
    "lines",
    [
        [refused(2), begun()],
        [refused(1), begun(), refused(2), begun()],
        [refused(2), begun(), refused(1), begun()],
        [refused(3), begun()],
        [begun()],
        [begun("1 message(s) timed out on t [0]")],
        [begun("message sequence gap"), refused(1), begun()],
        [refused(1), begun(), begun("unknown producer id")],
        [("MSGSET", REFUSED.format(1, 1, 0))],
    ],
)
def test_an_epoch_that_ended_for_any_other_reason_as_well_is_not(lines: list[tuple[str, str]]) -> None:
    assert not told(*lines).own_doing((7, 0))


@pytest.mark.parametrize(
    ("lines", "own"),
    [
        ([begun("1 message(s) timed out on t [0]")], True),
        ([refused(1), begun(), begun("2 message(s) timed out on t [0]")], True),
        ([refused(2), begun(), begun("1 message(s) timed out on t [0]")], False),
        ([begun("1 message(s) timed out on t [0]"), begun("unknown producer id")], False),
        ([begun("skipped sequence numbers")], False),
    ],
)
def test_where_records_may_be_given_up_on_their_way_that_is_the_clients_own_doing_too(
    lines: list[tuple[str, str]], own: bool
) -> None:
    assert told(*lines, excused=(KAFKA, TIMED_OUT)).own_doing((7, 0)) is own


def test_who_ran_the_broker_when_it_refused_counts_and_not_who_runs_it_later() -> None:
    programs = {1: MOLDAU}
    epochs = NextEpochs(programs.__getitem__, {KAFKA})
    for of, text in (refused(1), begun()):
        epochs.handle(logging.LogRecord("x", logging.DEBUG, "", 0, "%s [%s] %s", (of, "p", text), None))
    programs[1] = KAFKA
    assert not epochs.own_doing((7, 0))


def test_what_is_told_of_a_broker_in_the_second_after_its_program_changed_is_not_believed(tmp_path: Path) -> None:
    peer = MixedPeer(PROGRAMS, {}, tmp_path)
    assert (peer.ran_by(1), peer.ran_by(2), peer.ran_by(3)) == (KAFKA, MOLDAU, "nobody")
    with mock.patch.object(peer, "stop_node"), mock.patch.object(peer, "restart"):
        peer.change(2, KAFKA)
    with mock.patch("mixed.time.monotonic", return_value=time.monotonic()) as now:
        assert peer.ran_by(2) == "moldau, then kafka", "its last answers may come late"
        now.return_value += 2
        assert peer.ran_by(2) == KAFKA


@pytest.mark.parametrize(
    ("broker", "epochs", "found"),
    [(1, (0, 0, 1), [b"0", b"1"]), (2, (0, 0, 1), [b"0", b"0", b"1"]), (1, (0, 0, 0), [b"0", b"0", b"1"])],
    ids=["for a broker of kafka", "for a broker of moldau", "in one epoch"],
)
def test_a_load_leaves_out_what_it_sent_again_for_a_broker_of_kafka_and_nothing_else(
    tmp_path: Path, broker: int, epochs: tuple[int, ...], found: list[bytes]
) -> None:
    load = Load(MixedPeer(PROGRAMS, {}, tmp_path), "t", 1)
    for of, text in (refused(broker), begun()):
        load.epochs.handle(logging.LogRecord("x", logging.DEBUG, "", 0, "%s [%s] %s", (of, "p", text), None))
    rows = [(0, offset, value) for offset, value in enumerate((b"0", b"1", b"0"))]
    batches = [Stored(n, n + 1, 0, 0, b"", producer_id=7, producer_epoch=epoch) for n, epoch in enumerate(epochs)]
    with (
        mock.patch("mixed._rows", return_value=rows),
        mock.patch("mixed.read_replica", return_value=StoredReplica(1, batches, [], [])),
    ):
        assert sorted(load.found()) == found


def test_the_installed_librdkafka_says_it_in_these_words() -> None:
    epochs = NextEpochs(lambda broker: KAFKA, {KAFKA})
    acked: list[bytes | None] = []
    brokers = {"bootstrap.servers": "mock", "test.mock.num.brokers": 3, "enable.idempotence": True}
    producer = confluent_kafka.Producer({**brokers, "linger.ms": 0, "batch.num.messages": 1, **epochs.settings()})
    producer.produce("t", b"first", partition=0)
    assert producer.flush(30) == 0
    refuse(producer, NOT_LEADER, OUT_OF_ORDER)
    for value in (b"second", b"third"):
        producer.produce("t", value, partition=0, on_delivery=lambda error, message: acked.append(message.value()))
    assert producer.flush(30) == 0
    assert sorted(map(str, acked)) == ["b'second'", "b'third'"]
    assert list(epochs.reasons.values()) == [{KAFKA}]
    (session,) = epochs.reasons
    assert epochs.own_doing(session)
    assert any("skipped sequence numbers" in line for line in epochs.lines), "kept for whoever looks for a cause"


def test_the_installed_librdkafka_says_so_of_records_that_were_too_long_under_way() -> None:
    epochs = NextEpochs(lambda broker: MOLDAU, {KAFKA, TIMED_OUT})
    brokers = {"bootstrap.servers": "mock", "test.mock.num.brokers": 3, "enable.idempotence": True}
    producer = confluent_kafka.Producer({**brokers, "message.timeout.ms": 2_000, **epochs.settings()})
    producer.produce("t", b"first", partition=0)
    assert producer.flush(30) == 0
    refuse(producer, rtt_ms=60_000)
    producer.produce("t", b"second", partition=0)
    assert producer.flush(30) == 0
    assert list(epochs.reasons.values()) == [{TIMED_OUT}]


def refuse(producer: confluent_kafka.Producer, *codes: int, rtt_ms: int = RTT_MS) -> None:
    """Have the brokers of librdkafka's mock cluster answer its next Produce requests with these errors, in this order;
    each answer takes a while, so that more than one request is under way."""
    (library,) = (Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs").glob("librdkafka*")
    calls = ctypes.CDLL(str(library))
    calls.rd_kafka_handle_mock_cluster.restype = ctypes.c_void_p
    handle = ctypes.c_void_p.from_address(id(producer) + object.__basicsize__)  # the first field of its struct
    cluster = ctypes.c_void_p(calls.rd_kafka_handle_mock_cluster(handle))
    for broker in (1, 2, 3):
        calls.rd_kafka_mock_broker_set_rtt(cluster, broker, rtt_ms)
    errors = (ctypes.c_int * len(codes))(*codes)
    calls.rd_kafka_mock_push_request_errors_array(cluster, ctypes.c_int16(PRODUCE), ctypes.c_size_t(len(codes)), errors)
