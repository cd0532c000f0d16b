"""Properties of a node on its way: what is kept, what is added, and that each mode is one that a node takes."""

from __future__ import annotations

import pytest

from moldau.broker.config.node_config import NodeConfig, load
from moldau.cluster.migration import modes

BROKER = {
    "broker.id": "2",
    "zookeeper.connect": "localhost:2181/kafka",
    "zookeeper.session.timeout.ms": "4000",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
    "log.dirs": "/data/2",
    "default.replication.factor": "3",
}
VOTERS = "101@127.0.0.1:9093"
OWN = {"node.id": "101", "listeners": "CONTROLLER://127.0.0.1:9093", "log.dirs": "/data/101"}


def read(settings: dict[str, str]) -> NodeConfig:
    config = load(modes.text_of(settings))
    assert not config.unknown
    return config


def test_a_broker_that_takes_part_is_on_zookeeper_and_knows_the_quorum() -> None:
    config = read(modes.taking_part(BROKER, VOTERS))
    assert config.on_zookeeper
    assert config.migrates
    assert config.voters == {101: ("127.0.0.1", 9093)}
    assert config["zookeeper.session.timeout.ms"] == 4000


def test_a_broker_on_the_quorums_plane_knows_zookeeper_no_more() -> None:
    config = read(modes.on_quorum(BROKER, VOTERS))
    assert not config.on_zookeeper
    assert not config.migrates
    assert config.roles == {"broker"}
    assert (config.node_id, config.log_dirs, config["default.replication.factor"]) == (2, ("/data/2",), 3)
    assert not any(key.startswith("zookeeper") for key in config.given)


@pytest.mark.parametrize("where", ["localhost:2181/kafka", ""])
def test_a_controller_has_what_holds_for_the_cluster_and_migrates_until_it_is_over(where: str) -> None:
    config = read(modes.controller(BROKER, OWN, VOTERS, where))
    assert config.roles == {"controller"}
    assert config.migrates is bool(where)
    assert (config.node_id, config.log_dirs, config["default.replication.factor"]) == (101, ("/data/101",), 3)
