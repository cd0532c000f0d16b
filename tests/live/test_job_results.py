"""`moldau job ... --to TOPIC` on a real cluster: each row is a record, once and in its order, whatever the job says."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.packages.client.fake_broker import SILENCE
from tests.packages.client.mini_cluster import MiniCluster, in_thread
from tests.packages.clusterdata.naive import batch_of, replica
from tests.packages.clusterdata.test_jobs import leader_line, logs

from moldau.client.sync import Cluster
from moldau.model import TopicPartition
from moldau.wire import batch
from moldau.wire.messages.k00_produce import ProduceRequest

ROWS = 12_000
HOUR_MS = 3_600_000


def job(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "moldau", "job", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def rows_in(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    """The values of the topic's one partition, each batch of which names its producer."""
    with Cluster(bootstrap) as cluster:
        assert sorted(cluster.topics([topic])[topic].partitions) == [0]
        of = TopicPartition(topic, 0)
        found = []
        for fetched in cluster.fetch_range(of, 0, cluster.offsets({of: -1})[of].offset):
            for at, header in batch.headers(fetched.records):
                assert header.producer_id >= 0
                found += [json.loads(one.value or b"") for one in batch.records(fetched.records, at)]
        return found


def test_every_row_is_a_record_and_a_second_run_writes_its_own_behind_them(
    bootstrap_servers: str, tmp_path: Path, fresh: Callable[[str], str]
) -> None:
    topic = fresh("results")
    replica(tmp_path, 1, "orders-0", [batch_of(n, [b"x"], at_ms=n * HOUR_MS) for n in range(ROWS)])
    done = job("load", tmp_path, "--to", topic, "-b", bootstrap_servers)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert f"topic {topic} was made." in done.stderr
    assert f"{ROWS:,} rows were written to {topic}." in done.stderr
    first = rows_in(bootstrap_servers, topic)
    assert [one["from_ms"] for one in first] == [n * HOUR_MS for n in range(ROWS)]
    done = job("load", tmp_path, "--to", topic, "-b", bootstrap_servers, "-o", "json")
    assert json.loads(done.stdout) == first
    assert "was made" not in done.stderr
    assert rows_in(bootstrap_servers, topic) == first * 2


def test_rows_are_written_though_nobody_reads_what_is_printed(
    bootstrap_servers: str, tmp_path: Path, fresh: Callable[[str], str]
) -> None:
    """None was, and nobody said so."""
    topic = fresh("results")
    replica(tmp_path, 1, "orders-0", [batch_of(n, [b"x"], at_ms=n * HOUR_MS) for n in range(ROWS)])
    command = [sys.executable, "-m", "moldau", "job", "load", str(tmp_path), "--to", topic, "-b", bootstrap_servers]
    with subprocess.Popen(
        [*command, "-o", "tsv"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as writing:
        assert writing.stdout is not None
        assert writing.stderr is not None
        writing.stdout.close()
        said = writing.stderr.read()
    assert (writing.returncode, f"{ROWS:,} rows were written to {topic}." in said) == (1, True), said
    assert len(rows_in(bootstrap_servers, topic)) == ROWS


def test_a_job_that_finds_something_or_nothing_says_so_as_without_a_topic(
    bootstrap_servers: str, tmp_path: Path, fresh: Callable[[str], str]
) -> None:
    topic = fresh("results")
    logs(tmp_path, [(1, leader_line(1, 1, 0, 0, 2)), (2, leader_line(2, 2, 0, 0, 1))])
    assert job("splits", tmp_path, "--to", topic, "-b", bootstrap_servers).returncode == 4
    found = rows_in(bootstrap_servers, topic)
    assert found == json.loads(job("splits", tmp_path, "-o", "json").stdout)
    assert len(found) == 1
    done = job("offsets", tmp_path, "--to", topic, "-b", bootstrap_servers)
    assert (done.returncode, "nothing to read" in done.stderr) == (1, True), done.stderr
    assert rows_in(bootstrap_servers, topic) == found


def test_a_cluster_that_is_not_there_ends_the_job_by_name(tmp_path: Path) -> None:
    replica(tmp_path, 1, "orders-0", [batch_of(0, [b"x"])])
    done = job("load", tmp_path, "--to", "results", "-b", "127.0.0.1:1")
    assert (done.returncode, "127.0.0.1:1" in done.stderr) == (1, True), done.stderr


def test_whoever_interrupts_a_job_is_told_how_many_rows_are_written(tmp_path: Path) -> None:
    """It said that it was interrupted, as a job does that has written nothing."""
    replica(tmp_path, 1, "orders-0", [batch_of(n, [b"x"], at_ms=n * HOUR_MS) for n in range(ROWS)])
    with in_thread(MiniCluster(1, {"results": 1})) as cluster:
        requests = []

        def interrupt(_node: int, message: object, _serve: object) -> object:
            if isinstance(message, ProduceRequest):
                requests.append(message)
                if len(requests) == 2:
                    writing.send_signal(signal.SIGINT)
                    return SILENCE
            return None

        cluster.mischief = interrupt
        command = [sys.executable, "-m", "moldau", "job", "load", str(tmp_path), "--to", "results"]
        with subprocess.Popen([*command, "-b", cluster.bootstrap], stderr=subprocess.PIPE, text=True) as writing:
            _, said = writing.communicate(timeout=240)
        written = len(cluster.logs[TopicPartition("results", 0)].values)
    assert writing.returncode == 130, said
    sent = sum(len(list(batch.records(one, at))) for one in map(_records, requests[1:]) for at, _ in batch.headers(one))
    assert written > 0
    assert said.strip() == (
        f"moldau: interrupted: {written:,} rows are written, {sent:,} more may be; {ROWS - written - sent:,} are not"
    )


def _records(request: ProduceRequest) -> bytes:
    return bytes(request.topic_data[0].partition_data[0].records or b"")
