"""`moldau publish` beside real clusters: what the topics have is what the files of all nodes have, line by line, after
kills of brokers and of the publisher itself; and its commands as they are shown."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import click
import pytest
from confluent_kafka import Consumer
from kafka_peer import wait_until
from tests.tools import missing

from moldau import Cluster
from moldau.admin.cli import cli
from moldau.client.sync import Cluster as Client
from moldau.cluster.nodes import is_alive
from moldau.cluster.publisher import end_publisher, go_on_publishing
from moldau.model import TopicPartition
from moldau.publishing.following import names_of
from moldau.publishing.records import place_in
from moldau.wire import batch

STATE_CHANGES = TopicPartition("__moldau_state_changes", 0)
METRICS = TopicPartition("__moldau_metrics", 0)
ROUNDS = 9
PATIENCE_S = 120

pytestmark = pytest.mark.timeout(900)


def records(client: Client, of: TopicPartition) -> list[batch.Record]:
    """All records of a partition; none while it is not there."""
    if of.topic not in client.topics([of.topic]):
        return []
    end = client.offsets({of: -1})[of].offset
    return [
        record
        for fetched in client.fetch_range(of, 0, end)
        for position in batch.positions(fetched.records)[:-1]
        for record in batch.records(fetched.records, position)
    ]


def published(client: Client, node: int) -> list[bytes]:
    """The lines of a node in the topic, as they stood in its files."""
    found = []
    for record in records(client, STATE_CHANGES):
        place = place_in(record.headers)
        assert place is not None
        if record.key == b"%d" % node and place.start != place.end:
            fact = json.loads(record.value or b"")
            is_line = fact.get("event") != "unreadable line"
            found.append(record.value or b"" if is_line else fact["line"].encode())
    return found


def written(cluster: Cluster, node: int) -> list[bytes]:
    """The whole lines of a node's files."""
    return [
        line for path in names_of(str(cluster.node(node).logs)) for line in Path(path).read_bytes().split(b"\n")[:-1]
    ]


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(pid), "it is gone", PATIENCE_S)


def has_more(client: Client, than: int) -> bool:
    return len(records(client, STATE_CHANGES)) > than


def is_all_there(cluster: Cluster, client: Client) -> bool:
    return all(published(client, node.id) == written(cluster, node.id) for node in cluster.spec.nodes)


@pytest.mark.parametrize("plane", ["quorum", "zookeeper"])
def test_the_topic_has_every_line_of_every_node_once_after_kills_of_publishers_and_brokers(
    tmp_path: Path, plane: str
) -> None:
    if plane == "zookeeper" and (why := missing("zookeeper")) is not None:
        pytest.skip(why)
    config = {"http.listener": "127.0.0.1:0", "logger.file.max.bytes": "65536", "logger.max.files": "100"}
    with Cluster(3, data=tmp_path / "cluster", mode=plane, config=config) as cluster:
        cluster.spec.publishing = True
        go_on_publishing(cluster)
        client = cluster.client()
        for turn in range(ROUNDS):
            before = len(records(client, STATE_CHANGES))
            cluster.create_topic(f"orders-{turn}", partitions=40, replication_factor=3)
            if turn % 3 == 1:
                cluster.kill(1 + turn % 2)
            if turn % 3:  # else it is killed before it has done anything
                wait_until(partial(has_more, client, before + turn), "lines are published", PATIENCE_S)
            pid = cluster.spec.publisher
            assert pid is not None
            kill(pid)
            for node in set(range(1, 4)) - set(cluster.alive()):
                cluster.restart(node)
            go_on_publishing(cluster)
            assert cluster.spec.publisher != pid
        cluster.wait_until_in_sync(PATIENCE_S)
        wait_until(lambda: is_all_there(cluster, client), "all lines are published", PATIENCE_S)
        words = [json.loads(one.value or b"") for one in records(client, STATE_CHANGES)]
        own = [(one["node"], one["why"]) for one in words if one.get("event") == "publishing"]
        assert {why for _, why in own} == {"begins"}
        assert {node for node, _ in own} == {1, 2, 3}
        assert any(len(names_of(str(cluster.node(node).logs))) > 1 for node in (1, 2, 3)), "files were rotated"
        facts = [json.loads(one.value or b"") for one in records(client, METRICS)]
        due = [(one["node"], one["due_ms"]) for one in facts if "due_ms" in one]
        assert len(due) == len(set(due))
        end_publisher(cluster)


def test_who_goes_on_does_so_where_the_topic_ends_on_any_cluster(
    bootstrap_servers: str, fresh: Callable[[str], str], tmp_path: Path
) -> None:
    """Under the producer id of the one before, which brokers of every kind have to take from another connection."""
    topic, file = fresh("changes"), tmp_path / "state-change.jsonl"
    lines: list[bytes] = []
    for turn in range(3):
        lines += [b'{"time_ms":%d,"node":7}' % (1_795_780_000_000 + turn * 10 + number) for number in range(3)]
        file.write_bytes(b"".join(line + b"\n" for line in lines))
        run(tmp_path, f"moldau publish . --only state-changes --once --state-changes {topic} -b {bootstrap_servers}")
    with Client(bootstrap_servers) as client:
        found = records(client, TopicPartition(topic, 0))
        values = [one.value for one in found if not is_own(one)]
        writers = {head.producer_id for head in heads(client, TopicPartition(topic, 0))}
    assert values == lines
    assert len(writers) == 1


def test_no_interval_of_metrics_is_there_twice_though_publishers_are_killed_on_any_cluster(
    bootstrap_servers: str, fresh: Callable[[str], str], tmp_path: Path
) -> None:
    """Of a node whose settings name no page, which each record says."""
    topic = fresh("metrics")
    (tmp_path / "server.properties").write_text("node.id=7\n")
    (tmp_path / "logs").mkdir()
    line = f"moldau publish . --only metrics --every 1s --metrics {topic} -b {bootstrap_servers}"
    with Client(bootstrap_servers) as client:

        def due() -> list[int]:
            facts = [json.loads(one.value or b"") for one in records(client, TopicPartition(topic, 0))]
            assert {(one["node"], one["error"]) for one in facts} <= {(7, "its settings name no http.listener")}
            return [one["due_ms"] for one in facts if "due_ms" in one]

        def has(least: int) -> bool:
            return len(due()) >= least

        for _ in range(3):
            least = len(due()) + 2
            process = subprocess.Popen([sys.executable, "-m", *shlex.split(line)], cwd=tmp_path)
            try:
                wait_until(partial(has, least), "two intervals are published", PATIENCE_S)
            finally:
                process.kill()
                process.wait()
        found = due()
    assert found == sorted(set(found))
    assert {at % 1000 for at in found} == {0}


def is_own(record: batch.Record) -> bool:
    """Whether it has no line: the publisher says something itself."""
    place = place_in(record.headers)
    return place is not None and place.start == place.end


def heads(client: Client, of: TopicPartition) -> list[batch.BatchHeader]:
    end = client.offsets({of: -1})[of].offset
    return [head for fetched in client.fetch_range(of, 0, end) for _, head in batch.headers(fetched.records)]


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where `moldau up --publish` was typed; it is ended with `moldau down`."""
    folder = tmp_path_factory.mktemp("beside")
    run(folder, "moldau up --brokers 2 --port 0 --publish --detach")
    yield folder
    run(folder, "moldau down")


def run(folder: Path, line: str) -> str:
    words = [sys.executable, "-m", *shlex.split(line)]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def publisher(folder: Path) -> int | None:
    found: int | None = json.loads((folder / "moldau-data" / "cluster.json").read_text())["publisher"]
    return found


def test_the_examples_of_the_help_are_run(beside: Path) -> None:
    command = cli.get_command(click.Context(cli), "publish")
    assert command is not None
    lines = [line.strip() for line in (command.help or "").splitlines() if line.strip().startswith("moldau ")]
    assert len(lines) == 4
    said = [run(beside, line) for line in lines]
    assert "LEFT-BYTES" in said[1]
    assert '"event"' in said[3]


def test_an_ordinary_consumer_reads_the_metrics_of_every_node(beside: Path) -> None:
    bootstrap = json.loads(run(beside, "moldau status -o json"))["bootstrap_servers"]
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["^__moldau_metr.*"])  # to clients it is no internal topic
    heard: dict[int, dict[str, object]] = {}
    try:

        def hear() -> bool:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                fact = json.loads(message.value() or b"")
                assert message.key() == b"%d" % fact["node"]
                heard[fact["node"]] = fact
            return heard.keys() == {1, 2}

        wait_until(hear, "metrics of both nodes", PATIENCE_S)
    finally:
        consumer.close()
    for node, fact in heard.items():
        metrics = fact["metrics"]
        assert isinstance(metrics, dict)
        assert metrics["kafka_server_kafkaserver_brokerstate"] == 3, node


def test_up_and_down_begin_and_end_it_and_status_tells_of_it(beside: Path) -> None:
    pid = publisher(beside)
    assert pid is not None
    assert f"by process: {pid}" in run(beside, "moldau status")
    kill(pid)
    assert json.loads(run(beside, "moldau status -o json"))["publisher"] is None
    run(beside, "moldau up --detach")
    again = publisher(beside)
    assert again not in (None, pid)
    run(beside, "moldau down")
    assert not is_alive(again)
    assert "started" not in run(beside, "moldau up --no-publish --detach")
    assert publisher(beside) is None
    assert "publisher" not in json.loads(run(beside, "moldau status -o json"))
    run(beside, "moldau up --publish --detach")
    last = publisher(beside)
    assert is_alive(last)


def test_a_page_that_does_not_answer_is_a_record_that_says_so(beside: Path) -> None:
    run(beside, "moldau publish moldau-data --only metrics --once --page 1=127.0.0.1:1")
    bootstrap = json.loads(run(beside, "moldau status -o json"))["bootstrap_servers"]
    with Client(bootstrap) as client:
        facts = [json.loads(one.value or b"") for one in records(client, METRICS)]
    (silent,) = [fact for fact in facts if fact["page"] == "127.0.0.1:1"]
    assert (silent["node"], silent["error"], "metrics" in silent) == (1, "nobody listens there", False)
