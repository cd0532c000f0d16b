"""Moldau's classic tools say what Apache Kafka 4.3.1's say, to the byte, on the same cluster."""

from __future__ import annotations

import json
from pathlib import Path

import classic_cases
import pytest
from classic import Both, lines, listening, ours
from kafka_peer import KafkaPeer
from moldau_peer import ZooKeeperPeer

from moldau.client import admin
from moldau.client.sync import Cluster
from moldau.model.ids import uuid_text


def test_a_port_of_somebody_else_is_given_up_in_one_line(both: Both) -> None:
    """Kafka's own tool takes the first bytes for a length, and its client dies of memory."""
    with listening(b"HTTP/1.1 400 Bad Request\r\n\r\n") as address:
        words = ["--list", "--bootstrap-server", address, "--command-config", both.names["fast"]]
        said = ours("kafka-topics.sh", words)
    why = "Timed out waiting for a node assignment. Call: listTopics"
    assert (said.status, said.out) == (1, f"Error while executing topic command : {why}\n")
    assert all(" WARN " in line for line in said.err.splitlines())


@pytest.mark.usefixtures("silent")
def test_topics(both: Both, bootstrap_servers: str) -> None:
    with Cluster(bootstrap_servers) as cluster:
        topic = admin.NewTopic(name="standing", partitions=2, replication_factor=3, configs={"segment.ms": "5000"})
        (made,) = cluster.run(admin.create_topics(cluster.client, [topic])).values()
    both.names["id"] = uuid_text(made.topic_id)
    both.run(lines(classic_cases.TOPICS))
    both.check()


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("name", ["OFFSETS", "ELECTIONS", "LOG_DIRS", "API_VERSIONS", "DELETIONS"])
def test_tools_of_partitions(both: Both, name: str) -> None:
    if name == "ELECTIONS":  # what other tests left to elect would be elected by the first of the two alone
        words = ["--bootstrap-server", both.names["b"], "--election-type", "preferred", "--all-topic-partitions"]
        ours("kafka-leader-election.sh", words)
    both.run(lines(getattr(classic_cases, name)))
    both.check()


def test_reassignments(both: Both, bootstrap_servers: str, tmp_path: Path) -> None:
    with Cluster(bootstrap_servers) as cluster:
        placed = {0: [1, 2], 1: [2, 3], 2: [3, 1]}
        topics = [
            admin.NewTopic(name="placed", assignment=placed),
            admin.NewTopic(name="single", partitions=2, replication_factor=1),
        ]
        cluster.run(admin.create_topics(cluster.client, topics))

    def moves(name: str, *partitions: tuple[object, ...]) -> None:
        keys = ("topic", "partition", "replicas", "log_dirs")
        listed = [dict(zip(keys, one, strict=False)) for one in partitions]
        (tmp_path / f"{name}.json").write_text(json.dumps({"version": 1, "partitions": listed}))

    stay = [("placed", number, replicas) for number, replicas in placed.items()]
    moves("stay", *stay)
    moves("noreplicas", ("placed", 0, []))
    moves("movetwice", *stay, stay[0])
    moves("samebroker", ("placed", 0, [1, 1, 2]), ("placed", 1, [2, 2, 3, 3]))
    moves("dirs", ("placed", 0, [1, 2], ["any"]))
    moves("relative", ("placed", 0, [1, 2], ["any", "data"]))
    moves("elsewhere", ("placed", 0, [1, 2], ["any", "/elsewhere"]), ("placed", 2, [3, 2], ["any", "/there"]))
    moves("ninth", ("placed", 0, [1, 9]))
    moves("nosuch", ("nosuch", 0, [1, 2]))
    moves("nopart", ("placed", 7, [1, 2]), *stay)
    moves("justpast", ("placed", 3, [1, 2]))
    moves("otherwise", ("placed", 0, [2, 3]), *stay[1:])
    listed = {"topics": ["placed"], "single": ["single"], "topicstwice": ["a", "a"], "notopics": ["b"]}
    for name, names in listed.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({"topics": [{"topic": one} for one in names]}))
    (tmp_path / "word.json").write_text("nonsense")
    both.run(lines(classic_cases.REASSIGNMENTS))
    both.check()


def test_configurations(both: Both, bootstrap_servers: str, tmp_path: Path) -> None:
    (tmp_path / "topic.properties").write_text("retention.ms = 5000\n# a note\ncleanup.policy=delete\n")
    with Cluster(bootstrap_servers) as cluster:
        topics = [admin.NewTopic(name=name, partitions=1, replication_factor=1) for name in ("j-config", "m-config")]
        cluster.run(admin.create_topics(cluster.client, topics))
    try:
        both.run(lines(classic_cases.CONFIGS))
    finally:  # other tests share this cluster, and look at defaults
        words = ["--alter", "--broker-defaults", "--delete-config", "log.retention.ms"]
        ours("kafka-configs.sh", ["--bootstrap-server", bootstrap_servers, *words])
    both.check()


def test_the_metadata_quorum(both: Both, tmp_path: Path) -> None:
    folder = tmp_path / "controller"
    folder.mkdir()
    meta = "version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAQ\nnode.id=9\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAg\n"
    (folder / "meta.properties").write_text(meta)
    role = "node.id=9\nprocess.roles=controller\n"
    listener = "listeners=CONTROLLER://127.0.0.1:9093\ncontroller.listener.names=CONTROLLER\n"
    files = {
        "none": "",
        "role": "node.id=9\n",
        "nodirs": role,
        "unformatted": f"{role}log.dirs={tmp_path}/nothing\n",
        "controller": f"{role}{listener}log.dirs={folder},/elsewhere\n",
        "nolistener": f"{role}{listener.replace('names=CONTROLLER', 'names=OTHER')}metadata.log.dir={folder}\n",
    }
    for name, text in files.items():
        (tmp_path / f"{name}.properties").write_text(text)
    both.run(lines(classic_cases.QUORUM))
    both.check()


@pytest.mark.usefixtures("filled")
def test_controllers_are_asked(both: Both, live_cluster: KafkaPeer, tmp_path: Path) -> None:
    """In ZooKeeper mode there is nobody to ask, and brokers refuse."""
    with Cluster(live_cluster.bootstrap_servers) as cluster:
        names = ("j-controlled", "m-controlled")
        topics = [admin.NewTopic(name=name, partitions=1, replication_factor=1) for name in names]
        cluster.run(admin.create_topics(cluster.client, topics))
    (tmp_path / "stay.json").write_text('{"partitions": [{"topic": "filled", "partition": 0, "replicas": [1, 2]}]}')
    both.names["c"] = ",".join(f"127.0.0.1:{controller}" for _, controller in live_cluster.ports.values())
    if isinstance(live_cluster, ZooKeeperPeer):
        both.names["c"] = both.names["b"]
    both.run(lines(classic_cases.CONTROLLERS))
    both.check()


@pytest.mark.parametrize("name", ["CLUSTER", "FEATURES"])
def test_the_cluster_and_its_features(both: Both, name: str) -> None:
    both.run(lines(getattr(classic_cases, name)))
    both.check()
