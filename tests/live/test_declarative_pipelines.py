"""A Declarative Pipeline written by hand, as docs/spark.md shows it: ``format("moldau")`` is its source and its sink.

A run goes on where the last one ended, and a topic that was made anew ends it by name. What
`moldau pipeline export` writes is run in test_pipeline_export.py. Read next: declared.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from declared import FULL_REFRESH, run, told
from foreign import PATIENCE_S, create_topic, wait_led
from pyspark.sql import SparkSession

from moldau.spark.sink import MARK, once

pytest.importorskip("grpc_status", reason="Declarative Pipelines need pyspark[pipelines], which is not installed")

pytestmark = pytest.mark.timeout(1_800)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark.md"
BLOCK = re.compile(r"^```(?:\w*)\n(.*?)^```$", re.M | re.S)
SPECIFICATION = """\
name: orders
storage: {storage}
libraries:
  - glob:
      include: transformations/**
"""


class Project:
    """The project of the page over topics of this test, and what is in its table and its topic."""

    def __init__(self, spark: SparkSession, bootstrap: str, folder: Path, fresh: Callable[[str], str]) -> None:
        self.spark, self.bootstrap, self.folder = spark, bootstrap, folder / "project"
        self.topic, self.results = fresh("orders"), fresh("results")
        (code,) = [text for text in BLOCK.findall(PAGE.read_text()) if "pipelines as dp" in text]
        code = code.replace("localhost:9092", bootstrap)
        code = code.replace('"subscribe", "orders"', f'"subscribe", "{self.topic}"')
        code = code.replace('"topic": "results"', f'"topic": "{self.results}"')
        assert self.topic in code, code
        assert self.results in code, code
        (self.folder / "transformations").mkdir(parents=True)
        (self.folder / "spark-pipeline.yml").write_text(
            SPECIFICATION.format(storage=(self.folder / "storage").as_uri())
        )
        (self.folder / "transformations" / "orders.py").write_text(code)
        create_topic(bootstrap, self.topic, 2, 1)
        create_topic(bootstrap, self.results, 1, 1)

    def write(self, numbers: range) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for number in numbers:
            producer.produce(self.topic, b"%d" % number, partition=number % 2)
        assert producer.flush(PATIENCE_S) == 0

    def goes(self, *words: str) -> None:
        done = run(self.folder, *words)
        assert done.returncode == 0, told(done)

    def table(self) -> list[int]:
        """The values in the table, as Spark reads it: files that no batch has committed are not in it."""
        rows = self.spark.read.parquet(str(self.folder / "spark-warehouse" / "orders"))
        return sorted(int(row.value) for row in rows.collect())

    def counts(self) -> dict[int, int]:
        rows = self.spark.read.parquet(str(self.folder / "spark-warehouse" / "counts"))
        return {row.partition: row["count"] for row in rows.collect()}

    def written(self) -> list[int]:
        """The values in the topic, without the doubles that its records' marks tell."""
        options = {"subscribe": self.results, "includeHeaders": "true", "kafka.bootstrap.servers": self.bootstrap}
        rows = self.spark.read.format("moldau").options(**options).load()
        assert all([one.key for one in row.headers] == [MARK] for row in rows.select("headers").collect())
        return sorted(int(row.value) for row in once(rows).collect())

    def makes_the_topic_anew(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.delete_topics([self.topic])[self.topic].result(PATIENCE_S)
        wait_led(self.bootstrap, self.topic, 0, 1)  # it is gone
        create_topic(self.bootstrap, self.topic, 2, 1)


@pytest.fixture
def project(spark: SparkSession, bootstrap_servers: str, tmp_path: Path, fresh: Callable[[str], str]) -> Project:
    return Project(spark, bootstrap_servers, tmp_path, fresh)


def test_the_project_of_the_page_goes_on_where_it_ended_and_a_topic_made_anew_ends_a_run_by_name(
    project: Project,
) -> None:
    project.write(range(100))
    project.goes()
    assert project.table() == project.written() == list(range(100))
    assert project.counts() == {0: 50, 1: 50}
    project.write(range(100, 130))
    project.goes()
    assert project.table() == project.written() == list(range(130))
    assert project.counts() == {0: 65, 1: 65}
    project.makes_the_topic_anew()
    project.write(range(500, 510))
    done = run(project.folder)
    assert done.returncode != 0
    assert f"{project.topic}-0: the topic was deleted and made anew" in done.stdout + done.stderr, told(done)
    assert project.table() == project.written() == list(range(130))
    project.goes(FULL_REFRESH)
    assert project.table() == list(range(500, 510))
    assert project.written() == [*range(130), *range(500, 510)]
