"""Run other projects' client suites against clusters of ours, and say of each test what became of it.

    python -m tests.suites /path/to/sources [--only kgo] [--test TestGroup]

The path holds checkouts named as their projects are: ``franz-go``, ``kafka-go``. What is not there is skipped, and
it is said why. Exit code 1 when something fails that ``known.py`` does not name.
"""

from __future__ import annotations

import argparse
import socket
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from moldau.cluster import Cluster
from tests.suites import go
from tests.suites.known import KAFKA_GO, KGO, Known, reason

LIMIT_S = 180
KNOWN_LIMIT_S = 20
"""For tests of what is not there: some wait for ever for what will not come."""
SHOWN_LINES = 12


class Suite(NamedTuple):
    """One suite, and the cluster that it wants."""

    name: str
    folder: str
    package: str
    known: tuple[Known, ...]
    brokers: int
    port: int
    config: Mapping[str, str]
    environment: Mapping[str, str]


SUITES = (
    Suite(
        "kgo", "franz-go", "pkg/kgo", KGO, 3, 0,
        {"default.replication.factor": "3"},
        {"KGO_TEST_RF": "3", "KGO_TEST_RECORDS": "20000"},
    ),
    Suite(
        "kafka-go", "kafka-go", ".", KAFKA_GO, 1, 9092,
        {"advertised.listeners": "PLAINTEXT://localhost:9092"},
        {"KAFKA_VERSION": "3.7.0"},
    ),
)  # fmt: skip


class Tally:
    """What was counted, over all suites."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = dict.fromkeys(("passed", "skipped", "known", "unexpected"), 0)

    def add(self, suite: Suite, outcome: go.Outcome) -> None:
        verdict, why = outcome.verdict, ""
        if verdict == "failed":
            reasons = [reason(suite.known, name) or reason(suite.known, outcome.test) for name in outcome.failed]
            verdict = "known" if all(reasons) else "unexpected"
            why = "; ".join(dict.fromkeys(one for one in reasons if one)) if verdict == "known" else ""
            strangers = [name for name, one in zip(outcome.failed, reasons, strict=True) if one is None]
            why = why or "NOT KNOWN: " + ", ".join(strangers)
        elif verdict == "passed" and reason(suite.known, outcome.test):
            why = "passes, though it is named as known"
        self.counts[verdict] += 1
        print(f"{suite.name:10} {outcome.test:55} {verdict:10} {outcome.seconds:6.1f} s  {why}", flush=True)
        if verdict == "unexpected":
            for line in outcome.output.splitlines()[-SHOWN_LINES:]:
                print(f"    | {line[:200]}")


def skipped(suite: Suite, sources: Path) -> str | None:
    """Why a suite cannot be run here, if it cannot."""
    if not (sources / suite.folder / suite.package).is_dir():
        return f"there is no {sources / suite.folder / suite.package}"
    if suite.port:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", suite.port))
            except OSError:
                return f"its tests name port {suite.port}, and somebody listens there"
    return None


def play(suite: Suite, sources: Path, only: str, tally: Tally) -> None:
    """Build a suite and run it against a fresh cluster."""
    package = (sources / suite.folder / suite.package).resolve()
    with tempfile.TemporaryDirectory(prefix="moldau-suite-") as folder:
        program = go.build(package, Path(folder))
        with Cluster(brokers=suite.brokers, port=suite.port, config=suite.config) as cluster:
            environment = {**suite.environment, "KGO_SEEDS": cluster.bootstrap_servers}
            for test in go.tests(program, package, only):
                limit_s = KNOWN_LIMIT_S if reason(suite.known, test) else LIMIT_S
                tally.add(suite, go.run(program, package, test, environment, limit_s))


def main() -> int:
    """Play what is there."""
    parser = argparse.ArgumentParser(prog="python -m tests.suites", description=__doc__)
    parser.add_argument("sources", help="the folder with the projects' checkouts", nargs="?", default="")
    parser.add_argument("--only", help="one suite: " + ", ".join(suite.name for suite in SUITES))
    parser.add_argument("--test", default="Test", help="tests whose names match this expression")
    asked = parser.parse_args()
    if not asked.sources:
        print("suites: skipped: say where the sources are: make suites SUITES=/path/to/sources")
        return 0
    tally, broken = Tally(), 0
    for suite in SUITES:
        if asked.only not in (None, suite.name):
            continue
        why = skipped(suite, Path(asked.sources))
        if why is not None:
            print(f"{suite.name:10} skipped: {why}", flush=True)
            continue
        try:
            play(suite, Path(asked.sources), asked.test, tally)
        except go.CannotBuild as error:
            broken += 1
            print(f"{suite.name:10} cannot be built: {error}", flush=True)
    print("suites: " + ", ".join(f"{count} {what}" for what, count in tally.counts.items()), flush=True)
    return 1 if tally.counts["unexpected"] or broken else 0


if __name__ == "__main__":
    sys.exit(main())
