"""franz-go's ports of Apache Kafka's own integration tests (pkg/kfake/kafka_tests), which are written for its fake.

Go is told to see one file of ours (kfake.go.txt) in place of the fake's: there a cluster is one of ours.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.suites import go
from tests.suites.known import KFAKE, limit_s
from tests.suites.suite import Outcome
from tests.suites.systems import System, demand_all

SHIM = Path(__file__).parent / "kfake.go.txt"
CONFIG = {
    "group.min.session.timeout.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
    "default.replication.factor": "3",
}
OWN: Mapping[str, Mapping[str, str]] = {"TestGroupMaxSizeClassic": {"group.max.size": "1"}}
"""What a test asks of its brokers that others could not bear."""


class Kfake:
    """The suite."""

    name = "kfake"
    known = KFAKE

    def absent(self, sources: Path) -> str | None:
        """Why it cannot be run here, if it cannot."""
        folder = sources / "franz-go" / "pkg" / "kfake" / "kafka_tests"
        return None if folder.is_dir() else f"there is no {folder}"

    def run(self, sources: Path, only: str, system: System) -> Iterator[Outcome]:
        """Run its tests; those that ask for other settings against a cluster of their own."""
        package = (sources / "franz-go" / "pkg" / "kfake").resolve()
        with tempfile.TemporaryDirectory(prefix="moldau-suite-") as folder:
            overlay = {str(path): "" for path in package.glob("*.go")} | {str(package / "kfake.go"): str(SHIM)}
            (Path(folder) / "overlay.json").write_text(json.dumps({"Replace": overlay}))
            tests = package / "kafka_tests"
            program = go.build(tests, Path(folder), overlay=Path(folder) / "overlay.json")
            names = go.list_tests(program, tests, only)
            for config in ({}, *OWN.values()):
                those = [name for name in names if OWN.get(name, {}) == config]
                with system.open(3, {**CONFIG, **config}) as cluster:
                    for test in those:
                        environment = {"KGO_SEEDS": cluster.bootstrap_servers}
                        yield go.run(program, tests, test, environment, limit_s(self.known, test, system.name))
                        demand_all(cluster)
