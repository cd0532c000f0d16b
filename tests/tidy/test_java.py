"""Without Java, live tests that need it are skipped with the reason, and one that does not say that it does finds none:
what would fail on a machine without Java fails on every machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.no_java import SAYS, hidden
from tests.tools import NEEDS, ROOT, needs, needs_java

from moldau.cluster.ensemble import java as java_of_zookeeper
from moldau.spark.local import NoJava, find_java

SPARK = "tests/live/test_spark_source.py"


@pytest.fixture
def no_java(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine without Java."""
    with hidden(tmp_path):
        return dict(os.environ)


def test_tests_with_spark_are_skipped_with_the_reason_where_there_is_no_java(no_java: dict[str, str]) -> None:
    words = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", SPARK]
    done = subprocess.run(words, cwd=ROOT, env=no_java, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout
    assert "no Java 17 runtime: apt-get install" in done.stdout
    assert re.search(r"^\d+ skipped in ", done.stdout, re.M), done.stdout


def test_what_a_live_test_needs_is_told_by_its_file_its_fixtures_and_its_plane() -> None:
    assert needs("tests/live/test_spark_steps.py::test_one") == ("java",)
    assert needs("tests/live/test_new.py::test_one", ["fresh", "spark"]) == ("java",)
    assert needs("tests/live/test_new.py::test_one", ["both", "java"]) == ("kafka", "javac")
    assert needs("tests/live/test_new.py::test_one[3-zookeeper]") == ("zookeeper",)
    assert needs("tests/live/test_new.py::test_one[zookeeper-8000]") == ("zookeeper",)
    assert needs("tests/live/test_new.py::test_zookeeper_is_named[quorum]") == ()
    assert needs("tests/packages/test_new.py::test_one[zookeeper]", ["spark"]) == ()
    assert not needs_java("tests/live/test_foreign_kcat.py::test_one")


def test_files_that_are_said_to_need_something_are_there() -> None:
    assert [one for one in NEEDS if not (ROOT / one.partition("::")[0]).exists()] == []


def test_java_is_hidden_from_whoever_looks_for_it_and_is_there_again(tmp_path: Path) -> None:
    before = os.environ.get("JAVA_HOME"), os.environ["PATH"]
    with hidden(tmp_path):
        with pytest.raises(NoJava):
            find_java()
        for program in (java_of_zookeeper(), "java"):
            done = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
            assert (done.returncode, done.stderr) == (1, f"{SAYS}\n")
    assert before == (os.environ.get("JAVA_HOME"), os.environ["PATH"])
