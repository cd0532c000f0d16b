"""A broker's life in ZooKeeper mode: registered by an ephemeral znode, told by the controller, allowed to go.

Registered is alive, so nothing is repeated while all is well: the session lives instead. A broker serves once
the controller has told it everything about this very registration. The epoch is the id of the transaction that made
the znode. Registering, and again after the session expired, is ``registration.py``; the plane calls it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from moldau.broker.lifecycle import Stage
from moldau.broker.loop import sleep
from moldau.broker.zookeeper.directories import tell
from moldau.broker.zookeeper.parts import ZooKeeperNode
from moldau.broker.zookeeper.registration import register
from moldau.broker.zookeeper.restoring import assigned_undecided, last_assigned
from moldau.model import Code
from moldau.ports.zookeeper import SessionExpired, ZooKeeper, ZooKeeperError
from moldau.wire.messages.k07_controlled_shutdown import ControlledShutdownRequest
from moldau.zookeeper import paths

log = logging.getLogger(__name__)

T = TypeVar("T")
AGAIN_MS = 50
"""Between two requests for leave: the others hear of the new leaders in milliseconds."""
NAMED = 20
"""Partitions that one line names."""
LOOK_MS = 200
"""Between two looks whether ZooKeeper is there, while an answer is waited for."""


class ZooKeeperLifecycle:
    """What ``broker/lifecycle.py`` is in KRaft mode, with the same surface."""

    def __init__(self, node: ZooKeeperNode) -> None:
        self._node = node
        self.stage = Stage.STARTING
        self.epoch = -1
        """Broker epoch: of the newest registration; -1 before the first."""
        self.registered = False
        """Whether that registration stands, as far as is known."""
        self._first_epoch = -1
        self.incarnation_id: bytes = node.world.random.uuid()
        self.running = asyncio.Event()
        self._hurried = False

    def start(self) -> None:
        self._node.metadata.watch(lambda image, delta: self.metadata_changed())

    def send_heartbeat_now(self) -> None:
        """Nobody waits for heartbeats here."""

    def directory_failed(self) -> None:
        """Have the controller hear of it."""
        plane = self._node.plane
        if plane.claimed_epoch is not None:
            plane.watching.mark("directories")
        self._node.world.tasks.spawn(tell(plane, self._node.config.node_id), "a failed directory")

    # ---- the session

    async def register(self, zk: ZooKeeper) -> None:
        """Register in a session; RegistrationRefused when another process lives under our id."""
        self.epoch = await register(self._node, zk, self.incarnation_id, self._first_epoch)
        if self._first_epoch < 0:
            self._first_epoch = self.epoch
        self.registered = True
        if self.stage is not Stage.LEAVING:
            self.stage = Stage.FENCED
        log.info("registered with broker epoch %d", self.epoch)

    def lost(self) -> None:
        """The session expired, and the registration with it."""
        if self.stage is Stage.RUNNING:
            log.warning("the session expired; this broker registers again")
            self.stage = Stage.FENCED
        self.registered = False

    def metadata_changed(self) -> None:
        """The image may have changed: look whether this broker counts as alive there."""
        node = self._node
        known = node.metadata.image.brokers.get(node.config.node_id)
        alive = self.registered and known is not None and not known.fenced and known.epoch == self.epoch
        if self.stage is Stage.RUNNING and not alive:
            log.warning("this broker was fenced; its registration stands, the controller will find it alive")
            self.stage = Stage.FENCED
        if self.stage is not Stage.FENCED or not alive or not node.plane.controller_requests.complete:
            return
        self.stage = Stage.RUNNING
        log.info("broker %d is registered and serves", node.config.node_id)
        # Not from within a batch that is being applied: what is in the image is carried out before it.
        node.world.tasks.spawn(self._run(), "open the listeners")

    async def _run(self) -> None:
        node, plane = self._node, self._node.plane
        try:
            awaited = await plane.retry_until_connected(lambda: assigned_undecided(node, plane.zk))
            last = await plane.retry_until_connected(lambda: last_assigned(node, plane.zk))
        except SessionExpired:
            return  # the next registration comes here again
        node.replicas.undecided.wait_for(awaited, last)
        await node.open_to_clients()
        self.running.set()

    # ---- leaving

    async def leave(self) -> bool:
        """Ask for a controlled shutdown as long as the configuration says; whether leave was given. What nobody else
        can lead is waited for: a follower may catch up (CS-1). Kafka's brokers ask less often, and as long, also where
        no other broker lives: this one then goes at once, and what it leads keeps its leader and its ISR."""
        config, clock = self._node.config, self._node.world.clock
        if self.stage in (Stage.STARTING, Stage.GONE) or not config["controlled.shutdown.enable"]:
            self.stage = Stage.GONE
            return False
        log.info("Starting controlled shutdown")
        self.stage = Stage.LEAVING
        started_ms = clock.monotonic_ms()
        patience_ms = config["controlled.shutdown.max.retries"] * config["controlled.shutdown.retry.backoff.ms"]
        allowed, alone, told = False, False, list[str]()
        while not allowed and not self._hurried and clock.monotonic_ms() - started_ms < patience_ms:
            if self._node.plane.is_cut_off:
                log.warning("ZooKeeper does not answer: nobody can decide who leads what is led here")
                break
            allowed, left = await self._ask_leave()
            alone = bool(left) and await self._is_alone()
            if alone:
                log.warning(
                    "no other broker lives: %d partition(s) that are led here keep their leader, and nobody is waited"
                    " for",
                    len(left),
                )
                break
            if not allowed:
                if left not in (told, []):
                    told = left
                    named = ", ".join(left[:NAMED]) + (", ..." if len(left) > NAMED else "")
                    log.info("Controlled shutdown goes on: %d partition(s) are still led here: %s", len(left), named)
                await sleep(self._node.world.tasks, AGAIN_MS)
        self.stage = Stage.GONE
        if allowed:
            took_ms = clock.monotonic_ms() - started_ms
            log.info("Controlled shutdown request returned successfully after %dms", took_ms)
        elif self._hurried:
            log.warning("told twice to stop: this broker goes without having handed over what it leads")
        elif not alone:
            log.warning("Proceeding to do an unclean shutdown as all the controlled shutdown attempts failed")
        # What a controller still sends is for a registration that goes, or whose session went unnoticed (seed 7001).
        self.registered = False
        await self._node.plane.retire()
        return allowed

    def hurry(self) -> None:
        """Go without leave, once the request that is under way has ended."""
        self._hurried = True

    async def _ask_leave(self) -> tuple[bool, list[str]]:
        """Whether we may go, and the partitions that are still led here (none when nobody says)."""
        request = ControlledShutdownRequest(broker_id=self._node.config.node_id, broker_epoch=self.epoch)
        timeout_ms = self._node.config["controller.socket.timeout.ms"]
        try:
            answer = await self._unless_cut_off(self._node.controller_channel.send(request, timeout_ms))
        except OSError as error:
            log.debug("no answer to a controlled shutdown: %s", error)
            return False, []
        if answer is None:
            return False, []  # a controller that cannot write answers nothing
        left = [f"{one.topic_name}-{one.partition_index}" for one in answer.remaining_partitions]
        if answer.error_code not in (Code.NONE, Code.REQUEST_TIMED_OUT, Code.NOT_CONTROLLER):
            log.warning("controlled shutdown: %s", Code(answer.error_code).name)
        return answer.error_code == Code.NONE and not left, left

    async def _unless_cut_off(self, asked: Coroutine[Any, Any, T]) -> T | None:  # Any: what a coroutine waits for
        """What is answered; None when ZooKeeper is out of reach first."""
        task = asyncio.ensure_future(asked)
        try:
            while not task.done() and not self._node.plane.is_cut_off:
                await asyncio.wait({task}, timeout=LOOK_MS / 1000)
            return task.result() if task.done() else None
        finally:
            task.cancel()

    async def _is_alone(self) -> bool:
        """Whether this broker is the controller, and no other is registered: nobody may lead in its place. One that is
        registered and fenced may be about to serve, or to be back; if its process is gone, its session ends soon. Where
        another rules, that one lives."""
        node = self._node
        me = node.config.node_id
        if node.plane.claimed_epoch is None or any(one.id != me for one in node.metadata.image.live_brokers()):
            return False
        try:
            names = await self._unless_cut_off(node.plane.zk.children(paths.BROKER_IDS))
        except ZooKeeperError as error:
            log.debug("it is not known who is registered: %s", error)
            return False
        return names is not None and set(paths.broker_ids(names)[0]) <= {me}

    def stop(self) -> None:
        """Say nothing more to the controller."""
        self.stage = Stage.GONE
