"""The cluster in ZooKeeper mode: the same simulated hosts, and three servers of a simulated ZooKeeper.

No storage is formatted here: a node takes the cluster's id from ZooKeeper. A node that cannot reach ZooKeeper when it
starts logs that and ends, and is started again, as an init system does. Read next: faults_zookeeper.py,
cluster_observer_zookeeper.py.
"""

from __future__ import annotations

import contextvars

from moldau.broker.node import StartRefused
from moldau.model.value import replace
from moldau.ports import World
from moldau.ports.zookeeper import Ensemble
from moldau.simulator.cluster import PORT, SimCluster, SimulatedHost
from moldau.simulator.disk import SimDisk
from moldau.simulator.kafka_rules import KafkaRules
from moldau.simulator.loop import Owner
from moldau.simulator.plan import Plan
from moldau.simulator.ports import SimClock
from moldau.simulator.zookeeper import SimZooKeeper
from moldau.simulator.zookeeper_servers import SimEnsemble

CHROOT = "/kafka"
AGAIN_S = 1.0


class ZooKeeperCluster(SimCluster):
    """``ensemble``: the servers, which are hosts of the same net."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.ensemble = SimEnsemble(self.loop, self.stream("zookeeper"))
        self.ensemble.refuses = lambda one, other: (one, other) in self.wires.cut
        self._killed_for_good: set[int] = set()

    def world(self, owner: Owner, hostname: str, disk: SimDisk, clock: SimClock) -> World:
        def open_session(config: Ensemble) -> SimZooKeeper:
            return SimZooKeeper(self.ensemble, config, hostname)

        return replace(super().world(owner, hostname, disk, clock), zookeeper=open_session)

    def kill_for_good(self, id: int) -> None:
        self._killed_for_good.add(id)
        super().kill_for_good(id)

    def start(self, id: int) -> None:
        self._killed_for_good.discard(id)
        super().start(id)
        node = self.hosts[id].node
        if id in self.plan.kafka and node is not None and node.zookeeper is not None:
            node.zookeeper.rules = KafkaRules()  # nothing of the node has run yet

    def _format(self) -> None:
        """Nodes claim their folders themselves."""

    def _cannot_start(self, host: SimulatedHost, error: Exception) -> None:
        if not isinstance(error, StartRefused) or "did not answer" not in str(error):
            super()._cannot_start(host, error)
            return
        self.record_event(f"{host.hostname} cannot reach ZooKeeper, and gives up")
        host.hurt = True  # it may end

        def again() -> None:
            if host.owner is None and host.id not in self._killed_for_good:
                self.start(host.id)

        self.loop.call_later(AGAIN_S, again, context=contextvars.Context())

    def _properties(self, host: SimulatedHost) -> str:
        servers = ",".join(f"{server.name}:2181" for server in self.ensemble.servers)
        return "\n".join(
            (
                f"broker.id={host.id}",
                f"zookeeper.connect={servers}{CHROOT}",
                f"listeners=PLAINTEXT://{host.hostname}:{PORT}",
                f"log.dirs={','.join(self.folders)}",
                *self.plan.broker_rack(host.id),
                *(f"{key}={value}" for key, value in self.plan.settings.items()),
            )
        )
