"""``__transaction_state`` of an Apache Kafka broker as tables, by command and in Spark: all that Kafka's own dump tool
says of it, record by record."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.golden.transaction_log import Row, newest, rows
from transaction_writer import PARTITIONS, dumped, write_with_kafka


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Row]]:
    """A broker's data, and what Kafka's tool says of its transactions."""
    data = write_with_kafka(tmp_path_factory.mktemp("kafka"))
    return data, [one for partition in range(PARTITIONS) for one in rows(partition, dumped(data, partition))]


def printed(data: Path, job: str) -> list[Row]:
    """What the command prints as JSON."""
    command = [sys.executable, "-m", "moldau", "job", job, str(data), "-o", "json"]
    found: list[Row] = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=240).stdout)
    return found


def test_the_commands_tell_all_that_kafkas_tool_tells(written: tuple[Path, list[Row]]) -> None:
    data, told = written
    assert len(told) > 40
    assert printed(data, "transaction-history") == told
    assert {one["transactional_id"]: one for one in printed(data, "transactions")} == newest(told)
    states = {id: one["state"] for id, one in newest(told).items()}
    assert (states["open"], states["committed"], states["aborted"]) == ("Ongoing", "CompleteCommit", "CompleteAbort")
    assert newest(told)["removed"]["tombstone"]
    assert {one["version"] for one in told} == {0, 1, None}


def test_the_tables_in_spark_have_the_rows_of_the_commands(written: tuple[Path, list[Row]], tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from moldau.spark import session

    data, told = written
    spark = session("transactions", folder=str(tmp_path))
    try:
        jobs = spark.read.format("moldau_job")

        def read(**options: str) -> list[Row]:
            return [row.asDict() for row in jobs.options(**options).load(str(data)).collect()]

        assert sorted(read(job="transaction-history"), key=place) == sorted(told, key=place)
        assert {one["transactional_id"]: one for one in read(job="transactions")} == newest(told)
        some = read(job="transactions", transactionalIds="open, java")
        assert sorted(one["transactional_id"] for one in some) == ["java", "open"]
        jobs.option("job", "transactions").load(str(data)).createOrReplaceTempView("transactions")
        held = spark.sql(
            "SELECT transactional_id, explode(partitions) held FROM transactions WHERE state = 'Ongoing' ORDER BY held"
        )
        assert [tuple(row) for row in held.collect()] == [("open", "orders-0"), ("open", "orders-1")]
    finally:
        spark.stop()


def place(one: Row) -> tuple[int, int]:
    return one["log_partition"], one["log_offset"]
