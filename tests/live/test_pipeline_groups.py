"""Consumer groups follow a topic that is copied: translated offsets, on a real cluster and a real Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from foreign import create_topic, wait_led
from kafka_peer import wait_until
from pyspark.sql import SparkSession
from tests.packages.admin.test_examples import words_of

from moldau.admin.cli import cli
from moldau.admin.pipeline import pipeline as commands
from moldau.client.sync import Cluster
from moldau.model import TopicPartition
from moldau.pipeline import groups as translation
from moldau.pipeline.copied import CopyMarks
from moldau.pipeline.reading import load
from moldau.pipeline.running import Ended, Runner

Fresh = Callable[[str], str]

pytestmark = pytest.mark.timeout(900)


class Copy:
    """A topic of two partitions, its copy under another name, and groups of both."""

    def __init__(self, spark: SparkSession, bootstrap: str, folder: Path, fresh: Fresh) -> None:
        self.spark, self.bootstrap, self.folder, self.fresh = spark, bootstrap, folder, fresh
        self.topic, self.copy = fresh("orders"), fresh("copy")
        create_topic(bootstrap, self.topic, 2, 3)
        create_topic(bootstrap, self.copy, 2, 3)
        self.write(self.copy, 3)  # the target's offsets are others than the source's
        self.file = folder / "copy.yaml"
        self.file.write_text(
            f"pipeline: {self.copy}\ncluster: {bootstrap}\nsource: {{topics: {self.topic}, max_records: 10}}\n"
            f"decode: {{format: raw}}\nsinks:\n  - {{topic: {self.copy}, cluster: '{bootstrap}', key: _key, "
            f"value: value, keep: [partition, timestamp, headers], groups: ['{fresh('app')}*']}}\nevery: 500ms\n"
        )

    def write(self, topic: str, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for number in range(count):
            for partition in (0, 1):
                producer.produce(topic, f"{number}".encode(), partition=partition)
        assert producer.flush(120) == 0

    def run(self) -> Ended:
        return Runner(load(self.file, {}), file=self.file, once=True, session=lambda pipeline: self.spark).run()

    def commit(self, group: str, topic: str, *offsets: int) -> None:
        with Cluster(self.bootstrap) as cluster:
            cluster.commit(group, {TopicPartition(topic, at): offset for at, offset in enumerate(offsets)})

    def committed(self, group: str) -> list[int]:
        with Cluster(self.bootstrap) as cluster:
            found = cluster.committed(group)
        return [found[at].offset for at in sorted(found) if at.topic == self.copy]

    def groups(self, *words: str) -> list[tuple[object, ...]]:
        found = CliRunner().invoke(commands, ["groups", str(self.file), *words, "-o", "json"])
        assert found.exit_code == 0, found.output
        return [(one["group"], one["partition"], one["target"], one["outcome"]) for one in json.loads(found.output)]


@pytest.fixture
def copy(spark: SparkSession, bootstrap_servers: str, tmp_path: Path, fresh: Fresh) -> Copy:
    return Copy(spark, bootstrap_servers, tmp_path, fresh)


def test_groups_stand_in_the_copy_where_they_stood_and_go_back_only_when_they_are_asked_to(copy: Copy) -> None:
    app, other = copy.fresh("app"), "nobody-asked-for-this"
    copy.write(copy.topic, 12)
    copy.commit(app, copy.topic, 7, 12)
    copy.commit(other, copy.topic, 7, 12)
    assert copy.groups() == [(app, 0, None, "not copied"), (app, 1, None, "not copied")]
    assert copy.run() is Ended.DONE
    assert copy.committed(app) == [3 + 7, 3 + 12], "translated when the run ended"
    assert copy.committed(other) == []
    copy.write(copy.topic, 5)
    copy.commit(app, copy.topic, 9, 15)
    (words,) = words_of("pipelines.md", "pipeline", "groups")
    dry = CliRunner().invoke(cli, [str(copy.file) if word == "orders.yaml" else word for word in words])
    assert (dry.exit_code, "would move" in dry.output) == (0, True), dry.output
    assert copy.groups("--dry-run") == [(app, 0, 12, "would move"), (app, 1, 15, "kept")], "never past what was copied"
    assert copy.committed(app) == [10, 15]
    assert copy.run() is Ended.DONE
    assert copy.committed(app) == [12, 18]
    copy.commit(app, copy.topic, 2, 15)
    assert copy.groups() == [(app, 0, 5, "ahead"), (app, 1, 18, "kept")]
    assert copy.groups("--group", "other*") == []
    assert copy.groups("--backwards") == [(app, 0, 5, "moved"), (app, 1, 18, "kept")]
    assert copy.committed(app) == [5, 18]


def test_a_group_of_a_partition_that_was_added_misses_nothing_of_it(copy: Copy) -> None:
    app = copy.fresh("app")
    copy.write(copy.topic, 4)
    assert copy.run() is Ended.DONE
    admin = AdminClient({"bootstrap.servers": copy.bootstrap})
    for topic in (copy.topic, copy.copy):
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(120)
        wait_led(copy.bootstrap, topic, 3)
    producer = Producer({"bootstrap.servers": copy.bootstrap})
    for number in range(25):
        producer.produce(copy.topic, f"{number}".encode(), partition=2)
    assert producer.flush(120) == 0
    copy.commit(app, copy.topic, 4, 4, 3)
    assert copy.run() is Ended.DONE
    assert copy.committed(app) == [7, 7, 0], "no mark names the partition before it was read"
    copy.commit(app, copy.topic, 4, 4, 25)
    assert copy.groups()[-1] == (app, 2, 25, "moved")


def test_a_group_is_not_moved_into_a_target_that_was_made_anew_before_something_is_copied_to_it(copy: Copy) -> None:
    app = copy.fresh("app")
    copy.write(copy.topic, 12)
    assert copy.run() is Ended.DONE
    admin = AdminClient({"bootstrap.servers": copy.bootstrap})
    admin.delete_topics([copy.copy])[copy.copy].result(120)
    wait_until(lambda: copy.copy not in admin.list_topics(timeout=60).topics, "the copy is gone", 120)
    create_topic(copy.bootstrap, copy.copy, 2, 3)
    copy.commit(app, copy.topic, 7, 12)
    assert copy.groups() == [(app, 0, None, "not copied"), (app, 1, None, "not copied")]
    copy.write(copy.topic, 2)
    assert copy.run() is Ended.DONE
    copy.commit(app, copy.topic, 14, 14)
    assert copy.run() is Ended.DONE
    assert copy.committed(app) == [0, 0], "what the new logs have may be of any offset before"


def test_a_group_with_members_on_the_target_is_left_alone(copy: Copy) -> None:
    app = copy.fresh("app")
    copy.write(copy.topic, 4)
    copy.commit(app, copy.topic, 2, 2)
    assert copy.run() is Ended.DONE
    copy.commit(app, copy.topic, 4, 4)
    consumer = Consumer({"bootstrap.servers": copy.bootstrap, "group.id": app, "enable.auto.commit": False})
    consumer.subscribe([copy.copy])

    def joined() -> bool:
        consumer.poll(0.2)
        return bool(consumer.assignment())

    wait_until(joined, "the consumer has partitions", 120)
    assert [one[-1] for one in copy.groups()] == ["active", "active"]
    consumer.close()
    assert copy.committed(app) == [5, 5]
    assert [one[2:] for one in copy.groups()] == [(7, "moved"), (7, "moved")]


def test_a_copy_that_is_cut_off_between_its_steps_never_steps_over_a_record(
    copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = copy.fresh("app")
    copy.write(copy.topic, 12)
    copy.commit(app, copy.topic, 3, 12)
    for name in ("begins", "ended"):
        step = getattr(CopyMarks, name)

        def cut(self: CopyMarks, *args: object, name: str = name) -> None:
            raise RuntimeError(f"cut off where it {name}")

        def cut_after(self: CopyMarks, *args: object, name: str = name, step: Callable[..., None] = step) -> None:
            step(self, *args)
            raise RuntimeError(f"cut off where it {name}")

        for how in (cut, cut_after):
            with monkeypatch.context() as patched:
                patched.setattr(CopyMarks, name, how)
                with pytest.raises(Exception, match=f"cut off where it {name}"):
                    copy.run()
    assert copy.run() is Ended.DONE
    position, end = copy.committed(app)
    assert position <= 3 + 3, "batches ran twice: records may come again, and none is stepped over"
    assert end >= 3 + 12


def test_what_a_cluster_refuses_is_said_once_and_does_not_end_the_copy(
    copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def refuse(*_: object, **__: object) -> None:
        raise ConnectionRefusedError("nobody is there")

    monkeypatch.setattr(translation, "translate", refuse)
    copy.write(copy.topic, 30)
    pipeline = load(copy.file, {})
    runner = Runner(pipeline, file=copy.file, once=True, say=said.append, session=lambda _: copy.spark)
    assert runner.run() is Ended.DONE
    assert [one for one in said if "groups" in one] == [
        "groups are not translated: ConnectionRefusedError: nobody is there"
    ]
