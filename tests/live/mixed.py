"""Clusters of Apache Kafka's and Moldau's nodes together: the same files and folders, whichever program runs a node.

A node changes its program by being stopped and started again: both read the same server.properties and the same logs.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka_peer import KafkaPeer, java_command, java_tool, wait_until

from moldau.cluster.kills.replicas import read_replica, sessions_of
from moldau.cluster.kills.resent import NextEpochs
from moldau.history.rows import History, Read, Send
from moldau.history.sessions import Session, told_apart

MOLDAU, KAFKA = "moldau", "kafka"
SMALL_HEAP = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_LATE_S = 1.0


class MixedPeer(KafkaPeer):
    """Combined nodes of which each is run by ``programs[node_id]``; formatted by Kafka's tool, with its defaults."""

    def __init__(self, programs: Mapping[int, str], properties: Mapping[str, object], folder: Path) -> None:
        super().__init__(len(programs), properties, folder)
        self.programs = dict(programs)
        self._changed: dict[int, tuple[float, str]] = {}
        """Node id -> when its program changed, and what it was."""

    def node_command(self, node_id: int) -> list[str]:
        if self.programs[node_id] == MOLDAU:
            return [sys.executable, "-m", "moldau", "node", str(self.config_file(node_id))]
        return java_command("kafka.Kafka", [self.config_file(node_id)], SMALL_HEAP)

    def change(self, node_id: int, program: str, *, kill: bool = False) -> None:
        """Run a node by another program from now on, on the folders that it has."""
        if kill:
            self.kill(node_id)
        else:
            self.stop_node(node_id)
        self.assign(node_id, program)
        self.restart(node_id)

    def assign(self, node_id: int, program: str) -> None:
        """A node that is stopped is run by another program when it is started again."""
        self._changed[node_id] = time.monotonic(), self.programs[node_id]
        self.programs[node_id] = program

    def ran_by(self, node_id: int) -> str:
        """Who runs a node at the moment; both for a while after a change, when answers of the first may come late."""
        now = self.programs.get(node_id, "nobody")
        changed_s, before = self._changed.get(node_id, (0.0, now))
        return f"{before}, then {now}" if time.monotonic() - changed_s < _LATE_S else now


class Load:
    """An idempotent producer with acks=all that writes numbered values until it is told to stop."""

    def __init__(self, peer: MixedPeer, topic: str, partitions: int) -> None:
        self._peer, self._topic, self._partitions = peer, topic, partitions
        self.acked: list[bytes] = []
        self.failed: list[str] = []
        self.longest_s = 0.0
        """The longest time between two acknowledgements."""
        self._told_s: float | None = None
        self.epochs = NextEpochs(peer.ran_by, {KAFKA})
        options = {"enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 120_000, **self.epochs.settings()}
        self._producer = Producer({"bootstrap.servers": peer.bootstrap_servers, **options})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        print(*self.epochs.lines, sep="\n", file=sys.stderr)
        print(f"{len(self.acked):,} acknowledged, {len(self.failed)} not, longest gap {self.longest_s:.1f} s")

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(0.005):  # a pace: two hundred a second
            value = b"%d" % number
            self._producer.produce(self._topic, value, partition=number % self._partitions, on_delivery=self._told)
            self._producer.poll(0)
            number += 1
        self._producer.flush(120)

    def _told(self, error: object, message: object) -> None:
        if error is None:
            now_s = time.monotonic()
            self.longest_s = max(self.longest_s, now_s - (now_s if self._told_s is None else self._told_s))
            self._told_s = now_s
            self.acked.append(message.value())  # type: ignore[attr-defined]
        else:
            self.failed.append(str(error))

    def wait_for(self, more: int) -> None:
        """Until so many more values were acknowledged."""
        target = len(self.acked) + more
        wait_until(lambda: len(self.acked) >= target, f"{more} more acknowledged values, {self.failed[:3]}")

    def found(self) -> list[bytes]:
        """Every value of the topic, read to the ends that were there at the beginning: as often as it is there, but for
        what the producer says it sent again itself, for a broker of Apache Kafka."""
        rows = [
            Read("reader", *row[:2], row[2].decode())
            for row in _rows(self._peer.bootstrap_servers, self._topic, self._partitions)
        ]
        sent = {(row.partition, row.value): Send("load", row.offset, row.partition, row.value, 0) for row in rows}
        sessions = dict[tuple[int, int], Session]()
        for id, number in product(self._peer.ports, range(self._partitions)):
            replica = read_replica(id, self._peer.data_dir(id) / f"{self._topic}-{number}")
            sessions |= sessions_of(replica, number)
        history = History(list(sent.values()), [], rows, {}, [])
        told, again = told_apart(history, sessions, self.epochs.own_doing)
        if again:
            print(f"{again} sent again by librdkafka itself:", *self.epochs.refusals, sep="\n")
        return [row.value.encode() for row in told.final if (row.partition, row.value) in sent]


def values_of(bootstrap: str, topic: str, partitions: int) -> list[bytes]:
    """Every value of a topic, read to the ends that were there at the beginning."""
    return [value for _, _, value in _rows(bootstrap, topic, partitions)]


def _rows(bootstrap: str, topic: str, partitions: int) -> list[tuple[int, int, bytes]]:
    """The same with partitions and offsets."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    try:
        ends = ends_of(consumer, topic, partitions)
        consumer.assign([TopicPartition(topic, n, 0) for n in ends])
        found: list[tuple[int, int, bytes]] = []
        left = {n for n, end in ends.items() if end}
        while left:
            message = consumer.poll(120)
            assert message is not None, f"nothing came for two minutes, {left} are not read to their ends"
            if (error := message.error()) is not None:
                assert error.code() in NOT_NOW, error
                continue
            value, offset, number = message.value(), message.offset(), message.partition()
            assert value is not None
            assert offset is not None
            assert number is not None
            found.append((number, offset, value))
            if offset + 1 >= ends[number]:
                left.discard(number)
        return found
    finally:
        consumer.close()


NOT_NOW = frozenset(
    {
        KafkaError._DESTROY_BROKER, KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._UNKNOWN_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.OFFSET_NOT_AVAILABLE,
    }
)  # fmt: skip
"""What librdkafka says of a partition whose leader is being elected or of a broker that it has just lost."""


def ends_of(consumer: Consumer, topic: str, partitions: int) -> dict[int, int]:
    """Each partition's end as readers see it, once every leader knows it."""
    ends: dict[int, int] = {}

    def are_known() -> bool:
        for number in set(range(partitions)) - ends.keys():
            try:
                ends[number] = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=10)[1]
            except KafkaException as error:
                if error.args[0].code() not in NOT_NOW:
                    raise
                # Told of the leader by a broker that had not heard of a new one, librdkafka asks who has gone for ever.
                with suppress(KafkaException):
                    consumer.list_topics(topic, timeout=60)
        return len(ends) == partitions

    wait_until(are_known, f"the ends of {topic}")
    return ends


def segments(peer: KafkaPeer, folder: str) -> dict[int, bytes]:
    """The bytes of a partition's segments on each node, by node id."""
    found = {}
    for node_id in peer.ports:
        files = sorted((peer.data_dir(node_id) / folder).glob("*.log"))
        found[node_id] = b"".join(path.read_bytes() for path in files)
    return found


def dump(path: Path, *options: str) -> str:
    """What Kafka's DumpLogSegments says of a copy of a file."""
    copy = path.parent.parent / "dumped" / path.parent.name
    shutil.copytree(path.parent, copy, dirs_exist_ok=True)
    return java_tool("kafka-dump-log", "--files", copy / path.name, *options).stdout


def bootstrap_of(peer: KafkaPeer, nodes: Sequence[int]) -> str:
    return ",".join(f"127.0.0.1:{peer.ports[one][0]}" for one in nodes)
