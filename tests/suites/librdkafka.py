"""librdkafka's own integration tests: its ``tests/test-runner``, built by whoever gives the sources.

Tests of one number are one run, as its runner picks them so; of those in ``PARTS`` each part is a run. Those that need
no broker are left out.
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
from tests.suites.systems import Brokers, System, demand_all
from tests.tools import JARS, missing

_TEST = re.compile(r"^    _TEST\((\w+),(.*?)(?=^(?:    _TEST|    \{|\};|#)|\Z)", re.M | re.S)
_SCENARIO = re.compile(r'\.scenario = "(.*)"')
_FUNCTION = re.compile(r"^(?:static void )?(do_test_\w+)\(", re.M)
_PART = re.compile(r"^\s+SUB_TEST(?:_QUICK)?\(", re.M)
_SKIPPED = re.compile(r"^\| *(\w+) *\| *SKIPPED \| *[\d.]+s *\| *(\S.*)$", re.M)
_COLOURS = re.compile(r"\x1b\S*?m|\x1b\(B")
SCENARIOS: Mapping[str, Mapping[str, str]] = {"default": {}, "noautocreate": {"auto.create.topics.enable": "false"}}
CONFIG = {
    "num.partitions": "4",
    "default.replication.factor": "3",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}
RACKS = "RACK"
KAFKA = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
}
"""As its own clusters are set up (tests/cluster_testing.py, and the trivup that comes with it)."""
VERSION = "4.0.0"
LIMIT_S = 900
"""0113 takes eight minutes on two cores."""
PARTS: Mapping[str, tuple[str, ...]] = {"0061": ("with transactions", "without transactions"), "0081": (), "0137": ()}
"""Numbers whose parts are played one by one, as what one of them asks for is not there and the others would not be
played after it; by words of their names, or by the functions that begin them.
"""
RUN_CLASS = f"""#!/bin/sh
exec java -cp "{JARS}/*:$CLASSPATH" "$@"
"""


class Librdkafka:
    """The suite."""

    name = "librdkafka"
    known = LIBRDKAFKA

    def absent(self, sources: Path) -> str | None:
        """Why it cannot be run here, if it cannot."""
        runner = sources / "librdkafka" / "tests" / "test-runner"
        if not runner.is_file():
            return f"there is no {runner}: ./configure && make libs && make -C tests build (four want rapidjson-dev)"
        why = missing("kafka") or missing("javac")
        return why and f"its 0113 has a Java client in its group: {why}"

    def run(self, sources: Path, only: str, system: System) -> Iterator[Outcome]:
        """Run its tests against a cluster for each of its scenarios."""
        folder = (sources / "librdkafka" / "tests").resolve()
        for scenario, config in SCENARIOS.items():
            wanted = list(_runs(folder, scenario, only))
            if not wanted:
                continue
            config = {**CONFIG, **config, **(KAFKA if system.name == "kafka" else {})}
            with _kafka_path() as path, system.open(3, config, racks=RACKS) as cluster:
                environment = {"KAFKA_PATH": path, "SCENARIO": scenario}
                for number, part in wanted:
                    whole = f"{number}/{part}" if part else number
                    limit = KNOWN_LIMIT_S if reason(self.known, whole, system.name) else LIMIT_S
                    yield from _run(folder, cluster, environment, number, part, limit)
                    demand_all(cluster)


def _runs(folder: Path, scenario: str, only: str) -> Iterator[tuple[str, str]]:
    """The numbers, and their parts, that have to be run for the tests of a scenario whose names match ``only``."""
    for number, names in numbers((folder / "test.c").read_text(encoding="utf-8"), scenario).items():
        for part in _parts(folder, number):
            if any(re.search(only, f"{name}/{part}" if part else name) for name in names):
                yield number, part


def numbers(text: str, scenario: str) -> dict[str, list[str]]:
    """The tests of a scenario that need a broker, by number, as the text of ``test.c`` lists them."""
    found: dict[str, list[str]] = {}
    for name, options in _TEST.findall(text):
        of = _SCENARIO.search(options)
        local = "TEST_F_LOCAL" in options or "TEST_F_MANUAL" in options or name.endswith("_mock")
        if not local and scenario in (of[1] if of else "default").split(","):
            found.setdefault(name.partition("_")[0], []).append(name)
    return found


def _parts(folder: Path, number: str) -> list[str]:
    """The parts of a number that are played one by one; of most one, which is all of it and has no name."""
    if number not in PARTS or PARTS[number]:
        return list(PARTS.get(number, ("",)))
    text = next(folder.glob(f"{number}-*.c*")).read_text(encoding="utf-8")
    functions = [(found.start(), found[1]) for found in _FUNCTION.finditer(text)]
    begun = [max(one for one in functions if one[0] < part.start())[1] for part in _PART.finditer(text)]
    return list(dict.fromkeys(begun))


@contextmanager
def _kafka_path() -> Iterator[str]:
    """A folder with Kafka's scripts in ``bin``, as the tests look for them: ours; and Kafka's jars for Java clients."""
    with tempfile.TemporaryDirectory(prefix="moldau-suite-") as name:
        folder = Path(name)
        command = [sys.executable, "-m", "moldau", "install-scripts", str(folder / "bin")]
        subprocess.run(command, check=True, capture_output=True)
        (folder / "libs").symlink_to(JARS)
        (folder / "bin" / "kafka-run-class.sh").unlink(missing_ok=True)
        (folder / "bin" / "kafka-run-class.sh").write_text(RUN_CLASS, encoding="utf-8")
        (folder / "bin" / "kafka-run-class.sh").chmod(0o755)
        yield name


def _run(
    folder: Path, cluster: Brokers, environment: Mapping[str, str], number: str, part: str, limit: float
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
            **({"SUBTESTS": f"{part}:" if part.startswith("do_test_") else f" {part}"} if part else {}),
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
            output = (late.stdout or b"").decode(errors="replace") + f"\nended after {limit:g} s\n"
        yield from read(number, output, report, time.monotonic() - began, part)


def read(number: str, output: str, report: Path, seconds: float, part: str = "") -> Iterator[Outcome]:
    """The outcomes that a report tells of, all of one part if that was asked for; without a report a run has failed.

    Tests that need no broker, or another scenario, were not asked for: they are not told of.
    """
    text, tail = _COLOURS.sub("", output), f"/{part}" if part else ""
    try:
        tests = json.loads(report.read_text(encoding="utf-8"))["tests"]
    except (OSError, ValueError, KeyError):
        yield Outcome(number + tail, "failed", (number + tail,), seconds, text)
        return
    skipped = {name: why for name, why in _SKIPPED.findall(text) if not why.startswith("Filtered due to")}
    for name, told in tests.items():
        if not name.startswith(f"{number}_") or told["state"] == "DNS":
            continue
        if told["state"] != "SKIPPED":
            passed, whole = told["state"] == "PASSED", name + tail
            yield Outcome(whole, "passed" if passed else "failed", () if passed else (whole,), told["duration"], text)
        elif name in skipped:
            yield Outcome(name + tail, "skipped", (), told["duration"], text, skipped[name])
