"""Fixtures for everybody's tests: names of topics for tests of any name, and clusters that are whole for each test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from moldau.cluster.pytest_plugin import topic_name

KAFKA = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")
TESTS = """
import pytest


@pytest.mark.parametrize("value", ["a b", "a/b", "\\u00fc", "http://x:1", "x" * 300, ""])
def test_any_parameter(moldau_cluster, moldau_topic, value):
    assert moldau_cluster.leader(moldau_topic, 2) in (1, 2)


def test_that_forgets_whom_it_killed(moldau_cluster):
    moldau_cluster.kill(1)
    moldau_cluster.pause(2)


def test_that_is_given_a_whole_cluster_all_the_same(moldau_cluster, moldau_topics):
    topic = moldau_topics(partitions=2, replication_factor=2, config={"retention.ms": "1000"})
    assert moldau_cluster.alive() == [1, 2, 101] and not moldau_cluster.paused()
    assert topic.startswith("test_that_is_given_a_whole_cluster")


def test_that_says_that_it_kills(moldau_faults):
    moldau_faults.kill(2)


def test_after_it(moldau_cluster):
    assert moldau_cluster.alive() == [1, 2, 101]
    moldau_cluster.wait_until_in_sync(1)


def test_errors_are_words(moldau_cluster):
    with pytest.raises(KeyError, match="there is no node 9: this cluster has 1, 2, 101"):
        moldau_cluster.kill(9)
    with pytest.raises(LookupError, match="there is no topic nope; there are: test_any"):
        moldau_cluster.leader("nope", 0)
    moldau_cluster.kill(2)
    with pytest.raises(Exception, match=r"node 2 does not run, .*restart\\(2\\) first"):
        moldau_cluster.wait_until_in_sync()
"""


@given(st.text(max_size=400), st.integers(0, 10**6))
@example("", 0)
@example("test_\ud800", 1)
def test_every_test_has_a_topic_that_kafka_takes(test: str, number: int) -> None:
    name = topic_name(test, number)
    assert KAFKA.match(name)
    assert topic_name(test, number + 1) != name


def test_a_cluster_is_whole_again_for_the_next_test(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmoldau_brokers = 2\nmoldau_controllers = 1\n")
    environment = {key: text for key, text in os.environ.items() if not key.startswith(("PYTEST_", "MOLDAU_"))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    done = subprocess.run(
        command, cwd=tmp_path, env={**environment, "TMPDIR": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "11 passed" in done.stdout
    assert not list(tmp_path.glob("moldau-*"))
