"""Tables, checkpoints and first positions on a real HDFS: the ledger's rules hold there in every format."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from foreign import create_topic
from hadoop_server import HadoopServer
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from tests.packages.spark.table_batches import key
from tests.packages.spark.test_table_formats import add, opened, race, walk

from moldau.spark import session
from moldau.spark.offsets import Positions, decode
from moldau.spark.pin import pinned
from moldau.spark.supervise import until_it_stands
from moldau.spark.tables import DeltaFormat, Table, TableError
from moldau.spark.tables.manifest import ParquetFormat
from moldau.spark.tables.stores import open_store
from moldau.spark.tables.table import Format

Make = Callable[[], Table]
KINDS = ["delta", "parquet", "iceberg"]
_numbers = itertools.count()

pytestmark = pytest.mark.timeout(300)


class Hdfs(HadoopServer):
    """A namenode and a datanode."""

    jars, source = ("hdfs-3.5.0",), "MiniHdfs.java"

    @property
    def uri(self) -> str:
        return f"hdfs://127.0.0.1:{self.port}"

    def answers(self) -> bool:
        return "ready" in self.said()


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    found = Hdfs(tmp_path_factory.mktemp("hdfs"))
    yield found
    found.kill()


@pytest.fixture
def place(hdfs: Hdfs) -> str:
    """A folder of this test."""
    return f"{hdfs.uri}/tests/{next(_numbers)}"


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, place: str, tmp_path: Path) -> Make:
    """A table in each format, opened anew: as another driver would have it."""
    return lambda: opened(request.param, tmp_path, f"{place}/t", {})


def test_the_ledgers_rules_hold_on_hdfs(make: Make) -> None:
    walk(make)


def test_of_drivers_that_race_on_hdfs_one_is_taken_and_maintenance_changes_no_row(make: Make) -> None:
    assert add(make(), key(0))
    race([make() for _ in range(3)], key(1))
    make().maintain(retention_hours=0)
    assert make().held() == (6, [])
    assert add(make(), key(2))
    assert sorted(make().read()["id"].to_pylist()) == [1, 1, 1, 2, 2, 2, 3, 3, 3]


def test_a_driver_goes_on_when_the_namenode_was_killed_and_started_again(make: Make, hdfs: Hdfs) -> None:
    running = make()
    assert add(running, key(0))
    hdfs.kill()
    hdfs.start()
    assert add(running, key(1))
    assert not add(make(), key(1))
    assert make().count() == 6


def test_of_writers_of_one_file_on_hdfs_one_is_let_in(place: str) -> None:
    store = open_store(place)
    assert store.put_if_absent("log/0.json", b"one")
    assert not store.put_if_absent("log/0.json", b"two")
    assert store.read("log/0.json") == b"one"
    assert store.names("") == ["log/0.json"]


def test_first_positions_are_pinned_on_hdfs_by_whoever_is_first(place: str) -> None:
    at = f"{place}/checkpoint/initial-offsets.json"

    def positions(offset: int) -> Callable[[], Positions]:
        return lambda: decode({"t": {"0": offset}})

    first = pinned(at, "t", positions(7))
    assert pinned(at, "t", positions(9)) == first == positions(7)()


@pytest.fixture(scope="module")
def spark(bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = str(tmp_path_factory.mktemp("spark"))
    conf = {"spark.sql.shuffle.partitions": "1"}
    found = session("hdfs", bootstrap_servers=bootstrap_servers, folder=folder, conf=conf)
    yield found
    found.stop()


ODD = ["a b", "50%", "x:y", "a/b", "a%20b", "\u00fc", "=", "'"]


@pytest.mark.parametrize("kind", [DeltaFormat, ParquetFormat])
def test_a_stream_whose_table_checkpoint_and_first_position_are_on_hdfs_survives_a_crash(
    spark: SparkSession,
    place: str,
    bootstrap_servers: str,
    fresh: Callable[[str], str],
    kind: Callable[..., Format],
) -> None:
    topic = fresh("hdfs")
    create_topic(bootstrap_servers, topic, 2, 3)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    crashes = iter([0])

    def write(numbers: range) -> None:
        for number in numbers:
            producer.produce(topic, b"%d" % number, key=ODD[number % len(ODD)].encode(), partition=number % 2)
        assert producer.flush(120) == 0

    def table() -> Table:
        return Table(kind(open_store(f"{place}/table"), ["odd"]))

    def each(rows: DataFrame, batch_id: int) -> None:
        found = table()
        shown = rows.selectExpr("CAST(CAST(value AS STRING) AS INT) AS n", "CAST(key AS STRING) AS odd")
        found.append(shown, found.key_of(rows, batch_id))
        for _ in crashes:
            raise RuntimeError("the table has committed, Spark has not")

    def run() -> None:
        options = {
            "subscribe": topic,
            "startingOffsets": "latest",
            "initialOffsetsLocation": f"{place}/checkpoint/initial-offsets.json",
        }
        rows = spark.readStream.format("moldau").options(**options).load()
        stream = rows.writeStream.option("checkpointLocation", f"{place}/checkpoint").trigger(availableNow=True)
        until_it_stands(stream.foreachBatch(each).start).awaitTermination(240)

    write(range(10))
    with pytest.raises(StreamingQueryException, match="Spark has not"):
        run()
    write(range(10, 50))
    run()
    write(range(50, 90))
    run()
    rows = table().read()
    found = {row["n"]: row["odd"] for row in rows.to_pylist()}
    assert rows.num_rows == len(found)
    assert found == {number: ODD[number % len(ODD)] for number in range(10, 90)}
    last = table().last()
    assert last is not None
    assert last.end is not None
    assert json.loads(last.end[0])[topic] == {"0": 45, "1": 45}


def test_a_place_on_hdfs_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"hdfs://127\.0\.0\.1:1/t"):
        add(opened("delta", tmp_path, "hdfs://127.0.0.1:1/t", {}), key(0), pa.table({"id": [1]}))
