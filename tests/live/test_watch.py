"""Every command with ``--watch``: on a terminal, into a pipe, ended by Ctrl-C, and while its cluster is away."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack

import click
import pytest
from kafka_peer import wait_until
from tests.packages.admin.test_command_kinds import COMMANDS, words
from watches import Watching

from moldau import Cluster
from moldau.client import admin, sync
from moldau.model import TopicPartition

WATCHED = [name for name, command in COMMANDS.items() if "--watch" in words(command)]
GROUP, TOPIC = "readers", "orders"
PIPELINE = """\
pipeline: watched
cluster: {bootstrap}
source: {{topics: orders}}
decode: {{format: raw}}
sinks:
  - {{topic: copy, cluster: "{bootstrap}", key: _key, value: value}}
"""
MORE: dict[str, tuple[list[str], bytes]] = {
    "topic list": ([], b"orders"),
    "topic describe": ([], b"orders"),
    "group list": ([], b"readers"),
    "group describe": ([GROUP], b"readers"),
    "reassign status": (["--plan", "{plan}"], b"1 moving"),
    "reassign list": ([], b"orders"),
    "leader imbalance": ([], b"ASTRAY"),
    "broker list": ([], b"OUT-OF-SYNC"),
    "quorum status": ([], b"leader"),
    "doctor": ([], b"warnings: "),
    "pipeline status": (["{pipeline}"], b"watched: "),
    "pipeline lag": (["{pipeline}"], b"orders"),
}
"""What each is given, and what stands in all that it shows."""
MANY = 8
"""More often than that in one look."""
CLEARED = b"\x1b[H\x1b[2J"
pytestmark = pytest.mark.timeout(900)

OF_FILES = {"pipeline status"}
"""What looks at no cluster."""


class Watched:
    """A cluster with a topic, a group, and a move that does not end: the broker that it waits for is dead."""

    def __init__(self, cluster: Cluster, folder: str) -> None:
        self.cluster = cluster
        self.plan, self.pipeline = f"{folder}/plan.json", f"{folder}/pipeline.yaml"

    def words(self, name: str) -> list[str]:
        more = [one.format(plan=self.plan, pipeline=self.pipeline) for one in MORE[name][0]]
        servers = [] if name.startswith("pipeline") else ["-b", self.cluster.bootstrap_servers]
        return [*name.split(), *more, *servers]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = str(tmp_path_factory.mktemp("watched"))
    with Cluster(2, controllers=1) as cluster:
        found = Watched(cluster, folder)
        with sync.Cluster(cluster.bootstrap_servers) as client:
            new = admin.NewTopic(name=TOPIC, assignment={0: [1], 1: [1]})
            assert client.run(admin.create_topics(client.client, [new]))[TOPIC].ok
            client.commit(GROUP, {TopicPartition(TOPIC, 0): 0})
        place = TopicPartition(TOPIC, 0)
        with sync.Cluster(f"127.0.0.1:{cluster.node(1).port}") as client:  # over which all is asked: 2 will not answer
            client.topics()
            cluster.pause(2)
            assert client.run(admin.reassign(client.client, {place: [1, 2]}))[1][place].ok
        cluster.kill(2)
        with open(found.plan, "w") as plan:
            json.dump({"version": 1, "partitions": [{"topic": TOPIC, "partition": 0, "replicas": [1, 2]}]}, plan)
        with open(found.pipeline, "w") as pipeline:
            pipeline.write(PIPELINE.format(bootstrap=cluster.bootstrap_servers))
        yield found


def test_every_command_that_watches_is_tried() -> None:
    assert set(WATCHED) == set(MORE), "say in MORE what a new command is given, and what it shows"
    assert all(isinstance(COMMANDS[name], click.Command) for name in WATCHED)


@pytest.mark.parametrize("name", WATCHED)
def test_a_look_is_repeated_on_a_terminal_and_in_a_pipe_until_it_is_interrupted(watched: Watched, name: str) -> None:
    for terminal in (True, False):
        with Watching(*watched.words(name), terminal=terminal) as one:
            one.wait_for(MORE[name][1], times=MANY)
            assert one.interrupted() == 130
        assert (one.shown.count(CLEARED) >= 2, b"Ctrl-C ends" in one.shown) == (terminal, terminal)
        assert b"Traceback" not in one.said + one.shown, one.said.decode()
        assert one.said.endswith(b"interrupted\n")


def test_a_look_goes_on_while_the_cluster_is_away_and_when_it_is_back(watched: Watched) -> None:
    with ExitStack() as stack:
        every = {
            name: stack.enter_context(Watching(*watched.words(name), terminal=number % 2 == 0))
            for number, name in enumerate(WATCHED)
            if name not in OF_FILES
        }
        for name, one in every.items():
            one.wait_for(MORE[name][1])
        watched.cluster.kill(1)
        for name, one in every.items():
            wait_until(lambda one=one: b"moldau: " in one.said, f"{name} says that nobody answers", 300)  # type: ignore[misc]
        before = {name: len(one.shown) for name, one in every.items()}
        watched.cluster.restart(1, timeout_s=240)  # beside all who look meanwhile
        for name, one in every.items():
            one.wait_for(MORE[name][1], before[name])
        for name, one in every.items():
            assert one.interrupted() == 130, name
            assert b"Traceback" not in one.said + one.shown, one.said.decode()
