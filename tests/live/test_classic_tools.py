"""Moldau's classic tools say what Apache Kafka 4.3.1's say, to the byte, on the same cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import classic_cases
import pytest
from classic import Both
from tests.golden.java_tools import JavaTools

from moldau.client import admin
from moldau.client.sync import Cluster
from moldau.terms.ids import uuid_text

NOBODY = "127.0.0.1:1"


@pytest.fixture(scope="session")
def java() -> Iterator[JavaTools]:
    """One JVM for all of Kafka's tools."""
    with JavaTools() as tools:
        yield tools


@pytest.fixture
def both(java: JavaTools, bootstrap_servers: str, tmp_path: Path) -> Both:
    """Runs a line with both; knows the cluster and files that lines name."""
    fast, bad = tmp_path / "fast.properties", tmp_path / "bad.properties"
    fast.write_text("default.api.timeout.ms=1500\nrequest.timeout.ms=1000\n")
    bad.write_text("default.api.timeout.ms=x\n")
    names = {"b": bootstrap_servers, "nobody": NOBODY, "fast": str(fast), "bad": str(bad), "dir": str(tmp_path)}
    return Both(java, names)


def lines(text: str) -> list[str]:
    """The cases of a text, one a line."""
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_topics(both: Both, bootstrap_servers: str) -> None:
    with Cluster(bootstrap_servers) as cluster:
        topic = admin.NewTopic(name="standing", partitions=2, replication_factor=3, configs={"segment.ms": "5000"})
        (made,) = cluster.run(admin.create_topics(cluster.client, [topic])).values()
    both.names["id"] = uuid_text(made.topic_id)
    both.run(lines(classic_cases.TOPICS))
    both.check()
