"""Clusters whose nodes are Apache Kafka's and Moldau's: who runs which node, and in which roles.

Every node has the server.properties of Apache Kafka, and every folder is formatted by Kafka's own tool at the feature
levels that it chooses by default. A node changes its program by being stopped and started on the same folder.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from kafka_peer import ask_cluster, java_tool, wait_until
from mixed import KAFKA, MOLDAU, MixedPeer

from moldau.cluster.kills.cluster_poller import Address

COMBINED, CONTROLLER, BROKER = "broker,controller", "controller", "broker"


class NodePlan(NamedTuple):
    """Who runs a node, and its process.roles."""

    program: str
    roles: str = COMBINED


class Mix(NamedTuple):
    """A cluster: node id -> plan. ``of`` says in words what it is."""

    of: str
    nodes: Mapping[int, NodePlan]

    def having(self, roles: str) -> list[int]:
        """Ids of the nodes that have a role."""
        return [id for id, node in self.nodes.items() if roles in node.roles]


def _separate(controller: str) -> dict[int, NodePlan]:
    brokers = {id: NodePlan(program, BROKER) for id, program in ((1, KAFKA), (2, KAFKA), (3, MOLDAU))}
    return {**brokers, 4: NodePlan(controller, CONTROLLER)}


def _combined(*programs: str) -> dict[int, NodePlan]:
    return {id: NodePlan(program) for id, program in enumerate(programs, 1)}


MIXES = {
    "kafka-controller": Mix("controller Kafka, brokers Kafka, Kafka, Moldau", _separate(KAFKA)),
    "moldau-controller": Mix("controller Moldau, brokers Kafka, Kafka, Moldau", _separate(MOLDAU)),
    "one-of-three": Mix("combined nodes Moldau, Kafka, Kafka", _combined(MOLDAU, KAFKA, KAFKA)),
    "two-of-three": Mix("combined nodes Moldau, Moldau, Kafka", _combined(MOLDAU, MOLDAU, KAFKA)),
}
ROLLED = Mix("combined nodes, all Kafka at first", _combined(KAFKA, KAFKA, KAFKA))


class MixedCluster(MixedPeer):
    """A running mix, shown as the kill suite asks systems to be."""

    def __init__(self, mix: Mix, folder: Path, properties: Mapping[str, object] | None = None) -> None:
        self.mix = mix
        programs = {id: node.program for id, node in mix.nodes.items()}
        super().__init__(programs, {"broker.session.timeout.ms": 6000, **(properties or {})}, folder)
        voters = ",".join(f"{id}@127.0.0.1:{self.ports[id][1]}" for id in mix.having(CONTROLLER))
        for id, node in mix.nodes.items():
            self._write(id, node.roles, voters)

    def _write(self, id: int, roles: str, voters: str) -> None:
        lines = dict(line.split("=", 1) for line in self.config_file(id).read_text().splitlines())
        client, controller = self.ports[id]
        heard = {BROKER: f"PLAINTEXT://127.0.0.1:{client}", CONTROLLER: f"CONTROLLER://127.0.0.1:{controller}"}
        shown = roles.split(",")
        lines["process.roles"] = roles
        lines["controller.quorum.voters"] = voters
        lines["listeners"] = ",".join(heard[role] for role in shown)
        lines["offsets.topic.replication.factor"] = lines["default.replication.factor"] = "3"
        if BROKER not in shown:
            del lines["advertised.listeners"], lines["inter.broker.listener.name"]
        self.config_file(id).write_text("".join(f"{key}={value}\n" for key, value in lines.items()))

    # ---- the kill suite's view

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.brokers.values())

    @property
    def brokers(self) -> Mapping[int, Address]:
        """Broker id -> where clients reach it."""
        return {id: ("127.0.0.1", self.ports[id][0]) for id in self.mix.having(BROKER)}

    @property
    def controllers(self) -> Mapping[int, Address]:
        """Controller id -> its controller listener."""
        return {id: ("127.0.0.1", self.ports[id][1]) for id in self.mix.having(CONTROLLER)}

    def wait_ready(self, timeout_s: float = 180) -> None:
        """Until every broker that runs names all brokers that run."""
        wait_until(self._brokers_see_brokers, f"the brokers of {self.mix.of} see each other: {self.folder}", timeout_s)

    def _brokers_see_brokers(self) -> bool:
        self._refuse_dead_nodes()
        running = self.pids.keys() & self.brokers.keys()
        try:
            return all(ask_cluster(self.ports[id][0]).brokers.keys() == running for id in running)
        except OSError:
            return False

    def close(self) -> None:
        """End whatever still runs."""
        self.stop()

    def leave(self) -> None:
        """Stop every node in an orderly way: brokers first, since they ask controllers to let them go."""
        for id in sorted(self.pids, key=lambda id: id in self.mix.having(CONTROLLER)):
            self.stop_node(id, timeout_s=20)


def stop_all(cluster: MixedCluster) -> None:
    """End what still runs and remove the folder."""
    cluster.stop()
    shutil.rmtree(cluster.folder, ignore_errors=True)


def dumped(path: Path, *options: str) -> str:
    """What Kafka's DumpLogSegments says of a file, with what it says is wrong."""
    run = java_tool("kafka-dump-log", "--files", path, *options, check=False)
    return run.stdout + run.stderr + (f"\nexit {run.status}" if run.status else "")
