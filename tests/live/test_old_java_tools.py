"""Java tools of the ZooKeeper era, in that mode: Kafka 2.8's, which write znodes, and 3.9's, which ask brokers.

What a tool says is the least of it: what it wished for must stand in ZooKeeper and at the brokers afterwards, and what
it left in znodes for the controller must go. One cluster for all; each start of a JVM counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka_peer import ALL_JARS, ToolRun, java_tool, wait_until
from znodes import znode

from moldau import Cluster
from moldau.client.admin import Resource, ResourceType, describe_configs

WAIT_S = 120
OLD = ALL_JARS / "tools-2.8.2"
LAST = ALL_JARS / "tools-3.9.1"
CONFIG = {
    "offsets.topic.num.partitions": "1",
    "auto.leader.rebalance.enable": "false",
    "zookeeper.session.timeout.ms": "40000",  # nobody stops leading because a machine is slow
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("old-tools") / "cluster"
    with Cluster(3, mode="zookeeper", data=folder, config=CONFIG) as running:
        yield running


def plan(folder: Path, **partitions: list[int]) -> Path:
    """A file for kafka-reassign-partitions: topic_number=replicas."""
    moves = [
        {"topic": name.rpartition("_")[0], "partition": int(name.rpartition("_")[2]), "replicas": replicas}
        for name, replicas in partitions.items()
    ]
    file = folder / "moves.json"
    file.write_text(json.dumps({"version": 1, "partitions": moves}))
    return file


class Topic:
    """A topic as brokers show it."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._name = name

    @property
    def shown(self) -> dict[int, tuple[int, list[int], list[int]]]:
        """Partition -> leader, replicas, who is in sync; nothing while it is not there."""
        found = self._cluster.client().topics([self._name]).get(self._name)
        parts = {} if found is None else found.partitions
        return {number: (int(p.leader), list(p.replicas), sorted(p.isr)) for number, p in parts.items()}

    def becomes(self, wanted: dict[int, list[int]]) -> None:
        """Wait until partitions have these replicas, all in sync, and are led by the first."""
        all_well = {number: (replicas[0], replicas, sorted(replicas)) for number, replicas in wanted.items()}
        wait_until(lambda: self.shown == all_well, f"{self._name} is {all_well}", WAIT_S)

    def has(self, key: str, value: str) -> bool:
        """Whether a broker shows a setting of the topic."""
        client = self._cluster.client()
        resource = Resource(ResourceType.TOPIC, self._name)
        _, entries = client.run(describe_configs(client.client, [resource], keys=[key]))[resource]
        return key in entries and entries[key].value == value


def test_tools_of_2_8_write_znodes_and_what_they_wish_is_done(cluster: Cluster, tmp_path: Path) -> None:
    connect = cluster.spec.zookeeper
    old = Topic(cluster, "old")

    def tool(main: str, *arguments: object) -> ToolRun:
        return java_tool(f"kafka.admin.{main}", "--zookeeper", connect, *arguments, jars=OLD)

    create = ("--create", "--topic", "old", "--config", "retention.ms=70000")
    tool("TopicCommand", *create, "--replica-assignment", "1:2,2:1")
    old.becomes({0: [1, 2], 1: [2, 1]})
    tool("TopicCommand", "--alter", "--topic", "old", "--partitions", 3, "--replica-assignment", "1:2,2:1,3:1")
    old.becomes({0: [1, 2], 1: [2, 1], 2: [3, 1]})
    wait_until(lambda: old.has("retention.ms", "70000"), "it has the setting that it was made with", WAIT_S)

    change = ("--alter", "--entity-type", "topics", "--entity-name", "old")
    tool("ConfigCommand", *change, "--add-config", "retention.ms=80000")
    wait_until(lambda: old.has("retention.ms", "80000"), "the brokers have heard of it", WAIT_S)

    moves = plan(tmp_path, old_0=[3, 2], old_1=[2, 3])
    tool("ReassignPartitionsCommand", "--reassignment-json-file", moves, "--execute")
    wait_until(lambda: old.shown[0][1] == [3, 2] and old.shown[1][1] == [2, 3], "replicas move", WAIT_S)
    wait_until(lambda: znode(connect, "/admin/reassign_partitions") is None, "the plan goes when it is done", WAIT_S)
    tool("PreferredReplicaLeaderElectionCommand")
    wait_until(lambda: znode(connect, "/admin/preferred_replica_election") is None, "the election is held", WAIT_S)
    old.becomes({0: [3, 2], 1: [2, 3], 2: [3, 1]})

    tool("TopicCommand", "--delete", "--topic", "old")
    wait_until(lambda: not old.shown, "the topic is gone", WAIT_S)
    for path in ("/brokers/topics/old", "/admin/delete_topics/old", "/config/topics/old"):
        wait_until(lambda path=path: znode(connect, path) is None, f"{path} is gone", WAIT_S)  # type: ignore[misc]


def test_tools_of_3_9_ask_brokers(cluster: Cluster, tmp_path: Path) -> None:
    last = Topic(cluster, "last")

    def tool(name: str, *arguments: object) -> ToolRun:
        return java_tool(name, "--bootstrap-server", cluster.bootstrap_servers, *arguments, jars=LAST)

    tool("kafka-topics", "--create", "--topic", "last", "--replica-assignment", "1:2,2:1")
    last.becomes({0: [1, 2], 1: [2, 1]})
    change = ("--alter", "--entity-type", "topics", "--entity-name", "last")
    tool("kafka-configs", *change, "--add-config", "retention.ms=80000")
    wait_until(lambda: last.has("retention.ms", "80000"), "the brokers have heard of it", WAIT_S)
    assert znode(cluster.spec.zookeeper, "/config/topics/last")["config"] == {"retention.ms": "80000"}

    tool("kafka-reassign-partitions", "--reassignment-json-file", plan(tmp_path, last_0=[3, 2]), "--execute")
    wait_until(lambda: last.shown[0][1] == [3, 2] and len(last.shown[0][2]) == 2, "replicas move", WAIT_S)
    which = ("--election-type", "preferred", "--all-topic-partitions")
    tool("kafka-leader-election", *which)
    last.becomes({0: [3, 2], 1: [2, 1]})
    said = "Leader: 3\tReplicas: 3,2"
    wait_until(lambda: said in tool("kafka-topics", "--describe", "--topic", "last").stdout, "a tool says so", WAIT_S)
