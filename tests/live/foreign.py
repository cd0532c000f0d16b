"""The foreign clients, each reduced to two verbs: write records with a codec, read a number of records from the start.

A record here is (key, value), both bytes. Every reader reads all partitions from the beginning, without a group.
What a client can do beyond that is tested in the file of its own (test_foreign_*.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonTopicPartition
from kafka_peer import java_tool, wait_until
from tests.tools import missing

from moldau.client.client import ForNode
from moldau.client.sync import Cluster
from moldau.wire.messages.k03_metadata import MetadataRequest

Record = tuple[bytes, bytes]
CODECS = ("gzip", "snappy", "lz4", "zstd")
PATIENCE_S = 120.0


def create_topic(bootstrap: str, topic: str, partitions: int = 1, rf: int = 3, **config: str) -> None:
    """Create a topic and wait until every broker says that each partition has a leader and all its replicas in sync."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wish = NewTopic(topic, partitions, rf, config={key.replace("_", "."): value for key, value in config.items()})
    try:
        admin.create_topics([wish])[topic].result(PATIENCE_S)
    except KafkaException as error:  # done by a controller that could not say so any more: nobody else uses the name
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
    wait_led(bootstrap, topic, partitions, rf)


def wait_led(bootstrap: str, topic: str, partitions: int, rf: int = 3) -> None:
    """Wait until every broker says that the topic has so many partitions, each with a leader and in sync; or none."""
    with Cluster(bootstrap) as cluster:
        for broker in cluster.brokers():
            wait_until(
                lambda broker=broker: _is_led(cluster, ForNode(broker), topic, partitions, rf),  # type: ignore[misc]
                f"broker {broker} knows {partitions} partitions of {topic}, led and in sync",
                PATIENCE_S,
            )


def _is_led(cluster: Cluster, broker: ForNode, topic: str, partitions: int, rf: int) -> bool:
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    answer = cluster.run(cluster.client.ask(request, broker, codes=lambda response: ()))
    shown = answer.topics[0].partitions
    return len(shown) == partitions and all(one.leader_id >= 0 and len(one.isr_nodes) == rf for one in shown)


def kcat() -> str:
    """The path of kcat, a client that Debian ships."""
    if (why := missing("kcat")) is not None:
        pytest.skip(why)
    return "kcat"


def run_kcat(*arguments: str, stdin: bytes = b"") -> bytes:
    """Run kcat to its end; its standard output. Fails with what it said when it exits non-zero."""
    command = [kcat(), "-m", str(int(PATIENCE_S)), *arguments]  # its own patience with metadata is five seconds
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, f"kcat {arguments}: {done.stderr.decode()}"
    return done.stdout


# ---- writers: (bootstrap, topic, records, codec) ---------------------------------------------------------------------


def write_confluent(bootstrap: str, topic: str, records: Iterable[Record], codec: str = "none") -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 20})
    problems: list[Any] = []
    for key, value in records:
        producer.produce(topic, value, key, on_delivery=lambda error, _: problems.append(error) if error else None)
    assert producer.flush(PATIENCE_S) == 0
    assert not problems


def write_kafka_python(bootstrap: str, topic: str, records: Iterable[Record], codec: str = "none") -> None:
    kind = None if codec == "none" else codec
    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), compression_type=kind, linger_ms=20)
    with contextlib.closing(producer):
        sent = [producer.send(topic, value, key=key) for key, value in records]
        producer.flush(PATIENCE_S)
        for one in sent:
            one.get(PATIENCE_S)


def write_aiokafka(bootstrap: str, topic: str, records: Iterable[Record], codec: str = "none") -> None:
    async def write() -> None:
        kind = None if codec == "none" else codec
        # Its default, acks=1, would come back before the high watermark covers what was written.
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type=kind, linger_ms=20, acks="all")
        await producer.start()
        try:
            for sent in [await producer.send(topic, value, key) for key, value in records]:
                await sent
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(write(), PATIENCE_S))


def write_kcat(bootstrap: str, topic: str, records: Iterable[Record], codec: str = "none") -> None:
    lines = b"".join(key + b"\t" + value + b"\n" for key, value in records)
    codec_options = [] if codec == "none" else ["-z", codec]
    run_kcat("-P", "-b", bootstrap, "-t", topic, "-K", "\t", *codec_options, stdin=lines)


def write_java(bootstrap: str, topic: str, records: Iterable[Record], codec: str = "none") -> None:
    lines = "".join(f"{key.decode()}\t{value.decode()}\n" for key, value in records)
    where = ("--bootstrap-server", bootstrap, "--topic", topic, "--compression-codec", codec)
    java_tool("kafka-console-producer", *where, "--reader-property", "parse.key=true", stdin=lines)


# ---- readers: (bootstrap, topic, count) -> records -------------------------------------------------------------------


def read_confluent(bootstrap: str, topic: str, count: int) -> list[Record]:
    # It commits nothing: where no coordinator can be, its close would wait for one.
    with consumer_of(bootstrap, f"{topic}-reader", enable_auto_commit=False) as consumer:
        partitions = consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, one, OFFSET_BEGINNING) for one in partitions])
        return poll_records(consumer, count)


@contextlib.contextmanager
def consumer_of(bootstrap: str, group: str, **more: object) -> Iterator[Consumer]:
    """A librdkafka consumer that starts at the beginning, reports errors and is closed at the end."""
    base = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", "check.crcs": True}
    consumer = Consumer({**base, **{key.replace("_", "."): value for key, value in more.items()}})
    try:
        yield consumer
    finally:
        consumer.close()


def poll_records(consumer: Consumer, count: int) -> list[Record]:
    """Poll until `count` records came (AssertionError after two minutes)."""
    return cast("list[Record]", [(message.key(), message.value()) for message in poll_messages(consumer, count)])


def poll_messages(consumer: Consumer, count: int) -> list[Message]:
    """Poll until `count` messages came. An error that comes in between is news, not an outcome: told if they do not."""
    came: list[Message] = []
    errors: list[str] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(came) < count:
        assert time.monotonic() < deadline, f"{len(came)} of {count} records came; {errors}"
        message = consumer.poll(0.2)
        if message is None:
            continue
        if message.error() is None:
            came.append(message)
        else:
            errors.append(str(message.error()))
    return came


def read_kafka_python(bootstrap: str, topic: str, count: int) -> list[Record]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap.split(","), enable_auto_commit=False)
    with contextlib.closing(consumer):
        consumer.assign([PythonTopicPartition(topic, one) for one in sorted(consumer.partitions_for_topic(topic))])
        consumer.seek_to_beginning()
        came: list[Record] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(came) < count:
            assert time.monotonic() < deadline, f"{len(came)} of {count} records came"
            for batch in consumer.poll(timeout_ms=200).values():
                came.extend((one.key, one.value) for one in batch)
        return came


def read_aiokafka(bootstrap: str, topic: str, count: int) -> list[Record]:
    async def read() -> list[Record]:
        consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        try:
            return [(one.key, one.value) for one in [await consumer.getone() for _ in range(count)]]
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(read(), PATIENCE_S))


def read_kcat(bootstrap: str, topic: str, count: int) -> list[Record]:
    said = run_kcat("-C", "-b", bootstrap, "-t", topic, "-o", "beginning", "-c", str(count), "-q", "-f", "%k\t%s\n")
    return [split_line(line) for line in said.splitlines()]


def read_java(bootstrap: str, topic: str, count: int) -> list[Record]:
    where = ("--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning", "--max-messages", count)
    limit = ("--timeout-ms", int(PATIENCE_S * 1000))
    said = java_tool("kafka-console-consumer", *where, *limit, "--formatter-property", "print.key=true")
    return [split_line(line) for line in said.stdout.encode().splitlines()]


def split_line(line: bytes) -> Record:
    key, _, value = line.partition(b"\t")
    return key, value


Write = Callable[..., None]
Read = Callable[[str, str, int], list[Record]]
WRITERS: dict[str, Write] = {
    "confluent-kafka": write_confluent,
    "kafka-python": write_kafka_python,
    "aiokafka": write_aiokafka,
    "kcat": write_kcat,
    "java": write_java,
}
READERS: dict[str, Read] = {
    "confluent-kafka": read_confluent,
    "kafka-python": read_kafka_python,
    "aiokafka": read_aiokafka,
    "kcat": read_kcat,
    "java": read_java,
}
