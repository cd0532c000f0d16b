"""Programs that some tests compare Moldau with or drive it by: which test needs which, and how each is installed.

A test whose program is missing is skipped with the reason; nothing waits for what is not there. A live test that names
none that needs Java finds no Java either (tests/no_java.py), so that none fails for it on a machine without.
`make test` says beforehand what will be left out. Read next: tests/conftest.py (which marks the tests),
scripts/doctor.sh.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
JARS = ROOT / ".jars" / "kafka-4.3.1"
JAVA_PACKAGE = "apt-get install openjdk-17-jre-headless"

STORES = {"iceberg": "iceberg-1.10.0", "hdfs": "hdfs-3.5.0"}
"""Servers whose jars `make test-stores` alone fetches -> their folder."""

NEEDS: dict[str, tuple[str, ...]] = {
    "tests/live/test_admin_commands.py": ("kafka",),
    "tests/live/test_admin_dirs.py": ("kafka",),
    "tests/live/test_admin_tools.py": ("kafka",),
    "tests/live/test_adopt_zookeeper.py": ("kafka", "zookeeper"),
    "tests/live/test_answers.py": ("zookeeper",),
    "tests/live/test_classic_tools.py": ("kafka", "javac"),
    "tests/live/test_classic_values.py": ("kafka", "javac"),
    "tests/live/test_classic_zookeeper.py": ("zookeeper",),
    "tests/live/test_cluster_pipelines.py": ("java",),
    "tests/live/test_demo.py": ("java",),
    "tests/live/test_doctor_zookeeper.py": ("zookeeper",),
    "tests/live/test_dump_log.py": ("kafka",),
    "tests/live/test_dynamic_voters.py": ("kafka",),
    "tests/live/test_foreign_java.py": ("kafka",),
    "tests/live/test_foreign_kcat.py": ("kcat",),
    "tests/live/test_hanging_transactions.py": ("kafka",),
    "tests/live/test_hdfs.py": ("hdfs", "javac"),
    "tests/live/test_iceberg_rest.py": ("iceberg", "javac"),
    "tests/live/test_kills.py::*zookeeper": ("zookeeper",),
    "tests/live/test_migration.py": ("zookeeper",),
    "tests/live/test_mixed_administration.py": ("kafka", "zookeeper"),
    "tests/live/test_mixed_zookeeper.py": ("kafka", "zookeeper"),
    "tests/live/test_moves_elsewhere.py::*[kafka": ("kafka",),
    "tests/live/test_old_java_tools.py": ("kafka", "zookeeper"),
    "tests/live/test_pipeline_all_kills.py": ("java",),
    "tests/live/test_pipeline_errors.py": ("java",),
    "tests/live/test_pipeline_stops.py": ("java",),
    "tests/live/test_pipeline_tutorial.py": ("java",),
    "tests/live/test_plane_zookeeper.py": ("zookeeper",),
    "tests/live/test_quorum_files.py": ("kafka",),
    "tests/live/test_replica_verification.py": ("kafka",),
    "tests/live/test_snippets.py::*tutorial": ("java",),
    "tests/live/test_spark_all_kills.py": ("java",),
    "tests/live/test_spark_anywhere.py": ("java",),
    "tests/live/test_spark_bad_input.py": ("java",),
    "tests/live/test_spark_holes.py": ("java",),
    "tests/live/test_spark_steps.py": ("java",),
    "tests/live/test_state_change_merger.py": ("kafka",),
    "tests/live/test_storage_files.py": ("kafka",),
    "tests/live/test_transaction_jobs.py": ("kafka",),
    "tests/live/test_zookeeper_contract.py::*real_server": ("zookeeper",),
    "tests/live/test_zookeeper_directories.py": ("zookeeper",),
    "tests/live/test_zookeeper_ensemble.py": ("zookeeper",),
    "tests/live/test_zookeeper_lost.py": ("zookeeper",),
    "tests/live/test_zookeeper_wiped.py": ("zookeeper",),
}
"""Test file -> what it cannot do without. ``file::*word`` are the tests of it whose names have the word."""

FIXTURES: dict[str, tuple[str, ...]] = {
    "java": ("kafka", "javac"),
    "live_cluster": {"kafka": ("kafka",), "moldau-zookeeper": ("zookeeper",)}.get(
        os.environ.get("MOLDAU_LIVE_SYSTEM", ""), ()
    ),
    "old_java": ("kafka", "javac"),
    "spark": ("java",),
}
"""Fixture of live tests -> what whoever uses it cannot do without."""
PLANE = re.compile(r"(\[|-)zookeeper(-|\])")
"""In the name of a live test that runs in ZooKeeper mode."""


def by_file(table: Mapping[str, tuple[str, ...]]) -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    """Patterns of ``NEEDS`` with their tools by the file of the pattern: each process asks 13,000 times."""
    found: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for pattern, tools in table.items():
        found.setdefault(pattern.partition("::")[0], []).append((pattern, tools))
    return found


NEEDS_BY_FILE = by_file(NEEDS)


def matches(pattern: str, nodeid: str) -> bool:
    """Whether a test is of ``file``, or one of those of ``file::*word`` whose names have the word."""
    file, _, word = pattern.partition("::*")
    return nodeid.startswith(f"{file}::") and word in nodeid.removeprefix(f"{file}::")


def needs(nodeid: str, fixtures: Iterable[str] = ()) -> tuple[str, ...]:
    """What a test that uses these fixtures cannot do without."""
    patterns = NEEDS_BY_FILE.get(nodeid.partition("::")[0], ())
    found = [tool for pattern, tools in patterns if matches(pattern, nodeid) for tool in tools]
    if nodeid.startswith("tests/live/"):
        found += [tool for one in fixtures for tool in FIXTURES.get(one, ())]
        found += ["zookeeper"] * bool(PLANE.search(nodeid))
    return tuple(dict.fromkeys(found))


def needs_java(nodeid: str, fixtures: Iterable[str] = ()) -> bool:
    """Whether what a test cannot do without runs on Java: all but one program does."""
    return any(tool != "kcat" for tool in needs(nodeid, fixtures))


@cache
def missing(tool: str) -> str | None:
    """Why a tool cannot be used here, and how to get it; None when it can."""
    if tool == "kcat":
        return None if shutil.which("kcat") else "kcat is not installed: apt-get install kcat"
    if java() is None:
        return f"no Java 17 runtime: {JAVA_PACKAGE}"
    if tool == "kafka" and not any(JARS.glob("kafka_2.13-*.jar")):
        return "Apache Kafka's jars are not there: apt-get install maven; make jars"
    if tool in STORES and not (JARS.parent / STORES[tool] / ".complete").exists():
        return f"the jars of {tool}'s server are not there: apt-get install maven; make test-stores"
    if tool == "javac" and shutil.which("javac") is None:
        return "no Java compiler: apt-get install openjdk-17-jdk-headless"
    if tool == "zookeeper" and importlib.util.find_spec("pyspark") is None:
        return "ZooKeeper's jars come with PySpark: pip install pyspark"
    return None


@cache
def java() -> str | None:
    """The path of a Java of version 17 or newer, as it was found first; None when there is none."""
    home = os.environ.get("JAVA_HOME")
    found = (shutil.which("java", path=os.path.join(home, "bin")) if home else None) or shutil.which("java")
    if found is None:
        return None
    said = subprocess.run([found, "-version"], capture_output=True, text=True, check=False).stderr
    version = said.partition('version "')[2].partition(".")[0].partition('"')[0]
    return found if version.isdigit() and int(version) >= 17 else None
