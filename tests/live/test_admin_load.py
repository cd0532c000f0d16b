"""Administration under load: whatever an operator does, no acknowledged record is lost, doubled or out of order.

Topics grow, settings change, replicas move under throttles, are cancelled, multiply; leaders are elected; brokers stop,
are killed, bounce faster than their session, and freeze beyond it. Real processes, librdkafka as the client.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ElectionType, KafkaException
from confluent_kafka import TopicPartition as Part
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from proof import Proof

from moldau import Cluster
from moldau.client.admin import AlterOp, Resource, alter_configs, reassign, reassignments
from moldau.client.admin import ResourceType as Kind
from moldau.model import Code, TopicPartition

SESSION_MS = 3000
WAIT_S = 120
TOPIC, PARTITIONS = "worked-on", 4


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    config = {
        "broker.session.timeout.ms": str(SESSION_MS),
        "broker.heartbeat.interval.ms": "300",
        "replica.fetch.max.bytes": "4096",  # many fetches for little data
    }
    with Cluster(4, data=tmp_path / "cluster", config=config) as running:
        yield running


@pytest.fixture
def admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers})


def run(cluster: Cluster, work: Any) -> Any:
    return cluster.client().run(work)


def move(cluster: Cluster, targets: Mapping[int, list[int]], topic: str = TOPIC) -> None:
    """Begin moves of partitions; again where a target has lost its short session for a moment, on a busy machine."""
    wish = {TopicPartition(topic, number): replicas for number, replicas in targets.items()}

    def taken() -> bool:
        outcome, each = run(cluster, reassign(cluster.client().client, wish))
        assert outcome.code == Code.NONE
        assert all(one.code in (Code.NONE, Code.INVALID_REPLICA_ASSIGNMENT) for one in each.values()), each
        return all(one.code == Code.NONE for one in each.values())

    cluster.wait_until(taken, "every move is taken", WAIT_S)


def moved(cluster: Cluster, targets: Mapping[int, list[int]], topic: str = TOPIC) -> bool:
    shown = cluster.client().topics([topic])[topic].partitions
    _, moving = run(cluster, reassignments(cluster.client().client))
    return not moving and all(
        list(shown[number].replicas) == replicas and set(shown[number].isr) == set(replicas)
        for number, replicas in targets.items()
    )


def set_config(cluster: Cluster, kind: Kind, name: str, **values: str | None) -> None:
    changes = [
        (key.replace("_", "."), AlterOp.DELETE if value is None else AlterOp.SET, value)
        for key, value in values.items()
    ]
    outcome = run(cluster, alter_configs(cluster.client().client, {Resource(kind, name): changes}))
    assert all(one.code == Code.NONE for one in outcome.values()), outcome


def make(cluster: Cluster, admin: AdminClient, *assignment: list[int], **config: str) -> None:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    wish = NewTopic(TOPIC, len(assignment), replica_assignment=list(assignment), config=settings)
    admin.create_topics([wish])[TOPIC].result(WAIT_S)
    targets = dict(enumerate(assignment))
    cluster.wait_until(lambda: moved(cluster, targets), "the topic is in sync")


@pytest.mark.timeout(300)
def test_replicas_move_multiply_and_return_under_throttles_without_loss(cluster: Cluster, admin: AdminClient) -> None:
    make(cluster, admin, [1, 2], [2, 3], [3, 4], [4, 1], min_insync_replicas="2")
    # At the throttled rate what is written takes minutes to copy, and more comes faster than that: no machine is so
    # slow that a replica is in sync before the throttle is taken away.
    with Proof(cluster, TOPIC, PARTITIONS, value_bytes=2000) as proof:
        for _ in range(10):
            time.sleep(0.2)  # enough to copy
            proof.flows("filling")
        set_config(cluster, Kind.TOPIC, TOPIC, leader_replication_throttled_replicas="*")
        set_config(cluster, Kind.TOPIC, TOPIC, follower_replication_throttled_replicas="*")
        rates = ("leader_replication_throttled_rate", "follower_replication_throttled_rate")
        set_config(cluster, Kind.BROKER, "", **dict.fromkeys(rates, "2000"))
        away = {0: [3, 4], 1: [4, 1], 2: [1, 2], 3: [2, 3]}
        move(cluster, away)
        proof.flows("replicas in sync are not throttled")
        assert not moved(cluster, away), "however long that took"
        set_config(cluster, Kind.BROKER, "", **dict.fromkeys(rates))
        cluster.wait_until(lambda: moved(cluster, away), "everything has moved")
        proof.flows("moved")
        many = dict.fromkeys(range(PARTITIONS), [4, 3, 2, 1])
        move(cluster, many)
        cluster.wait_until(lambda: moved(cluster, many), "four replicas each")
        proof.flows("four replicas")
        back = {0: [1, 2], 1: [2, 3], 2: [3, 4], 3: [4, 1]}
        move(cluster, back)
        cluster.wait_until(lambda: moved(cluster, back), "back where it was")
        proof.flows("back")


@pytest.mark.timeout(300)
def test_a_move_is_cancelled_and_begun_again_and_again_without_loss(cluster: Cluster, admin: AdminClient) -> None:
    make(cluster, admin, [1, 2], [2, 3], [3, 1], [1, 3], min_insync_replicas="2")
    at_home = {0: [1, 2], 1: [2, 3], 2: [3, 1], 3: [1, 3]}
    with Proof(cluster, TOPIC, PARTITIONS) as proof:
        for turn in range(6):
            move(cluster, dict.fromkeys(range(PARTITIONS), [4, 1 + turn % 3]))
            time.sleep(0.03 * turn)  # how far the move is when it is cancelled
            wish = {TopicPartition(TOPIC, number): None for number in range(PARTITIONS)}
            _, each = run(cluster, reassign(cluster.client().client, wish))
            assert {one.code for one in each.values()} <= {Code.NONE, Code.NO_REASSIGNMENT_IN_PROGRESS}
            proof.flows("cancelled")
        move(cluster, at_home)
        cluster.wait_until(lambda: moved(cluster, at_home), "at home")

        def nothing_stays() -> bool:
            return not [path for path in tmp(cluster, 4).glob(f"{TOPIC}-*") if not path.name.endswith("-delete")]

        cluster.wait_until(nothing_stays, "nothing of it stays on broker 4", WAIT_S)


def tmp(cluster: Cluster, node: int) -> Path:
    """A node's log directory."""
    return Path(cluster.node(node).folder) / "data"


@pytest.mark.timeout(300)
def test_topics_grow_and_settings_change_under_load_without_loss(cluster: Cluster, admin: AdminClient) -> None:
    make(cluster, admin, [1, 2, 3], [2, 3, 4], [3, 4, 1], [4, 1, 2], min_insync_replicas="2")
    with Proof(cluster, TOPIC, PARTITIONS) as proof:
        admin.create_partitions([NewPartitions(TOPIC, 12)])[TOPIC].result(WAIT_S)
        proof.flows("grown")
        entry = ConfigEntry("segment.bytes", str(1 << 20), incremental_operation=AlterConfigOpType.SET)
        wish = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
        admin.incremental_alter_configs([wish])[wish].result(WAIT_S)
        for turn in range(5):
            names = [f"passing-{turn}-{n}" for n in range(5)]
            for future in admin.create_topics([NewTopic(name, 4, 3) for name in names]).values():
                with contextlib.suppress(KafkaException):  # made by a controller that could not say so any more
                    future.result(WAIT_S)
            for future in admin.delete_topics(names).values():
                future.result(WAIT_S)
            proof.flows("topics come and go")
        set_config(cluster, Kind.BROKER, "", num_replica_fetchers="3")
        proof.flows("three fetchers a leader")
        set_config(cluster, Kind.BROKER, "", num_replica_fetchers=None)
        proof.flows("one fetcher a leader")
        cluster.wait_until(
            lambda: not [name for name in admin.list_topics(timeout=WAIT_S).topics if name.startswith("passing")],
            "they are gone",
        )


def elected(cluster: Cluster, admin: AdminClient, leaders: list[int]) -> bool:
    """Ask for the preferred leaders, who may just have lost their session; whether these lead then."""
    wish = [Part(TOPIC, number) for number in range(PARTITIONS)]
    with contextlib.suppress(KafkaException):
        admin.elect_leaders(ElectionType.PREFERRED, wish).result(WAIT_S)
    return [cluster.leader(TOPIC, number) for number in range(PARTITIONS)] == leaders


@pytest.mark.timeout(300)
def test_brokers_stop_in_turn_and_lead_again_when_asked_without_loss(cluster: Cluster, admin: AdminClient) -> None:
    make(cluster, admin, [1, 2, 3], [2, 3, 4], [3, 4, 1], [4, 1, 2], min_insync_replicas="2")
    with Proof(cluster, TOPIC, PARTITIONS) as proof:
        for id in (1, 2, 3, 4):
            cluster.terminate(id)
            said = (cluster.node(id).logs / "server.log").read_text()
            assert "Starting controlled shutdown" in said
            assert "Controlled shutdown request returned successfully after" in said
            assert "unclean shutdown" not in said
            assert (tmp(cluster, id) / ".kafka_cleanshutdown").exists()
            proof.flows(f"without broker {id}")
            cluster.restart(id)
            cluster.wait_until_in_sync()
        cluster.wait_until(lambda: elected(cluster, admin, [1, 2, 3, 4]), "they lead as preferred")
        proof.flows("led as preferred")


@pytest.mark.timeout(300)
def test_a_broker_that_bounces_faster_than_its_session_costs_nothing(cluster: Cluster, admin: AdminClient) -> None:
    make(cluster, admin, [1, 2, 3], [2, 3, 4], [3, 4, 1], [4, 1, 2], min_insync_replicas="2")
    with Proof(cluster, TOPIC, PARTITIONS) as proof:
        for id in (4, 2, 4, 1):
            cluster.kill(id)
            cluster.restart(id)
            cluster.wait_until_in_sync()
            proof.flows(f"broker {id} bounced")


@pytest.mark.timeout(300)
def test_a_leader_that_freezes_beyond_its_session_does_no_harm_when_it_wakes(
    cluster: Cluster, admin: AdminClient
) -> None:
    make(cluster, admin, [4, 1, 2], [4, 2, 3], [4, 3, 1], [4, 1, 3], min_insync_replicas="2")
    with Proof(cluster, TOPIC, PARTITIONS) as proof:
        for _ in range(2):
            cluster.pause(4)
            cluster.wait_until(
                lambda: all(cluster.leader(TOPIC, number) not in (-1, 4) for number in range(PARTITIONS)),
                "the others lead",
            )
            proof.flows("without the frozen one")
            cluster.resume(4)
            cluster.wait_until_in_sync()
            proof.flows("with the zombie as a follower")
            cluster.wait_until(lambda: elected(cluster, admin, [4, 4, 4, 4]), "it leads again")


@pytest.mark.timeout(300)
def test_the_preferred_leaders_return_by_themselves(tmp_path: Path) -> None:
    config = {"leader.imbalance.check.interval.seconds": "1", "leader.imbalance.per.broker.percentage": "0"}
    with Cluster(3, data=tmp_path / "cluster", config=config) as cluster:
        make(cluster, AdminClient({"bootstrap.servers": cluster.bootstrap_servers}), [1, 2], [2, 3], [3, 1], [2, 1])
        with Proof(cluster, TOPIC, PARTITIONS) as proof:
            cluster.terminate(2)
            proof.flows("without broker 2")
            cluster.restart(2)
            cluster.wait_until(
                lambda: [cluster.leader(TOPIC, number) for number in range(4)] == [1, 2, 3, 2], "leads are back"
            )
            proof.flows("led as preferred")


@pytest.mark.timeout(300)
def test_a_controlled_shutdown_waits_for_nobodys_next_heartbeat(tmp_path: Path) -> None:
    """KAFKA-14292: what the quorum saw the others fetch tells that they know who leads now."""
    config = {"broker.heartbeat.interval.ms": "60000", "broker.session.timeout.ms": "600000"}
    with Cluster(3, data=tmp_path / "cluster", config=config) as cluster:
        make(cluster, AdminClient({"bootstrap.servers": cluster.bootstrap_servers}), [1, 2, 3], [2, 3, 1], [3, 1, 2])
        for id in (cluster.controller(), next(id for id in (1, 2, 3) if id != cluster.controller())):
            cluster.terminate(id)
            said = (cluster.node(id).logs / "server.log").read_text()
            assert "Controlled shutdown request returned successfully" in said
            assert "Controlled shutdown goes on" in said
            cluster.restart(id)
            cluster.wait_until_in_sync()
