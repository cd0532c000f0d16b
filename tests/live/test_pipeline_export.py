"""A pipeline and the Declarative Pipeline that it is exported as come to the same, on a real cluster and Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer, TopicPartition
from declared import run, told
from deltalake import DeltaTable
from foreign import create_topic
from pyspark.sql import SparkSession
from tests.packages.admin.test_examples import words_of

from moldau.admin.cli import cli
from moldau.pipeline.columns import OFFSET, PLACES
from moldau.pipeline.exported import failing
from moldau.pipeline.reading import load
from moldau.pipeline.running import Runner

pytest.importorskip("grpc_status", reason="Declarative Pipelines need pyspark[pipelines], which is not installed")

Fresh = Callable[[str], str]

pytestmark = pytest.mark.timeout(900)

FILE = """\
pipeline: orders
cluster: {bootstrap}
source: {{topics: [{topic}]}}
decode: {{format: json, fields: {{id: long, amount: long}}, on_error: dlq}}
check:
  - {{name: positive, rule: amount > 0, on_error: skip}}
  - {{name: sane, rule: amount < 1000, on_error: dlq}}
transform:
  - sql: |
      WITH of_them AS (SELECT id, amount * 2 AS twice, _offset FROM records)
      SELECT * FROM of_them
  - python: steps:told
sinks:
  - {{table: tables/orders}}
  - {{topic: {clean}, key: id, value: "to_json(struct(id, twice))"}}
dlq: {{table: tables/dead}}
"""
STEPS = """\
from pyspark.sql import functions as fn

def told(rows):
    return rows.withColumn("said", fn.concat(fn.lit("it's "), fn.col("twice")))
"""


def rows(project: Path, table: str) -> list[dict[str, Any]]:  # Any: values of whatever column is asked for
    found = pyarrow.dataset.dataset(project / "spark-warehouse" / table, format="parquet", exclude_invalid_files=True)
    listed: list[dict[str, Any]] = found.to_table().to_pylist()
    return listed


def records_of(bootstrap: str, topic: str, count: int) -> list[tuple[bytes | None, bytes | None]]:
    """That many records of the topic's only partition, key and value."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        found = consumer.consume(count, 60)
        return [(one.key(), one.value()) for one in found]
    finally:
        consumer.close()


def test_a_record_of_a_stage_that_pauses_or_fails_ends_the_run_and_is_named(spark: SparkSession) -> None:
    columns = ", ".join(f"{name} {kind}" for name, kind in PLACES.items())
    inner = "_value binary, _schema_id int, _drift string, _outcome string, _stage string, _reason string"

    def taken(*outcomes: str) -> list[int]:
        rows = [("t", 1, at, None, None, None, b"v", None, None, one, "sane", "why") for at, one in enumerate(outcomes)]
        found = failing(spark.createDataFrame(rows, f"{columns}, {inner}"))
        assert found.columns == list(PLACES)
        return [row[OFFSET] for row in found.collect()]

    assert taken("ok", "skip", "dlq", "ok") == [0, 3]
    for policy in ("pause", "fail"):
        with pytest.raises(Exception, match="t-1@2: stage sane cannot take this record: why"):
            taken("ok", "dlq", policy)


def test_the_exported_pipeline_writes_what_the_pipeline_writes_and_goes_on(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path, fresh: Fresh
) -> None:
    topic, clean = fresh("orders"), fresh("clean")
    create_topic(bootstrap_servers, topic, 2, 1)
    create_topic(bootstrap_servers, clean, 1, 1)
    producer = Producer({"bootstrap.servers": bootstrap_servers})

    def write(partition: int, *values: str) -> None:
        for value in values:
            producer.produce(topic, value.encode(), partition=partition)
        assert producer.flush(120) == 0

    write(0, '{"id":1,"amount":5}', '{"id":2,"amount":-1}', "no")
    write(1, '{"id":3,"amount":"x"}', '{"id":4,"amount":7}')
    file = tmp_path / "orders.yaml"
    file.write_text(FILE.format(bootstrap=bootstrap_servers, topic=topic, clean=clean))
    (tmp_path / "steps.py").write_text(STEPS)
    pipeline = load(file, {})

    project = tmp_path / "declared"
    here = {"orders.yaml": str(file), "declared": str(project)}
    (words,) = words_of("pipelines.md", "pipeline", "export")
    exported = CliRunner().invoke(cli, [here.get(word, word) for word in words])
    assert exported.exit_code == 0, exported.output
    done = run(project)
    assert done.returncode == 0, told(done)
    assert sorted(records_of(bootstrap_servers, clean, 2), key=str) == [
        (b"1", b'{"id":1,"twice":10}'),
        (b"4", b'{"id":4,"twice":14}'),
    ]

    Runner(pipeline, file=file, once=True, session=lambda pipeline: spark).run()
    keep = ("id", "twice", "said")
    ours = DeltaTable(tmp_path / "tables" / "orders").to_pyarrow_table().to_pylist()
    assert sorted([one[name] for name in keep] for one in rows(project, "orders")) == sorted(
        [one[name] for name in keep] for one in ours
    )
    place = ("topic", "partition", "offset", "value", "stage", "reason")
    ours = DeltaTable(tmp_path / "tables" / "dead").to_pyarrow_table().to_pylist()
    assert sorted([one[name] for name in place] for one in rows(project, "dead")) == sorted(
        [one[name] for name in place] for one in ours
    )

    write(0, '{"id":6,"amount":1}')
    write(1, '{"id":5,"amount":1000}')
    done = run(project)
    assert done.returncode == 0, told(done)
    assert sorted(one["id"] for one in rows(project, "orders")) == [1, 4, 6]
    assert sorted((one["partition"], one["offset"]) for one in rows(project, "dead")) == [(0, 2), (1, 0), (1, 2)]
