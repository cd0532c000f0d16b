"""Coverage points of ZooKeeper mode: rare situations of sessions, controllers and notification znodes.

Read off from outside: in the servers, as a transaction is made or refused, and at each broker, as it answers a
controller's request. Checks nothing. Read next: coverage_points.py, whose points of replicas and elections count here
too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from moldau.broker.node import Node
from moldau.broker.zookeeper.request_lines import Request
from moldau.model import Code
from moldau.ports.zookeeper import BadVersion, NodeExists, Op
from moldau.simulator.cluster_observer_zookeeper import ZooKeeperObserver, plane_of
from moldau.simulator.cluster_zookeeper import CHROOT
from moldau.simulator.coverage_points import CoveragePoints
from moldau.simulator.zookeeper_servers import ZnodeChange
from moldau.wire.messages.k04_leader_and_isr import LeaderAndIsrRequest
from moldau.zookeeper import paths
from moldau.zookeeper.znodes import parse_controller

T = TypeVar("T")

REFUSALS = {
    Code.STALE_CONTROLLER_EPOCH: "zookeeper: an older controller was refused",
    Code.STALE_BROKER_EPOCH: "zookeeper: a request to an earlier life was refused",
}
"""What a broker answers a controller -> the coverage point."""

SAME_EPOCH = "zookeeper: roles under a leader epoch that is known, or older, were passed over"
NOTES = {
    f"{CHROOT}{paths.DELETE_TOPICS}/": "zookeeper: a request of a tool was handled",
    f"{CHROOT}{paths.LOG_DIR_EVENTS}/": "zookeeper: a failed directory was told",
    CHROOT + paths.PREFERRED_ELECTION: "zookeeper: a request of a tool was handled",
    CHROOT + paths.REASSIGN_PARTITIONS: "zookeeper: a request of a tool was handled",
}
"""Request znodes that vanish when a controller has handled them -> the coverage point."""

ZOOKEEPER_COVERAGE_POINTS = frozenset(
    {
        "a leader was deposed",
        "a log was compacted",
        "a move ended",
        "a replica was cut",
        "an ISR grew again",
        "groups were loaded",
        "nobody could lead",
        "zookeeper: a broker of Kafka's rules is controller",
        SAME_EPOCH,
        "zookeeper: a broker registered again",
        "zookeeper: a request to an earlier life was refused",
        "zookeeper: a session of a living process ended",
        "zookeeper: a request of a tool was handled",
        "zookeeper: an older registration stood in the way",
        "zookeeper: two stood for the controller role",
    }
)
"""What sixty seeds hit many times over; the rest is noted, and missed by no campaign."""


class ZooKeeperCoveragePoints(CoveragePoints):
    """``hit``: the coverage points of a run so far."""

    def __init__(self, observer: ZooKeeperObserver) -> None:
        super().__init__(observer)
        self._ensemble = observer.ensemble
        self._kafka = observer.cluster.plan.kafka
        self._registered: set[tuple[str, Any]] = set()
        self._doors: set[Node] = set()
        observer.births.append(self._on_start)
        observer.ensemble.witnesses.append(self._committed)
        self._commit = observer.ensemble.commit
        observer.ensemble.commit = self._tried  # type: ignore[method-assign]

    # ---- in the servers

    def _tried(self, session_id: int, ops: Sequence[Op]) -> list[Any]:
        """A transaction, noted where its condition no longer held."""
        try:
            return self._commit(session_id, ops)
        except NodeExists as error:
            if error.path == CHROOT + paths.CONTROLLER:
                self.hit.add("zookeeper: two stood for the controller role")
            elif error.path.startswith(f"{CHROOT}{paths.BROKER_IDS}/"):
                self.hit.add("zookeeper: an older registration stood in the way")
            raise
        except BadVersion as error:
            if error.path == CHROOT + paths.CONTROLLER_EPOCH:
                self.hit.add("zookeeper: a deposed controller's write was refused")
            elif paths.of_state(error.path.removeprefix(CHROOT)) is not None:
                self.hit.add("zookeeper: a state had changed meanwhile")
            raise

    def _committed(self, session: int, ops: Sequence[Op], changes: Sequence[ZnodeChange]) -> None:
        for change in changes:
            self._elected(change)
            if change.data is None:
                self.hit |= {point for path, point in NOTES.items() if change.path.startswith(path)}
            if change.owner and change.path.startswith(CHROOT + paths.BROKER_IDS):
                self._presence(session, change)

    def _elected(self, change: ZnodeChange) -> None:
        taken = change.path == CHROOT + paths.CONTROLLER and change.data is not None
        if taken and parse_controller(change.data or b"").broker_id in self._kafka:
            self.hit.add("zookeeper: a broker of Kafka's rules is controller")

    def _presence(self, session: int, change: ZnodeChange) -> None:
        owner = self._ensemble.opened[change.owner].owner
        if change.new:
            who = change.path, owner
            if who in self._registered:
                self.hit.add("zookeeper: a broker registered again")
            self._registered.add(who)
        elif change.data is None and not session and owner is not None and owner.alive:
            self.hit.add("zookeeper: a session of a living process ended")

    # ---- at each node

    def _on_start(self, id: int, node: Node) -> None:
        node.metadata.watch(lambda image, delta: self._lives(id, node))

    def _lives(self, id: int, node: Node) -> None:
        self.noted(id, node)
        if node not in self._doors and plane_of(node) is not None:
            self._doors.add(node)
            handler = plane_of(node).controller_requests
            for name in ("leader_and_isr", "update_metadata", "stop_replica"):
                setattr(handler, name, self._answered(getattr(handler, name)))

    def _answered(self, real: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T]]:
        async def answered(request: Request, *more: object) -> T:
            answer = await real(request, *more)
            code = answer[0] if isinstance(answer, tuple) else answer
            if isinstance(code, Code) and code in REFUSALS:
                self.hit.add(REFUSALS[code])
            roles = answer[1] if isinstance(answer, tuple) and isinstance(request, LeaderAndIsrRequest) else ()
            if any(role[-1] is Code.STALE_CONTROLLER_EPOCH for role in roles):
                self.hit.add(SAME_EPOCH)
            return answer

        return answered
