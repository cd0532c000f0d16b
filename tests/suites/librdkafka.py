"""librdkafka's own integration tests: its ``tests/test-runner``, built by whoever gives the sources.

Tests of one number are one run, as its runner picks them so. Those that need no broker are left out.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.suites.known import KNOWN_LIMIT_S, LIBRDKAFKA, reason
from tests.suites.suite import Outcome
from tests.suites.systems import Brokers, System

_TEST = re.compile(r"^    _TEST\((\w+),\s*([^)]*)", re.M)
_COLOURS = re.compile(r"\x1b\S*?m|\x1b\(B")
SCENARIOS: Mapping[str, Mapping[str, str]] = {"default": {}, "noautocreate": {"auto.create.topics.enable": "false"}}
CONFIG = {"num.partitions": "4", "default.replication.factor": "3"}
VERSION = "4.0.0"
LIMIT_S = 900
"""0113 takes eight minutes on two cores."""


class Librdkafka:
    """The suite."""

    name = "librdkafka"
    known = LIBRDKAFKA

    def absent(self, sources: Path) -> str | None:
        """Why it cannot be run here, if it cannot."""
        runner = sources / "librdkafka" / "tests" / "test-runner"
        if not runner.is_file():
            return f"there is no {runner}: ./configure && make libs && make -C tests build"
        return None

    def run(self, sources: Path, only: str, system: System) -> Iterator[Outcome]:
        """Run its tests against a cluster for each of its scenarios."""
        folder = (sources / "librdkafka" / "tests").resolve()
        for scenario, config in SCENARIOS.items():
            wanted = [number for number, names in _numbers(folder).items() if re.search(only, " ".join(names))]
            with _kafka_path() as path, system.open(3, {**CONFIG, **config}) as cluster:
                for number in wanted:
                    limit = KNOWN_LIMIT_S if reason(self.known, number, system.name) else LIMIT_S
                    yield from _run(folder, cluster, {"KAFKA_PATH": path, "SCENARIO": scenario}, number, limit)


def _numbers(folder: Path) -> dict[str, list[str]]:
    """The tests that need a broker, by number."""
    found: dict[str, list[str]] = {}
    for name, flags in _TEST.findall((folder / "test.c").read_text(encoding="utf-8")):
        if "TEST_F_LOCAL" not in flags and "TEST_F_MANUAL" not in flags and not name.endswith("_mock"):
            found.setdefault(name.partition("_")[0], []).append(name)
    return found


@contextmanager
def _kafka_path() -> Iterator[str]:
    """A folder with Kafka's scripts in ``bin``, as the tests look for them: ours."""
    with tempfile.TemporaryDirectory(prefix="moldau-suite-") as folder:
        command = [sys.executable, "-m", "moldau", "install-scripts", f"{folder}/bin"]
        subprocess.run(command, check=True, capture_output=True)
        yield folder


def _run(
    folder: Path, cluster: Brokers, environment: Mapping[str, str], number: str, limit: float
) -> Iterator[Outcome]:
    """What became of the tests of a number in a scenario; those of another scenario are not told of."""
    with tempfile.TemporaryDirectory(prefix="moldau-suite-") as name:
        conf, report = Path(name) / "test.conf", Path(name) / "report.json"
        conf.write_text(f"bootstrap.servers={cluster.bootstrap_servers}\ntest.topic.random=true\n")
        surroundings = {
            **os.environ,
            **environment,
            "BROKERS": cluster.bootstrap_servers,
            "TESTS": number,
            "RDKAFKA_TEST_CONF": str(conf),
            "TEST_KAFKA_VERSION": VERSION,
            "TEST_REPORT": str(report),
            "LD_LIBRARY_PATH": f"{folder.parent / 'src'}:{folder.parent / 'src-cpp'}",
        }
        began = time.monotonic()
        try:
            done = subprocess.run(
                [str(folder / "test-runner"), "-p1", "-L", "-K", "-s", environment["SCENARIO"]],
                cwd=folder, env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit,
                check=False,
            )  # fmt: skip
            output = done.stdout.decode(errors="replace")
        except subprocess.TimeoutExpired as late:
            output = (late.stdout or b"").decode(errors="replace")
        yield from read(number, output, report, time.monotonic() - began)


def read(number: str, output: str, report: Path, seconds: float) -> Iterator[Outcome]:
    """The outcomes that a report tells of; a run that ended without one has failed."""
    text = _COLOURS.sub("", output)
    try:
        tests = json.loads(report.read_text(encoding="utf-8"))["tests"]
    except (OSError, ValueError, KeyError):
        yield Outcome(number, "failed", (number,), seconds, text)
        return
    for name, told in tests.items():
        if not name.startswith(f"{number}_") or told["state"] in ("SKIPPED", "DNS"):
            continue
        passed = told["state"] == "PASSED"
        yield Outcome(name, "passed" if passed else "failed", () if passed else (name,), told["duration"], text)
