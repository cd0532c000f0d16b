"""What is wrong with a stream's source, table or checkpoint is said where the user looks, and nothing is lost by it.

One test for each kind. Two more are elsewhere: a full disk (test_spark_tables.py, packages/spark/test_table_faults.py)
and a machine without Java (packages/spark/test_local.py).
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from foreign import PATIENCE_S, create_topic
from kafka_peer import free_port
from moldau_peer import MoldauPeer
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from test_spark_source import numbers, run

from moldau.spark import session
from moldau.spark.losses import losses_of
from moldau.spark.tables import Table

RECORDS = 30

pytestmark = pytest.mark.timeout(900)


class Stage:
    """One node, a session, and a topic of one partition for each test."""

    def __init__(self, spark: SparkSession, peer: MoldauPeer) -> None:
        self.spark, self.peer, self.bootstrap = spark, peer, peer.bootstrap_servers

    def topic(self, name: str) -> str:
        create_topic(self.bootstrap, name, 1, 1)
        self.write(name, range(RECORDS))
        return name

    def write(self, topic: str, values: range) -> None:
        """Write each in a batch of its own."""
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for number in values:
            producer.produce(topic, b"%d" % number)
            assert producer.flush(PATIENCE_S) == 0

    def batch(self, topic: str, **options: str) -> DataFrame:
        return self.spark.read.format("moldau").options(**{"subscribe": topic, **options}).load()

    def stream(self, topic: str, **options: str) -> DataFrame:
        given = {"subscribe": topic, "startingOffsets": "earliest", **options}
        return self.spark.readStream.format("moldau").options(**given).load()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with MoldauPeer(nodes=1) as peer:
        folder = str(tmp_path_factory.mktemp("spark"))
        spark = session("bad", bootstrap_servers=peer.bootstrap_servers, folder=folder)
        yield Stage(spark, peer)
        spark.stop()


def held(table: Table) -> list[int]:
    return sorted(int(value) for value in table.read()["value"].to_pylist())


def test_a_topic_that_is_not_there_is_named_with_what_makes_it(stage: Stage, tmp_path: Path) -> None:
    said = r"option subscribe is 'nowhere': not in the cluster: nowhere; `moldau topic create NAME` makes a topic"
    with pytest.raises(PySparkException, match=said):
        stage.batch("nowhere").collect()
    with pytest.raises(StreamingQueryException, match=said):
        run(stage.stream("nowhere"), tmp_path, Table(tmp_path / "table"))
    rows = stage.spark.range(3).selectExpr("CAST(id AS STRING) AS value")
    with pytest.raises(PySparkException, match="nowhere"):
        rows.write.format("moldau").mode("append").option("topic", "nowhere").save()
    assert not (tmp_path / "table").exists()


def test_offsets_out_of_range_are_named_or_left_out_as_asked_for(stage: Stage, tmp_path: Path) -> None:
    topic = stage.topic("range")
    beyond = {"startingOffsets": json.dumps({topic: {"0": 500}})}
    with pytest.raises(PySparkException, match=f"{topic}-0"):
        stage.batch(topic, **beyond).collect()
    with pytest.raises(StreamingQueryException, match=f"{topic}-0"):
        run(stage.stream(topic, **beyond), tmp_path / "fail", lambda rows, _: None)
    found: list[int] = []

    def skip() -> list[str]:
        """Go on from where the log ends; what was left out, as the query's progress says it."""
        rows = stage.stream(topic, **beyond, onDataLoss="skip")
        query = run(rows, tmp_path / "skip", lambda rows, _: found.extend(numbers(rows)))
        return [each.partition(" (")[0] for progress in query.recentProgress for each in losses_of(progress)]

    assert skip() == [f"{topic}-0: the log ends before the position: its end was cut off"]
    assert found == []
    stage.write(topic, range(RECORDS, 40))
    skip()
    assert sorted(found) == list(range(RECORDS, 40))


def test_a_corrupt_batch_ends_the_read_by_name_and_what_is_mended_is_read_on(stage: Stage, tmp_path: Path) -> None:
    """A bit of a value in the leader's file: the leader sends what lies there, and the reader has the checksum."""
    topic, table = stage.topic("corrupt"), Table(tmp_path / "table")
    (file,) = (stage.peer.data_dir(1) / f"{topic}-0").glob("*.log")
    whole = file.read_bytes()
    at = whole.rindex(b"25")
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(bytes([whole[at] ^ 1]))
    said = f"{topic}-0, read from offset .*: the batch at offset 25 is corrupt: its checksum is wrong"
    with pytest.raises(PySparkException, match=said):
        stage.batch(topic).collect()
    with pytest.raises(StreamingQueryException, match=said):
        run(stage.stream(topic, maxOffsetsPerTrigger="10"), tmp_path / "checkpoint", table)
    assert held(table) == list(range(20))
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(whole[at : at + 1])
    run(stage.stream(topic, maxOffsetsPerTrigger="10"), tmp_path / "checkpoint", table)
    assert held(table) == list(range(RECORDS))


def test_columns_that_do_not_fit_the_table_end_the_query_and_the_batch_comes_when_they_do(
    stage: Stage, tmp_path: Path
) -> None:
    topic, table = stage.topic("schema"), Table(tmp_path / "table")

    def go(table: Table, *columns: str) -> None:
        run(stage.stream(topic).selectExpr(*columns), tmp_path / "checkpoint", table)

    value = "CAST(value AS STRING) AS value"
    go(table, value)
    stage.write(topic, range(RECORDS, 40))
    with pytest.raises(StreamingQueryException, match=f"{table.store}.* value"):
        go(table, "CAST(CAST(value AS STRING) AS INT) AS value")
    with pytest.raises(StreamingQueryException, match="differ in offset"):
        go(table, value, "offset")
    assert held(table) == list(range(RECORDS))
    go(Table(tmp_path / "table", evolve=True), value, "offset")
    assert held(table) == list(range(40))
    assert sorted(table.read()["offset"].to_pylist(), key=str)[-1] is None


def test_a_checkpoint_of_another_pipeline_is_refused_by_the_table_and_by_the_source(
    stage: Stage, tmp_path: Path
) -> None:
    """Once with the other's table, once with the other's topic."""
    one, two = stage.topic("one"), stage.topic("two")
    tables = {name: Table(tmp_path / name, pipeline=name) for name in (one, two)}
    for name in (one, two):
        run(stage.stream(name), tmp_path / f"checkpoint-{name}", tables[name])
        stage.write(name, range(RECORDS, 40))
    with pytest.raises(StreamingQueryException, match=r"comes from query .*table\.adopt\(\)"):
        run(stage.stream(one), tmp_path / f"checkpoint-{one}", tables[two])
    with pytest.raises(StreamingQueryException, match=f"{one}-0: it is not in the list of what is read any more"):
        run(stage.stream(two), tmp_path / f"checkpoint-{one}", tables[one])
    for name in (one, two):
        assert held(tables[name]) == list(range(RECORDS))
        run(stage.stream(name), tmp_path / f"checkpoint-{name}", tables[name])
        assert held(tables[name]) == list(range(40))


QUICK = {
    "kafka.default.api.timeout.ms": "1000", "kafka.request.timeout.ms": "500", "fetchOffset.numRetries": "0",
    "kafka.socket.connection.setup.timeout.ms": "500",
}  # fmt: skip


def silent(server: socket.socket) -> None:
    """Takes connections and says nothing."""


def web(server: socket.socket) -> None:
    """Answers as a web server does that has never heard of Kafka."""

    def serve() -> None:
        while True:
            try:
                with server.accept()[0] as line:
                    line.recv(100)
                    line.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            except OSError:
                return

    threading.Thread(target=serve, daemon=True).start()


@pytest.mark.parametrize("who", [None, silent, web], ids=["nobody", "one that is silent", "a web server"])
def test_brokers_that_are_none_are_named_by_their_address(
    stage: Stage, tmp_path: Path, who: Callable[[socket.socket], None] | None
) -> None:
    with socket.socket() as server:
        port = free_port()
        server.bind(("127.0.0.1", port))
        if who is not None:
            server.listen(16)
            who(server)
        there = {**QUICK, "kafka.bootstrap.servers": f"127.0.0.1:{port}"}
        with pytest.raises(PySparkException, match=f"127.0.0.1:{port}"):
            stage.batch("t", **there).collect()
        with pytest.raises(StreamingQueryException, match=f"127.0.0.1:{port}"):
            run(stage.stream("t", **there), tmp_path / "checkpoint", Table(tmp_path / "table"))
        rows = stage.spark.range(3).selectExpr("CAST(id AS STRING) AS value")
        to = {"kafka.request.timeout.ms": "1000", "kafka.delivery.timeout.ms": "2000", "topic": "t"}
        to["kafka.bootstrap.servers"] = f"127.0.0.1:{port}"
        with pytest.raises(PySparkException, match=f"127.0.0.1:{port}"):
            rows.write.format("moldau").mode("append").options(**to).save()
        if who is not None:
            server.shutdown(socket.SHUT_RDWR)  # ends the thread that waits for the next
    assert not (tmp_path / "table").exists()


def test_an_address_that_is_none_is_refused_when_it_is_given(stage: Stage) -> None:
    said = "option kafka.bootstrap.servers is 'localhost': 'localhost' is not an address: host:port is expected"
    with pytest.raises(PySparkException, match=said):
        stage.batch("t", **{"kafka.bootstrap.servers": "localhost"})
    with pytest.raises(PySparkException, match=said):
        stage.stream("t", **{"kafka.bootstrap.servers": "localhost"})
