"""The ZooKeeper plane for real: three broker processes, a real ZooKeeper server, librdkafka as the client.

One cluster for all tests, which run in order: each leaves it whole. Every kill happens under load, and nothing that was
acknowledged may be lost. Sessions are short, because a dead controller is found by its session only.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import znodes
from click.testing import CliRunner
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, ResourceType
from kafka_peer import wait_until
from proof import Proof

from moldau import Cluster
from moldau.admin.cli import cli
from moldau.client.admin import AlterOp, Resource, alter_configs, delete_topics, reassign
from moldau.client.admin import ResourceType as Kind
from moldau.cluster.cluster import ClusterError
from moldau.model import TopicPartition
from moldau.zookeeper.session import Session

SESSION_MS = 4_000
WAIT_S = 120
PARTITIONS = 4
_numbers = itertools.count()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    config = {
        "zookeeper.session.timeout.ms": str(SESSION_MS),
        "offsets.topic.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0",
        "default.replication.factor": "3",
    }
    folder = tmp_path_factory.mktemp("plane") / "cluster"
    with Cluster(3, mode="zookeeper", data=folder, config=config) as running:
        yield running


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """A topic of a test's own, on a cluster that is whole."""
    name = f"carried-{next(_numbers)}"
    create(cluster, name, partitions=PARTITIONS)
    cluster.wait_until_in_sync(WAIT_S)
    return name


def create(cluster: Cluster, name: str, partitions: int) -> None:
    """Make a topic on all three brokers, which all have to be registered: on a busy machine the short session of one
    may have run out just now."""

    def made() -> bool:
        if len(cluster.serving()) < 3:
            return False
        try:
            cluster.create_topic(name, partitions=partitions, replication_factor=3, config={"min.insync.replicas": "2"})
        except ClusterError as error:
            if "INVALID_REPLICATION_FACTOR" not in str(error):
                raise
            return False
        return True

    cluster.wait_until(made, f"{name} is made", WAIT_S)


def znode(cluster: Cluster, path: str) -> Any:
    """The JSON in a znode; None when it is not there."""
    return znodes.znode(cluster.spec.zookeeper, path)


def named_as_in_zookeeper(cluster: Cluster) -> bool:
    found = znode(cluster, "/controller")
    return found is not None and cluster.controller() == found["brokerid"]


def controller_of(cluster: Cluster) -> int:
    """The controller, once brokers know of one."""
    cluster.wait_until(lambda: cluster.controller() >= 0, "a controller", WAIT_S)
    return cluster.controller()


def test_a_group_reads_what_a_client_wrote(cluster: Cluster) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    sent = {f"v{n}" for n in range(300)}
    for value in sent:
        producer.produce("to-a-group", value.encode())  # made automatically, by whoever is controller
    assert producer.flush(WAIT_S) == 0
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["to-a-group"])
    seen: set[str] = set()

    def all_there() -> bool:
        for message in consumer.consume(500, timeout=0.5):
            if message.error() is None:
                seen.add((message.value() or b"").decode())
        return seen == sent

    try:
        wait_until(all_there, "the group has read everything", WAIT_S)
    finally:
        consumer.close()


def test_metadata_name_the_controller_that_zookeeper_names(cluster: Cluster) -> None:
    wait_until(lambda: named_as_in_zookeeper(cluster), "brokers name the controller of ZooKeeper", WAIT_S)
    assert cluster.cluster_id == znode(cluster, "/cluster/id")["id"]


def test_topics_are_made_changed_grown_moved_and_deleted(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic("t", 2, 2, config={"retention.ms": "60000"})])["t"].result(WAIT_S)
    admin.create_partitions([NewPartitions("t", 3)])["t"].result(WAIT_S)
    client = cluster.client()
    change = {Resource(Kind.TOPIC, "t"): [("retention.ms", AlterOp.SET, "70000")]}
    wait_until(
        lambda: all(one.ok for one in client.run(alter_configs(client.client, change)).values()),
        "the setting is taken",
        WAIT_S,
    )
    resource = ConfigResource(ResourceType.TOPIC, "t")

    def told() -> bool:
        try:
            found = admin.describe_configs([resource])[resource].result(WAIT_S)
        except KafkaException as error:  # the broker that was asked has not heard of the topic yet
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
            return False
        return bool(found["retention.ms"].value == "70000")

    wait_until(told, "the setting is changed", WAIT_S)
    assert znode(cluster, "/config/topics/t") == {"version": 1, "config": {"retention.ms": "70000"}}
    client.run(reassign(client.client, {TopicPartition("t", 0): [3, 1, 2]}))
    wait_until(
        lambda: (
            znode(cluster, "/brokers/topics/t")["partitions"]["0"] == [3, 1, 2]
            and sorted(znode(cluster, "/brokers/topics/t/partitions/0/state")["isr"]) == [1, 2, 3]
        ),
        "the replicas have moved",
        WAIT_S,
    )
    client.run(delete_topics(client.client, ["t"]))
    wait_until(lambda: "t" not in client.topics(), "the topic is gone", WAIT_S)
    wait_until(lambda: znode(cluster, "/brokers/topics/t") is None, "it is deleted, when its replicas are", WAIT_S)
    wait_until(lambda: not _folders(cluster, "t-0"), "its folders are gone, or renamed to go", WAIT_S)


def _folders(cluster: Cluster, name: str) -> list[Path]:
    found = [Path(node.folder) / "data" / name for node in cluster.spec.nodes]
    return [folder for folder in found if folder.exists()]


def test_nothing_is_lost_when_a_leader_is_killed(cluster: Cluster, topic: str) -> None:
    with Proof(cluster, topic, PARTITIONS) as load:
        controller = controller_of(cluster)
        victim = next(leader for number in range(PARTITIONS) if (leader := cluster.leader(topic, number)) != controller)
        cluster.kill(victim)
        load.flows("others lead")
        cluster.restart(victim, timeout_s=WAIT_S)
        cluster.wait_until_in_sync(WAIT_S)
        load.flows("it is back")


def test_nothing_is_lost_when_the_controller_is_killed(cluster: Cluster, topic: str) -> None:
    with Proof(cluster, topic, PARTITIONS) as load:
        victim = controller_of(cluster)
        cluster.kill(victim)
        wait_until(lambda: (znode(cluster, "/controller") or {}).get("brokerid", victim) != victim, "another", WAIT_S)
        load.flows("another is controller, and others lead")
        cluster.restart(victim, timeout_s=WAIT_S)
        cluster.wait_until_in_sync(WAIT_S)
        load.flows("it is back")


def test_nothing_is_lost_when_sessions_expire(cluster: Cluster, topic: str) -> None:
    """A process that sleeps beyond its session wakes up registered no more, and controller no more."""
    with Proof(cluster, topic, PARTITIONS) as load:
        wait_until(lambda: named_as_in_zookeeper(cluster), "brokers name the controller of ZooKeeper", WAIT_S)
        before = znode(cluster, "/controller")
        victim = before["brokerid"]
        cluster.pause(victim)
        wait_until(lambda: (znode(cluster, "/controller") or before)["brokerid"] != victim, "another rules", WAIT_S)
        cluster.resume(victim)
        cluster.wait_until_in_sync(WAIT_S)
        load.flows("it has registered again")
        wait_until(lambda: named_as_in_zookeeper(cluster), "brokers name the controller of ZooKeeper", WAIT_S)


def test_nothing_is_lost_when_zookeeper_ends_sessions(cluster: Cluster, topic: str) -> None:
    """Of a broker, of the controller, of all at once: whoever lives registers again, somebody rules, records flow."""
    connect = cluster.spec.zookeeper
    registrations = [f"/brokers/ids/{id}" for id in (1, 2, 3)]

    def owners(paths: list[str]) -> list[int]:
        async def read(zk: Session) -> list[int]:
            return [stat.ephemeral_owner if (stat := await zk.exists(path)) else 0 for path in paths]

        found: list[int] = znodes.in_zookeeper(connect, read)
        return found

    with Proof(cluster, topic, PARTITIONS) as load:
        controller = f"/brokers/ids/{controller_of(cluster)}"
        follower = next(path for path in registrations if path != controller)
        for victims in ([follower], [controller], registrations):
            ended = {znodes.end_session(connect, path) for path in victims}
            wait_until(
                lambda ended=ended: not ended & {0, *(now := owners([*registrations, "/controller"]))} and 0 not in now,  # type: ignore[misc]
                f"new sessions in place of {victims}",
                WAIT_S,
            )
            cluster.wait_until_in_sync(WAIT_S)
            load.flows(f"the session of {victims} ended")


def test_a_broker_that_is_told_to_stop_hands_its_leads_over_first(cluster: Cluster, topic: str) -> None:
    with Proof(cluster, topic, PARTITIONS) as load:
        for id in (1, 2, 3):
            cluster.terminate(id, WAIT_S)
            told = (cluster.node(id).logs / "server.log").read_text()
            assert "Controlled shutdown request returned successfully" in told
            assert znode(cluster, f"/brokers/ids/{id}") is None
            load.flows(f"broker {id} is away")
            cluster.restart(id, timeout_s=WAIT_S)
            cluster.wait_until_in_sync(WAIT_S)


def test_a_deletion_waits_for_a_broker_that_is_down_and_says_so(cluster: Cluster, topic: str) -> None:
    """TD-1, as a user sees it; the topic is shown no more, and its name is free when its last replica is deleted."""

    def said(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(cli, ["topic", *words, "-b", cluster.bootstrap_servers])
        return done.exit_code, done.output

    away = next(id for id in (1, 2, 3) if id != controller_of(cluster))
    cluster.terminate(away, WAIT_S)
    code, words = said("delete", topic, "--yes", "--wait", "--timeout", "6")
    assert (code, f"broker {away} is not alive" in words) == (3, True), words
    code, words = said("alter", topic, "--partitions", "9")
    assert (code, "there is no topic" in words or "queued for deletion" in words) == (1, True), words
    assert "marked for deletion" in said("create", topic)[1]
    cluster.restart(away, timeout_s=WAIT_S)
    wait_until(lambda: said("create", topic)[0] == 0, "its name is free again")
    cluster.wait_until_in_sync(WAIT_S)


def test_zookeeper_itself_may_be_restarted(cluster: Cluster, topic: str) -> None:
    """Its sessions live on: nobody loses anything but time."""
    ensemble = cluster.ensemble
    assert ensemble is not None
    with Proof(cluster, topic, PARTITIONS) as load:
        ensemble.kill(1)
        load.flows("records need no ZooKeeper")
        ensemble.restart(1)
        create(cluster, "after-the-restart", partitions=1)
        load.flows("everything works")


def test_the_whole_cluster_stops_cleanly_and_comes_back(cluster: Cluster, topic: str) -> None:
    cluster.wait_until_in_sync(WAIT_S)
    cluster.stop(WAIT_S)
    for node in cluster.spec.nodes:
        assert (Path(node.folder) / "data" / ".kafka_cleanshutdown").exists()
    cluster.start(WAIT_S)
    cluster.wait_until_in_sync(WAIT_S)
    with Proof(cluster, topic, PARTITIONS) as load:
        load.flows("as before")
