"""A stream into a table, killed with kill -9 at each step of a batch, has equal books at its end, in every format."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from foreign import PATIENCE_S, create_topic
from kafka_peer import wait_until
from processes import is_there
from spark_steps import BATCHES, STEPS, of_format

from moldau.spark.tables import Table

RECORDS = 120
KILLED = -9

pytestmark = pytest.mark.timeout(900)


@pytest.mark.parametrize("kind", ["delta", "iceberg", "parquet"])
def test_after_a_kill_at_each_step_of_a_batch_the_books_are_equal(
    bootstrap_servers: str, fresh: Callable[[str], str], tmp_path: Path, kind: str
) -> None:
    topic = fresh("steps")
    create_topic(bootstrap_servers, topic, 2)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number, partition=number % 2)
    assert producer.flush(PATIENCE_S) == 0
    program = str(Path(__file__).with_name("spark_steps.py"))
    ends: list[int] = []
    while 0 not in ends:
        done = subprocess.run(
            [sys.executable, program, bootstrap_servers, topic, kind, str(tmp_path)],
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        ends.append(done.returncode)
        assert done.returncode in (0, KILLED), done.stderr[-4000:]
        wait_until(lambda: not is_there(int((tmp_path / "jvm").read_text())), "the JVM is gone", PATIENCE_S)
    assert all((tmp_path / step).exists() for step in STEPS)
    assert ends == [KILLED] * (len(STEPS) - 1) + [0], "a killed process of a task kills no driver"
    table = Table(of_format(kind, tmp_path))
    rows = table.read().to_pylist()
    assert sorted(int(row["value"]) for row in rows) == list(range(RECORDS))
    assert len({(row["partition"], row["offset"]) for row in rows}) == table.count() == table.held().rows == RECORDS
    last = table.last()
    assert last is not None
    assert (last.batch_id, last.rows) == (BATCHES - 1, RECORDS // BATCHES)
    assert json.loads(table.positions()) == {topic: {"0": RECORDS // 2, "1": RECORDS // 2}}
