"""Writing to topics: a task over a broker that is killed, and from a session named queries and update mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from foreign import create_topic
from moldau_peer import MoldauPeer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from moldau.client.sync import Cluster
from moldau.model import TopicPartition
from moldau.spark import session
from moldau.spark.produce import ProducerPool, write_task
from moldau.spark.sink import IntoTopic, once
from moldau.spark.sink_options import parse
from moldau.spark.supervise import until_it_stands
from moldau.wire.batch import headers, records

Fresh = Callable[[str], str]

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def spark(bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    found = session(
        "sink", bootstrap_servers=bootstrap_servers, folder=str(tmp_path_factory.mktemp("spark")),
        conf={"spark.sql.shuffle.partitions": "1", "spark.sql.ansi.enabled": "true"},
    )  # fmt: skip
    yield found
    found.stop()


def values(bootstrap: str, target: TopicPartition) -> list[int]:
    """The numbers in a partition, in the order of the log."""
    found = []
    with Cluster(bootstrap) as cluster:
        end = cluster.offsets({target: -1})[target].offset
        for fetched in cluster.fetch_range(target, 0, end):
            for position, _ in headers(fetched.records):
                found += [int(each.value or b"") for each in records(fetched.records, position)]
    return found


def test_a_task_goes_on_over_a_killed_broker_in_order_and_without_doubles() -> None:
    """Batches are under way to all three brokers when one is killed; they go again with their own sequence numbers."""
    with MoldauPeer(nodes=3) as peer:
        create_topic(peer.bootstrap_servers, "t", 6, 3)
        options = parse({"kafka.bootstrap.servers": peer.bootstrap_servers, "topic": "t", "kafka.batch.size": "20000"})

        def rows() -> Iterator[pa.RecordBatch]:
            for turn in range(40):
                if turn == 15:
                    peer.kill(3)
                numbers = range(turn * 5000, turn * 5000 + 5000)
                yield pa.RecordBatch.from_pydict({
                    "value": [b"%010d" % n for n in numbers],
                    "partition": pa.array([n % 6 for n in numbers], pa.int32()),
                    "junk": [b"x" * 300] * 5000,
                })  # fmt: skip

        assert write_task(options, rows(), "", pool=ProducerPool(0)) == 200_000
        survivors = ",".join(peer.bootstrap_servers.split(",")[:2])
        for number in range(6):
            assert values(survivors, TopicPartition("t", number)) == list(range(number, 200_000, 6))


def read(spark: SparkSession, topic: str) -> DataFrame:
    return spark.read.format("moldau").options(subscribe=topic, includeHeaders="true").load()


def test_a_named_query_writes_and_an_aggregate_in_update_mode_is_read_once(
    spark: SparkSession, bootstrap_servers: str, fresh: Fresh, tmp_path: Path
) -> None:
    words, copy, counts = fresh("words"), fresh("copy"), fresh("counts")
    for topic in (words, copy, counts):
        create_topic(bootstrap_servers, topic, 2)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for number in range(100):
        producer.produce(words, b"w%d" % (number % 5), key=b"k", headers=[("trace", b"1")])
    assert producer.flush(60) == 0
    rows = spark.readStream.format("moldau").options(subscribe=words, startingOffsets="earliest").load()
    stream = rows.select("value").writeStream.format("moldau").queryName("copying").option("topic", copy)
    stream = stream.option("checkpointLocation", str(tmp_path / "copy")).trigger(availableNow=True)
    until_it_stands(stream.start).awaitTermination(240)
    assert read(spark, copy).count() == 100

    table = rows.groupBy(fn.col("value").alias("key")).agg(fn.count("*").cast("string").alias("value"))
    write = IntoTopic(counts, mark_by="key")

    def twice(batch: DataFrame, batch_id: int) -> None:
        write(batch, batch_id)
        write(batch.orderBy(fn.desc("key")), batch_id)  # as a batch that runs again, in another order

    update = table.writeStream.outputMode("update").foreachBatch(twice)
    update = update.option("checkpointLocation", str(tmp_path / "counts")).trigger(availableNow=True)
    until_it_stands(update.start).awaitTermination(240)
    found = read(spark, counts)
    assert found.count() == 10
    assert sorted((row.key, row.value) for row in once(found).collect()) == [(b"w%d" % n, b"20") for n in range(5)]
    assert once(read(spark, words)).count() == 100  # headers of others, and no mark
