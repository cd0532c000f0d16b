"""Three ZooKeeper servers under three loaded brokers: the ensemble's leader dies, then its majority, and comes back.

Records need no ZooKeeper; decisions do, and wait. Nothing acknowledged may be lost, and no session: registrations and
the controller are the same afterwards. Sessions are long, so that only a mistake ends one, not a machine that is slow.
One cluster for all tests, which run in order and leave it whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kafka_peer import wait_until
from proof import Proof

from moldau import Cluster
from moldau.cluster.ensemble import LocalEnsemble

PARTITIONS = 3
WAIT_S = 120
CONFIG = {
    # As long as these servers grant: who loses its session here lost it by a mistake.
    "zookeeper.session.timeout.ms": "60000",
    "offsets.topic.num.partitions": "1",
}


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEnsemble]:
    with LocalEnsemble(tmp_path_factory.mktemp("ensemble"), servers=3) as ensemble:
        yield ensemble


@pytest.fixture(scope="module")
def cluster(three: LocalEnsemble, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("lost") / "cluster"
    with Cluster(3, mode="zookeeper", zookeeper=f"{three.connect}/far/away", data=folder, config=CONFIG) as running:
        yield running


@pytest.fixture
def topic(cluster: Cluster, fresh: Callable[[str], str]) -> str:
    """A topic of a test's own, on a cluster that is whole."""
    name = fresh("kept")
    cluster.create_topic(name, partitions=PARTITIONS, replication_factor=3, config={"min.insync.replicas": "2"})
    cluster.wait_until_in_sync()
    return name


WHY = (
    "with ZooKeeper is lost",
    "elected controller",
    "the controller role",
    "gives up the controller role",
    "becomes active",
)


def all_kept(cluster: Cluster, controller: int) -> None:
    """No session was lost, and who was controller before is it now; what the nodes said of either, if not."""
    said = [
        f"{node.id}: {line}"
        for node in cluster.spec.nodes
        for line in (node.logs / "server.log").read_text().splitlines()
        if any(words in line for words in WHY)
    ]
    assert not [line for line in said if WHY[0] in line], "\n".join(said)
    assert cluster.controller() == controller, "\n".join(said)


def leading(three: LocalEnsemble) -> int:
    """The ensemble's leader, once there is one."""
    found: list[int] = []

    def there() -> bool:
        leader = three.leader()
        found[:] = [] if leader is None else [leader]
        return leader is not None

    wait_until(there, "the ensemble has a leader", WAIT_S)
    return found[0]


def test_the_ensemble_s_leader_dies_under_load(three: LocalEnsemble, cluster: Cluster, topic: str) -> None:
    controller = cluster.controller()
    with Proof(cluster, topic, PARTITIONS) as load:
        victim = leading(three)
        three.kill(victim)
        load.flows("records need no ZooKeeper")
        cluster.create_topic("decided-by-another", partitions=1, replication_factor=3)
        load.flows("ZooKeeper has another leader")
        three.restart(victim)
        load.flows("it is back")
    all_kept(cluster, controller)


def test_without_a_majority_brokers_serve_and_decisions_wait(
    three: LocalEnsemble, cluster: Cluster, topic: str
) -> None:
    controller = cluster.controller()
    victim = next(id for id in (1, 2, 3) if id != controller)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    with Proof(cluster, topic, PARTITIONS) as load:
        left = leading(three)
        gone = [id for id in (1, 2, 3) if id != left]
        for id in gone:
            three.kill(id)
        load.flows("records need no ZooKeeper")
        admin.create_topics([NewTopic("wished-for", 1, 3)], operation_timeout=WAIT_S, request_timeout=WAIT_S)
        cluster.kill(victim)  # who shall lead in its place cannot be decided yet
        with pytest.raises(TimeoutError):
            load.flows("nobody leads what the victim led", timeout_s=2)
        assert "wished-for" not in cluster.client().topics()
        three.restart(gone[0])  # both of them
        wait_until(lambda: "wished-for" in cluster.client().topics(), "what was asked for meanwhile is done", WAIT_S)
        load.flows("others lead")
        cluster.restart(victim)
        cluster.wait_until_in_sync()
        load.flows("all are back")
    all_kept(cluster, controller)
