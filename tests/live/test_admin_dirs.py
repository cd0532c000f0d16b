"""Brokers with several log directories: the controller knows where each replica lies, and a directory that fails takes
its own leaders down and no others (KIP-858); a replica moves from one to the other through kill -9 (KIP-113). Real
processes, real files.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from foreign import write_confluent
from kafka_peer import java_tool

from moldau import Cluster
from moldau.admin.cli import cli
from moldau.client.admin import (
    AlterOp,
    NewTopic,
    Resource,
    ResourceType,
    alter_configs,
    create_topics,
    describe_log_dirs,
)


def two_directories(cluster: Cluster) -> None:
    """Give every node a second log directory, before it starts."""
    for node in cluster.spec.nodes:
        text = node.properties.read_text()
        first = str(Path(node.folder) / "data")
        node.properties.write_text(text.replace(f"log.dirs={first}\n", f"log.dirs={first},{second(node)}\n"))


def second(node: Any) -> Path:
    return Path(node.folder) / "more"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with_two = Cluster(3, data=tmp_path / "cluster")
    two_directories(with_two)
    with with_two as running:
        yield running


def taken_away(folder: Path) -> None:
    """Delete a folder in which a broker goes on to make files meanwhile."""
    while folder.exists():
        with suppress(OSError):
            shutil.rmtree(folder)


def places(cluster: Cluster, broker: int) -> dict[str, list[tuple[str, int]]]:
    """Directory -> partitions in it, by the broker's own word; an offline one is left out."""
    client = cluster.client()
    found = client.run(describe_log_dirs(client.client, [broker]))[broker]
    return {
        dir.log_dir: [(topic.name, part.partition_index) for topic in dir.topics for part in topic.partitions]
        for dir in found
        if not dir.error_code
    }


def test_a_directory_that_fails_takes_its_own_leaders_down_and_no_others(cluster: Cluster) -> None:
    wish = NewTopic(name="spread", assignment=dict.fromkeys(range(12), (1, 2, 3)))
    made = cluster.client().run(create_topics(cluster.client().client, [wish]))
    assert made["spread"].code == 0
    node = cluster.node(1)
    cluster.wait_until(lambda: sum(map(len, places(cluster, 1).values())) == 12, "it has all replicas")
    before = places(cluster, 1)
    lost = {number for _, number in before[str(second(node))]}
    kept = {number for _, number in before[str(Path(node.folder) / "data")]}
    assert len(lost) == len(kept) == 6

    taken_away(second(node))

    def moved() -> bool:
        partitions = cluster.client().topics(["spread"])["spread"].partitions
        return all(partitions[n].leader not in (1, -1, None) and 1 not in partitions[n].isr for n in lost)

    cluster.wait_until(moved, "the replicas of the lost directory left leads and ISRs")

    def as_before() -> bool:
        partitions = cluster.client().topics(["spread"])["spread"].partitions
        return (
            {n for n in range(12) if partitions[n].leader == 1}
            == {n for n in range(12) if 1 in partitions[n].isr}
            == kept
        )

    cluster.wait_until(as_before, "it leads what is in the other")
    assert 1 in cluster.alive()

    cluster.restart(1)  # with an empty directory in its place
    cluster.wait_until_in_sync()
    cluster.wait_until(lambda: sum(map(len, places(cluster, 1).values())) == 12, "it has all replicas")


RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


def limit(cluster: Cluster, broker: int, rate: str | None) -> None:
    """How fast the broker moves replicas between its directories; None: as fast as it can."""
    resource = Resource(ResourceType.BROKER, str(broker))
    change = (RATE, AlterOp.DELETE if rate is None else AlterOp.SET, rate)
    client = cluster.client()
    assert client.run(alter_configs(client.client, {resource: [change]}))[resource].code == 0


def copies(cluster: Cluster, broker: int) -> dict[str, int]:
    """Directory -> how far the copy in it is behind, where there is one."""
    client = cluster.client()
    return {
        dir.log_dir: part.offset_lag
        for dir in client.run(describe_log_dirs(client.client, [broker]))[broker]
        for topic in dir.topics
        for part in topic.partitions
        if part.is_future_key
    }


def test_a_replica_moves_to_another_directory_through_a_kill(cluster: Cluster, tmp_path: Path) -> None:
    wish = NewTopic(name="moving", assignment={0: (1, 2, 3)})
    assert cluster.client().run(create_topics(cluster.client().client, [wish]))["moving"].code == 0
    cluster.wait_until_in_sync()
    here = next(dir for dir, parts in places(cluster, 1).items() if ("moving", 0) in parts)
    there = next(dir for dir in places(cluster, 1) if dir != here)
    write_confluent(cluster.bootstrap_servers, "moving", [(b"k", bytes(50_000))] * 200)
    limit(cluster, 1, "300000")
    plan = tmp_path / "plan.json"
    move = {"topic": "moving", "partition": 0, "replicas": [1, 2, 3], "log_dirs": [there, "any", "any"]}
    plan.write_text(json.dumps({"version": 1, "partitions": [move]}))

    def tool(verb: str) -> str:
        words = ("--bootstrap-server", cluster.bootstrap_servers, "--reassignment-json-file", plan, verb)
        return java_tool("kafka-reassign-partitions", *words).stdout

    assert f"{there} for replica moving-0 with broker 1" in tool("--execute")
    cluster.wait_until(lambda: 0 < copies(cluster, 1).get(there, 0) < 200, "some of it is copied")
    cluster.kill(1)
    cluster.restart(1)
    cluster.wait_until(lambda: there in copies(cluster, 1) or ("moving", 0) in places(cluster, 1)[there], "it goes on")
    limit(cluster, 1, None)
    cluster.wait_until(lambda: ("moving", 0) not in places(cluster, 1)[here], "it has moved")
    cluster.wait_until(lambda: ("moving", 0) in places(cluster, 1)[there], "it is there")
    cluster.wait_until(lambda: not copies(cluster, 1), "it is no copy any more")
    assert "completed" in tool("--verify")
    cluster.wait_until_in_sync()
    write_confluent(cluster.bootstrap_servers, "moving", [(b"k", b"v")])
    folders = [(Path(node.folder) / dir / "moving-0") for node in cluster.spec.nodes for dir in ("data", "more")]
    logs = [sorted(folder.glob("*.log")) for folder in folders if folder.exists()]
    cluster.wait_until(lambda: len({b"".join(f.read_bytes() for f in files) for files in logs}) == 1, "all are alike")
    assert len(logs) == 3


def test_a_plan_puts_replicas_where_it_says(cluster: Cluster, tmp_path: Path) -> None:
    """One that is there already is copied over, one that comes lies there as soon as it has come."""
    wish = NewTopic(name="placed", assignment={0: (1, 2)})
    cluster.client().run(create_topics(cluster.client().client, [wish]))
    cluster.wait_until(lambda: ("placed", 0) in chain(*places(cluster, 1).values()), "its replica is there")
    goals = {broker: str(second(cluster.node(broker))) for broker in (1, 3)}
    first = str(Path(cluster.node(1).folder) / "data")
    if ("placed", 0) in places(cluster, 1).get(goals[1], []):
        goals[1] = first
    entry = {"topic": "placed", "partition": 0, "replicas": [1, 3], "log_dirs": [goals[1], goals[3]]}
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [entry]}))

    def moldau(*words: str) -> Result:
        return CliRunner().invoke(cli, [*words, "--plan", str(plan), "--bootstrap-server", cluster.bootstrap_servers])

    assert moldau("reassign", "verify").exit_code == 4
    done = moldau("reassign", "execute", "--wait", "--timeout", "240")
    assert done.exit_code == 0, done.output
    for broker, path in goals.items():
        assert ("placed", 0) in places(cluster, broker)[path]
    cluster.wait_until(lambda: moldau("reassign", "verify").exit_code == 0, "whoever is asked knows of the move")


def test_a_plan_that_is_taken_back_has_replicas_in_the_directories_they_were_in(
    cluster: Cluster, tmp_path: Path
) -> None:
    wish = NewTopic(name="back", assignment={0: (1, 2), 1: (1, 2)})
    cluster.client().run(create_topics(cluster.client().client, [wish]))
    cluster.wait_until_in_sync()

    def where() -> dict[tuple[int, int], str]:
        """(broker, partition) -> directory."""
        return {
            (broker, number): dir
            for broker in (1, 2, 3)
            for dir, parts in places(cluster, broker).items()
            for topic, number in parts
            if topic == "back"
        }

    def other(broker: int, number: int) -> str:
        return next(dir for dir in places(cluster, broker) if dir != before.get((broker, number)))

    def moldau(verb: str, plan: Path, *words: str) -> Result:
        told = ["--plan", str(plan), "--bootstrap-server", cluster.bootstrap_servers]
        return CliRunner().invoke(cli, ["reassign", verb, *told, *words])

    before = where()
    assert before.keys() == {(broker, number) for broker in (1, 2) for number in (0, 1)}
    plan, kept = tmp_path / "plan.json", tmp_path / "kept.json"
    entries = [
        {"topic": "back", "partition": 0, "replicas": [1, 3], "log_dirs": [other(1, 0), other(3, 0)]},
        {"topic": "back", "partition": 1, "replicas": [3, 1]},
    ]
    wrong = [{**entries[0], "log_dirs": ["any", "/nowhere"]}, entries[1]]
    plan.write_text(json.dumps({"version": 1, "partitions": wrong}))
    refused = moldau("apply", plan)
    assert refused.exit_code == 1, refused.output
    assert "broker 3 has no log directory /nowhere, but " in refused.stderr
    assert where() == before
    plan.write_text(json.dumps({"version": 1, "partitions": entries}))
    done = moldau("apply", plan)
    assert done.exit_code == 0, done.output
    assert where()[1, 0] == other(1, 0)
    back = moldau("rollback", plan, "--yes")
    assert back.exit_code == 0, back.output
    cluster.wait_until(lambda: where() == before, "what has gone from broker 3 is deleted there")
    cluster.wait_until(lambda: moldau("status", plan).exit_code == 0, "whoever is asked knows of the way back")
    again = moldau("execute", plan, "--rollback", str(kept), "--wait", "--timeout", "240")
    assert again.exit_code == 0, again.output
    assert where()[1, 0] == other(1, 0)
    cluster.wait_until(lambda: moldau("status", plan).exit_code == 4, "it was taken back, and is otherwise by now")
    returned = moldau("execute", kept, "--wait", "--timeout", "240")
    assert returned.exit_code == 0, returned.output
    cluster.wait_until(lambda: where() == before, "what has gone from broker 3 is deleted there")
