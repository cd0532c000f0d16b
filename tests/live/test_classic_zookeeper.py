"""Moldau's tools with --zookeeper say and write what Apache Kafka 2.8.2's do, on Moldau's ZooKeeper plane."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import classic_cases
import pytest
from classic import Both, lines, ours, write_json
from kafka_peer import wait_until
from tests.golden.java_tools import JARS, JavaTools
from znodes import in_zookeeper, znode

from moldau import Cluster
from moldau.ports.zookeeper import ZooKeeper

CLASSES = {
    "kafka-topics.sh": "kafka.admin.TopicCommand",
    "kafka-preferred-replica-election.sh": "kafka.admin.PreferredReplicaLeaderElectionCommand",
}
CONFIG = {
    "offsets.topic.num.partitions": "1",
    "auto.leader.rebalance.enable": "false",
    "zookeeper.session.timeout.ms": "40000",  # nobody stops leading because a machine is slow
}
MASKS = {r"Leader: \S+": "Leader: (id)", r"Isr: [\d,]*": "Isr: (ids)"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("old-tools") / "cluster"
    with Cluster(3, plane="zookeeper", data=folder, config=CONFIG) as running:
        yield running


@pytest.fixture(scope="module")
def old_java() -> Iterator[JavaTools]:
    with JavaTools(JARS / "tools-2.8.2") as tools:
        yield tools


@pytest.fixture
def old(old_java: JavaTools, cluster: Cluster, tmp_path: Path) -> Both:
    """Runs a line with both; knows where ZooKeeper is."""
    write_json(tmp_path)
    names = {"z": str(cluster.spec.zookeeper), "b": cluster.bootstrap_servers, "json": str(tmp_path)}
    return Both(old_java, names, MASKS, CLASSES)


def test_topics(old: Both) -> None:
    old.run(lines(classic_cases.TOPICS_IN_ZOOKEEPER))
    old.check()


def test_what_is_written_is_the_same(old: Both, cluster: Cluster) -> None:
    """But for the topic's id, which the controller adds."""
    connect = str(cluster.spec.zookeeper)
    alter = "kafka-topics.sh --zookeeper {z} --alter --topic {s}-written"
    old.run([
        "kafka-topics.sh --zookeeper {z} --create --topic {s}-written --replica-assignment 1:2,2:3 "
        "--config retention.ms=70000 --config segment.ms=60000 --config cleanup.policy=compact",
        f"{alter} --partitions 12",
        f"{alter} --partitions 13 --replica-assignment {'1:2,' * 12}3:2",
        f"{alter} --delete-config segment.ms --config flush.ms=9",
    ])  # fmt: skip
    old.check()
    for path in ("/brokers/topics/{}-written", "/config/topics/{}-written"):
        theirs, own = (in_zookeeper(connect, partial(_data, path.format(side))) for side in "jm")
        assert own == theirs


async def _data(path: str, zk: ZooKeeper) -> bytes:
    return re.sub(rb'"topic_id":"[^"]+",', b"", (await zk.get(path))[0])


def test_preferred_elections(old: Both, cluster: Cluster, tmp_path: Path) -> None:
    connect = str(cluster.spec.zookeeper)
    for name in ("led", "far", "twice"):
        listed = [{"topic": "led", "partition": 0}]
        listed += {"led": [], "far": [{"topic": "nosuch", "partition": 9}], "twice": listed}[name]
        (tmp_path / f"{name}.json").write_text(json.dumps({"partitions": listed}))
    words = ["--zookeeper", connect, "--create", "--topic", "led", "--replica-assignment", "1:2,2:3,3:1,1:3,2:1,3:2"]
    assert ours("kafka-topics.sh", words).status == 0
    wait_until(lambda: znode(connect, "/brokers/topics/led/partitions/5/state") is not None, "the topic is made", 60)
    for line in lines(classic_cases.PREFERRED_IN_ZOOKEEPER):
        wait_until(lambda: znode(connect, "/admin/preferred_replica_election") is None, "elections are held", 60)
        old.run([line])
    old.check()
