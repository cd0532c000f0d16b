"""Clusters of Apache Kafka 3.9's and Moldau's brokers on one ZooKeeper, under a controller of either kind."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

import pytest
from billing import SINK, STATE, billing_runs, lead, order, prepare, read
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewTopic
from kafka_peer import KafkaPeer, ask_cluster, java_tool, wait_until
from mixed import KAFKA, MOLDAU, Load, dump, segments
from mixed_zookeeper import ZooKeeperPeer, admin_of, cluster

PARTITIONS = 3
pytestmark = pytest.mark.timeout(900)
long = pytest.mark.skipif(
    "MOLDAU_INTERCHANGE" not in os.environ, reason="minutes of Apache Kafka's nodes: make interchange"
)
MIXES = {"kkm": (KAFKA, KAFKA, MOLDAU), "mkk": (MOLDAU, KAFKA, KAFKA), "mmk": (MOLDAU, MOLDAU, KAFKA)}
"""Who runs brokers 1, 2 and 3; the first is the controller at first."""
ONE_COORDINATOR = {
    "transaction_state_log_num_partitions": 1, "transaction_state_log_replication_factor": 1,
    "transaction_state_log_min_isr": 1, "offsets_topic_num_partitions": 1, "min_insync_replicas": 1,
}  # fmt: skip


def states(peer: KafkaPeer, topic: str) -> dict[int, tuple[int, list[int], list[int]]]:
    """Partition -> leader, replicas, who is in sync, as the first broker shows them."""
    shown = admin_of(peer, next(iter(peer.ports))).list_topics(topic, timeout=60).topics[topic]
    return {n: (p.leader, sorted(p.replicas), sorted(p.isrs)) for n, p in shown.partitions.items()}


def create(peer: KafkaPeer, node_id: int, topic: str, replicas: list[int], but: int | None = None) -> None:
    """Make a topic through one broker, each partition led by another replica, and wait until all brokers show it.

    but: a broker that cannot show it now.
    """
    orders = [replicas[n % len(replicas) :] + replicas[: n % len(replicas)] for n in range(PARTITIONS)]
    admin = admin_of(peer, node_id)
    admin.create_topics([NewTopic(topic, PARTITIONS, replica_assignment=orders)])[topic].result(60)
    awake = [one for one in peer.pids if one != but]
    wait_until(lambda: all(_shows(peer, one, topic) for one in awake), f"every broker shows {topic}")


def _shows(peer: KafkaPeer, node_id: int, topic: str) -> bool:
    """Whether a broker shows all partitions of a topic with leaders."""
    found = admin_of(peer, node_id).list_topics(topic, timeout=60).topics[topic].partitions
    return len(found) == PARTITIONS and all(p.leader >= 0 for p in found.values())


def move(peer: KafkaPeer, topic: str, replicas: list[int], folder: Path, partitions: int = PARTITIONS) -> None:
    """Move all partitions with Kafka's tool and wait until the move is over and all are in sync."""
    parts = [f'{{"topic":"{topic}","partition":{n},"replicas":{replicas}}}' for n in range(partitions)]
    plan = folder / "plan.json"
    plan.write_text(f'{{"version":1,"partitions":[{",".join(parts)}]}}')
    java_tool(
        "kafka-reassign-partitions", "--bootstrap-server", peer.bootstrap_servers, "--reassignment-json-file", plan,
        "--execute",
    )  # fmt: skip
    wanted = sorted(replicas)
    wait_until(
        lambda: all(s[1:] == (wanted, wanted) for s in states(peer, topic).values()),
        f"{topic} is on {wanted}",
    )


def _is_led_by(peer: KafkaPeer, topic: str, leader: int) -> bool:
    return all(state[0] == leader for state in states(peer, topic).values())


def _is_whole(peer: KafkaPeer, topic: str) -> bool:
    return all(state[2] == [1, 2, 3] for state in states(peer, topic).values())


@pytest.mark.parametrize("mix", ["kkm", pytest.param("mkk", marks=long), pytest.param("mmk", marks=long)])
def test_topics_are_made_written_moved_and_deleted_under_a_controller_of_either_kind(tmp_path: Path, mix: str) -> None:
    with cluster(tmp_path, *MIXES[mix], session_ms=30_000) as peer:
        for node_id in peer.ports:
            create(peer, node_id, f"through-{node_id}", [1, 2, 3])
        create(peer, 1, "moved", [1, 2])
        with Load(peer, "moved", PARTITIONS) as load:
            load.wait_for(200)
            move(peer, "moved", [1, 2, 3], tmp_path)
            load.wait_for(200)
            move(peer, "moved", [2, 3], tmp_path)
            load.wait_for(200)
        assert not load.failed
        assert sorted(load.found()) == sorted(load.acked)
        admin = admin_of(peer, 3)
        admin.delete_topics(["through-2"])["through-2"].result(60)
        wait_until(
            lambda: not any(path.name.startswith("through-2-") and not path.name.endswith("-delete")
                            for one in peer.ports for path in peer.data_dir(one).iterdir()),
            "no broker has logs of the deleted topic",
        )  # fmt: skip


@long
@pytest.mark.parametrize("mix", MIXES)
def test_each_broker_is_killed_and_the_next_controller_goes_on(tmp_path: Path, mix: str) -> None:
    with cluster(tmp_path, *MIXES[mix]) as peer:
        create(peer, 1, "t", [1, 2, 3])
        controllers = set()
        with Load(peer, "t", PARTITIONS) as load:
            load.wait_for(200)
            for node_id in peer.ports:
                peer.kill(node_id)
                load.wait_for(200)
                peer.forget(node_id)
                peer.restart(node_id)
                controllers.add(ask_cluster(peer.ports[node_id][0]).controller_id)
                wait_until(lambda: _is_whole(peer, "t"), "all replicas are in sync")
        assert not load.failed
        assert sorted(load.found()) == sorted(load.acked)
        assert len(controllers) > 1, "another broker became the controller"


@long
@pytest.mark.parametrize(("mix", "node_id"), [("kkm", 3), ("mkk", 2)], ids=["ours", "kafkas"])
def test_a_broker_that_slept_through_its_session_serves_again_under_a_controller_of_the_other_kind(
    tmp_path: Path, mix: str, node_id: int
) -> None:
    with cluster(tmp_path, *MIXES[mix]) as peer:
        create(peer, 1, "t", [1, 2, 3])
        with Load(peer, "t", PARTITIONS) as load:
            load.wait_for(200)
            os.kill(peer.pids[node_id], signal.SIGSTOP)
            peer.forget(node_id)
            load.wait_for(200)
            create(peer, 1, "meanwhile", [n for n in peer.ports if n != node_id], but=node_id)
            os.kill(peer.pids[node_id], signal.SIGCONT)
            wait_until(lambda: _is_whole(peer, "t"), "all replicas are in sync")
            load.wait_for(200)
            wait_until(lambda: _shows(peer, node_id, "meanwhile"), "it shows what was made meanwhile")
        assert not load.failed
        assert sorted(load.found()) == sorted(load.acked)


@long
@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_brokers_are_replaced_on_their_folders_and_back(tmp_path: Path, kill: bool) -> None:
    with cluster(tmp_path, KAFKA, KAFKA, KAFKA) as peer:
        create(peer, 1, "t", [1, 2, 3])
        with Load(peer, "t", PARTITIONS) as load:
            load.wait_for(200)
            commit(peer, "t", "readers", 100)
            for program in (MOLDAU, KAFKA):
                for node_id in peer.ports:
                    replaced(peer, node_id, program, kill=kill)
                    wait_until(lambda: _is_whole(peer, "t"), "all replicas are in sync")
                    load.wait_for(100)
                assert committed(peer, "t", "readers") == 100, "the group has its offset under whoever coordinates it"
        assert not load.failed
        assert sorted(load.found()) == sorted(load.acked)
        for node_id in peer.ports:
            peer.stop_node(node_id)
        for number in range(PARTITIONS):
            assert len(set(segments(peer, f"t-{number}").values())) == 1, "replicas are equal"
        said = dump(peer.data_dir(1) / "t-0" / "00000000000000000000.log")
        assert "isvalid: true" in said
        assert "isvalid: false" not in said


@long
@pytest.mark.parametrize("mix", ["kmm", "mkm"], ids=["a controller of kafka", "a controller of moldau"])
def test_each_order_is_billed_once_though_leaders_are_killed_under_it(tmp_path: Path, mix: str) -> None:
    """One broker of Kafka coordinates transactions; all partitions and groups are led by those of Moldau."""
    programs = [KAFKA if one == "k" else MOLDAU for one in mix]
    coordinator = 1 + mix.index("k")
    others = [n for n in (1, 2, 3) if n != coordinator]
    with cluster(tmp_path, *programs, **ONE_COORDINATOR) as peer:
        prepare(peer, others, coordinator)
        where = peer.bootstrap_servers
        orders: list[bytes] = []
        with billing_runs(where) as billing:
            for victim in others * 2:
                orders += order(where, range(len(orders), len(orders) + 200))
                peer.kill(victim)
                orders += order(where, range(len(orders), len(orders) + 200))
                peer.restart(victim)
                wait_until(lambda: all(s[2] == [1, 2, 3] for s in states(peer, SINK).values()), "all are in sync")
            wait_until(lambda: len(read(where)) >= len(orders), "all orders are billed", 240)
        assert sorted(read(where), key=int) == orders
        print(f"{mix}: {len(orders)} orders billed once, {billing.committed} committed, {billing.aborted} aborted")


@long
@pytest.mark.parametrize("mix", ["kmk", "mkk"], ids=["a controller of kafka", "a controller of moldau"])
def test_each_order_is_billed_once_while_the_lead_goes_to_and_fro_between_kafka_and_moldau(
    tmp_path: Path, mix: str
) -> None:
    """Orders, bills and the group are led by one of Moldau's and one of Kafka's brokers in turn, forty times."""
    programs = [KAFKA if one == "k" else MOLDAU for one in mix]
    ours = 1 + mix.index("m")
    coordinator, theirs = (1, 3) if ours == 2 else (2, 3)
    with cluster(tmp_path, *programs, session_ms=30_000, **ONE_COORDINATOR) as peer:
        prepare(peer, [ours, theirs], coordinator)
        where, controller = peer.bootstrap_servers, ("127.0.0.1", peer.ports[1][0])
        orders: list[bytes] = []
        with billing_runs(where) as billing:
            for _ in range(20):
                for leader, other in ((theirs, ours), (ours, theirs)):
                    orders += order(where, range(len(orders), len(orders) + 60))
                    lead(controller, [leader, other, coordinator])
                    wait_until(partial(_is_led_by, peer, SINK, leader), f"{leader} leads")
            wait_until(lambda: len(read(where)) >= len(orders), "all orders are billed", 240)
        assert sorted(read(where), key=int) == orders
        print(
            f"{mix}: {len(orders)} orders billed once, {billing.committed} committed, {billing.aborted} aborted,"
            f" {billing.begun_again} begun again"
        )


@long
@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_brokers_are_replaced_there_and_back_while_orders_are_billed(tmp_path: Path, kill: bool) -> None:
    """The coordinator's partition is moved to a broker that is Kafka's again before its own broker is replaced."""
    with cluster(tmp_path, KAFKA, KAFKA, KAFKA, **ONE_COORDINATOR) as peer:
        prepare(peer, [2, 3], 1)
        where = peer.bootstrap_servers
        orders: list[bytes] = []
        with billing_runs(where) as billing:

            def replace(node_id: int, program: str) -> None:
                nonlocal orders
                orders += order(where, range(len(orders), len(orders) + 200))
                replaced(peer, node_id, program, kill=kill)
                orders += order(where, range(len(orders), len(orders) + 200))
                wait_until(lambda: all(s[2] == [1, 2, 3] for s in states(peer, SINK).values()), "all are in sync")

            for program in (MOLDAU, KAFKA):
                for node_id in (2, 3):
                    replace(node_id, program)
            move(peer, STATE, [2], tmp_path, partitions=1)
            for program in (MOLDAU, KAFKA):
                replace(1, program)
            wait_until(lambda: len(read(where)) >= len(orders), "all orders are billed", 240)
        assert sorted(read(where), key=int) == orders
        print(f"{len(orders)} orders billed once, {billing.committed} committed, {billing.aborted} aborted")


def replaced(peer: ZooKeeperPeer, node_id: int, program: str, *, kill: bool) -> None:
    """A broker is another program's from now on, on the folder that it has."""
    if kill:
        peer.kill(node_id)
        peer.forget(node_id)
    else:
        peer.stop_node(node_id)
    peer.assign(node_id, program)
    peer.restart(node_id)


def commit(peer: KafkaPeer, topic: str, group: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": peer.bootstrap_servers, "group.id": group, "enable.auto.commit": False})
    try:
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    finally:
        consumer.close()


def committed(peer: KafkaPeer, topic: str, group: str) -> int:
    consumer = Consumer({"bootstrap.servers": peer.bootstrap_servers, "group.id": group})
    try:
        (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=60)
        return int(found.offset)
    finally:
        consumer.close()
