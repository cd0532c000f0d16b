"""Fixtures of the live tests: one running cluster for all of them, and names that no other test uses.

The environment variable MOLDAU_LIVE_SYSTEM picks the system under test: `moldau`, `moldau-zookeeper` for its other
control plane, or `kafka` to run the same tests against Apache Kafka, which is how the tests themselves are checked.
The report of a failed test tells what its nodes said. Read next: kafka_peer.py (clusters, Java tools), moldau_peer.py,
foreign.py (the clients), said.py.
"""

from __future__ import annotations

import itertools
import os
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from classic import Both, listening, write_json
from kafka_peer import KafkaPeer
from moldau_peer import MoldauPeer, ZooKeeperPeer
from said import said
from tests import spark_classes, zookeeper_classes
from tests.golden.java_tools import JavaTools
from tests.no_java import hidden
from tests.tools import missing, needs_java

from moldau.client import admin
from moldau.client.sync import Cluster
from moldau.model import TopicPartition
from moldau.spark import local
from moldau.wire.batch import build

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SYSTEMS: dict[str, type[KafkaPeer]] = {"kafka": KafkaPeer, "moldau": MoldauPeer, "moldau-zookeeper": ZooKeeperPeer}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "of_quorum(why): asks what ZooKeeper mode has not; not collected there")
    # JVMs live for seconds here
    os.environ.setdefault("SPARK_SUBMIT_OPTS", spark_classes.options())
    os.environ.setdefault("SERVER_JVMFLAGS", zookeeper_classes.options())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Everything in this folder is live; what only a quorum has is left out in the other mode."""
    here = os.path.dirname(__file__)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.live)
            # What other projects' clients and Spark warn of, in whatever release, is shown and fails nothing.
            item.add_marker(pytest.mark.filterwarnings("default"))
    if os.environ.get("MOLDAU_LIVE_SYSTEM") == "moldau-zookeeper":
        left_out = [item for item in items if item.get_closest_marker("of_quorum")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


STARTED = pytest.StashKey[float]()


@pytest.fixture(scope="session", autouse=True)
def one_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Clusters that make a folder of their own make it where those are that a test gives one: logs are found there."""
    before, tempfile.tempdir = tempfile.tempdir, str(tmp_path_factory.mktemp("clusters"))
    yield
    tempfile.tempdir = before


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[STARTED] = time.time()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool | None, bool | None]:
    """Who does not say that it needs Java finds none."""
    if needs_java(item.nodeid, getattr(item, "fixturenames", ())):
        return (yield)
    with hidden(item.config._tmp_path_factory.getbasetemp() / "no-java"):  # type: ignore[attr-defined]
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to the report of a failed test what its nodes said meanwhile."""
    report = yield
    if report.failed and STARTED in item.stash:
        words = said(item.config._tmp_path_factory.getbasetemp(), item.stash[STARTED])  # type: ignore[attr-defined]
        report.sections.append(("what the nodes said", words or "(nothing)"))
    return report


@pytest.fixture(scope="session")
def live_cluster() -> Iterator[KafkaPeer]:
    """Three nodes on loopback, shared by the whole session: a test leaves them running and uses fresh names."""
    # Nobody leads otherwise but because a test says so, or kills: not because a machine is slow.
    quiet = {"auto.leader.rebalance.enable": "false", "broker.session.timeout.ms": 20_000}
    system = os.environ.get("MOLDAU_LIVE_SYSTEM", "moldau")
    if (why := {"kafka": missing("kafka"), "moldau-zookeeper": missing("zookeeper")}.get(system)) is not None:
        pytest.skip(why)
    with SYSTEMS[system](nodes=3, properties=quiet) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def bootstrap_servers(live_cluster: KafkaPeer) -> str:
    """host:port, comma separated, of the shared cluster."""
    return live_cluster.bootstrap_servers


_turns = itertools.count(1)


@pytest.fixture
def fresh(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Makes names for topics and groups: fresh("orders") is used by no other test of the session."""
    turn = next(_turns)
    return lambda stem: f"{stem}-{turn}"


@pytest.fixture(scope="session")
def java() -> Iterator[JavaTools]:
    """One JVM for all of Kafka's tools."""
    with JavaTools() as tools:
        yield tools


@pytest.fixture
def both(java: JavaTools, bootstrap_servers: str, tmp_path: Path) -> Both:
    """Runs a line with both; knows the cluster and files that lines name."""
    texts = {
        "fast": "default.api.timeout.ms=1500\nrequest.timeout.ms=1000\n",
        "slow": "default.api.timeout.ms=60000\n",
        "bad": "default.api.timeout.ms=x\n",
        "shorter": "default.api.timeout.ms=1000\nrequest.timeout.ms=5000\n",
        "escape": "client.id=\\u00g9\n",
        "reporter": "metric.reporters=example.Reporter\n",
    }
    files = {"json": str(tmp_path)}
    for name, text in texts.items():
        (tmp_path / f"{name}.properties").write_text(text)
        files[name] = str(tmp_path / f"{name}.properties")
    write_json(tmp_path)
    return Both(java, {"b": bootstrap_servers, "nobody": "127.0.0.1:1", **files})


@pytest.fixture(scope="session")
def filled(bootstrap_servers: str) -> str:
    """A topic of three partitions with ten records each, a millisecond apart, which are of 2023 and are to stay."""
    with Cluster(bootstrap_servers) as cluster:
        configs = {"retention.ms": "-1"}
        topic = admin.NewTopic(name="filled", partitions=3, replication_factor=2, configs=configs)
        cluster.run(admin.create_topics(cluster.client, [topic]))
        for number in range(3):
            records = [(1_700_000_000_000 + n, b"k%d" % n, b"value %d" % n, ()) for n in range(10)]
            cluster.produce(TopicPartition("filled", number), build(records))
    return "filled"


@pytest.fixture(scope="module")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session for the tests of a module; there is one JVM for all of them."""
    name = request.module.__name__.rpartition(".")[2].removeprefix("test_")
    folder = str(tmp_path_factory.mktemp("spark"))
    found = local.session(name, folder=folder, conf={"spark.sql.shuffle.partitions": "1"})
    yield found
    found.stop()


@pytest.fixture
def silent(both: Both) -> Iterator[None]:
    """An address that lines may name, of somebody who takes connections and says nothing."""
    with listening(b"") as address:
        both.names["silent"] = address
        yield
