"""What the way from ZooKeeper to the quorum costs with many partitions: ``python -m bench.migration [--partitions N]``.

Three brokers, replication factor 3, three controllers, real processes and a real ZooKeeper on this machine. For each
step of docs/migration.md: how long it took, how large the largest step of a broker's and a controller's loop was (its
processor time, see bench/timed_node.py), and how much memory each has at its end. What lasts from the
takeover until ZooKeeper is level is read off the controller's own log. Prints a table; writes nothing.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench.systems import resident_bytes
from moldau.client.admin import NewTopic, create_topics
from moldau.cluster import Cluster
from moldau.cluster import cluster as room
from moldau.cluster.migration.steps import Migration
from moldau.cluster.migration_drill.drill import TAKES_OVER
from moldau.cluster.nodes import NodeSpec, is_alive, launch

IN_A_TOPIC = 100
PATIENCE_S = 600.0
STARTING = "Node.start"
"""A step in which a node opens its logs, and nobody is served yet."""
LEVEL = "ZooKeeper is up to date"
STAMP = re.compile(r"^\[([0-9: ,-]+)\]")
SETTINGS = {
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": "1",
    "replica.lag.time.max.ms": "120000",
    "controller.quorum.election.timeout.ms": "5000",
    "controller.quorum.fetch.timeout.ms": "10000",
}


class Cost(NamedTuple):
    """The largest step, what it was, and the memory of a node in MiB; nothing of either where there is no such node."""

    largest_step_ms: float
    step: str
    memory_mib: float

    def __str__(self) -> str:
        return f"{self.largest_step_ms:.0f} | {self.memory_mib:.0f}" if self.memory_mib else " | "


class Row(NamedTuple):
    """One step of the way, and what it cost brokers and controllers."""

    action: str
    seconds: float
    brokers: Cost
    controllers: Cost


def steps_file(spec: NodeSpec) -> Path:
    return spec.logs / "steps.jsonl"


def launch_watched(spec: NodeSpec) -> subprocess.Popen[bytes]:
    """As ``launch`` does, with a loop that notes its long steps."""
    return launch(spec, (sys.executable, "-m", "bench.timed_node", str(steps_file(spec))))


class Way:
    """One migration of one cluster."""

    def __init__(self, cluster: Cluster, partitions: int) -> None:
        self.cluster = cluster
        self.partitions = partitions
        self.migration = Migration(cluster, lambda text: None)

    def measure(self) -> Iterator[Row]:
        yield self._row("made, on ZooKeeper", self._make)
        yield self._row("controllers start", self.migration.start_controllers)
        *most, last = self.migration.brokers
        for broker in most:
            yield self._row(f"broker {broker.id} takes part", partial(self.migration.take_part, broker))
        yield self._row("the last takes part, until both are level", partial(self._take_over, last))
        for broker in self.migration.brokers:
            yield self._row(f"broker {broker.id} crosses", partial(self._cross, broker))
        yield self._row("finalised", self.migration.finalise)

    def _row(self, action: str, act: Callable[[], object]) -> Row:
        began = time.monotonic()
        act()
        took = time.monotonic() - began
        brokers, controllers = (
            self._cost(nodes, began) for nodes in (self.migration.brokers, self.migration.controllers)
        )
        return Row(action, took, brokers, controllers)

    def _cost(self, nodes: list[NodeSpec], since_s: float) -> Cost:
        steps = [
            (line["used_ms"], f"{line['what']} of {node.id}")
            for node in nodes
            if steps_file(node).exists()
            for line in map(json.loads, steps_file(node).read_text().splitlines())
            if line["at_s"] >= since_s and STARTING not in line["what"]
        ]
        largest_ms, what = max(steps, default=(0.0, ""))
        pids = [node.pid for node in nodes if node.pid is not None and is_alive(node.pid)]
        return Cost(largest_ms, what, resident_bytes(pids) / len(pids) / 2**20 if pids else 0.0)

    def _make(self) -> None:
        client = self.cluster.client()
        for n in range(self.partitions // IN_A_TOPIC):
            wish = NewTopic(name=f"many-{n}", partitions=IN_A_TOPIC, replication_factor=3)
            outcome = client.run(create_topics(client.client, [wish]))[wish.name]
            assert outcome.code == 0, outcome
        self.cluster.wait_until_in_sync(PATIENCE_S)

    def _take_over(self, last: NodeSpec) -> None:
        self.migration.take_part(last)
        self.migration.wait_until_both(PATIENCE_S)

    def _cross(self, broker: NodeSpec) -> None:
        self.migration.cross(broker)
        self.cluster.wait_until_in_sync(PATIENCE_S)

    def takeover_s(self) -> float:
        """From when the quorum takes over until ZooKeeper is level, by the log of the controller that did."""
        for node in self.migration.controllers:
            lines = (node.logs / "server.log").read_text(errors="replace").splitlines()
            began, ended = (next((_at(one) for one in lines if text in one), None) for text in (TAKES_OVER, LEVEL))
            if began is not None and ended is not None:
                return (ended - began).total_seconds()
        raise AssertionError("no controller's log tells of a takeover")


def _at(line: str) -> datetime.datetime:
    found = STAMP.match(line)
    assert found is not None, line
    return datetime.datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S,%f")


def table(rows: list[Row]) -> str:
    lines = [
        "| | s | a broker's largest step, ms | its MiB | a controller's largest step, ms | its MiB |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    lines += [f"| {row.action} | {row.seconds:.3g} | {row.brokers} | {row.controllers} |" for row in rows]
    return "\n".join(lines)


def main() -> int:
    ask = argparse.ArgumentParser(description="Measure the way from ZooKeeper to the quorum.")
    ask.add_argument("--partitions", type=int, default=10_000, help="a multiple of a hundred")
    wish = ask.parse_args()
    setattr(room, "launch", launch_watched)  # noqa: B010  # the steps of its nodes are what is measured
    rows = []
    with Cluster(3, mode="zookeeper", config=SETTINGS) as cluster:
        way = Way(cluster, wish.partitions)
        for row in way.measure():
            rows.append(row)
            print(f"{row.action}: {row.seconds:.3g} s, {row.brokers.step}, {row.controllers.step}", flush=True)
        print(f"takeover, by the controller's log: {way.takeover_s():.2f} s")
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
