"""What two pipelines write into one table, and its dead letters, is there once while one of them maintains both tables
after each batch, whatever commands the other one is given meanwhile."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from foreign import create_topic
from kafka_peer import wait_until
from pyspark.sql import SparkSession

from moldau.admin.pipeline import pipeline as commands
from moldau.pipeline.reading import load
from moldau.pipeline.running import Ended, Runner
from moldau.spark.tables import Table

PATIENCE_S = 240
EVERY_BATCH = "maintain: {every: 1ms, retention: 1h}"

pytestmark = pytest.mark.timeout(900)


class Shared:
    """Two pipelines, each with a topic and a folder of its own."""

    def __init__(self, bootstrap: str, folder: Path, topic: str) -> None:
        self.bootstrap, self.folder, self.topic, self.said = bootstrap, folder, topic, list[str]()
        for name in "ab":
            create_topic(bootstrap, f"{topic}-{name}", 1, 3)
            self.declare(name)

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.yaml"

    def declare(self, name: str, *, least: int = 0) -> None:
        self.file(name).write_text(
            f"""\
pipeline: {self.topic}-{name}
cluster: {self.bootstrap}
folder: state-{name}
source: {{topics: {self.topic}-{name}, max_records: 20}}
decode: {{format: json, fields: {{id: long}}, on_error: dlq}}
check:
  - {{name: sound, rule: id >= {least}, on_error: dlq}}
sinks:
  - {{table: orders, {EVERY_BATCH}}}
dlq: {{table: dead}}
every: 100ms
"""
        )

    def write(self, name: str, *ids: int) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for number in ids:
            producer.produce(f"{self.topic}-{name}", json.dumps({"id": number}).encode())
        assert producer.flush(120) == 0

    def runner(self, name: str, spark: SparkSession, *, once: bool) -> Runner:
        return Runner(
            load(self.file(name), {}), file=self.file(name), once=once, say=self.said.append,
            session=lambda pipeline: spark,
        )  # fmt: skip

    def tell(self, name: str, *words: str) -> str:
        group = 2 if words[0] == "dlq" else 1
        found = CliRunner().invoke(commands, [*words[:group], str(self.file(name)), *words[group:]])
        assert found.exit_code == 0, (words, found.output)
        return found.output

    def ids(self) -> Counter[int]:
        return Counter(Table(self.folder / "orders", pipeline=f"{self.topic}-a").read()["id"].to_pylist())


def test_two_pipelines_of_one_table_take_commands_beside_maintenance_of_each_batch(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path, fresh: Callable[[str], str]
) -> None:
    shared = Shared(bootstrap_servers, tmp_path, fresh("shared"))
    beside = shared.runner("b", spark, once=False)
    ended: list[Ended] = []
    thread = threading.Thread(target=lambda: ended.append(beside.run()))
    stop = threading.Event()
    sent = 0

    def feed() -> None:
        nonlocal sent
        while not stop.wait(0.5):
            shared.write("b", 1000 + sent)
            sent += 1

    feeding = threading.Thread(target=feed)
    shared.write("b", 999)
    thread.start()
    feeding.start()
    try:
        want = Counter[int]()
        shared.write("a", *range(10), -1, -2)
        assert shared.runner("a", spark, once=True).run() is Ended.DONE
        want.update(range(10))
        shared.tell("a", "status")
        shared.declare("a", least=-1)
        shared.tell("a", "dlq", "replay", "--yes")
        want.update([-1])
        shared.tell("a", "replay", "--from", "earliest", "--to", f'{{"{shared.topic}-a":{{"0":6}}}}', "--yes")
        want.update(range(6))
        shared.write("a", *range(10, 14))
        assert shared.runner("a", spark, once=True).run() is Ended.DONE
        want.update(range(10, 14))
        shared.tell("a", "reset", "--to", f'{{"{shared.topic}-a":{{"0":12}}}}', "--yes")
        assert shared.runner("a", spark, once=True).run() is Ended.DONE
        want.update(range(10, 14))
        shared.tell("a", "abandon", "--yes")
        shared.tell("a", "status")
    finally:
        stop.set()
        feeding.join()
    wait_until(lambda: sum(n for id, n in shared.ids().items() if id >= 999) >= sent + 1, "what b reads", PATIENCE_S)
    beside.stop()
    thread.join(PATIENCE_S)
    assert ended == [Ended.STOPPED]
    found = shared.ids()
    assert {id: n for id, n in found.items() if id < 999} == dict(want)
    assert {id: n for id, n in found.items() if id >= 999} == dict.fromkeys(range(999, 1000 + sent), 1)
    assert any("was maintained: " in text for text in shared.said)
