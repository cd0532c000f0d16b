"""What is built on Kafka runs on Moldau as it is: Streams, Connect and MirrorMaker 2, each while nodes are killed.

Their configurations are the ones that come with them, but for addresses, names and how often something is looked at.
"""

from __future__ import annotations

import json
import random
import struct
import subprocess
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka_peer import JARS as KAFKAS_JARS
from kafka_peer import KafkaPeer, free_port, java_command, wait_until

from moldau import Cluster

JARS = KAFKAS_JARS.parent / "ecosystem-4.3.1"
PATIENCE_S = 180
pytestmark = [
    pytest.mark.skipif(not (JARS / ".complete").exists(), reason="Connect's and Streams' jars: make ecosystem"),
    pytest.mark.timeout(600),
]


@contextmanager
def program(log: Path, name: str, *arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """A class of the jars, running; what it says goes to ``log``."""
    with log.open("ab") as out:
        command = java_command(name, arguments, ("-Xmx512m", "-XX:+UseSerialGC"), jars=JARS)
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def make_topics(bootstrap: str, copies: int, *names: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})  # kept, for its answers end with it
    for done in admin.create_topics([NewTopic(name, 3, copies) for name in names]).values():
        done.result(PATIENCE_S)


def write(bootstrap: str, topic: str, rows: Sequence[tuple[str, str]]) -> None:
    """Key and value of each record; all are acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    lost: list[str] = []

    def delivered(error: KafkaError | None, _: object) -> None:
        if error is not None:
            lost.append(str(error))

    for key, value in rows:
        producer.produce(topic, value, key=key, on_delivery=delivered)
    assert producer.flush(120) == 0
    assert not lost


class Reader:
    """Reads a topic's three partitions from their beginnings; ``rows`` is what has come."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.rows: list[tuple[bytes, bytes]] = []
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(3)])

    def look(self) -> list[tuple[bytes, bytes]]:
        """What has come until now."""
        for message in self._consumer.consume(10_000, 0.2):
            if message.error() is None:
                self.rows.append((message.key() or b"", message.value() or b""))
        return self.rows

    def close(self) -> None:
        self._consumer.close()


def test_a_streams_application_counts_right_while_brokers_and_instances_of_it_are_killed(tmp_path: Path) -> None:
    chance, true = random.Random(5), Counter[str]()

    def lines(count: int) -> list[tuple[str, str]]:
        found = []
        for _ in range(count):
            words = chance.choices([f"word{number}" for number in range(50)], k=4)
            true.update(words)
            found.append((str(chance.randrange(100)), " ".join(words)))
        return found

    with Cluster(brokers=3, data=tmp_path / "cluster") as cluster, ExitStack() as ends:
        bootstrap = cluster.bootstrap_servers
        make_topics(bootstrap, 3, "streams-plaintext-input", "streams-wordcount-output")

        def instance(number: int) -> subprocess.Popen[bytes]:
            settings = tmp_path / f"{number}.properties"
            settings.write_text(
                f"bootstrap.servers={bootstrap}\nstate.dir={tmp_path / f'state-{number}'}\nreplication.factor=3\n"
                "commit.interval.ms=500\n"
            )
            name = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"
            return ends.enter_context(program(tmp_path / f"{number}.log", name, settings))

        first = instance(1)
        instance(2)
        output = Reader(bootstrap, "streams-wordcount-output")
        ends.callback(output.close)

        def is_right() -> bool:
            counts = {key.decode(): struct.unpack(">q", value)[0] for key, value in output.look()}
            return counts == true

        write(bootstrap, "streams-plaintext-input", lines(500))
        wait_until(is_right, "the first words are counted", PATIENCE_S)
        cluster.kill(2)
        write(bootstrap, "streams-plaintext-input", lines(500))
        first.kill()
        write(bootstrap, "streams-plaintext-input", lines(500))
        cluster.restart(2)
        wait_until(is_right, "the words are counted by who is left", PATIENCE_S)
        instance(1)
        cluster.kill(1)
        write(bootstrap, "streams-plaintext-input", lines(500))
        wait_until(is_right, "the words are counted without broker 1", PATIENCE_S)


class Worker:
    """A worker of Connect, in distributed mode, and its REST interface."""

    def __init__(self, folder: Path, number: int, bootstrap: str) -> None:
        self._port = free_port()
        self.settings = folder / f"worker-{number}.properties"
        stores = "".join(
            f"{kind}.storage.topic=connect-{kind}s\n{kind}.storage.replication.factor=3\n"
            for kind in ("offset", "config", "status")
        )
        self.settings.write_text(
            f"bootstrap.servers={bootstrap}\ngroup.id=connect-cluster\n{stores}offset.flush.interval.ms=1000\n"
            "key.converter=org.apache.kafka.connect.json.JsonConverter\n"
            "value.converter=org.apache.kafka.connect.storage.StringConverter\n"
            f"listeners=HTTP://127.0.0.1:{self._port}\n"
            # What a worker had that leaves is given to another at once, not in five minutes, unless it was the leader.
            "scheduled.rebalance.max.delay.ms=1000\n"
        )

    def ask(self, method: str, path: str, body: object = None) -> int:
        """The status of the answer, 0 without one."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self._port}{path}", data, method=method)
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        except OSError:
            return 0


def test_connect_copies_a_file_through_a_topic_while_brokers_and_workers_are_killed(tmp_path: Path) -> None:
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    written: list[str] = []

    def grow() -> None:
        fresh = [f"line {len(written) + number}" for number in range(500)]
        written.extend(fresh)
        with source.open("a") as out:
            out.write("".join(f"{line}\n" for line in fresh))

    def arrived() -> bool:
        return sink.exists() and set(sink.read_text().split("\n")[:-1]) == set(written)

    with Cluster(brokers=3, data=tmp_path / "cluster") as cluster, ExitStack() as ends:
        workers = [Worker(tmp_path, number, cluster.bootstrap_servers) for number in (1, 2)]

        def start(worker: Worker) -> subprocess.Popen[bytes]:
            log = worker.settings.with_suffix(".log")
            name = "org.apache.kafka.connect.cli.ConnectDistributed"
            return ends.enter_context(program(log, name, worker.settings))

        first, _ = (start(worker) for worker in workers)
        wait_until(lambda: all(worker.ask("GET", "/connectors") == 200 for worker in workers), "both serve", PATIENCE_S)
        grow()
        for name, kind, more in (
            ("in", "Source", {"file": str(source), "topic": "lines"}),
            ("out", "Sink", {"file": str(sink), "topics": "lines"}),
        ):
            settings = {"connector.class": f"org.apache.kafka.connect.file.FileStream{kind}Connector", **more}
            body = {"name": name, "config": settings}
            # Refused while the workers agree about who does what.
            wait_until(
                lambda body=body, name=name: (  # type: ignore[misc]
                    workers[1].ask("POST", "/connectors", body) == 201
                    or workers[1].ask("GET", f"/connectors/{name}") == 200
                ),
                f"connector {name} is made",
                PATIENCE_S,
                0.5,
            )
        wait_until(arrived, "the first lines are copied", PATIENCE_S)
        cluster.kill(2)
        grow()
        wait_until(arrived, "lines are copied without broker 2", PATIENCE_S)
        cluster.restart(2)
        first.kill()
        grow()
        wait_until(arrived, "lines are copied without the first worker", PATIENCE_S)
        wait_until(lambda: workers[1].ask("PUT", "/connectors/out/stop") == 204, "it is to stop", PATIENCE_S)
        wait_until(
            lambda: workers[1].ask("DELETE", "/connectors/out/offsets") == 200, "its group is deleted", PATIENCE_S
        )


MIRROR = """clusters = moldau, kafka
moldau.bootstrap.servers = {moldau}
kafka.bootstrap.servers = {kafka}
moldau->kafka.enabled = true
kafka->moldau.enabled = true
moldau->kafka.topics = from-.*
kafka->moldau.topics = from-.*
moldau->kafka.replication.factor = 1
kafka->moldau.replication.factor = 3
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 1
emit.checkpoints.interval.seconds = 1
refresh.groups.interval.seconds = 2
refresh.topics.interval.seconds = 2
offset.lag.max = 0
"""


def test_mirrormaker_copies_topics_and_groups_both_ways_while_a_broker_is_killed(tmp_path: Path) -> None:
    rows = [(f"key{number}", f"value{number}") for number in range(2000)]
    more = [(f"key{number}", f"more{number}") for number in range(500)]
    one = dict.fromkeys(
        (f"{kind}.replication.factor" for kind in
         ("offset.storage", "status.storage", "config.storage", "checkpoints.topic", "heartbeats.topic",
          "offset-syncs.topic")), 1,
    )  # fmt: skip
    with Cluster(brokers=3, data=tmp_path / "moldau") as cluster, KafkaPeer(1, folder=tmp_path / "kafka") as peer:
        sides = {"moldau": cluster.bootstrap_servers, "kafka": peer.bootstrap_servers}
        for side, copies in (("moldau", 3), ("kafka", 1)):
            make_topics(sides[side], copies, f"from-{side}")
            write(sides[side], f"from-{side}", rows)
            use(sides[side], f"from-{side}")
        settings = tmp_path / "mirror.properties"
        settings.write_text(MIRROR.format(**sides) + "".join(f"{key} = {value}\n" for key, value in one.items()))
        with (
            program(tmp_path / "mirror.log", "org.apache.kafka.connect.mirror.MirrorMaker", settings),
            ExitStack() as ends,
        ):

            def there(name: str) -> bool:
                other = AdminClient({"bootstrap.servers": sides["kafka" if name == "moldau" else "moldau"]})
                return f"{name}.from-{name}" in other.list_topics(timeout=PATIENCE_S).topics

            wait_until(lambda: all(map(there, sides)), "both topics are made", PATIENCE_S)
            copies_of = {side: Reader(sides["kafka" if side == "moldau" else "moldau"], f"{side}.from-{side}")
                         for side in sides}  # fmt: skip
            for reader in copies_of.values():
                ends.callback(reader.close)

            def copied(wanted: Sequence[tuple[str, str]]) -> bool:
                true = {(key.encode(), value.encode()) for key, value in wanted}
                return all(set(reader.look()) == true for reader in copies_of.values())

            wait_until(lambda: copied(rows), "both topics are copied", PATIENCE_S)
            cluster.kill(2)
            for side in sides:
                write(sides[side], f"from-{side}", more)
            wait_until(lambda: copied(rows + more), "both are copied without broker 2", PATIENCE_S)
            cluster.restart(2)

            def shown(side: str) -> bool:
                other = sides["kafka" if side == "moldau" else "moldau"]
                consumer = Consumer({"bootstrap.servers": other, "group.id": f"users-of-from-{side}"})
                try:
                    places = [TopicPartition(f"{side}.from-{side}", number) for number in range(3)]
                    return all(one.offset > 0 for one in consumer.committed(places, PATIENCE_S))
                finally:
                    consumer.close()

            wait_until(lambda: all(map(shown, sides)), "the groups' positions are shown on the other side", PATIENCE_S)


def use(bootstrap: str, topic: str) -> None:
    """Have a group read the whole topic, and commit."""
    settings = {"bootstrap.servers": bootstrap, "group.id": f"users-of-{topic}", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.subscribe([topic])
    count = 0
    while count < 2000:
        found = consumer.consume(1000, PATIENCE_S)
        assert found, f"the records of {topic} came to {count}"
        count += sum(message.error() is None for message in found)
    consumer.commit(asynchronous=False)
    consumer.close()
