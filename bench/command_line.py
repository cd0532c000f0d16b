"""The cell `cli`: how long a command takes from its start to its end, on a cluster of 10,000 partitions.

Moldau's own commands, Apache Kafka's Java tools, and kcat beside both. All ask the same kind of cluster, a node of
Moldau: tools are compared here, not brokers. Help and a list are mostly start-up; a description of all partitions is
the work on top. Processor time is of the command alone, and quieter than the clock.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.cells import FULL, Row, Stand
from bench.systems import SYSTEMS, java_command
from moldau.client import admin
from moldau.client.admin import NewTopic
from moldau.client.sync import Cluster
from moldau.cluster.cluster import Cluster as Local

TOPICS, PARTITIONS = 10, 1_000
TRIES = 5


def cli_cell(stand: Stand) -> Iterator[Row]:
    """Seconds of single commands."""
    topics = TOPICS if stand.sizes == FULL else 1
    with SYSTEMS["moldau"](1) as peer:
        with Cluster(peer.bootstrap_servers) as cluster:
            for number in range(topics):
                wish = NewTopic(name=f"many-{number}", partitions=PARTITIONS, replication_factor=1)
                made = cluster.run(admin.create_topics(cluster.client, [wish], timeout_ms=120_000))
                if not made[wish.name].ok:
                    raise RuntimeError(f"{wish.name}: {made[wish.name]}")
            _wait_for_leaders(cluster, topics)
        for what, command in _commands(stand.system, peer.bootstrap_servers).items():
            yield from _measured(what, command)
    if stand.system == "moldau":
        with tempfile.TemporaryDirectory() as folder, Local(1, data=Path(folder) / "cluster") as local:
            command = [sys.executable, "-m", "moldau", "status", "--data", str(local.folder)]
            yield from _measured("status of a node on this machine", command)


def _measured(what: str, command: Sequence[str]) -> Iterator[Row]:
    for _ in range(TRIES):
        wall_s, cpu_s = _run(command)
        yield Row(f"{what}", "s", "lower", wall_s)
        yield Row(f"{what}, processor time", "s", "lower", cpu_s)


def _wait_for_leaders(cluster: Cluster, topics: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        parts = [part for one in cluster.topics().values() for part in one.partitions.values()]
        if sum(part.leader >= 0 for part in parts) >= topics * PARTITIONS:
            return
        time.sleep(0.5)
    raise TimeoutError("not every partition has a leader")


def _commands(system: str, servers: str) -> dict[str, Sequence[str]]:
    """What is measured, and the command line."""
    ours = [sys.executable, "-m", "moldau"]
    if system == "kafka":
        topics = [*java_command("kafka-topics"), "--bootstrap-server", servers]
        found: dict[str, Sequence[str]] = {
            "help of the topic tool": [*java_command("kafka-topics"), "--version"],
            "list topics": [*topics, "--list"],
            "describe 10,000 partitions": [*topics, "--describe"],
        }
    else:
        found = {
            "help of the topic tool": [*ours, "topic", "list", "--help"],
            "list topics": [*ours, "topic", "list", "-b", servers],
            "describe 10,000 partitions": [*ours, "topic", "describe", "-b", servers],
        }
    if (kcat := shutil.which("kcat")) is not None:
        found["kcat -L of the same"] = [kcat, "-L", "-b", servers]
    return found


def _run(command: Sequence[str]) -> tuple[float, float]:
    """Seconds on the clock and of the processor, until a command has ended well."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    took_s = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command[:4])} .. exited {process.returncode}")
    return took_s, used.ru_utime + used.ru_stime
