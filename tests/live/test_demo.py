"""The demo as a user starts it, and its pipeline killed and started again: every flight in the table once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from deltalake import DeltaTable
from foreign import create_topic
from kafka_peer import wait_until

from moldau.admin.cli import cli
from moldau.admin.demo.checking import mean_delays, records_in
from moldau.admin.demo.data import Flight, delays, flights
from moldau.admin.demo.pipeline import DemoPipeline

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize(("plane", "count"), [("quorum", 20000), ("zookeeper", 8000)])
def test_the_demo_kills_a_broker_and_balances_its_books(plane: str, count: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "moldau.admin.demo", "--folder", str(tmp_path), "--flights", str(count)]
    command += ["--seconds", "8", "--plane", plane]
    done = subprocess.run(command, capture_output=True, text=True, timeout=700, check=False)
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    for words in ("kill -9 broker", "is started again", "everything matches", "was fenced"):
        assert words in told, told
    assert (tmp_path / "demo.png").stat().st_size > 10_000


def produce(bootstrap: str, topic: str, messages: list[Flight]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    for message in messages:
        producer.produce(topic, message.value, message.key)
    assert producer.flush(120) == 0


def test_a_pipeline_killed_in_the_middle_goes_on_without_loss_or_doubles(
    bootstrap_servers: str, fresh: Callable[[str], str], tmp_path: Path
) -> None:
    topic, messages = fresh("flights"), flights(4000)
    create_topic(bootstrap_servers, topic, 3)
    for turn in range(2):
        pipeline = DemoPipeline(bootstrap_servers, topic, tmp_path)
        try:
            pipeline.wait_ready()
            produce(bootstrap_servers, topic, messages[turn * 2000 : turn * 2000 + 2000])
            if turn == 0:
                wait_until(lambda: pipeline.rows, "a batch is in the table")  # noqa: B023
                pipeline.kill()
            else:
                pipeline.finish(records_in(bootstrap_servers, topic))
        finally:
            pipeline.kill()
    ids = DeltaTable(str(pipeline.table)).to_pyarrow_table(columns=["id"])["id"].to_pylist()
    assert sorted(ids) == list(range(4000))
    truth = {key: minutes / left for key, (_, left, minutes) in delays(messages).items() if left}
    assert mean_delays(pipeline.table) == truth
    said = CliRunner().invoke(cli, ["pipeline", "status", str(pipeline.file), "--verify", "-o", "json"])
    assert said.exit_code == 0, said.output
