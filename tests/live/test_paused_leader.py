"""A leader or coordinator that takes connections and says nothing is left for the one that takes its place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from moldau import Cluster
from moldau.admin.cli import cli
from moldau.client import group_lags
from moldau.client.admin import NewTopic, create_topics

RECORDS = 30


def run(cluster: Cluster, *words: object) -> Result:
    return CliRunner().invoke(cli, [*map(str, words), "--bootstrap-server", cluster.bootstrap_servers])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Broker 2 leads a partition that has other replicas, and one that has none; it coordinates a group."""
    with Cluster(3, data=tmp_path / "cluster") as cluster:
        client = cluster.client()
        topics = [NewTopic(name="many", assignment={0: (2, 1, 3)}), NewTopic(name="alone", assignment={0: (2,)})]
        assert {one.code for one in client.run(create_topics(client.client, topics)).values()} == {0}
        cluster.wait_until_in_sync()
        sent = CliRunner().invoke(
            cli,
            ["produce", "many", "-b", cluster.bootstrap_servers],
            input="".join(f"{number}\n" for number in range(RECORDS)),
        )
        assert sent.exit_code == 0, sent.output
        yield cluster


def test_records_of_a_paused_leader_are_read_from_the_one_that_follows_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_lags, "OFFSETS_TIMEOUT_MS", 90_000)  # on a busy machine brokers are replaced late
    cluster.pause(2)
    try:
        read = run(cluster, "consume", "many", "--columns", "value")
        assert read.exit_code == 0, read.output
        assert list(map(int, read.stdout.split())) == list(range(RECORDS))
        got = run(cluster, "record", "get", "many-0", "--offset", 3, "-o", "json")
        assert got.exit_code == 0, got.output
    finally:
        cluster.resume(2)


def test_a_group_of_a_paused_coordinator_is_described_by_the_one_that_follows_it(cluster: Cluster) -> None:
    for number in range(200):
        group = f"readers-{number}"
        assert run(cluster, "consume", "many", "--group", group, "--max", 1).exit_code == 0
        (shown,) = json.loads(run(cluster, "group", "describe", group, "-o", "json").stdout)
        if shown["coordinator"] == 2:
            break
    assert shown["coordinator"] == 2, "a third of all groups are its"
    cluster.pause(2)
    try:
        described = run(cluster, "group", "describe", group, "-o", "json")
        assert described.exit_code == 0, described.output
        assert json.loads(described.stdout)[0]["coordinator"] != 2
    finally:
        cluster.resume(2)


def test_a_topic_is_described_without_the_offsets_that_no_leader_tells(cluster: Cluster) -> None:
    cluster.pause(2)
    try:
        shown = run(cluster, "topic", "describe", "alone", "-o", "json")
        assert "offsets of alone-0 are not known: no leader answers within 5 s" in shown.stderr
        (row,) = json.loads(shown.stdout)[0]["partition_list"]
        assert (row["first_offset"], row["end_offset"]) == (None, None)
    finally:
        cluster.resume(2)
