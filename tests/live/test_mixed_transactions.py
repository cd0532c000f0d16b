"""Logs with transactions that Apache Kafka coordinated, read by Moldau on the same folders, and by Kafka again."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka_peer import wait_until
from mixed import KAFKA, MOLDAU, MixedPeer

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
    """What a consumer is given from the beginning, until it has ``enough`` and then nothing for two more polls."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "r", "isolation.level": isolation, "enable.auto.commit": False}
    )
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        found: list[bytes] = []
        quiet = 0
        while quiet < 2:
            message = consumer.poll(1 if len(found) >= enough else 60)
            if message is None:
                assert len(found) >= enough, f"{len(found)} of {enough} came"
                quiet += 1
                continue
            assert message.error() is None, message.error()
            value = message.value()
            assert value is not None
            found.append(value.removesuffix(PADDING))
        return found
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
            wait_until(lambda: peer.view().controller_id >= 0, "a controller")
            assert decided(where, "read_committed", len(committed)) == committed
            assert len(decided(where, "read_uncommitted", 121)) == 121
        del still_open
