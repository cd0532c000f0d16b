"""Go suites that want nothing but a cluster: franz-go's kgo, and kafka-go."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.suites import go
from tests.suites.known import KAFKA_GO, KGO, Known, limit_s
from tests.suites.suite import Outcome, taken
from tests.suites.systems import System, demand_all


class GoSuite(NamedTuple):
    """One suite, and the cluster that it wants."""

    name: str
    folder: str
    package: str
    known: tuple[Known, ...]
    brokers: int
    port: int
    """The port that its tests name, 0 when they take any."""
    config: Mapping[str, str]
    environment: Mapping[str, str]
    kafka: Mapping[str, str] = {}
    """What its tests want besides of features that are not here yet: Apache Kafka alone is told."""

    def absent(self, sources: Path) -> str | None:
        """Why it cannot be run here, if it cannot."""
        if not (sources / self.folder / self.package).is_dir():
            return f"there is no {sources / self.folder / self.package}"
        if self.port and taken([self.port]):
            return f"its tests name port {self.port}, and somebody listens there"
        return None

    def run(self, sources: Path, only: str, system: System) -> Iterator[Outcome]:
        """Run its tests, all against one cluster."""
        package = (sources / self.folder / self.package).resolve()
        with tempfile.TemporaryDirectory(prefix="moldau-suite-") as folder:
            program = go.build(package, Path(folder))
            config = {**self.config, **(self.kafka if system.name == "kafka" else {})}
            with system.open(self.brokers, config, port=self.port) as cluster:
                environment = {**self.environment, "KGO_SEEDS": cluster.bootstrap_servers}
                for test in go.list_tests(program, package, only):
                    yield go.run(program, package, test, environment, limit_s(self.known, test, system.name))
                    demand_all(cluster)


FRANZ_GO = GoSuite(
    "kgo", "franz-go", "pkg/kgo", KGO, 3, 0,
    {"default.replication.factor": "3"},
    {"KGO_TEST_RF": "3", "KGO_TEST_RECORDS": "20000"},
)  # fmt: skip
SEGMENTIO = GoSuite(
    "kafka-go", "kafka-go", ".", KAFKA_GO, 1, 9092,
    {"advertised.listeners": "PLAINTEXT://localhost:9092"},
    {"KAFKA_VERSION": "3.7.0"},
    {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "super.users": "User:ANONYMOUS",
    },
)  # fmt: skip
COMPRESS, TOPICS = (SEGMENTIO._replace(name=f"kafka-go-{part}", package=part) for part in ("compress", "topics"))
"""Those of its packages besides that ask a broker."""
