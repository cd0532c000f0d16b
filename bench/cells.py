"""The cells of the bench: what is measured, on one system, in one go.

Each cell is a function from a `Stand` (a system, the sizes, the driver) to the rows it measured. It starts the cluster
it needs and stops it. It does not compare and does not print: bench/report.py does. Sizes and numbers of the peer
to expect are in docs/performance.md. Pauses here are part of what is measured (idle time), never a guess at readiness.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from bench.systems import SYSTEMS, KafkaPeer, cpu_seconds, resident_bytes

DRIVER = Path(__file__).parent / "build" / "driver"
PARTITIONS = 6
STEADY_AFTER_KILL_S = 12  # longer than the 9 s broker session: a second gap would show within it

AS_IT_IS, BACKED = ", memory as it is", ", memory backed"
TOUCH = """
import mmap, sys
held = mmap.mmap(-1, int(sys.argv[1]) << 20)
while held.tell() < len(held):
    held.write(bytes(1 << 20))
"""


class Row(NamedTuple):
    """One measured number. `better` is "higher" or "lower"."""

    what: str
    unit: str
    better: str
    value: float


class Sizes(NamedTuple):
    """How much of everything: a full run, or a quick one that only proves that the bench works."""

    small_records: int = 4_000_000  # of 100 bytes
    large_records: int = 1_000_000  # of 1024 bytes
    repeats: int = 3
    idle_s: int = 10
    latency_s: int = 20
    missed_records: int = 200_000  # of 1024 bytes, written while a node is down
    recovery_records: int = 5_000_000  # of 1024 bytes


FULL = Sizes()
QUICK = Sizes(500_000, 100_000, 1, 3, 5, 20_000, 300_000)


class Stand:
    """One system on the bench: starts its clusters and runs the driver against them."""

    def __init__(self, system: str, sizes: Sizes):
        self.system = system
        self.sizes = sizes

    def cluster(self, nodes: int) -> KafkaPeer:
        """A cluster that is not started yet."""
        return SYSTEMS[self.system](nodes)

    def drive(self, peer: KafkaPeer, mode: str, topic: str, **options: object) -> dict[str, Any]:
        """Run the driver to its end; its JSON line. `set_X_Y` becomes set.x.y, a property of librdkafka."""
        done = subprocess.run(driver_command(peer, mode, topic, options), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{mode} on {self.system} failed: {done.stderr}")
        said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        if said.get("failed"):
            raise RuntimeError(f"{mode} on {self.system}: {said['failed']} writes failed: {said['error']}")
        return said


def driver_command(peer: KafkaPeer, mode: str, topic: str, options: dict[str, object]) -> list[str]:
    """The driver's command line."""
    command = [str(DRIVER), mode, f"bootstrap={peer.bootstrap_servers}", f"topic={topic}"]
    for key, value in options.items():
        name = key.replace("_", ".") if key.startswith("set_") else key
        command.append(f"{name}={value}")
    return command


def settle(peer: KafkaPeer) -> None:
    """Wait (10 s at most) until the cluster uses less than a quarter of a core: replication is through."""
    deadline = time.monotonic() + 10
    used, moment = cpu_seconds(peer.pids.values()), time.monotonic()
    while time.monotonic() < deadline:
        time.sleep(0.5)
        now_used, now = cpu_seconds(peer.pids.values()), time.monotonic()
        if (now_used - used) / (now - moment) < 0.25:
            return
        used, moment = now_used, now


def start_cell(stand: Stand) -> Iterator[Row]:
    """Formatted nodes, from the command to a write acknowledged by all replicas of a new topic."""
    for nodes in (3, 1):
        for _ in range(stand.sizes.repeats):
            peer = stand.cluster(nodes)
            try:
                peer.format()
                since_ns = time.monotonic_ns()
                for node_id in peer.ports:
                    peer.start_node(node_id)
                said = stand.drive(peer, "writable", "first", rf=nodes, since_ns=since_ns)
                yield Row(
                    f"start {count_nodes(nodes)}, command to first acked write (RF {nodes})",
                    "s",
                    "lower",
                    said["seconds"],
                )
            finally:
                peer.stop()


def back_memory(size: int) -> None:
    """Have the host of a virtual machine back as much free memory, as far as there is any.

    A balloon gives free memory back to the host, and each page costs a fault there when it is used again: 1.5 to 3 s
    for a gigabyte of new page cache, whoever writes it. That is the machine's cost: a run that comes after another
    has freed memory looks thrice as good. So each run is given memory that a process has just used.
    """
    free = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemFree:"))
    mebibytes = min(size, int(free.split()[1]) * 1024 - (1 << 30)) >> 20
    if mebibytes > 0:
        subprocess.run([sys.executable, "-c", TOUCH, str(mebibytes)], check=True)


def idle_cell(stand: Stand) -> Iterator[Row]:
    """A cluster that nobody uses: memory of a node, processor time of all."""
    for nodes in (3, 1):
        with stand.cluster(nodes) as peer:
            settle(peer)
            before, moment = cpu_seconds(peer.pids.values()), time.monotonic()
            time.sleep(stand.sizes.idle_s)
            share = (cpu_seconds(peer.pids.values()) - before) / (time.monotonic() - moment)
            size = resident_bytes(peer.pids.values()) / nodes
            yield Row(f"idle, {count_nodes(nodes)}: resident memory of a node", "MB", "lower", size / 1e6)
            yield Row(f"idle, {count_nodes(nodes)}: CPU of the whole cluster", "% of a core", "lower", share * 100)


def flow_cell(stand: Stand) -> Iterator[Row]:
    """Produce as fast as it goes and read it back, on one node and on three."""
    for nodes in (1, 3):
        with stand.cluster(nodes) as peer:
            for size in (100, 1024):
                for rf, acks in ((1, "1"), (1, "all"), (3, "1"), (3, "all")) if nodes == 3 else ((1, "1"),):
                    yield from produce(stand, peer, size, rf, acks)
                yield from consume(stand, peer, size)
            most = max(resident_bytes([pid]) for pid in peer.pids.values())
            yield Row(f"after load, {count_nodes(nodes)}: resident memory of the largest", "MB", "lower", most / 1e6)


def memory_cell(stand: Stand) -> Iterator[Row]:
    """Produce 1 KB on memory as it is, and on such as the host backs: what the machine costs, and what the brokers."""
    for nodes, acks in ((1, "1"), (3, "all")):
        for memory in (AS_IT_IS, BACKED):
            with stand.cluster(nodes) as peer:
                yield from produce(stand, peer, 1024, nodes, acks, memory)


def topic_of(size: int, rf: int, acks: str) -> str:
    return f"flow-{size}-{rf}-{acks}"


def records_of(stand: Stand, size: int) -> int:
    return stand.sizes.small_records if size == 100 else stand.sizes.large_records


def produce(stand: Stand, peer: KafkaPeer, size: int, rf: int, acks: str, memory: str = "") -> Iterator[Row]:
    """One tenth to warm up, then timed runs into the same topic, each after the disk has caught up. ``memory`` is
    AS_IT_IS, or BACKED: where the rows do not tell, it is backed."""
    count, topic = records_of(stand, size), topic_of(size, rf, acks)
    load = {"size": size, "partitions": PARTITIONS, "set_acks": acks}
    stand.drive(peer, "create", topic, partitions=PARTITIONS, rf=rf)
    stand.drive(peer, "produce", topic, count=count // 10, **load)
    for _ in range(stand.sizes.repeats):
        os.sync()
        settle(peer)
        if memory != AS_IT_IS:
            back_memory(2 * rf * count * size)
        before = cpu_seconds(peer.pids.values())
        said = stand.drive(peer, "produce", topic, count=count, **load)
        settle(peer)
        spent = cpu_seconds(peer.pids.values()) - before
        what = f"produce {label(size)}, acks={acks}, RF {rf}, {count_nodes(len(peer.ports))}"
        what += memory
        yield from rate_rows(what, size, said, spent / (count * size))


def consume(stand: Stand, peer: KafkaPeer, size: int) -> Iterator[Row]:
    """Read what the last produce runs of this size wrote, from the beginning."""
    topic = topic_of(size, 3, "all") if len(peer.ports) == 3 else topic_of(size, 1, "1")
    count = records_of(stand, size)
    for _ in range(stand.sizes.repeats):
        before = cpu_seconds(peer.pids.values())
        said = stand.drive(peer, "consume", topic, count=count, partitions=PARTITIONS)
        spent = cpu_seconds(peer.pids.values()) - before
        what = f"consume {label(size)}, {count_nodes(len(peer.ports))}"
        yield from rate_rows(what, size, said, spent / (count * size))


def label(size: int) -> str:
    return "100 B" if size == 100 else "1 KB"


def count_nodes(nodes: int) -> str:
    return "1 node" if nodes == 1 else f"{nodes} nodes"


def rate_rows(what: str, size: int, said: dict[str, Any], spent_s_per_byte: float) -> Iterator[Row]:
    """The rate in the unit that fits the size, and the brokers' processor time for a gigabyte of payload."""
    if size == 100:
        yield Row(what, "k records/s", "higher", said["records"] / said["seconds"] / 1e3)
    else:
        yield Row(what, "MB/s", "higher", said["bytes"] / said["seconds"] / 1e6)
    yield Row(f"{what}: broker CPU", "s/GB", "lower", spent_s_per_byte * 1e9)


def latency_cell(stand: Stand) -> Iterator[Row]:
    """1,000 records of 1 KB a second, acks=all, no linger; cold is the first load after the start.

    Five requests are under way at most on a connection, as by default in Java's producer and in any idempotent one:
    librdkafka's own default has no bound, so that a broker that falls behind once gets each record as a request of its
    own, and never a batch."""
    for nodes in (3, 1):
        with stand.cluster(nodes) as peer:
            stand.drive(peer, "create", "latency", partitions=PARTITIONS, rf=nodes)
            load = {"partitions": PARTITIONS, "size": 1024, "rate": 1000, "seconds": stand.sizes.latency_s}
            load["set_max_in_flight"] = 5
            for state in ("cold", "warm"):
                settle(peer)
                said = stand.drive(peer, "latency", "latency", **load)
                for key, name in (("p50_ms", "p50"), ("p99_ms", "p99"), ("p999_ms", "p99.9")):
                    what = f"1,000 x 1 KB a second, acks=all, RF {nodes}, {state}: {name}"
                    yield Row(what, "ms", "lower", said[key])


def gap_cell(stand: Stand) -> Iterator[Row]:
    """kill -9 under a steady idempotent load to one partition, default timeouts: the longest silence between acks."""
    for victim_kind in ("leader", "controller that also leads"):
        for _ in range(stand.sizes.repeats):
            with stand.cluster(3) as peer:
                controller = peer.active_controller()
                others = [node_id for node_id in peer.ports if node_id != controller]
                victim = others[0] if victim_kind == "leader" else controller
                rest = [node_id for node_id in peer.ports if node_id != victim]
                stand.drive(peer, "create", "gap", replicas=",".join(map(str, [victim, *rest])))
                gap_s = kill_under_load(stand, peer, victim)["longest_gap_ms"] / 1e3
                yield Row(f"kill -9 of the {victim_kind}: longest gap in acked writes", "s", "lower", gap_s)


def kill_under_load(stand: Stand, peer: KafkaPeer, victim: int) -> dict[str, Any]:
    """Kill the victim once acks flow; end the load when they have flowed on without a break; the driver's result."""
    command = driver_command(peer, "gap", "gap", {"size": 100, "rate": 500, "seconds": 120})
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as load:
        assert load.stdin is not None
        assert load.stdout is not None
        steady(load.stdout, 2)
        peer.kill(victim)
        steady(load.stdout, STEADY_AFTER_KILL_S)
        load.stdin.close()
        said: dict[str, Any] = json.loads(load.stdout.readlines()[-1])
    if said["failed"]:
        raise RuntimeError(f"{stand.system}: {said['failed']} writes failed: {said['error']}")
    return said


def steady(progress: IO[str], seconds: float) -> None:
    """Read the driver's progress until acks have come without half a second's silence for so long."""
    since_ns = None
    for line in progress:
        report = json.loads(line)
        if "mode" in report:
            raise RuntimeError(f"writes did not become steady: {report}")
        flowing = 0 <= report["silent_ms"] < 500
        since_ns = (since_ns or report["now_ns"]) if flowing else None
        if since_ns and report["now_ns"] - since_ns >= seconds * 1e9:
            return
    raise RuntimeError("the driver ended before its time")


def rejoin_cell(stand: Stand) -> Iterator[Row]:
    """kill -9 a node, write while it is away, start it: from the command until it is in every ISR again."""
    for _ in range(stand.sizes.repeats):
        with stand.cluster(3) as peer:
            controller = peer.active_controller()
            victim = next(node_id for node_id in peer.ports if node_id != controller)
            stand.drive(peer, "create", "rejoin", partitions=PARTITIONS, rf=3)
            load = {"size": 1024, "partitions": PARTITIONS, "count": stand.sizes.missed_records}
            stand.drive(peer, "produce", "rejoin", **load)
            peer.kill(victim)
            peer.wait_ready()
            stand.drive(peer, "produce", "rejoin", **load)
            since_ns = time.monotonic_ns()
            peer.start_node(victim)
            said = stand.drive(peer, "insync", "rejoin", rf=3, since_ns=since_ns)
            yield Row("killed node started again: back in every ISR", "s", "lower", said["seconds"])


def recovery_cell(stand: Stand) -> Iterator[Row]:
    """kill -9 a single node that holds much unflushed log: from the start command until all partitions take writes."""
    count = stand.sizes.recovery_records
    with stand.cluster(1) as peer:
        stand.drive(peer, "create", "recovery", partitions=12, rf=1)
        stand.drive(peer, "produce", "recovery", size=1024, partitions=12, count=count, wait_s=600)
        for node_id in peer.ports:
            peer.kill(node_id)
        since_ns = time.monotonic_ns()
        for node_id in peer.ports:
            peer.start_node(node_id)
        said = stand.drive(peer, "writable", "recovery", partitions=12, since_ns=since_ns, wait_s=600)
        what = f"kill -9 with {count * 1024 / 1e9:.1f} GB of log: start to all 12 partitions writable"
        yield Row(what, "s", "lower", said["seconds"])


CELLS: dict[str, Callable[[Stand], Iterator[Row]]] = {
    "start": start_cell,
    "idle": idle_cell,
    "flow": flow_cell,
    "memory": memory_cell,
    "latency": latency_cell,
    "gap": gap_cell,
    "rejoin": rejoin_cell,
    "recovery": recovery_cell,
}
