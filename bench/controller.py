"""The controller's bench: Moldau and Apache Kafka with many partitions, and how long what an operator sees takes.

    python -m bench.controller [--quick] [--systems moldau,kafka] [--no-docs]

On one cluster of three nodes each: create 100 topics of 100 partitions (RF 3); kill -9 the active controller and wait
for another one to create a topic; kill -9 a broker that leads a third of all and wait until Metadata shows a leader for
every partition; restart the nodes one by one. Asks both systems alike, over the plain connections of ``moldau.client``.
Keeps every number in bench/results/controller-DATE.json and rewrites its own table in docs/performance.md; a quick run
proves that the bench works and goes to bench/build.
Read next: bench/systems.py (on what), bench/report.py (how it is shown).
"""

from __future__ import annotations

import argparse
import datetime
import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench.report import DOCS, machine_line, table
from bench.run import machine
from bench.systems import SYSTEMS, TITLES, KafkaPeer, resident_bytes
from moldau.client.lines import ConnectionOptions, UnsupportedApi, shake_hands
from moldau.client.sockets import SocketLine, drive
from moldau.model import Code
from moldau.wire.codec import Malformed
from moldau.wire.messages.k03_metadata import MetadataRequest
from moldau.wire.messages.k19_create_topics import CreateTopicsRequest
from moldau.wire.messages.k43_elect_leaders import ElectLeadersRequest
from moldau.wire.schema import Request, ResponseT

HERE = Path(__file__).parent
BEGIN, END = "<!-- controller:begin -->", "<!-- controller:end -->"
PATIENCE_S = 600.0
LINE = ConnectionOptions(client_id="bench", request_timeout_ms=60_000, connect_timeout_ms=1_000)
PAUSE_S = 0.02
REPLICAS = 3


class Sizes(NamedTuple):
    """How much: a full run, or a quick one that only proves that the bench works."""

    topics: int = 100
    partitions: int = 100
    repeats: int = 3

    @property
    def total(self) -> int:
        return self.topics * self.partitions


FULL, QUICK = Sizes(), Sizes(10, 10, 1)


class Row(NamedTuple):
    """One measured number. `better` is "higher" or "lower"."""

    what: str
    unit: str
    better: str
    value: float


class Shown(NamedTuple):
    """All partitions of the bench as one broker's Metadata shows them: (leader, in sync with all replicas)."""

    leaders: list[int]
    in_sync: int


class Eyes:
    """Asks single nodes over plain connections, once; None for no answer."""

    def __init__(self, peer: KafkaPeer) -> None:
        self._peer = peer
        self._lines: dict[int, SocketLine] = {}

    def ask(self, node: int, message: Request[ResponseT]) -> ResponseT | None:
        try:
            line = self._lines.get(node)
            if line is None or line.closed:
                line = self._lines[node] = SocketLine("127.0.0.1", self._peer.ports[node][0], LINE)
                line.versions = drive(shake_hands(line, LINE, line.peer))
            return drive(_answer(line, message))
        except (OSError, Malformed, UnsupportedApi):
            self.forget(node)
            return None

    def forget(self, node: int) -> None:
        """The node went: ask over a new connection when it is back."""
        line = self._lines.pop(node, None)
        if line is not None:
            line.close()

    def look(self, node: int, topic: str | None = None) -> Shown | None:
        """At all topics of the bench, or at one."""
        asked = None if topic is None else [MetadataRequest.MetadataRequestTopic(name=topic)]
        answer = self.ask(node, MetadataRequest(topics=asked, allow_auto_topic_creation=False))
        if answer is None:
            return None
        many = [one for one in answer.topics if (one.name or "").startswith("many-")]
        parts = [part for one in many for part in one.partitions]
        in_sync = sum(len(part.isr_nodes) == len(part.replica_nodes) for part in parts)
        return Shown([part.leader_id for part in parts], in_sync)

    def create(self, node: int, name: str, partitions: int, replicas: int) -> Code | None:
        """Ask for one topic."""
        wish = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)
        answer = self.ask(node, CreateTopicsRequest(topics=[wish], timeout_ms=30_000))
        return None if answer is None else Code(answer.topics[0].error_code)

    def close(self) -> None:
        for node in list(self._lines):
            self.forget(node)


async def _answer(line: SocketLine, message: Request[ResponseT]) -> ResponseT:
    return await line.ask(message)


def wait(condition: Callable[[], bool], what: str) -> float:
    """Ask again and again; the seconds that it took. TimeoutError names what did not come about."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > PATIENCE_S:
            raise TimeoutError(f"not within {PATIENCE_S:g} s: {what}")
        time.sleep(PAUSE_S)
    return time.monotonic() - began


class Stand:
    """One system with its cluster and eyes."""

    def __init__(self, peer: KafkaPeer, sizes: Sizes) -> None:
        self.peer = peer
        self.sizes = sizes
        self.eyes = Eyes(peer)
        self.turns = 0

    def wait_led(self, node: int, without: int | None = None) -> float:
        """Until a node shows a leader for every partition, another than ``without``; the seconds that it took."""

        def led(shown: Shown) -> bool:
            return all(leader >= 0 and leader != without for leader in shown.leaders)

        return self._wait_for_each(node, led, "led")

    def wait_in_sync(self) -> None:
        """Until every node shows all replicas of every partition in sync."""
        for node in self.peer.pids:
            self._wait_for_each(node, lambda shown: shown.in_sync == len(shown.leaders), "in sync")

    def _wait_for_each(self, node: int, fine: Callable[[Shown], bool], what: str) -> float:
        """Look at one topic after the other, and at all together once each was fine; the seconds that it took.

        Whoever asks for all partitions fifty times a second keeps two cores busy that the brokers need.
        """

        def is_fine(name: str | None, partitions: int) -> bool:
            shown = self.eyes.look(node, name)
            return shown is not None and len(shown.leaders) >= partitions and fine(shown)

        took = 0.0
        for number in range(self.sizes.topics):
            name = f"many-{number:03}"
            took += wait(partial(is_fine, name, self.sizes.partitions), f"{name} is {what}, as node {node} sees it")
        return took + wait(partial(is_fine, None, self.sizes.total), f"all is {what}, as node {node} sees it")

    def survivors(self, dead: int) -> list[int]:
        return [node for node in self.peer.pids if node != dead]

    def come_back(self, node: int) -> None:
        """Start a killed node again and wait until everything is as before, leaders too."""
        self.peer.restart(node, wait=False)
        self.wait_in_sync()

    # ---- what is measured

    def create(self) -> Iterator[Row]:
        """One request a topic, one after the other, then the last leader in the last broker's Metadata."""
        began = time.monotonic()
        first = min(self.peer.pids)
        for number in range(self.sizes.topics):
            code = self.eyes.create(first, f"many-{number:03}", self.sizes.partitions, REPLICAS)
            if code is not Code.NONE:
                raise RuntimeError(f"topic {number} was not created: {code}")
        answered = time.monotonic() - began
        for node in self.peer.pids:
            self.wait_led(node)
        label = f"create {self.sizes.total:,} partitions ({self.sizes.topics} topics, RF {REPLICAS})"
        yield Row(f"{label}: until every broker shows every leader", "s", "lower", time.monotonic() - began)
        yield Row(f"{label}: a request, on average", "ms", "lower", answered / self.sizes.topics * 1000)
        self.wait_in_sync()
        memory = resident_bytes(self.peer.pids.values()) / len(self.peer.pids) / 2**20
        yield Row(f"with {self.sizes.total:,} partitions: resident memory of a node", "MiB", "lower", memory)

    def controller_failover(self) -> Iterator[Row]:
        """kill -9 of the active controller, until a survivor answers that it created a topic."""
        for _ in range(self.sizes.repeats):
            dead = self.peer.active_controller()
            survivor = self.survivors(dead)[0]
            self.turns += 1
            name = f"after-{self.turns}"

            def created(survivor: int = survivor, name: str = name) -> bool:
                return self.eyes.create(survivor, name, 1, 1) in (Code.NONE, Code.TOPIC_ALREADY_EXISTS)

            self.peer.kill(dead)
            self.eyes.forget(dead)
            took = wait(created, "another controller creates a topic")
            yield Row("controller, kill -9: until another one has created a topic", "s", "lower", took)
            self.come_back(dead)

    def broker_death(self) -> Iterator[Row]:
        """kill -9 of a broker that is not the active controller."""
        for _ in range(self.sizes.repeats):
            controller = self.peer.active_controller()
            dead = next(node for node in self.peer.pids if node != controller)
            self._spread()
            survivors = self.survivors(dead)
            self.peer.kill(dead)
            self.eyes.forget(dead)
            took = sum(self.wait_led(node, dead) for node in survivors)
            label = f"broker that leads a third of {self.sizes.total:,}, kill -9"
            yield Row(f"{label}: until every survivor shows a leader for all", "s", "lower", took)
            self.come_back(dead)

    def _spread(self) -> None:
        """Every broker leads its third again."""

        def spread() -> bool:
            node = next(iter(self.peer.pids))
            self.eyes.ask(node, ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=30_000))
            shown = self.eyes.look(node)
            if shown is None:
                return False
            shares = [shown.leaders.count(node) for node in self.peer.pids]
            return min(shares) > 0.8 * self.sizes.total / len(shares)

        wait(spread, "leads are spread evenly")

    def rolling_restart(self) -> Iterator[Row]:
        """SIGTERM, start again, wait until it is in every ISR: each node in turn."""
        began = time.monotonic()
        slowest = 0.0
        for node in list(self.peer.pids):
            since = time.monotonic()
            self.peer.stop_node(node, timeout_s=300)
            slowest = max(slowest, time.monotonic() - since)
            self.eyes.forget(node)
            self.come_back(node)
        label = f"rolling restart with {self.sizes.total:,} partitions"
        yield Row(f"{label}: all three nodes, each back in every ISR", "s", "lower", time.monotonic() - began)
        yield Row(f"{label}: the slowest controlled shutdown", "s", "lower", slowest)


CELLS: dict[str, Callable[[Stand], Iterator[Row]]] = {
    "create": Stand.create,
    "failover": Stand.controller_failover,
    "death": Stand.broker_death,
    "rolling": Stand.rolling_restart,
}


def measure(systems: list[str], sizes: Sizes, until: str | None = None) -> list[dict[str, Any]]:
    """One entry for each row and system: its values in the order measured, or what went wrong. ``until``: the last cell
    to be run; they build on one another."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for system in systems:
        with SYSTEMS[system](nodes=3) as peer:
            stand = Stand(peer, sizes)
            for cell, run in CELLS.items():
                try:
                    for row in run(stand):
                        print(f"{cell:9} {system:7} {row.what}: {row.value:.4g} {row.unit}", flush=True)
                        entry = {"cell": cell, "system": system, **row._asdict(), "values": []}
                        del entry["value"]
                        found.setdefault((system, row.what), entry)["values"].append(row.value)
                except Exception as error:  # the cells build on one another: the rest would measure something else
                    print(f"{cell:9} {system:7} FAILED: {error!r}", flush=True)
                    found[system, cell] = {"cell": cell, "system": system, "failed": str(error) or repr(error)}
                    break
                if cell == until:
                    break
            stand.eyes.close()
    return list(found.values())


def merge(result: dict[str, Any], before: dict[str, Any]) -> None:
    """Keep what an earlier run of the same size found of the systems that this one left out."""
    if before["sizes"] == result["sizes"]:
        result["rows"] = [row for row in before["rows"] if row["system"] not in result["systems"]] + result["rows"]
        result["systems"] = {**before["systems"], **result["systems"]}


def write_docs(result: dict[str, Any]) -> None:
    """Rewrite what stands between the markers of docs/performance.md."""
    page = DOCS / "performance.md"
    before, found, rest = page.read_text().partition(BEGIN)
    assert found, f"{page} has no {BEGIN}"
    after = rest.partition(END)[2]
    page.write_text(before + "\n".join([BEGIN, machine_line(result), "", table(result), END]) + after)


def main() -> int:
    ask = argparse.ArgumentParser(description="Measure the controllers of Moldau and Apache Kafka.")
    ask.add_argument("--quick", action="store_true", help="small sizes, to see that everything runs")
    ask.add_argument("--systems", default=",".join(SYSTEMS), help="comma separated, in the order they are to run")
    ask.add_argument("--no-docs", action="store_true", help="leave docs/performance.md as it is")
    ask.add_argument("--repeats", type=int, help="how often each failure is measured")
    ask.add_argument("--until", choices=CELLS, help="the last cell to be run: they build on one another")
    wish = ask.parse_args()
    systems = wish.systems.split(",")
    if not set(systems) <= set(SYSTEMS):
        ask.error(f"systems are {', '.join(SYSTEMS)}")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a JVM keeps every log's files open
    sizes = QUICK if wish.quick else FULL
    sizes = sizes._replace(repeats=wish.repeats or sizes.repeats)
    result: dict[str, Any] = {
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "systems": {name: TITLES[name] for name in systems},
        "sizes": sizes._asdict(),
        "machine": machine(),
        "rows": measure(systems, sizes, wish.until),
    }
    name = "build/controller-quick.json" if wish.quick else f"results/controller-{result['when'][:10]}.json"
    kept = HERE / name
    kept.parent.mkdir(exist_ok=True)
    if kept.exists():
        merge(result, json.loads(kept.read_text()))
    kept.write_text(json.dumps(result, indent=1) + "\n")
    print(table(result))
    if not (wish.quick or wish.no_docs):
        write_docs(result)
    return 1 if any("failed" in row for row in result["rows"]) else 0


if __name__ == "__main__":
    sys.exit(main())
