"""Fixtures for everybody's tests: a real cluster, topics of one's own, faults that are undone, a Spark session.

Registered by the package's ``pytest11`` entry point; nothing heavy is imported until a fixture is used. What the
cluster is like is said in the ini file, or by overriding ``moldau_cluster_options``. docs/testing.md shows all of it.
"""

from __future__ import annotations

import itertools
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from moldau.cluster.cluster import Cluster
    from moldau.spark.testing import MemoryCluster

TopicFactory = Callable[..., str]

_numbers = itertools.count()
_STEM_MAX = 60
"""Characters of a test's name that a topic's name keeps; 249 may be in one, and metrics and folders repeat it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the ini keys of the cluster."""
    parser.addini("moldau_brokers", "How many brokers moldau_cluster has.", default="3")
    parser.addini("moldau_controllers", "combined, or a number of controllers alone.", default="combined")
    parser.addini("moldau_mode", "kraft or zookeeper; MOLDAU_MODE goes before it.", default="kraft")
    parser.addini("moldau_config", "KEY=VALUE lines for every node's server.properties.", type="linelist", default=[])


@pytest.fixture(scope="session")
def moldau_cluster_options(pytestconfig: pytest.Config) -> dict[str, Any]:
    """The arguments of ``moldau.Cluster`` for moldau_cluster, from the ini file. Override it for others."""
    controllers = str(pytestconfig.getini("moldau_controllers"))
    pairs = [line.partition("=") for line in pytestconfig.getini("moldau_config")]
    if wrong := [key for key, equals, _ in pairs if not equals]:
        raise pytest.UsageError(f"moldau_config: KEY=VALUE is expected, not {wrong[0]}")
    return {
        "brokers": int(pytestconfig.getini("moldau_brokers")),
        "controllers": int(controllers) if controllers.isdigit() else controllers,
        "mode": os.environ.get("MOLDAU_MODE") or str(pytestconfig.getini("moldau_mode")),
        "config": {key.strip(): value.strip() for key, _, value in pairs},
    }


@pytest.fixture(scope="session")
def moldau_cluster(moldau_cluster_options: dict[str, Any]) -> Iterator[Cluster]:
    """Real brokers over TCP for the whole session (of each pytest-xdist worker), data in a temporary folder.

    Three brokers unless the ini file or ``moldau_cluster_options`` says otherwise.
    """
    from moldau.cluster.cluster import Cluster

    _take_a_share_of_the_ports()
    with Cluster(**moldau_cluster_options) as cluster:
        yield cluster


@pytest.fixture
def moldau_topics(moldau_cluster: Cluster, request: pytest.FixtureRequest) -> TopicFactory:
    """Makes topics: ``moldau_topics(partitions=6, replication_factor=2, config={...})`` is a new topic's name.

    Whatever an earlier test has killed or paused is brought back first.
    """
    if len(moldau_cluster.alive()) < len(moldau_cluster.spec.nodes) or moldau_cluster.paused():
        moldau_cluster.recover()
    brokers = sum(node.is_broker for node in moldau_cluster.spec.nodes)

    def make(
        *, partitions: int = 3, replication_factor: int | None = None, config: Mapping[str, str] | None = None
    ) -> str:
        name = topic_name(request.node.name, next(_numbers))
        copies = min(3, brokers) if replication_factor is None else replication_factor
        moldau_cluster.create_topic(name, partitions=partitions, replication_factor=copies, config=config)
        return name

    return make


@pytest.fixture
def moldau_topic(moldau_topics: TopicFactory, request: pytest.FixtureRequest) -> str:
    """A new topic of three partitions on every broker, three at most.

    Parametrised indirectly, its parameter is what ``moldau_topics`` is called with: {"partitions": 6}.
    """
    return moldau_topics(**getattr(request, "param", {}))


@pytest.fixture
def moldau_faults(moldau_cluster: Cluster) -> Iterator[Cluster]:
    """The cluster, for a test that kills, pauses or stops nodes: after it every node runs and is in sync again."""
    yield moldau_cluster
    moldau_cluster.recover()


@pytest.fixture(scope="session")
def spark_moldau(moldau_cluster: Cluster) -> Iterator[Any]:
    """A local Spark session in which ``format("moldau")`` reads the session's cluster."""
    from moldau.spark import session

    spark = session("moldau-tests", bootstrap_servers=moldau_cluster.bootstrap_servers)
    yield spark
    spark.stop()


@pytest.fixture
def moldau_memory() -> MemoryCluster:
    """A cluster in memory, for tests of pipelines without a broker: topics, records and faults by hand."""
    from moldau.spark.testing import MemoryCluster

    return MemoryCluster()


def topic_name(test: str, number: int) -> str:
    """A topic's name for a test of any name and parameters: what Kafka's names may hold, and no two alike.

    >>> topic_name("test_orders[a b/ü]", 7)
    'test_orders-a-b-7-68926634'
    """
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", test).strip("-")[:_STEM_MAX].rstrip("-")
    return f"{stem or 'topic'}-{number}-{zlib.crc32(test.encode('utf-8', 'surrogatepass')):08x}"


def _take_a_share_of_the_ports() -> None:
    """Have each pytest-xdist worker's cluster take ports of its own: one that is free and not bound yet is free for
    all."""
    from moldau.cluster import nodes

    worker = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if worker.isdigit() and len(nodes.PORTS) > 1_000 * count:
        nodes.PORTS = nodes.PORTS[int(worker) :: count]
