"""What only a controller can do, on a cluster that has none: said in one line, as soon as patience is over."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from test_doctor_without_controller import take_controller

from moldau import Cluster
from moldau.admin.cli import cli

PLAN = {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [2, 1]}]}
BRIEF = "default.api.timeout.ms=2000\n"
"""Of --command-config: what has no --timeout is governed by it."""
CHANGES = {
    "topic create": ["new"],
    "topic create --dry-run": ["new"],
    "topic alter": ["t", "--partitions", "3"],
    "topic delete": ["t", "--yes"],
    "config alter": ["--topic", "t", "--set", "retention.ms=1", "--yes"],
    "leader elect": ["--topic", "t"],
    "reassign apply": ["--plan", "{plan}"],
    "reassign execute": ["--plan", "{plan}"],
    "reassign cancel": ["--yes"],
    "feature upgrade": ["metadata.version", "--yes"],
}


@pytest.fixture(scope="module", params=["quorum", "zookeeper"])
def headless(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two brokers and a topic, and no controller any more."""
    plane = request.param
    data = tmp_path_factory.mktemp(plane)
    with Cluster(2, mode=plane, controllers=1 if plane == "quorum" else "combined", data=data) as cluster:
        cluster.create_topic("t", partitions=2, replication_factor=2)
        take_controller(cluster)
        yield cluster


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(PLAN))
    return path


def run(cluster: Cluster, *words: str) -> Result:
    return CliRunner().invoke(cli, [*words, "-b", cluster.bootstrap_servers])


def one_line(done: Result, shown: str = "") -> str:
    """What was said; ``shown`` at most was shown before."""
    assert (done.exit_code, done.stdout) == (1, shown), done.output
    (line,) = done.stderr.splitlines()
    assert "`moldau doctor` tells what is wrong" in line
    return line


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_says_that_there_is_no_controller(headless: Cluster, tmp_path: Path, plan: Path, name: str) -> None:
    if name == "feature upgrade" and headless.mode == "zookeeper":
        pytest.skip("there are no features to raise")
    (tmp_path / "client.properties").write_text(BRIEF)
    words = [word.format(plan=plan) for word in (*name.split(), *CHANGES[name])]
    done = run(headless, *words, "--command-config", str(tmp_path / "client.properties"))
    line = one_line(done, "metadata.version: 25 -> 30\n" if name == "feature upgrade" else "")
    assert "no controller is active (none answers within 2 s), and nothing can be changed without one" in line
    assert not list(tmp_path.glob("*.journal")), "nothing was begun"


def test_without_a_word_about_time_a_controller_is_waited_for_ten_seconds(headless: Cluster) -> None:
    assert "(none answers within 10 s)" in one_line(run(headless, "topic", "create", "new"))


def test_a_timeout_that_is_given_says_how_long_a_controller_is_waited_for(headless: Cluster, plan: Path) -> None:
    assert "(none answers within 3 s)" in one_line(run(headless, "topic", "create", "new", "--timeout", "3"))
    done = run(headless, "reassign", "apply", "--plan", str(plan), "--timeout", "3")
    assert "(none answers within 3 s)" in one_line(done)


@pytest.mark.parametrize("verb", ["status", "verify"])
def test_whoever_asks_how_far_a_plan_is_hears_that_only_a_controller_knows(
    headless: Cluster, plan: Path, verb: str
) -> None:
    line = one_line(run(headless, "reassign", verb, "--plan", str(plan)))
    assert "no controller is active (none answers within 5 s), which alone knows what moves" in line
