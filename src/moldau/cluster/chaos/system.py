"""The cluster under test: three combined nodes of Moldau (in either mode) or of Apache Kafka, each in its own place.

Both systems are given the same server.properties, so that they differ in nothing but the command. Formats, starts,
signals and stops processes; knows nothing of faults beyond a signal. ``cluster_poller.System`` is what the
checks need of it. Read next: ``scenario_context.py``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from moldau.cluster.chaos.net import ClusterNet
from moldau.cluster.chaos.volumes import Volume
from moldau.cluster.ensemble import LocalEnsemble, java
from moldau.cluster.kills.cluster_poller import Address
from moldau.cluster.layout import SESSION_MS
from moldau.cluster.modes import QUORUM, ZOOKEEPER
from moldau.cluster.nodes import NodeSpec as Node
from moldau.cluster.nodes import is_alive, last_words, wait_gone
from moldau.model.ids import uuid_text
from moldau.runtime.world import RealRandom

MOLDAU, KAFKA = "moldau", "kafka"
KINDS = (MOLDAU, KAFKA)
JARS = "MOLDAU_KAFKA_JARS"
"""Environment: the folder of Apache Kafka's jars; ``make jars`` puts them where they are looked for without it."""
_DEFAULT_JARS = Path(".jars/kafka-4.3.1")
_HEAP = ("-Xmx512M", "-XX:+UseG1GC", "-XX:TieredStopAtLevel=1")
ZOOKEEPER_PLACE = 100
STOP_S = 60.0

SETTINGS = {
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "1000",
    "replica.lag.time.max.ms": "5000",
    "auto.leader.rebalance.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "1",
    "log.segment.bytes": "2097152",
    "log.retention.check.interval.ms": "1000",
    "log.cleaner.backoff.ms": "1000",
}
"""Shorter times than the defaults, and smaller segments: a run is to be short, to roll, and to meet what is damaged."""


class RigOptions(NamedTuple):
    """Which system, how many nodes, on what."""

    kind: str
    plane: str
    volume: Volume
    nodes: int = 3


class Rig:
    """The running cluster."""

    def __init__(self, folder: Path, setup: RigOptions, net: ClusterNet) -> None:
        self.folder, self.setup, self.net = folder, setup, net
        self.stubborn: list[int] = []
        """Nodes that did not end in time after SIGTERM."""
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._hosts: dict[int, str] = {}
        self._fronts: dict[int, tuple[Address, Address]] = {}
        self.nodes: dict[int, Node] = {}
        for id in range(1, setup.nodes + 1):
            node = Node(id, "broker,controller", str(folder / f"node-{id}"), *net.ports(2))
            self._hosts[id], self.nodes[id] = net.add(id), node
            node.logs.mkdir(parents=True)
            setup.volume.prepare(self.data_dir(id))
            self._fronts[id] = self._front(id, node.port), self._front(id, node.controller_port)
        self.ensemble = self._zookeeper() if setup.plane == ZOOKEEPER else None
        servers = self.ensemble.servers if self.ensemble is not None else ()
        self._connect = ",".join("{}:{}".format(*self._front(ZOOKEEPER_PLACE, server.port)) for server in servers)
        self.cluster_id = uuid_text(RealRandom().uuid())
        for node in self.nodes.values():
            text = "".join(f"{key}={value}\n" for key, value in (self._properties(node) | SETTINGS).items())
            node.properties.write_text(text)

    # ---- for the checks

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.brokers.values())

    @property
    def brokers(self) -> Mapping[int, Address]:
        return {id: front for id, (front, _) in self._fronts.items()}

    @property
    def controllers(self) -> Mapping[int, Address]:
        if self.ensemble is not None:
            return {}
        return {id: front for id, (_, front) in self._fronts.items()}

    def data_dir(self, node: int) -> Path:
        return Path(self.nodes[node].folder) / "data"

    # ---- starting and stopping

    def start(self) -> None:
        """Format what needs it and start every node; waits for none."""
        if self.ensemble is not None:
            self.ensemble.start()
        for id in self.nodes:
            self.format(id)
        for id in self.nodes:
            self.restart(id)

    def format(self, node: int) -> None:
        """Make a node's folders ready, as they are on the first day."""
        if self.ensemble is not None:
            return
        properties = str(self.nodes[node].properties)
        words = ["storage", "format", "--ignore-formatted", "-t", self.cluster_id, "-c", properties]
        command = [sys.executable, "-m", "moldau", *words]
        if self.setup.kind == KAFKA:
            command = [*_java("-Xmx256m"), "kafka.tools.StorageTool", *words[1:]]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"node {node} was not formatted: {done.stdout}{done.stderr}")

    def alive(self, node: int) -> bool:
        """Whether its process runs."""
        return is_alive(self.nodes[node].pid)

    def restart(self, node: int) -> None:
        """Start a node that does not run, without waiting."""
        spec = self.nodes[node]
        command = [sys.executable, "-m", "moldau", "node", str(spec.properties), "--logs", str(spec.logs)]
        if self.setup.kind == KAFKA:
            command = [*_java(*_HEAP), "kafka.Kafka", str(spec.properties)]
        with open(spec.logs / "out.log", "ab") as out:
            process = subprocess.Popen(
                self.net.command(node, command),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        spec.pid, self._processes[node] = process.pid, process

    def send(self, node: int, number: signal.Signals) -> None:
        """A signal to a node that runs."""
        pid = self.nodes[node].pid
        if pid is not None and is_alive(pid):
            os.kill(pid, number)

    def kill(self, node: int) -> None:
        """kill -9; the process is gone when this returns."""
        self.send(node, signal.SIGKILL)
        self.gone(node, 10)

    def gone(self, node: int, timeout_s: float) -> bool:
        """Whether a node's process ends in time."""
        return wait_gone(self.nodes[node], self._processes.get(node), timeout_s)

    def last_words(self, node: int) -> str:
        return last_words(self.nodes[node], 8)

    def stop(self) -> None:
        """A controlled shutdown of all at once: the last two of a quorum cannot leave one after the other."""
        running = [id for id in self.nodes if self.alive(id)]
        for id in running:
            self.send(id, signal.SIGTERM)
        for id in running:
            if not self.gone(id, STOP_S):
                self.stubborn.append(id)
                self.kill(id)
        if self.ensemble is not None:
            self.ensemble.stop()

    def close(self) -> None:
        """End what still runs, and remove folders and places."""
        for id in self.nodes:
            self.setup.volume.thaw(self.data_dir(id))
            if self.alive(id):
                self.kill(id)
            self.setup.volume.close(self.data_dir(id))
        if self.ensemble is not None:
            self.ensemble.stop()
        self.net.close()

    # ---- parts

    def _front(self, place: int, port: int) -> Address:
        return self.net.front(place, (self._hosts[place], port))

    def _zookeeper(self) -> LocalEnsemble:
        self._hosts[ZOOKEEPER_PLACE] = host = self.net.add(ZOOKEEPER_PLACE)
        return LocalEnsemble(self.folder / "zookeeper", host=host, wrap=self.net.command(ZOOKEEPER_PLACE, []))

    def _properties(self, node: Node) -> dict[str, str]:
        here = self._hosts[node.id]
        fronts = dict(zip(("PLAINTEXT", "CONTROLLER"), self._fronts[node.id], strict=True))
        data = {"log.dirs": str(self.data_dir(node.id))}
        if self.ensemble is not None:
            return data | {
                "broker.id": str(node.id),
                "zookeeper.connect": self._connect,
                "zookeeper.session.timeout.ms": str(SESSION_MS),
                "zookeeper.connection.timeout.ms": "30000",
                "listeners": f"PLAINTEXT://{here}:{node.port}",
                "advertised.listeners": "PLAINTEXT://{}:{}".format(*fronts["PLAINTEXT"]),
            }
        voters = [f"{id}@{host}:{port}" for id, (host, port) in self.controllers.items()]
        return data | {
            "process.roles": node.roles,
            "node.id": str(node.id),
            "controller.quorum.voters": ",".join(voters),
            "listeners": f"PLAINTEXT://{here}:{node.port},CONTROLLER://{here}:{node.controller_port}",
            "advertised.listeners": ",".join(f"{name}://{host}:{port}" for name, (host, port) in fronts.items()),
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        }


def refuse(kind: str, plane: str) -> str | None:
    """Return why a system is not available; None when it is."""
    if kind == KAFKA and plane != QUORUM:
        return "Apache Kafka 4 has no ZooKeeper mode"
    if kind == KAFKA and not any(_jars().glob("kafka_2.13-*.jar")):
        return f"no Kafka jars in {_jars()}: run `make jars`, or set {JARS}"
    return None


def _jars() -> Path:
    return Path(os.environ.get(JARS, _DEFAULT_JARS)).resolve()


def _java(*flags: str) -> list[str]:
    return [java(), *flags, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{_jars()}/*"]
