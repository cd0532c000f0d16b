"""kill -9 of the active controller at random instants of creations, deletions, moves; and brokers that were away then.

What was acknowledged stays true under the next controller, what was not is done wholly or not at all, and when all is
quiet every folder on every disk belongs to a replica that is assigned there: no strays (laws C8, C9, C10, C13).
"""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from moldau import Cluster
from moldau.client import sync
from moldau.client.admin import NewTopic, create_topics, delete_topics, reassign, reassignments
from moldau.client.client import Unreachable
from moldau.cluster.cluster import ClusterError
from moldau.model import Code, TopicPartition, uuid_text
from moldau.wire.batch import build

FOLDER = re.compile(r"(.+)-(\d+)\Z")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    config = {"log.segment.delete.delay.ms": "500"}
    with Cluster(3, data=tmp_path / "cluster", config=config) as running:
        yield running


def run(cluster: Cluster, work: Any) -> Any:
    return cluster.client().run(work)


def create(cluster: Cluster, names: list[str], partitions: int = 3, factor: int = 3) -> dict[str, Any]:
    wishes = [NewTopic(name=name, partitions=partitions, replication_factor=factor) for name in names]
    return run(cluster, create_topics(cluster.client().client, wishes))  # type: ignore[no-any-return]


def delete(cluster: Cluster, names: list[str]) -> dict[str, Any]:
    return run(cluster, delete_topics(cluster.client().client, names))  # type: ignore[no-any-return]


def fill(cluster: Cluster, topic: str, partitions: int, count: int = 20) -> None:
    """So many records in each partition."""
    for number in range(partitions):
        data = build([(0, b"k", b"v%d" % n, ()) for n in range(count)])
        assert cluster.client().produce(TopicPartition(topic, number), data).code == Code.NONE


def kill_controller_while(cluster: Cluster, act: Callable[[], object], rng: random.Random, within_s: float) -> int:
    """Kill the active controller at a random instant after ``act`` began in a thread of its own; who it was."""
    controller = cluster.controller()
    acting = threading.Thread(target=act, daemon=True)
    acting.start()
    time.sleep(rng.random() * within_s)  # the instant is what is random here
    cluster.kill(controller)
    acting.join(200)
    assert not acting.is_alive()
    return controller


def on_disk(cluster: Cluster, node: int) -> dict[str, str]:
    """Folders of a broker's log directory that hold a partition or did: name -> topic id as its file tells.

    What was set aside, as its topic was deleted while the broker was away, is the operator's: ``-stray``.
    """
    found = {}
    for path in (Path(cluster.node(node).folder) / "data").iterdir():
        if not path.is_dir() or path.name.startswith("__") or path.name.endswith("-stray"):
            continue
        try:
            text = (path / "partition.metadata").read_text()
        except FileNotFoundError:  # it is being deleted
            text = "topic_id: ?"
        found[path.name] = text.partition("topic_id: ")[2].strip()
    return found


def wait_without_strays(cluster: Cluster) -> None:
    """Until folders and assigned replicas are the same on every broker: names and topic ids (C9)."""

    def assigned(node: int) -> dict[str, str]:
        return {
            f"{name}-{number}": uuid_text(topic.topic_id)
            for name, topic in cluster.client().topics().items()
            if not name.startswith("__")
            for number, partition in topic.partitions.items()
            if node in partition.replicas
        }

    def as_assigned(node: int) -> bool:
        return on_disk(cluster, node) == assigned(node)

    for node in cluster.alive():
        try:
            cluster.wait_until(partial(as_assigned, node), f"broker {node}", 120)
        except ClusterError:
            found, wanted = on_disk(cluster, node).items(), assigned(node).items()
            strays, missing = sorted(found - wanted), sorted(wanted - found)
            raise AssertionError(f"broker {node}: strays {strays[:10]}, missing {missing[:10]}") from None


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_topics_are_created_wholly_or_not_at_all_when_the_controller_dies(cluster: Cluster, seed: int) -> None:
    names = [f"created-{n}" for n in range(60)]
    acknowledged: list[str] = []

    def act() -> None:
        with sync.Cluster(cluster.bootstrap_servers) as own:
            for name in names:
                wish = NewTopic(name=name, partitions=5, replication_factor=3)
                outcome = own.run(create_topics(own.client, [wish]))[name]
                while outcome.code == Code.REQUEST_TIMED_OUT:
                    outcome = own.run(create_topics(own.client, [wish]))[name]
                if outcome.code == Code.NONE:
                    acknowledged.append(name)
                else:  # done by the controller that died before it could say so
                    assert outcome.code == Code.TOPIC_ALREADY_EXISTS, outcome

    dead = kill_controller_while(cluster, act, random.Random(seed), 0.8)
    cluster.restart(dead)
    cluster.wait_until_in_sync()

    def all_there() -> bool:
        topics = cluster.client().topics(names)
        return set(topics) == set(names) and all(len(topic.partitions) == 5 for topic in topics.values())

    cluster.wait_until(all_there, "each is there, and whole")
    assert len(acknowledged) >= len(names) - 5, "one for the kill; a slow machine may change controllers more often"
    wait_without_strays(cluster)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_deleted_topics_stay_deleted_when_the_controller_dies(cluster: Cluster, seed: int) -> None:
    names = [f"deleted-{n}" for n in range(40)]
    assert all(one.code == Code.NONE for one in create(cluster, names).values())
    cluster.wait_until_in_sync()
    before = {name: topic.topic_id for name, topic in cluster.client().topics(names).items()}

    def act() -> None:
        with sync.Cluster(cluster.bootstrap_servers) as own:
            for name in names:
                outcome = own.run(delete_topics(own.client, [name]))[name]
                while outcome.code == Code.REQUEST_TIMED_OUT:
                    outcome = own.run(delete_topics(own.client, [name]))[name]
                assert outcome.code in (Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION), outcome

    dead = kill_controller_while(cluster, act, random.Random(seed), 0.6)
    cluster.wait_until(lambda: not set(cluster.client().topics()) & set(names), "they are gone")
    assert all(one.code == Code.NONE for one in create(cluster, names[:5]).values()), "the names are free again"
    cluster.restart(dead)
    cluster.wait_until_in_sync()
    cluster.wait_until(lambda: set(cluster.client().topics(names)) == set(names[:5]), "the five are there")
    again = cluster.client().topics(names)
    assert all(again[name].topic_id != before[name] for name in again)
    fill(cluster, names[0], 3)
    wait_without_strays(cluster)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_move_ends_the_same_when_the_controller_dies(tmp_path: Path, seed: int) -> None:
    config = {"log.segment.delete.delay.ms": "500", "replica.fetch.max.bytes": "1000"}
    with Cluster(4, data=tmp_path / "cluster", config=config) as cluster:
        create(cluster, ["moved"], partitions=12, factor=2)
        cluster.wait_until_in_sync()
        fill(cluster, "moved", 12, 200)
        replicas = cluster.client().topics(["moved"])["moved"].partitions
        targets = {
            TopicPartition("moved", n): [b % 4 + 1 for b in replicas[n].replicas]
            + [(replicas[n].replicas[0] + 1) % 4 + 1]
            for n in range(12)
        }
        targets = {p: list(dict.fromkeys(wish)) for p, wish in targets.items()}

        def act() -> dict[TopicPartition, Code]:
            with sync.Cluster(cluster.bootstrap_servers) as own:
                while True:
                    try:
                        outcome, each = own.run(reassign(own.client, targets))
                    except Unreachable:
                        continue
                    if outcome.code == Code.NONE:
                        return {p: one.code for p, one in each.items()}

        dead = kill_controller_while(cluster, act, random.Random(seed), 0.5)
        cluster.restart(dead)
        # Where the next controller was asked first, the dead one could get no replica (RA-2).
        cluster.wait_until(lambda: set(act().values()) == {Code.NONE}, "all moves are taken")

        def done() -> bool:
            outcome, moving = run(cluster, reassignments(cluster.client().client))
            shown = cluster.client().topics(["moved"])["moved"].partitions
            return (
                outcome.code == Code.NONE
                and not moving
                and all(list(shown[p.partition].replicas) == wish for p, wish in targets.items())
            )

        cluster.wait_until(done, "the moves ended")
        cluster.wait_until_in_sync()
        wait_without_strays(cluster)
        ends = cluster.client().offsets(dict.fromkeys(targets, -1))
        assert {end.offset for end in ends.values()} == {200}


@pytest.mark.timeout(300)
def test_a_broker_that_was_away_sets_aside_what_was_deleted_and_takes_the_new_topic(cluster: Cluster) -> None:
    create(cluster, ["kept", "gone", "again"])
    cluster.wait_until_in_sync()
    for name in ("kept", "gone", "again"):
        fill(cluster, name, 3)
    away = next(id for id in cluster.alive() if id != cluster.controller())
    cluster.kill(away)
    assert all(one.code == Code.NONE for one in delete(cluster, ["gone", "again"]).values())
    old = on_disk(cluster, away)["again-0"]
    cluster.wait_until(lambda: len(cluster.client().brokers()) == 2, "the broker is known to be gone")
    create(cluster, ["again"], factor=2)
    fill(cluster, "again", 3, 7)
    targets = {TopicPartition("again", n): [1, 2, 3] for n in range(3)}
    outcome, each = run(cluster, reassign(cluster.client().client, targets))
    assert outcome.code == Code.NONE
    assert {one.code for one in each.values()} == {Code.INVALID_REPLICA_ASSIGNMENT}, "it is away"
    assert "gone-0" in on_disk(cluster, away)

    cluster.restart(away)
    cluster.wait_until_in_sync()
    _, each = run(cluster, reassign(cluster.client().client, targets))
    assert {one.code for one in each.values()} == {Code.NONE}
    cluster.wait_until(lambda: not run(cluster, reassignments(cluster.client().client))[1], "the moves ended")
    cluster.wait_until_in_sync()

    wait_without_strays(cluster)
    assert on_disk(cluster, away)["again-0"] != old
    ends = cluster.client().offsets({TopicPartition("again", n): -1 for n in range(3)})
    assert {end.offset for end in ends.values()} == {7}
    kept = cluster.client().offsets({TopicPartition("kept", n): -1 for n in range(3)})
    assert {end.offset for end in kept.values()} == {20}


@pytest.mark.timeout(300)
def test_a_deletion_goes_on_after_the_brokers_themselves_are_killed(cluster: Cluster) -> None:
    create(cluster, ["short", "other"])  # a broker that finds no topic at all in the metadata leaves its logs alone
    cluster.wait_until_in_sync()
    fill(cluster, "short", 3)
    assert delete(cluster, ["short"])["short"].code == Code.NONE
    for id in list(cluster.alive()):
        cluster.kill(id)
    cluster.start()
    cluster.wait_until(lambda: "short" not in cluster.client().topics(), "it is gone")
    wait_without_strays(cluster)
