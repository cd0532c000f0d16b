"""Brokers stop before controllers, so that each has somebody to give it leave; who did not end well is named."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.cluster.nodes import NodeSpec
from moldau.cluster.stopping import Ending, stop_nodes

NODE = """
import pathlib, signal, sys, time

folder, words = pathlib.Path(sys.argv[1]), int(sys.argv[2])
heard = []
signal.signal(signal.SIGTERM, lambda *_: heard.append(1))
(folder / f"ready-{sys.argv[3]}").touch()
while len(heard) < words:
    time.sleep(0.005)
with open(folder / "order", "a") as order:
    order.write(sys.argv[3] + "\\n")
"""
PATIENCE_S = 30.0


class Nodes:
    """Processes that end after so many words to stop, in the place of nodes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.specs: list[NodeSpec] = []
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.endings: dict[int, Ending] = {}

    def start(self, id: int, roles: str, words: int = 1) -> NodeSpec:
        spec = NodeSpec(id, roles, str(self.folder / f"node-{id}"))
        command = [sys.executable, "-c", NODE, str(self.folder), str(words), str(id)]
        self.processes[id] = process = subprocess.Popen(command)
        spec.pid = process.pid
        self.specs.append(spec)
        while not (self.folder / f"ready-{id}").exists():
            assert process.poll() is None
        return spec

    def stop(self, timeout_s: float = PATIENCE_S) -> list[int]:
        """Stop all; the order in which they ended by themselves."""
        stop_nodes(self.specs, self.processes, timeout_s, self.endings.__setitem__)
        return [int(line) for line in (self.folder / "order").read_text().split()]


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    made = Nodes(tmp_path)
    yield made
    for process in made.processes.values():
        process.kill()
        process.wait()


def test_brokers_have_gone_before_controllers_are_told(nodes: Nodes) -> None:
    for id in (101, 102, 103):
        nodes.start(id, "controller")
    for id in (1, 2, 3):
        nodes.start(id, "broker")
    order = nodes.stop()
    assert sorted(order[:3]) == [1, 2, 3]
    assert sorted(order[3:]) == [101, 102, 103]
    assert set(nodes.endings.values()) == {Ending.CLEAN}


def test_whoever_waits_for_leave_that_nobody_can_give_any_more_is_told_to_hurry(nodes: Nodes) -> None:
    nodes.start(1, "broker,controller", words=2)  # as a broker that asks voters for leave who have gone
    nodes.start(2, "broker,controller")
    nodes.start(3, "broker,controller")
    assert nodes.stop()[-1] == 1
    assert set(nodes.endings.values()) == {Ending.CLEAN}


def test_on_zookeeper_nobody_waits_for_others_that_go_too(nodes: Nodes) -> None:
    nodes.start(1, "broker", words=2)  # as a broker that asks a controller for leave, and no other may lead
    nodes.start(2, "broker", words=2)
    nodes.stop()
    assert nodes.endings == {1: Ending.CLEAN, 2: Ending.CLEAN}


def test_whoever_is_paused_stops_too(nodes: Nodes) -> None:
    spec = nodes.start(1, "broker")
    nodes.processes[1].send_signal(19)
    nodes.stop()
    assert nodes.endings == {1: Ending.CLEAN}
    assert spec.pid is None


def test_who_does_not_end_is_killed_and_named(nodes: Nodes) -> None:
    nodes.start(1, "broker", words=1_000_000)
    (nodes.folder / "order").touch()
    nodes.stop(0.2)
    assert nodes.endings == {1: Ending.KILLED}


def test_a_broker_that_left_no_marker_beside_its_logs_ended_uncleanly(nodes: Nodes) -> None:
    spec = nodes.start(1, "broker")
    logs = Path(spec.folder) / "data"
    (logs / "orders-0").mkdir(parents=True)
    (logs / "meta.properties").touch()
    (logs / "orders-0" / "00000000000000000000.log").touch()
    spec.properties.write_text(f"log.dirs={logs}\n")
    nodes.stop()
    assert nodes.endings == {1: Ending.UNCLEAN}
