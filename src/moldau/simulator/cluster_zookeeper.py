"""The cluster on the ZooKeeper plane: the same simulated machines, and three servers of a simulated ZooKeeper.

Nobody formats anything here: a node takes the cluster's id from ZooKeeper. A node that cannot reach ZooKeeper when it
starts gives up, as it says, and is started again, as an init system does. Read next: faults_zookeeper.py,
looking_zookeeper.py.
"""

from __future__ import annotations

import contextvars

from moldau.broker.node import StartRefused
from moldau.model.value import replace
from moldau.ports import World
from moldau.ports.zookeeper import Ensemble
from moldau.simulator.cluster import PORT, Seat, SimCluster
from moldau.simulator.disk import SimDisk
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
        self._forsaken: set[int] = set()

    def world(self, owner: Owner, host: str, disk: SimDisk, clock: SimClock) -> World:
        def open_session(config: Ensemble) -> SimZooKeeper:
            return SimZooKeeper(self.ensemble, config, host)

        return replace(super().world(owner, host, disk, clock), zookeeper=open_session)

    def forsake(self, id: int) -> None:
        self._forsaken.add(id)
        super().forsake(id)

    def start(self, id: int) -> None:
        self._forsaken.discard(id)
        super().start(id)

    def _format(self) -> None:
        """Nodes claim their folders themselves."""

    def _cannot_start(self, seat: Seat, error: Exception) -> None:
        if not isinstance(error, StartRefused) or "did not answer" not in str(error):
            super()._cannot_start(seat, error)
            return
        self.tell(f"{seat.host} cannot reach ZooKeeper, and gives up")
        seat.hurt = True  # it may end

        def again() -> None:
            if seat.owner is None and seat.id not in self._forsaken:
                self.start(seat.id)

        self.loop.call_later(AGAIN_S, again, context=contextvars.Context())

    def _properties(self, seat: Seat) -> str:
        servers = ",".join(f"{server.name}:2181" for server in self.ensemble.servers)
        return "\n".join(
            (
                f"broker.id={seat.id}",
                f"zookeeper.connect={servers}{CHROOT}",
                f"listeners=PLAINTEXT://{seat.host}:{PORT}",
                f"log.dirs={','.join(self.folders)}",
                *(f"{key}={value}" for key, value in self.plan.settings.items()),
            )
        )
