"""What many partitions cost: ``python -m bench.scale [--machines 1000,..] [--simulated ..] [--processes ..]``.

In machines alone (one process, no network, no disk: the controller's decisions, the records' bytes, two nodes' images)
and on three simulated brokers (whole nodes, virtual time) there are a hundred thousand partitions; in real processes,
three combined nodes on this machine, ten thousand. For each size: how long it takes, for each partition, how large the
largest step of a loop was, and how much memory there is. Machines and simulated brokers are timed in processor time, so
that a busy machine counts little. Writes bench/results/scale-DATE.json and its own table in docs/performance.md. Read
next: bench/simulated.py, bench/timed_node.py (steps), bench/controller.py (against Apache Kafka)."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from bench.controller import REPLICAS, Sizes, Stand, wait
from bench.report import DOCS, machine_line
from bench.run import machine
from bench.simulated import simulated
from bench.systems import MoldauPeer, resident_bytes
from moldau.broker.kraft.batches import decided, proposal
from moldau.controller.active import ActiveController
from moldau.controller.facts import Facts, Settings
from moldau.controller.requests import BrokerHeartbeat, BrokerRefused, CreateTopics, NewTopic, RegisterBroker
from moldau.image import Delta, Image
from moldau.model import Code
from moldau.runtime.memory import collect_seldom

HERE = Path(__file__).parent
BEGIN, END = "<!-- scale:begin -->", "<!-- scale:end -->"
PLACES = ("machines", "simulated", "processes")
IN_A_TOPIC = 1_000
CLUSTER_ID = "a-cluster-of-the-bench"


class Row(NamedTuple):
    """One action at one size. ``largest_step_ms`` is that of one turn of one node's loop, ``step`` what it was."""

    where: str
    action: str
    partitions: int
    seconds: float
    largest_step_ms: float
    memory_mib: float
    step: str = ""

    @property
    def each_us(self) -> float:
        return self.seconds / self.partitions * 1e6


# ---- machines alone


class Rooms:
    """A controller and the images of two more nodes. Every part of a decision is one step, and so is every batch that a
    node reads, unpacks and applies."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.controller = ActiveController(Settings(cluster_id=CLUSTER_ID))
        self.image, self.other = Image(), Image()
        self.end = 0
        self.epochs: dict[int, int] = {}
        self.steps: list[float] = []
        self.predecessor: ActiveController | None = None
        self.carry(self.controller.claim(1, self.image, self.facts()))
        for id in range(REPLICAS):
            self.join(id)
        self.topics = partitions // IN_A_TOPIC

    def facts(self) -> Facts:
        return Facts(now_ms=1_000, next_offset=self.end, seed=b"bench", observed=dict.fromkeys(range(3), self.end))

    def carry(self, answer: Any) -> None:
        """What the other nodes and this one make of an answer's records when they are committed: a step each."""
        if answer.records:
            data = proposal(answer.records, self.end, 1, 0)
            self.end += len(answer.records)
            began = time.thread_time()
            for batch in decided(data):
                self.other.apply_all(batch.records, batch.offset, Delta())
            then = time.thread_time()
            self.image.apply_all(answer.records, self.end - 1, Delta())
            self.steps += [then - began, time.thread_time() - then]
        self.controller.committed(self.end - 1)

    def submit(self, request: Any) -> Any:
        """The first answer's reply, or the last one's; all parts carried out."""
        reply = None
        while request is not None:
            began = time.thread_time()
            answer = self.controller.decide(request, self.facts())
            if answer.records:
                proposal(answer.records, self.end, 1, 0)
            self.steps.append(time.thread_time() - began)
            self.carry(answer)
            reply, request = reply or answer.reply, answer.then
        return reply

    def join(self, id: int) -> None:
        self.submit(RegisterBroker(broker_id=id, cluster_id=CLUSTER_ID, incarnation_id=bytes([id]) * 16))
        self.epochs[id] = self.image.brokers[id].epoch
        self.beat(id)

    def beat(self, id: int, **wish: Any) -> Any:
        return self.submit(
            BrokerHeartbeat(broker_id=id, broker_epoch=self.epochs[id], metadata_offset=self.end, **wish)
        )

    def create(self) -> None:
        for number in range(self.topics):
            topic = NewTopic(name=f"many-{number:03}", partitions=IN_A_TOPIC, replication_factor=REPLICAS)
            self.submit(CreateTopics(topics=(topic,)))

    def death(self) -> None:
        self.submit(BrokerRefused(broker_id=2, broker_epoch=self.epochs[2]))
        assert self.image.brokers[2].fenced
        assert not self.image.index.led.get(2)

    def shutdown(self) -> None:
        while not self.image.brokers[1].fenced:
            self.beat(1, want_shut_down=True)

    def failover(self) -> None:
        """On another node: what the predecessor had is given back over there."""
        successor = ActiveController(Settings(cluster_id=CLUSTER_ID))
        began = time.thread_time()
        successor.claim(2, self.other, self.facts())
        self.steps.append(time.thread_time() - began)
        self.predecessor, self.controller = self.controller, successor

    def measure(self) -> Iterator[Row]:
        actions: dict[str, Callable[[], None]] = {
            "create, 1,000 partitions a topic": self.create,
            "a broker dies": self.death,
            "controlled shutdown": self.shutdown,
            "another controller becomes active": self.failover,
        }
        empty = resident_bytes([os.getpid()])
        for action, act in actions.items():
            self.steps.clear()
            began = time.thread_time()
            act()
            took = time.thread_time() - began
            memory = (resident_bytes([os.getpid()]) - empty) / 2**20
            yield Row("machines", action, self.partitions, took, max(self.steps) * 1000, memory)


def machines(partitions: int) -> list[Row]:
    """Measure in this process, which does nothing else."""
    collect_seldom()  # as a node does
    return list(Rooms(partitions).measure())


# ---- on simulated brokers


def on_simulated_brokers(partitions: int) -> Iterator[Row]:
    """In a process of its own, which ends with it; each row as soon as there is one."""
    here, there = Pipe(duplex=False)
    alone = get_context("spawn").Process(target=_simulate, args=(partitions, there))
    alone.start()
    there.close()
    try:
        while True:
            action = here.recv()
            yield Row("simulated", action.action, partitions, *action[1:])
    except EOFError:
        alone.join()
    if alone.exitcode:
        raise RuntimeError(f"the simulation of {partitions} partitions failed: {alone.exitcode}")


def _simulate(partitions: int, there: Connection) -> None:
    simulated(partitions, IN_A_TOPIC, there.send)


# ---- in processes


class WatchedPeer(MoldauPeer):
    """Nodes whose loops note their long steps."""

    def node_command(self, node_id: int) -> list[str]:
        return [sys.executable, "-m", "bench.timed_node", str(self.steps_file(node_id)), str(self.config_file(node_id))]

    def steps_file(self, node_id: int) -> Path:
        return self.folder / f"steps-{node_id}"

    def largest_step(self, since_s: float, nodes: list[int]) -> tuple[float, str]:
        """Its processor time in ms, which a busy machine stretches less than the time on the clock; its name."""
        lines = [line for node in nodes for line in self.steps_file(node).read_text().splitlines()]
        steps = [json.loads(line) for line in lines]
        return max(((step["used_ms"], step["what"]) for step in steps if step["at_s"] >= since_s), default=(0.0, ""))


class Processes:
    """Three nodes; the actions of the controller's bench, and what they cost those that live on."""

    def __init__(self, peer: WatchedPeer, partitions: int) -> None:
        self.peer = peer
        self.sizes = Sizes(partitions // 100, 100, 1)
        self.stand = Stand(peer, self.sizes)

    def measure(self) -> Iterator[Row]:
        yield self._row("create, 100 partitions a topic", time.monotonic(), self._create(), list(self.peer.pids))
        for action, act in (
            ("a broker dies: all led again", self._death),
            ("controlled shutdown", self._shutdown),
            ("the controller dies: a topic is created", self._failover),
        ):
            since = time.monotonic()
            dead, took = act()
            row = self._row(action, since, took, self.stand.survivors(dead))
            self.stand.come_back(dead)
            yield row

    def _row(self, action: str, since: float, took: float, nodes: list[int]) -> Row:
        memory = resident_bytes(self.peer.pids.values()) / len(self.peer.pids) / 2**20
        step_ms, step = self.peer.largest_step(since, nodes)
        return Row("processes", action, self.sizes.total, took, step_ms, memory, step)

    def _create(self) -> float:
        return next(iter(self.stand.create())).value

    def _death(self) -> tuple[int, float]:
        controller = self.peer.active_controller()
        dead = next(node for node in self.peer.pids if node != controller)
        self.peer.kill(dead)
        self.stand.eyes.forget(dead)
        return dead, sum(self.stand.wait_led(node, dead) for node in self.stand.survivors(dead))

    def _shutdown(self) -> tuple[int, float]:
        node = next(iter(self.peer.pids))
        began = time.monotonic()
        self.peer.stop_node(node, timeout_s=300)
        self.stand.eyes.forget(node)
        return node, time.monotonic() - began

    def _failover(self) -> tuple[int, float]:
        dead = self.peer.active_controller()
        survivor = self.stand.survivors(dead)[0]
        fine = (Code.NONE, Code.TOPIC_ALREADY_EXISTS)
        self.peer.kill(dead)
        self.stand.eyes.forget(dead)
        return dead, wait(lambda: self.stand.eyes.create(survivor, "after", 1, 1) in fine, "a topic is created")


# ---- what is shown


def table(rows: list[Row]) -> str:
    lines = [
        "| where | what | partitions | s | us a partition | largest step, ms | memory, MiB |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {row.where} | {row.action} | {row.partitions:,} | {row.seconds:.3g} | {row.each_us:.3g} |"
        f" {row.largest_step_ms:.3g} | {row.memory_mib:.3g} |"
        for row in sorted(rows, key=lambda row: (PLACES.index(row.where), row.action))
    ]
    return "\n".join(lines)


def write_docs(result: dict[str, Any], rows: list[Row]) -> None:
    """Rewrite what stands between the markers of docs/performance.md."""
    page = DOCS / "performance.md"
    before, found, rest = page.read_text().partition(BEGIN)
    assert found, f"{page} has no {BEGIN}"
    line = f"{machine_line(result).partition('; client and nodes')[0]}."
    page.write_text(before + "\n".join([BEGIN, line, "", table(rows), END]) + rest.partition(END)[2])


def measured(in_machines: list[int], in_simulation: list[int], in_processes: list[int]) -> Iterator[Row]:
    """Each row as soon as there is one."""
    for partitions in in_machines:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
            yield from alone.submit(machines, partitions).result()
    for partitions in in_simulation:
        yield from on_simulated_brokers(partitions)
    for partitions in in_processes:
        with WatchedPeer(nodes=3) as peer:
            processes = Processes(peer, partitions)
            yield from processes.measure()
            processes.stand.eyes.close()


def sizes(text: str) -> list[int]:
    return [int(one) for one in text.split(",") if one]


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what many partitions cost.")
    parser.add_argument("--machines", type=sizes, default=[1_000, 10_000, 100_000], help="thousands, comma separated")
    parser.add_argument("--simulated", type=sizes, default=[1_000, 10_000, 100_000], help="thousands, comma separated")
    parser.add_argument("--processes", type=sizes, default=[1_000, 10_000], help="hundreds, comma separated")
    parser.add_argument(
        "--no-docs", action="store_true", help="leave docs/performance.md and bench/results as they are"
    )
    wish = parser.parse_args()
    rows: list[Row] = []
    for row in measured(wish.machines, wish.simulated, wish.processes):
        rows.append(row)
        print(f"{row.where} {row.partitions:,} {row.action}: {row.seconds:.3g} s; {row.step}", flush=True)
    print(table(rows))
    if not wish.no_docs:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        result: dict[str, Any] = {"when": now, "sizes": {"repeats": 1}, "machine": machine()}
        kept = HERE / "results" / f"scale-{now[:10]}.json"
        kept.write_text(json.dumps({**result, "rows": [row._asdict() for row in rows]}, indent=1) + "\n")
        write_docs(result, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
