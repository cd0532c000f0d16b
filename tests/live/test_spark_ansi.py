"""Spark's ANSI mode on and off: what a pipeline does with a record does not depend on it, but for its own SQL."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from foreign import create_topic
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from moldau.pipeline import columns as names
from moldau.pipeline import dedup, stages
from moldau.pipeline.books import BookTotals, Newest
from moldau.pipeline.lateness import times
from moldau.pipeline.reading import load
from moldau.pipeline.running import Ended, Runner
from moldau.pipeline.sinks import as_records
from moldau.pipeline.spec import DECODE, Check, Dedup, Late, OnError, Step, TopicSink
from moldau.spark import session
from moldau.spark.sink import once
from moldau.spark.tables import Table

ANSI = "spark.sql.ansi.enabled"

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def started(bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = str(tmp_path_factory.mktemp("spark"))
    found = session(
        "ansi", bootstrap_servers=bootstrap_servers, folder=folder, conf={"spark.sql.shuffle.partitions": "1"}
    )
    yield found
    found.stop()


@pytest.fixture(params=["true", "false"], ids=["ansi", "not-ansi"])
def spark(request: pytest.FixtureRequest, started: SparkSession) -> Iterator[SparkSession]:
    before = started.conf.get(ANSI)
    started.conf.set(ANSI, request.param)
    yield started
    started.conf.set(ANSI, before or "true")


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    """Three records, the second of which has a text that is no number and no time."""
    return spark.sql(
        "SELECT id, if(id = 1, 'x', CAST(id AS STRING)) AS text, array(id) AS few, 'ok' AS _outcome, "
        "if(id = 1, 'x', '1970-01-01T00:01:40Z') AS at, 't' AS _topic, 0 AS _partition, id AS _offset, "
        "timestamp_seconds(1) AS _timestamp, CAST(NULL AS STRING) AS _reason FROM range(3)"
    )


RULES = ["CAST(text AS INT) >= 0", "10 / (1 - id) != 0", "few[if(id = 1, 5, 0)] >= 0", "to_date(at) > '1969-01-01'"]


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_cannot_be_computed_is_not_met(rows: DataFrame, spark: SparkSession, rule: str) -> None:
    mode = spark.conf.get(ANSI)
    found = stages.checked(rows, DECODE, OnError.FAIL, [Check(name="sound", rule=rule, on_error=OnError.DLQ)])
    told = {row.id: row[names.OUTCOME] for row in found.select("id", names.OUTCOME).collect()}
    assert told[1] == "dlq"
    assert told[0] == "ok"
    assert spark.conf.get(ANSI) == mode


def test_lateness_and_duplicates_by_a_text_that_is_no_time_stop_no_batch(rows: DataFrame) -> None:
    newest = Newest(100_000, "t-0@0", 1000)
    assert times(rows, Late(column="at", after="1h"), BookTotals()) == (0, None, newest)
    found = dedup.hashed(rows, Dedup(by=("id",), within="1d", at="at")).collect()
    assert [row[dedup._AT] for row in found] == [100_000, 1000, 100_000]


def test_a_step_and_a_topics_value_go_by_the_sessions_mode(rows: DataFrame, spark: SparkSession) -> None:
    """An error, which ends the batch, or NULL, as whoever set it wants it."""
    steps = stages.transformed(rows, [Step(sql="SELECT id, CAST(text AS INT) AS n FROM records")])
    records = as_records(rows, TopicSink(topic="t", value="CAST(CAST(text AS INT) AS STRING)"))
    if spark.conf.get(ANSI) == "true":
        for asked in (steps, records):
            with pytest.raises(PySparkException, match="CAST_INVALID_INPUT"):
                asked.collect()
    else:
        assert [row.n for row in steps.collect()] == [0, None, 2]
        assert [row.value for row in records.collect()] == ["0", None, "2"]


PIPELINE = """\
pipeline: {topic}
cluster: {bootstrap}
folder: state
source: {{topics: {topic}, max_records: 20}}
decode: {{format: json, fields: {{id: long, text: string, at: string}}, on_error: dlq}}
check:
  - {{name: number, rule: CAST(text AS INT) >= 0, on_error: dlq}}
transform:
  - sql: SELECT id, CAST(text AS INT) AS n FROM records
sinks:
  - table: numbers
  - {{topic: {topic}-out, key: id}}
dlq: {{table: dead}}
late: {{column: at, after: 1h}}
dedup: {{by: id, within: 1d, at: at}}
"""


def test_a_pipeline_from_topic_to_tables_and_topic_comes_to_the_same(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path, fresh: Callable[[str], str]
) -> None:
    topic = fresh("ansi")
    create_topic(bootstrap_servers, topic, 2, 3)
    create_topic(bootstrap_servers, f"{topic}-out", 1, 3)
    file = tmp_path / "numbers.yaml"
    file.write_text(PIPELINE.format(topic=topic, bootstrap=bootstrap_servers))
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for number in range(60):
        text = "x" if number % 10 == 3 else "99999999999" if number % 10 == 7 else str(number)
        at = "never" if number % 3 else "2026-11-23T00:00:00Z"
        producer.produce(topic, json.dumps({"id": number, "text": text, "at": at}).encode())
    assert producer.flush(60) == 0
    runner = Runner(load(file, {}), file=file, once=True, session=lambda _: spark)
    assert runner.run() is Ended.DONE
    wanted = [number for number in range(60) if number % 10 not in (3, 7)]
    assert sorted(Table(tmp_path / "numbers", pipeline=topic).read()["n"].to_pylist()) == wanted
    assert Table(tmp_path / "dead", pipeline=topic).count() == 12
    options = {"subscribe": f"{topic}-out", "includeHeaders": "true", "kafka.bootstrap.servers": bootstrap_servers}
    out = once(spark.read.format("moldau").options(**options).load())
    assert sorted(json.loads(row.value)["n"] for row in out.collect()) == wanted
    books = runner.folder.books.last()
    assert books is not None
    assert (books.totals.read, books.totals.rows_out) == (60, 48)
