"""``format("moldau")`` in a real Spark session against a running cluster: nothing lost, nothing doubled, no jar."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from foreign import PATIENCE_S, create_topic, wait_led
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from moldau.spark import session
from moldau.spark.losses import losses_of
from moldau.spark.sink import once
from moldau.spark.supervise import until_it_stands
from moldau.spark.tables import Table, Totals, key_of
from moldau.spark.tables.upsert import latest

Fresh = Callable[[str], str]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def spark(bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    found = session(
        "live", bootstrap_servers=bootstrap_servers, folder=str(tmp_path_factory.mktemp("spark")),
        conf={"spark.sql.shuffle.partitions": "1"},
    )  # fmt: skip
    yield found
    found.stop()


class Topic:
    """A topic with four helpers: write, read as a batch, stream, and count."""

    def __init__(self, spark: SparkSession, bootstrap: str, name: str, partitions: int = 2, replicas: int = 3) -> None:
        self.spark, self.bootstrap, self.name = spark, bootstrap, name
        create_topic(bootstrap, name, partitions, replicas)

    def write(self, values: range, **how: Any) -> None:
        codec = str(how.pop("codec", "none"))
        producer = Producer({"bootstrap.servers": self.bootstrap, "compression.type": codec, "linger.ms": 5})
        for number in values:
            producer.produce(self.name, b"%d" % number, key=b"k%d" % number, **how)
        assert producer.flush(120) == 0

    def batch(self, **options: str) -> DataFrame:
        return self.spark.read.format("moldau").options(subscribe=self.name, **options).load()

    def stream(self, **options: str) -> DataFrame:
        options = {"startingOffsets": "earliest", **options}
        return self.spark.readStream.format("moldau").options(subscribe=self.name, **options).load()


@pytest.fixture
def topic(spark: SparkSession, bootstrap_servers: str, fresh: Fresh) -> Topic:
    return Topic(spark, bootstrap_servers, fresh("spark"))


def numbers(rows: DataFrame) -> list[int]:
    return sorted(int(row.value) for row in rows.select("value").collect())


def run(rows: DataFrame, checkpoint: Path, each: Callable[[DataFrame, int], None]) -> StreamingQuery:
    """Take what there is now, in as many batches as the limits ask for, and end."""
    stream = rows.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query = until_it_stands(stream.foreachBatch(each).start)
    query.awaitTermination(240)
    return query


def test_a_batch_read_equals_what_was_produced_with_every_codec_and_headers(topic: Topic) -> None:
    for turn, codec in enumerate(CODECS):
        topic.write(
            range(turn * 100, turn * 100 + 100), codec=codec, headers=[("codec", codec.encode()), ("none", None)]
        )
    topic.write(range(500, 501))
    began = datetime.datetime.now() - datetime.timedelta(minutes=10)
    rows = topic.batch(includeHeaders="true").orderBy("partition", "offset").collect()
    assert sorted(int(row.value) for row in rows) == list(range(501))
    for row in rows:
        number = int(row.value)
        headers = None if row.headers is None else [(each.key, each.value) for each in row.headers]
        wanted = None if number == 500 else [("codec", CODECS[number // 100].encode()), ("none", None)]
        assert (row.key, headers, row.topic, row.timestampType) == (b"k%d" % number, wanted, topic.name, 0)
        assert began < row.timestamp < datetime.datetime.now() + datetime.timedelta(minutes=10)
    for partition in (0, 1):
        offsets = [row.offset for row in rows if row.partition == partition]
        assert offsets == list(range(len(offsets)))


def test_bounds_columns_and_splitting_of_a_batch_read(topic: Topic) -> None:
    topic.write(range(1000), partition=0)
    bounds = {
        "startingOffsets": json.dumps({topic.name: {"0": 100, "1": -2}}),
        "endingOffsets": json.dumps({topic.name: {"0": 900, "1": -1}}),
    }
    rows = topic.batch(**bounds, columns="value", minPartitions="4")
    assert rows.columns == ["value"]
    assert rows.rdd.getNumPartitions() == 4
    assert numbers(rows) == list(range(100, 900))


def test_a_failed_batch_is_repeated_and_the_table_has_every_row_once(topic: Topic, tmp_path: Path) -> None:
    """Crashes where it hurts: after the table's commit and before Spark's, and before either."""
    table, totals = Table(tmp_path / "table"), Totals(tmp_path / "totals", keys=["topic"], sums=["count"])
    crash = {2: "after", 3: "before"}

    def each(rows: DataFrame, batch_id: int) -> None:
        how = crash.pop(batch_id, None)
        if how == "before":
            raise RuntimeError("crash before the table's commit")
        table.append(rows, key_of(rows, batch_id))
        totals.fold(rows.groupBy("topic").count().toArrow(), key_of(rows, batch_id))
        if how == "after":
            raise RuntimeError("crash after the table's commit")

    topic.write(range(1000))
    failures = 0
    while crash or not failures:
        try:
            run(topic.stream(maxOffsetsPerTrigger="200"), tmp_path / "checkpoint", each)
        except StreamingQueryException:
            failures += 1
            topic.write(range(1000 + failures * 100, 1100 + failures * 100))
    run(topic.stream(maxOffsetsPerTrigger="200"), tmp_path / "checkpoint", each)
    from deltalake import DeltaTable

    found = sorted(int(value) for value in DeltaTable(str(tmp_path / "table")).to_pyarrow_table()["value"].to_pylist())
    assert failures == 2
    assert found == list(range(1000)) + list(range(1100, 1300))
    assert totals.read().to_pylist() == [{"topic": topic.name, "count": 1200}]


def test_a_new_checkpoint_that_begins_elsewhere_than_the_table_ends_is_refused(topic: Topic, tmp_path: Path) -> None:
    """Where a query's first batch begins is in no file: the ledger has it from the batch's plan."""
    table = Table(tmp_path / "table")
    topic.write(range(20), partition=0)
    run(topic.stream(), tmp_path / "one", table)
    table.adopt()
    topic.write(range(20, 30), partition=0)
    with pytest.raises(StreamingQueryException, match="overlaps what is there: it begins at"):
        run(topic.stream(), tmp_path / "two", table)
    run(topic.stream(startingOffsets=table.positions()), tmp_path / "three", table)
    assert sorted(int(value) for value in table.read()["value"].to_pylist()) == list(range(30))
    first = topic.spark.range(4).selectExpr("id % 2 AS k", "id AS at", "'mine' AS _place")
    assert [row._place for row in latest(first, ["k"], ["at"]).collect()] == ["mine", "mine"]


def test_a_first_batch_that_failed_is_read_again_from_where_it_was_planned(topic: Topic, tmp_path: Path) -> None:
    pin = tmp_path / "checkpoint" / "initial-offsets.json"
    options = {"startingOffsets": "latest", "initialOffsetsLocation": str(pin)}
    topic.write(range(50))

    def refuse(rows: DataFrame, batch_id: int) -> None:
        raise RuntimeError("the first batch fails")

    stream = topic.stream(**options).writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(StreamingQueryException, match="the first batch fails"):  # at once, or while it is waited for
        until_it_stands(stream.foreachBatch(refuse).start).awaitTermination(240)
    assert pin.exists(), "the first positions are pinned"
    topic.write(range(50, 70))
    found: list[int] = []
    run(topic.stream(**options), tmp_path / "checkpoint", lambda rows, _: found.extend(numbers(rows)))
    assert sorted(found) == list(range(50, 70))


def test_what_no_read_can_have_is_refused_at_load_and_the_rest_when_a_stream_starts(topic: Topic) -> None:
    reader = topic.spark.readStream.format("moldau").option("subscribe", topic.name)
    for given, said in (
        ({"startingOffsets": "latest"}, "initialOffsetsLocation is missing"),
        ({"kafka.sasl.mechanism": "PLAIN"}, "SASL is not offered by this source"),
        ({"kafka.fetch.min.byte": "1"}, "did you mean kafka.fetch.min.bytes?"),
    ):
        with pytest.raises(AnalysisException, match=said):
            reader.options(**given).load()
    stream = topic.spark.readStream.format("moldau").option("subscribe", topic.name).load().writeStream.format("noop")
    with pytest.raises(StreamingQueryException, match="initialOffsetsLocation is missing"):
        until_it_stands(stream.start).awaitTermination(240)


def test_the_newest_session_of_a_program_says_which_cluster_is_read(topic: Topic) -> None:
    topic.write(range(3))
    session(bootstrap_servers="127.0.0.1:1")
    try:
        with pytest.raises(AnalysisException, match="Unreachable|127.0.0.1:1"):
            topic.batch(**{"kafka.default.api.timeout.ms": "50", "fetchOffset.numRetries": "0"}).collect()
    finally:
        session(bootstrap_servers=topic.bootstrap)
    assert numbers(topic.batch()) == [0, 1, 2]


def test_limits_shape_the_batches_of_available_now(topic: Topic, tmp_path: Path) -> None:
    topic.write(range(1000), partition=0)
    topic.write(range(1000, 1100), partition=1)
    sizes: list[int] = []
    by_offsets = topic.stream(maxOffsetsPerTrigger="300")
    run(by_offsets, tmp_path / "by-offsets", lambda rows, _: sizes.append(rows.count()))
    assert len(sizes) == 4
    assert sum(sizes) == 1100
    assert max(sizes) <= 301
    sizes.clear()
    by_bytes = topic.stream(maxBytesPerTrigger="4k")
    run(by_bytes, tmp_path / "by-bytes", lambda rows, _: sizes.append(rows.count()))
    assert sum(sizes) == 1100
    assert 2 <= len(sizes) <= 12


def test_partitions_that_are_added_are_read_and_a_recreated_topic_stops_the_stream(
    topic: Topic, tmp_path: Path, bootstrap_servers: str
) -> None:
    found: list[int] = []

    def go(**options: str) -> StreamingQuery:
        return run(topic.stream(**options), tmp_path / "checkpoint", lambda rows, _: found.extend(numbers(rows)))

    topic.write(range(10))
    go()
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_partitions([NewPartitions(topic.name, 3)])[topic.name].result(PATIENCE_S)
    wait_led(bootstrap_servers, topic.name, 3)
    topic.write(range(10, 20), partition=2)
    go()
    assert sorted(found) == list(range(20))
    admin.delete_topics([topic.name])[topic.name].result(PATIENCE_S)
    wait_led(bootstrap_servers, topic.name, 0)  # it is gone
    create_topic(bootstrap_servers, topic.name, 3)
    topic.write(range(100, 200))
    with pytest.raises(StreamingQueryException, match="the topic was deleted and made anew"):
        go()
    found.clear()
    query = go(onDataLoss="skip")
    assert sorted(found) == list(range(100, 200))
    told = [each for progress in query.recentProgress for each in losses_of(progress)]
    assert [each.partition(": ")[0] for each in told] == [f"{topic.name}-{number}" for number in range(3)], told
    assert "the topic was deleted and made anew" in told[0]


def test_a_batch_written_to_a_topic_is_read_back(topic: Topic) -> None:
    rows = topic.spark.range(1000).selectExpr(
        "concat('k', id) AS key", "cast(id AS string) AS value",
        "array(named_struct('key', 'source', 'value', cast('spark' AS binary))) AS headers",
    )  # fmt: skip
    options = {"topic": topic.name, "kafka.compression.type": "zstd"}
    rows.write.format("moldau").mode("append").options(**options).save()
    found = topic.batch(includeHeaders="true").collect()
    assert sorted(int(row.value) for row in found) == list(range(1000))
    assert all(row.key == b"k" + row.value and row.headers[0].value == b"spark" for row in found)


def test_a_stream_that_repeats_a_batch_into_a_topic_is_read_once(topic: Topic, tmp_path: Path, fresh: Fresh) -> None:
    """The target has one partition too few the first time, when part of the batch is in it already."""
    target = Topic(topic.spark, topic.bootstrap, fresh("target"), partitions=1)
    topic.write(range(100), partition=0)
    topic.write(range(100, 200), partition=1)

    def write() -> None:
        stream = topic.stream(columns="value,partition").writeStream.format("moldau").option("topic", target.name)
        stream = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        until_it_stands(stream.start).awaitTermination(240)

    with pytest.raises(StreamingQueryException, match=r"names partition 1 of .*, which has 1"):
        write()
    admin = AdminClient({"bootstrap.servers": topic.bootstrap})
    admin.create_partitions([NewPartitions(target.name, 2)])[target.name].result(PATIENCE_S)
    wait_led(topic.bootstrap, target.name, 2)
    write()
    everything = target.batch(includeHeaders="true")
    assert sorted(set(numbers(everything))) == list(range(200))
    assert numbers(once(everything)) == list(range(200))


def test_the_snippet_of_the_readme_reads_a_topic(
    spark: SparkSession, bootstrap_servers: str, fresh: Fresh, capsys: pytest.CaptureFixture[str]
) -> None:
    """As printed, but for the address and the topic; the session is the one that runs."""
    text = (Path(__file__).resolve().parents[2] / "README.md").read_text()
    shown = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    (snippet,) = [block for block in shown if "moldau.spark" in block]
    topic = fresh("readme")
    create_topic(bootstrap_servers, topic, partitions=1)
    snippet = snippet.replace("127.0.0.1:9092", bootstrap_servers).replace(
        'subscribe", "orders"', f'subscribe", "{topic}"'
    )
    exec(compile(snippet, "README.md", "exec"), {})
    assert "|partition|offset|" in capsys.readouterr().out
