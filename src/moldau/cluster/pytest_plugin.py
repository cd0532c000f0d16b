"""Fixtures for everybody's tests: a real cluster, a topic of one's own, a Spark session wired to it.

Registered by the package's ``pytest11`` entry point; nothing heavy is imported until a fixture is used.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from moldau.cluster.cluster import Cluster

_numbers = itertools.count()


@pytest.fixture(scope="session")
def moldau_cluster() -> Iterator[Cluster]:
    """Three real brokers over TCP for the whole session, data in a temporary folder.

    The environment variable MOLDAU_PLANE picks the control plane: quorum (the default) or zookeeper.
    """
    from moldau.cluster.cluster import QUORUM, Cluster

    with Cluster(brokers=3, plane=os.environ.get("MOLDAU_PLANE", QUORUM)) as cluster:
        yield cluster


@pytest.fixture
def moldau_topic(moldau_cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """A fresh topic: 3 partitions, replication factor 3."""
    name = f"{request.node.name[:40].replace('[', '-').replace(']', '')}-{next(_numbers)}"
    moldau_cluster.create_topic(name, partitions=3, replication_factor=3)
    return name


@pytest.fixture(scope="session")
def spark_moldau(moldau_cluster: Cluster) -> Iterator[Any]:
    """A local Spark session in which ``format("moldau")`` reads the session's cluster."""
    from moldau.spark import session

    spark = session("moldau-tests", bootstrap_servers=moldau_cluster.bootstrap_servers)
    yield spark
    spark.stop()
