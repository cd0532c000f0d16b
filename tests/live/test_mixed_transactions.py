"""Logs with transactions that Apache Kafka coordinated, read by Moldau on the same folders, and by Kafka again."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka_peer import wait_until
from mixed import KAFKA, MOLDAU, MixedPeer

from moldau.wire.batch import headers

TOPIC = "transfers"
SMALL = {"segment.bytes": "1048576", "min.insync.replicas": "1"}
PADDING = b"x" * 20_000


def transaction(bootstrap: str, name: str, values: list[bytes], end: str) -> Producer:
    """Write values in a transaction and end it ("commit" or "abort"), or leave it open ("")."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "transaction.timeout.ms": 600_000})
    producer.init_transactions(60)
    producer.begin_transaction()
    for value in values:
        producer.produce(TOPIC, value, partition=0)
    producer.flush(60)
    if end == "commit":
        producer.commit_transaction(60)
    elif end == "abort":
        producer.abort_transaction(60)
    return producer


def decided(bootstrap: str, isolation: str, enough: int) -> list[bytes]:
    """What a consumer is given from the beginning to the end, once that is behind ``enough`` of them."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "r", "isolation.level": isolation, "enable.auto.commit": False}
        | {"enable.partition.eof": True}
    )
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        found: list[bytes] = []
        while True:
            message = consumer.poll(60)
            assert message is not None, f"{len(found)} of {enough} came"
            error, value = message.error(), message.value()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                if len(found) >= enough:
                    return found
                continue
            assert value is not None
            found.append(value.removesuffix(PADDING))
    finally:
        consumer.close()


@pytest.mark.parametrize("kill", [False, True], ids=["clean", "killed"])
def test_committed_records_alone_are_read_whichever_program_runs_the_node(tmp_path: Path, kill: bool) -> None:
    with MixedPeer({1: KAFKA}, {}, tmp_path) as peer:
        where = peer.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": where})
        admin.create_topics([NewTopic(TOPIC, 1, 1, config=SMALL)])[TOPIC].result(60)
        committed = []
        for number in range(12):
            values = [b"%d-%d" % (number, part) for part in range(10)]
            transaction(
                where, f"t{number % 3}", [value + PADDING for value in values], "abort" if number % 2 else "commit"
            )
            committed += [] if number % 2 else values
        still_open = transaction(where, "open", [b"open"], "")
        for program in (MOLDAU, KAFKA):
            peer.change(1, program, kill=kill)
            peer.wait_ready()
            assert decided(where, "read_committed", len(committed)) == committed
            assert len(decided(where, "read_uncommitted", 121)) == 121
        del still_open


def keyed(bootstrap: str, producer: Producer, pairs: dict[bytes, bytes], end: str) -> None:
    """One more transaction of a producer, with keys."""
    producer.begin_transaction()
    for key, value in pairs.items():
        producer.produce(TOPIC, value + PADDING, key, partition=0)
    producer.flush(60)
    if end == "commit":
        producer.commit_transaction(60)
    else:
        producer.abort_transaction(60)


def batches(peer: MixedPeer) -> tuple[int, int]:
    """How many batches of transactions with records, and how many markers, the topic's segment files hold."""
    data, control = 0, 0
    for file in (peer.data_dir(1) / f"{TOPIC}-0").glob("*.log"):
        with suppress(FileNotFoundError):  # a compaction has replaced it meanwhile
            for _, header in headers(file.read_bytes()):
                control += header.is_control
                data += header.count > 0 and header.is_transactional and not header.is_control
    return data, control


def fill(bootstrap: str) -> None:
    """Write enough outside of transactions, under one key, for another segment to begin."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for _ in range(60):
        producer.produce(TOPIC, b"0" + PADDING, b"filler", partition=0)
    assert producer.flush(60) == 0


def test_what_moldau_compacts_of_transactions_kafka_reads_right(tmp_path: Path) -> None:
    often = {"log.cleaner.backoff.ms": 200, "log.flush.offset.checkpoint.interval.ms": 500}
    compacted = {
        **SMALL, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "1",
        "file.delete.delay.ms": "1",
    }  # fmt: skip
    with MixedPeer({1: KAFKA}, {"log.cleaner.enable": "false", **often}, tmp_path) as peer:
        where = peer.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": where})
        admin.create_topics([NewTopic(TOPIC, 1, 1, config=compacted)])[TOPIC].result(60)
        newest: dict[bytes, bytes] = {}
        producers = [
            Producer({"bootstrap.servers": where, "transactional.id": f"t{number}"}) for number in range(3)
        ]  # fmt: skip
        for producer in producers:
            producer.init_transactions(60)
        for number in range(30):
            pairs = {b"k%d" % (part % 4): b"%d-%d" % (number, part) for part in range(6)}
            pairs[b"of %d" % number] = b"%d" % number
            aborts = number % 2 == 1
            keyed(where, producers[number % 3], pairs, "abort" if aborts else "commit")
            newest.update({} if aborts else pairs)
        markers = 30
        wait_until(lambda: batches(peer)[1] == markers, "Kafka has written the last marker, after its answer")
        before = batches(peer)[0]
        text = peer.config_file(1).read_text().replace("log.cleaner.enable=false", "log.cleaner.enable=true")
        peer.config_file(1).write_text(text)
        peer.change(1, MOLDAU)

        def has_removed_markers() -> bool:
            fill(where)
            return batches(peer)[1] <= markers // 2 + len(producers)  # of what was committed one key each is left

        wait_until(has_removed_markers, "Moldau has removed the markers of aborted transactions", pause_s=1)
        newest[b"filler"] = b"0"
        assert batches(peer)[0] < before
        for program in (MOLDAU, KAFKA):
            peer.change(1, program)
            peer.wait_ready()
            values = decided(where, "read_committed", len(newest))
            aborted = [value for value in values if int(value.split(b"-")[0]) % 2]
            assert not aborted, f"with {program}"
            assert set(newest.values()) <= set(values), f"with {program}"
