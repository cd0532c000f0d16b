"""Laws of ZooKeeper mode, Z1 to Z8, C3 and C5: on transactions, on requests of controllers, at quiescence.

Z1, Z2, Z4, Z5 and half of Z6 are checked where no write can hide: in the servers, as a transaction is made. Z3 is
checked where a broker handles a request, the rest of Z6 between turns, Z7 and Z8 at quiescence. The controller's own
laws (C1 .. C12) are checked over each decision of the active controller, in its image.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from moldau.broker.lifecycle import Stage
from moldau.broker.node import Node
from moldau.broker.zookeeper.request_lines import Request
from moldau.controller.facts import Settings
from moldau.controller.laws import CommittedBatch, Law, LawChecker
from moldau.image import Delta, Image
from moldau.model import Code
from moldau.ports.zookeeper import CheckVersion, Create, Delete, Op, Set
from moldau.replication.roles import Role
from moldau.simulator.cluster_observer_zookeeper import ZooKeeperObserver, plane_of, survey_of
from moldau.simulator.cluster_zookeeper import CHROOT
from moldau.simulator.machines.record import law_id
from moldau.simulator.zookeeper_servers import ZnodeChange
from moldau.zookeeper import paths
from moldau.zookeeper.laws import LAWS
from moldau.zookeeper.znodes import parse_controller_epoch, parse_state

T = TypeVar("T")

CONTROLLER, EPOCH = CHROOT + paths.CONTROLLER, CHROOT + paths.CONTROLLER_EPOCH
RULED = tuple(
    CHROOT + path
    for path in (
        f"{paths.TOPICS}/", f"{paths.CONFIG}/", paths.FEATURE, paths.PRODUCER_IDS, f"{paths.DELETE_TOPICS}/",
        paths.REASSIGN_PARTITIONS, paths.PREFERRED_ELECTION, f"{paths.ISR_NOTES}/",
    )
)  # fmt: skip
"""What only a controller writes, among nodes."""
DIRECTORIES = f"{CHROOT}{paths.LOG_DIR_EVENTS}/"
"""What every broker writes, and a controller removes."""
FIRST = {CHROOT + path for path in paths.PERSISTENT}
REST_LOOK_S = 0.5
WHAT = ("brokers", "partitions", "settings")
SETTINGS = Settings(zookeeper_mode=True)
"""What of a controller's settings its laws go by in ZooKeeper mode."""
Known = tuple[dict[Any, Any], ...]  # Any: names and values of brokers, partitions and settings, to be compared
REQUESTS = ("leader_and_isr", "update_metadata", "stop")
"""What a broker does for a controller. The answer to a StopReplica may wait for a disk long after that (seed 200), when
the next controller has spoken."""


class ZooKeeperLaws:
    """``look`` between turns; ``at_rest`` when all is quiet."""

    def __init__(self, observer: ZooKeeperObserver) -> None:
        self._observer = observer
        self._violated = observer.cluster.violated
        self._epoch = 0  # the newest controller epoch that was committed
        self._registered: dict[int, int] = {}  # czxid -> the session that registered a broker
        self._watches: dict[Node, tuple[Image, LawChecker]] = {}
        self._guarded: dict[Node, int] = {}  # -> the newest controller epoch that it has obeyed
        self._rested_s = -1.0
        observer.ensemble.witnesses.append(self._committed)
        observer.births.append(self._on_start)

    # ---- in the servers

    def _committed(self, session: int, ops: Sequence[Op], changes: Sequence[ZnodeChange]) -> None:
        for change in changes:
            if change.new and change.owner and change.path.startswith(CHROOT + paths.BROKER_IDS):
                self._registered[self._observer.ensemble.zxid] = session
        if session:  # neither a tool nor the servers themselves
            self._ruled(session, ops)
            self._states(ops)
            self._ephemerals(session, changes)
        self._election(session, ops, changes)

    def _ruled(self, session: int, ops: Sequence[Op]) -> None:
        """Z1: only under a check of the controller epoch; Z6, C5: only in the session that holds /controller."""
        written = [
            op for op in ops if not isinstance(op, CheckVersion) and op.path.startswith(RULED) and op.path not in FIRST
        ]
        written += [op for op in ops if isinstance(op, Delete) and op.path.startswith(DIRECTORIES)]
        if not written:
            return
        what = f"{type(written[0]).__name__} of {written[0].path}"
        epochs = [op for op in ops if isinstance(op, CheckVersion) and op.path == EPOCH]
        version = self._observer.ensemble.tree.at(EPOCH).version
        if not epochs or epochs[0].version != version:
            self._violated(f"Z1: {what} without a check of the controller epoch")
        controller = self._observer.ensemble.tree.znodes.get(CONTROLLER)
        if controller is None or controller.owner != session:
            self._violated(f"Z6: {what} by {self._who(session)}, which does not hold the controller role")

    def _states(self, ops: Sequence[Op]) -> None:
        """Z4: the state of a partition is set under the version that was read. C5: under the newest epoch."""
        for op in ops:
            if paths.of_state(op.path.removeprefix(CHROOT)) is None or not isinstance(op, Create | Set):
                continue
            if isinstance(op, Set) and op.version < 0:
                self._violated(f"Z4: {op.path} is set whatever it was")
            epoch = parse_state("", 0, op.data).controller_epoch
            if epoch != self._epoch:
                self._violated(f"C5: {op.path} is written under controller epoch {epoch}, {self._epoch} is the newest")

    def _ephemerals(self, session: int, changes: Sequence[ZnodeChange]) -> None:
        """Z5: an ephemeral znode of another session is removed only when that session is over, or its process dead."""
        ensemble = self._observer.ensemble
        for change in changes:
            if change.data is not None or change.owner in (0, session) or change.owner not in ensemble.sessions:
                continue
            process = ensemble.opened[change.owner].owner
            if process is not None and process.alive and process is not ensemble.opened[session].owner:
                self._violated(f"Z5: {self._who(session)} removes {change.path} of {process.name}, which lives")

    def _election(self, session: int, ops: Sequence[Op], changes: Sequence[ZnodeChange]) -> None:
        """Z2: the transaction that creates /controller takes the next controller epoch too, and no other one does."""
        taken = any(change.path == CONTROLLER and change.new for change in changes)
        epochs = [parse_controller_epoch(change.data) for change in changes if change.path == EPOCH]
        if not epochs and not taken:
            return
        if epochs == [0] and not taken and self._epoch == 0:  # made by the first that comes
            return
        if not taken or epochs != [self._epoch + 1]:
            self._violated(f"Z2: {self._who(session)} {'is elected' if taken else 'is not'}, epochs {epochs}")
        self._epoch = max([self._epoch, *epochs])

    def _who(self, session: int) -> str:
        opened = self._observer.ensemble.opened.get(session)
        return "somebody" if opened is None or opened.owner is None else opened.owner.name

    # ---- at each node

    def _on_start(self, id: int, node: Node) -> None:
        node.metadata.watch(lambda image, delta: self._decided(id, node, image, delta))

    def _decided(self, id: int, node: Node, image: Image, delta: Delta) -> None:
        """C1 .. C12 over the decisions of the active controller, from what it loaded on."""
        watched = self._watches.get(node)
        if watched is None or watched[0] is not image:
            self._watches[node] = (image, LawChecker(image, partial(self._judge, id)))
            self._loaded(id, image)
        elif plane_of(node).claimed_epoch is not None:
            self._go_last(id, image, delta)
            watched[1].after(image, delta, settings=SETTINGS)

    def _judge(self, id: int, law: Law, step: CommittedBatch) -> None:
        try:
            law(step)
        except AssertionError as error:
            self._violated(f"{law_id(law)}: controller n{id}: {error}".partition("\n")[0])

    def _go_last(self, id: int, image: Image, delta: Delta) -> None:
        """C8: a topic that is marked for deletion goes when no other broker, dead or alive, has a replica of it. A
        broker that was dead while its replica moved elsewhere has the folder still, and sets it aside when it is back.
        """
        cluster, tree = self._observer.cluster, self._observer.ensemble.tree
        names = set(delta.deleted_topics(image).values())
        for change in delta.changes(image) if names else ():
            before, folder = change.before, f"{change.topic}-{change.key[1]}"
            if change.topic not in names or CHROOT + paths.delete_topic(change.topic) not in tree.znodes:
                continue
            for broker in () if before is None or change.after is not None else before.replicas:
                disk = cluster.hosts[broker].disk
                if broker != id and any(disk.is_dir(f"{at}/{folder}") for at in cluster.folders):
                    self._violated(f"C8: n{id} has deleted topic {change.topic}, and n{broker} has {folder}")

    def _loaded(self, id: int, image: Image) -> None:
        """C2 of what a new controller read: an ISR of nobody is only where one stands."""
        for topic in image.topics.values():
            for p in topic.partitions.values():
                state = self._observer.ensemble.tree.znodes.get(CHROOT + paths.state(topic.name, p.id))
                if p.isr or state is None or state.version != p.partition_epoch:
                    continue
                if stands := parse_state(topic.name, p.id, state.data).isr:
                    self._violated(
                        f"C2: n{id} loads {topic.name}-{p.id} with an ISR of nobody, and {stands} stands there"
                    )

    def look(self) -> None:
        """Z6: a broker that serves is registered in the session that it has."""
        for id, node in self._observer.nodes():
            plane = plane_of(node)
            if plane is None:
                continue
            if node not in self._guarded:
                self._guard(id, node)
            life = node.lifecycle
            if life is not None and life.stage is Stage.RUNNING:
                session = self._registered.get(life.epoch)
                if session != plane.zk.session_id:
                    self._violated(f"Z6: n{id} serves under epoch {life.epoch}, registered in an older session")

    def _guard(self, id: int, node: Node) -> None:
        """Check every request of a controller, as the broker handles it."""
        self._guarded[node] = 0
        handler = plane_of(node).controller_requests
        for name in REQUESTS:
            setattr(handler, name, self._checked(id, node, getattr(handler, name)))

    def _checked(self, id: int, node: Node, real: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T]]:
        async def checked(request: Request, *more: object) -> T:
            known = plane_of(node).controller_requests.controller_epoch  # one that it has won itself, too
            answer = await real(request, *more)
            if (answer[0] if isinstance(answer, tuple) else answer) is Code.NONE:
                self._obeyed(id, node, request, known)
            return answer

        return checked

    def _obeyed(self, id: int, node: Node, request: Any, known: int) -> None:
        """Z3: nothing is done for an older controller, or for another life of this broker."""
        what, newest = type(request).__name__, max(self._guarded[node], known)
        if request.controller_epoch < newest:
            self._violated(f"Z3: n{id} obeys {what} of controller epoch {request.controller_epoch} after {newest}")
        self._guarded[node] = max(newest, request.controller_epoch)
        if self._registered.get(request.broker_epoch) != plane_of(node).zk.session_id:
            self._violated(f"Z3: n{id} obeys {what} for broker epoch {request.broker_epoch}, which is another life's")

    # ---- at rest

    def is_at_rest(self) -> bool:
        """Whether nothing is left to come about; looks twice a second, since a look reads everything."""
        now_s = self._observer.cluster.loop.time()
        if now_s < self._rested_s + REST_LOOK_S:
            return False
        self._rested_s = now_s
        return not self.at_rest()

    def at_rest(self) -> list[str]:
        """Z7, Z4: the controller knows what stands in the znodes. C3, L6: all nodes know it. L8: there is one."""
        controller = self._observer.controller
        if controller is None:
            return ["L8: nobody, or more than one, holds the controller role"]
        tree = self._observer.ensemble.tree
        broken = [
            f"Z7: {path} is still there: nobody handled it" for path in tree.znodes if path.startswith(DIRECTORIES)
        ]
        for law in LAWS:
            try:
                law(controller.metadata.image, survey_of(tree))
            except AssertionError as error:
                broken.append(f"{'Z4' if law is LAWS[0] else 'Z7'}: {error}".partition("\n")[0])
        truth = self._unmarked(_essence(self._observer.image))
        for id, node in self._observer.nodes():
            for what, ours, theirs in zip(WHAT, truth, self._known(node), strict=True):
                if ours != theirs:
                    broken.append(f"C3: n{id} has other {what} than the znodes: {_first(theirs, ours)}")
        return broken + self._roles()

    def _known(self, node: Node) -> Known:
        """What a node knows. Where brokers go by Kafka's rules, nobody may have told it of a topic that is gone: the
        controller that deleted it was deposed, and no list that follows is complete (decision 48)."""
        brokers, partitions, settings = _essence(node.metadata.image)
        if self._observer.cluster.plan.kafka:
            names = self._observer.image.names
            partitions = {key: known for key, known in partitions.items() if key[0] in names}
        return self._unmarked((brokers, partitions, settings))

    def _unmarked(self, known: Known) -> Known:
        """The same without topics that are to be deleted: their own controller knows of them, and no other broker."""
        brokers, partitions, settings = known
        marked = self._observer.marked()
        return brokers, {key: one for key, one in partitions.items() if key[0] not in marked}, settings

    def _roles(self) -> list[str]:
        """Z8: replicas go by the epochs that stand in the states, and leaders by the ISR and the replicas too."""
        broken = []
        replicas = self._observer.replicas()
        for name, key, stands in self._observer.partitions():
            for id, replica in replicas.get(key, {}).items():
                one = replica.machine
                if one.role in (Role.OFFLINE, Role.REMOVED):
                    continue
                knows = _role(one) if id == stands.leader else _role(one)[:2]
                ought = _role(stands) if id == stands.leader else _role(stands)[:2]
                if knows != ought:
                    broken.append(f"Z8: n{id} goes by {knows} for {name}, and {ought} stands there")
        return broken


def _essence(image: Image) -> Known:
    """What every node must know."""
    brokers = {broker.id: (broker.epoch, broker.endpoints) for broker in image.live_brokers()}
    partitions = {
        (topic.name, p.id): (topic.id, p.leader, p.leader_epoch, p.partition_epoch, p.isr, p.replicas)
        for topic in image.topics.values()
        for p in topic.partitions.values()
    }
    return brokers, partitions, {key: settings for key, settings in image.configs.items() if settings}


def _role(one: Any) -> tuple[Any, ...]:  # Any: a partition of the image, or a replica's machine
    """Leader, its epoch, the partition's epoch, ISR and replicas."""
    return one.leader, one.leader_epoch, one.partition_epoch, sorted(one.isr), sorted(one.replicas)


def _first(theirs: dict[Any, Any], ours: dict[Any, Any]) -> str:
    key = next(key for key in (*ours, *theirs) if ours.get(key) != theirs.get(key))
    return f"{key} is {theirs.get(key)}, not {ours.get(key)}"
