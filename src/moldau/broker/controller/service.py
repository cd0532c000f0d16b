"""The controller within a node: requests in, proposals to the plane, replies when they are committed, and its clocks.

Decides nothing: ``moldau.controller`` does. Turns time into requests (sessions, no-ops, rebalancing), and keeps the
futures of those who wait. The plane says when this node is active. Read next: ``failure_detector.py``, by which it
learns that a broker is dead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from moldau.broker.config.bootstrap_file import first_records
from moldau.broker.controller.failure_detector import FailureDetector, FailureDetectorHost
from moldau.broker.host import WithClusterId
from moldau.broker.loop import yield_to_loop
from moldau.controller import requests
from moldau.controller.active import ActiveController, ControllerResult
from moldau.controller.facts import Facts, Settings
from moldau.controller.feature_support import demand_to_lead
from moldau.controller.features import is_empty
from moldau.controller.kafkas_migration import UNFINISHED, demand_no_migration_of_kafkas
from moldau.controller.replies import Moved, Refused
from moldau.image import Image
from moldau.model import Code
from moldau.model.protocol import Protocol
from moldau.ports import Handle
from moldau.wire.schema import Message

log = logging.getLogger(__name__)

TICK_MS = 250
FIRST_REBALANCE_MS = 5_000
NEVER_MS = 1 << 62


def _znode_bytes() -> int:
    """What a znode may hold; loaded where there is a ZooKeeper only."""
    from moldau.zookeeper.payload import ZNODE_MAX

    return ZNODE_MAX


class DecisionLog(Protocol):
    """Where decisions go: the control plane."""

    @property
    def next_offset(self) -> int: ...

    def propose(self, records: Sequence[Message], epoch: int) -> int | None: ...  # Any: messages of the metadata log

    def readers(self) -> Mapping[int, int]: ...


class Readers(Protocol):
    """Brokers that are told of decisions in another way."""

    def readers(self) -> Mapping[int, int]: ...


class ControllerHost(FailureDetectorHost, WithClusterId, Protocol):
    """A node that may be the active controller."""

    @property
    def plane(self) -> DecisionLog: ...

    @property
    def migration(self) -> Readers | None: ...


class ControllerService:
    """One node's part in being the active controller: hears ``PlaneEvents``, after the node's ``MetadataCache``."""

    def __init__(self, node: ControllerHost) -> None:
        self._node = node
        self._world = node.world
        self._machine: ActiveController | None = None
        self._waiting: dict[int, asyncio.Future[Any]] = {}  # Any: each request has a reply of its own
        self._timers: dict[str, Handle] = {}
        self._last_record_ms = 0
        self._refusal: str | None = None
        self.failure_detector = FailureDetector(node, self)

    def start(self) -> None:
        """Called when the node's identity is known."""
        config = self._node.config
        self._machine = ActiveController(
            Settings(
                cluster_id=self._node.cluster_id,
                node_id=config.node_id,
                static=config.static_topic_config(),
                # Where brokers' sessions are ZooKeeper's, nobody's can run out here.
                session_timeout_ms=config["broker.session.timeout.ms"] if not config.on_zookeeper else NEVER_MS,
                rebalance_enable=config["auto.leader.rebalance.enable"],
                imbalance_percentage=config["leader.imbalance.per.broker.percentage"],
                delete_topic_enable=config["delete.topic.enable"],
                migrating=config.migrates,
                znode_bytes=_znode_bytes() if config["zookeeper.connect"] else None,
                epoch_for_each_change=bool(config["zookeeper.connect"]),
                deletions_wait=config.on_zookeeper,
                zookeeper_mode=config.on_zookeeper,
                partitions_at_once=self._world.step,
            )
        )

    def stop(self) -> None:
        self.lost_active()

    @property
    def _controller(self) -> ActiveController:
        assert self._machine is not None, "what a controller decides is asked after its start"
        return self._machine

    @property
    def active(self) -> bool:
        """Whether this node is the active controller; not before ``start``, though a snapshot may be delivered."""
        return self._machine is not None and self._machine.active

    @property
    def awaiting_commit(self) -> int:
        """How many requests wait for their records to be committed."""
        return len(self._waiting)

    @property
    def epoch(self) -> int:
        return -1 if self._controller.epoch is None else self._controller.epoch

    # ---- requests

    async def submit(self, request: object) -> Any:  # Any: as above
        """The reply to a request, once it is true: after its records are committed. ``Refused`` from no controller."""
        answer = self._controller.decide(request, self._facts(request))
        while answer.reply is None and answer.token is None:  # a part of it: others have their turn in between
            self._propose(answer)
            await yield_to_loop(self._world.tasks)
            answer = self._controller.decide(answer.then, self._facts())
        if answer.then is not None:
            self._go_on(answer.then)
        if answer.token is None:
            return answer.reply
        return await self._when_committed(answer)

    def _when_committed(
        self, answer: ControllerResult
    ) -> asyncio.Future[Any]:  # Any: each request has a reply of its own
        """The reply, once it is true."""
        assert answer.token is not None, "the reply waits for its records"
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()  # Any: as above
        self._waiting[answer.token] = future
        self._propose(answer)
        return future

    def _propose(self, answer: ControllerResult) -> None:
        if answer.records:
            self._last_record_ms = self._world.clock.monotonic_ms()
            last = self._node.plane.propose(answer.records, self.epoch)
            if last is None:
                self.lost_active()

    def mark_for_deletion(self, topic_ids: frozenset[bytes]) -> None:
        """Remember which topics' deletion waits, until this node is the active controller no more."""
        self._controller.mark_for_deletion(topic_ids)

    def have_partly_read(self, topic_ids: frozenset[bytes]) -> None:
        """Remember which topics have partitions that could not be read, until this node is the active controller no
        more."""
        self._controller.have_partly_read(topic_ids)

    def submit_nowait(self, request: object) -> None:
        """Have a request decided whose reply nobody waits for."""
        answer = self._controller.decide(request, self._facts())
        self._propose(answer)
        if answer.then is not None:
            self._go_on(answer.then)

    def _go_on(self, request: object) -> None:
        """Submit the next part in the next iteration of the loop."""

        async def part() -> None:
            self.submit_nowait(request)

        self._world.tasks.spawn(part(), "part of a decision")

    def _facts(self, request: object = None) -> Facts:
        observed: dict[int, int] = {}
        if isinstance(request, requests.BrokerHeartbeat) and request.want_shut_down:
            # Who leaves waits until the others know; what they fetched says it sooner than their heartbeats
            # (KAFKA-14292).
            observed = {**self._node.plane.readers(), self._node.config.node_id: self._node.metadata.offset}
            if self._node.migration is not None:
                observed.update(self._node.migration.readers())
        return Facts(
            now_ms=self._world.clock.monotonic_ms(),
            next_offset=self._node.plane.next_offset,
            seed=self._world.random.uuid(),
            observed=observed,
        )

    # ---- the plane's events

    def became_active(self, epoch: int) -> None:
        log.info("[Controller id=%d epoch=%d] becomes active", self._node.config.node_id, epoch)
        image = self._node.metadata.image
        has_log = not self._node.config.on_zookeeper  # which begins with records, and shows by no-ops how far it is
        if has_log:
            demand_to_lead(image.features)
            demand_no_migration_of_kafkas(image.features, image.zk_migration_state)
        first = self._first_records(image) if has_log else ()
        answer = self._controller.claim(epoch, image, self._facts(), first)
        self._propose(answer)
        self._every("tick", TICK_MS, self._tick)
        idle_ms = self._node.config["metadata.max.idle.interval.ms"]
        if idle_ms and has_log:
            self._every("idle", idle_ms, self._idle)
        if self._node.config["auto.leader.rebalance.enable"]:
            period_ms = 1000 * self._node.config["leader.imbalance.check.interval.seconds"]
            self._every("rebalance", period_ms, lambda: self._passes(requests.RebalanceLeaders()), FIRST_REBALANCE_MS)
        unclean_ms = self._node.config["unclean.leader.election.interval.ms"]
        self._every("unclean", unclean_ms, lambda: self._passes(requests.ElectUncleanLeaders()))
        # Whoever died together with the last controller is silent towards this one: probe every broker.
        for broker in image.live_brokers():
            self.failure_detector.probe(broker.id)

    def _first_records(self, image: Image) -> Sequence[Message] | None:
        """What the format tool wrote for a new cluster, None: nothing of its own."""
        config = self._node.config
        is_new = is_empty(image) and not config.migrates
        return first_records(config.metadata_dir, self._world.disk) if is_new else None

    def lost_active(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        if self.active:
            log.info("[Controller id=%d epoch=%d] gives up the controller role", self._node.config.node_id, self.epoch)
            for token, reply in self._controller.renounce():
                self._settle(token, reply)
        for future in self._waiting.values():
            if not future.done():
                future.set_result(Refused(Code.NOT_CONTROLLER))
        self._waiting.clear()

    def denied(self, offset: int, why: str, code: Code) -> None:
        """What was proposed up to ``offset`` cannot be written, now or later: whoever asked is told, for asking again
        would end the next controller too."""
        for token, reply in self._controller.deny(offset, Refused(code, why)):
            self._settle(token, reply)

    def committed(self, records: Sequence[Message], offset: int, epoch: int) -> None:
        if self._machine is not None:
            for token, reply in self._machine.committed(offset):
                self._settle(token, reply)

    def load_snapshot(self, records: Sequence[Message], offset: int, epoch: int) -> None:
        assert not self.active, "a leader never loads a snapshot (law R7)"

    def _settle(self, token: int, reply: object) -> None:
        future = self._waiting.pop(token, None)
        if future is not None and not future.done():
            future.set_result(reply)

    # ---- time

    def _every(self, name: str, period_ms: float, act: Callable[[], object], first_ms: float | None = None) -> None:
        def due() -> None:
            self._timers[name] = self._world.tasks.call_later(period_ms, due)
            act()

        self._timers[name] = self._world.tasks.call_later(period_ms if first_ms is None else first_ms, due)

    def _tick(self) -> None:
        self.submit_nowait(requests.Tick())
        if self._node.metadata.image.zk_migration_state in UNFINISHED and not self._node.config.migrates:
            self._world.tasks.spawn(self._finish_migration(), "end of the migration")

    async def _finish_migration(self) -> None:
        """The setting that begins a migration was taken away, which is how it is ended (KIP-866)."""
        reply = await self.submit(requests.FinishMigration())
        if not isinstance(reply, Refused):
            log.info("the migration from ZooKeeper is finished; there is no way back")
        elif self.active and reply.message != self._refusal:
            log.error("the migration from ZooKeeper cannot be finished: %s", reply.message)
            self._refusal = reply.message

    def _passes(self, request: object) -> None:
        """Ask once more as long as a pass leaves something for the next, each when the one before is committed."""

        async def again() -> None:
            is_more_left = True
            while self.active and is_more_left:
                reply = await self.submit(request)
                is_more_left = isinstance(reply, Moved) and reply.more

        self._world.tasks.spawn(again(), type(request).__name__)

    def _idle(self) -> None:
        if (
            self._world.clock.monotonic_ms() - self._last_record_ms
            >= self._node.config["metadata.max.idle.interval.ms"]
        ):
            self.submit_nowait(requests.Idle())

    # ---- brokers that die

    def contact_ms(self, broker_id: int) -> int | None:
        """When a broker's last heartbeat came, on the monotonic clock; None when it has no session."""
        return self._controller.contact_ms(broker_id)

    def connection_is_of(self, connection: Hashable | None, broker_id: int) -> None:
        """From now on this connection's end is news of that broker."""
        self.failure_detector.connection_is_of(connection, broker_id)

    async def predecessor_is_gone(self, broker_id: int) -> bool:
        """Whether the process registered under an id is certainly dead, now that another one claims it."""
        return await self.failure_detector.predecessor_is_gone(broker_id)
