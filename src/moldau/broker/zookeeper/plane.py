"""The control plane on ZooKeeper: a node's session, its candidacy, and what it reads and writes while it is the active
controller.

``propose`` and ``resign`` are the verbs of ``moldau.ports.ControlPlane``; its events go to the listeners in order.
Every broker of this mode is also a candidate for controller. A session begins with the broker's registration,
then follows or stands; it ends with the controller role, and whatever was told in it is void (law Z6). Offsets are this
node's own count. The parts are in ``broker/zookeeper/``; what stands in znodes is ``moldau.zookeeper``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from moldau.broker.loop import sleep
from moldau.broker.zookeeper.channels import Channels
from moldau.broker.zookeeper.controller_requests import ControllerRequestHandler
from moldau.broker.zookeeper.election import ControllerElection, ControllerElsewhere, ControllerHere, ControllerVacant
from moldau.broker.zookeeper.loading import keep, load
from moldau.broker.zookeeper.parts import ZooKeeperNode
from moldau.broker.zookeeper.presenting import Presenting
from moldau.broker.zookeeper.publishing import MetadataPublisher
from moldau.broker.zookeeper.registration import deregister
from moldau.broker.zookeeper.settings import ZnodeSettings
from moldau.broker.zookeeper.watching import Watching
from moldau.broker.zookeeper.writer import Writer
from moldau.controller import requests
from moldau.controller.replies import Refused
from moldau.image import Topic
from moldau.model import Code
from moldau.ports import Handle, PlaneEvents
from moldau.ports.zookeeper import ConnectionLoss, Link, NoAuth, SessionExpired, ZooKeeper, ZooKeeperError
from moldau.wire.schema import Message
from moldau.zookeeper import paths
from moldau.zookeeper.payload import BadZnode

log = logging.getLogger(__name__)

T = TypeVar("T")

RETRY_MS = 100
RETRY_MAX_MS = 2_000
DENIED_REST_MS = 1_000
CUT_OFF_MS = 2_000
"""Without ZooKeeper for so long, nobody's leave is waited for, and a controller does not say that it rules."""
TOLD_AGAIN_MS = 30_000
"""After so long what keeps everybody from being controller is in the log again."""


class ZooKeeperPlane:
    """One node's plane. ``claimed_epoch`` is the controller epoch while this node is active, None else."""

    missing_log = ""
    """See ``reported.ReportedPlane``: there is none."""

    def __init__(self, node: ZooKeeperNode, zk: ZooKeeper, listeners: Sequence[PlaneEvents]) -> None:
        self._node = node
        self._world = node.world
        self.publisher = MetadataPublisher(listeners, node.world.tasks)
        self.zk = zk
        self.claimed_epoch: int | None = None
        self._next = 0
        self._link = Link.LOST
        self._link_news = asyncio.Event()
        self._news = asyncio.Event()
        self.why_no_controller = ""
        """See ``Plane.why_no_controller``."""
        self._suspected = ""
        """What was seen once: it may be gone in a moment, as a controller's znodes do not go all at once."""
        self._tell_ms = 0
        self._cut_ms: int | None = None
        self._own_watched = False
        self._retired = False
        self._rest_ms = RETRY_MS
        self._task: Handle | None = None
        self.controller_requests = ControllerRequestHandler(node, self)
        self.election = ControllerElection(node, zk, self._news.set, lambda: self.controller_requests.controller_epoch)
        self.settings = ZnodeSettings(node, self)
        self.channels = Channels(node, node.rules, whole=self._whole)
        self.channels.on_newer_controller.append(self._refused_by_broker)
        self.channels.on_unsent.append(self.deposed)
        self.channels.on_roles_answered.append(lambda broker_id, epoch, codes: self.election.accepted_by_broker())
        self.channels.on_later_log_epochs.append(
            lambda told: node.controller.submit_nowait(requests.RaiseLeaderEpochs(told=told))
        )
        self.writer = Writer(node, self)
        self.watching = Watching(node, self)
        self.presenting = Presenting(node) if node.config.migrates else None
        node.metadata.watch(self.channels.send_changes)

    # ---- start and stop

    async def start(self) -> None:
        """Begin the first session, which the connection made; the rest happens by itself."""
        self._node.replicas.machine_class = self._node.rules.machine_class
        self._node.replicas.undecided.may_be_partial = True
        self.zk.on_link(self._linked)
        self._link = Link.CONNECTED
        self._task = self._world.tasks.spawn(self._run(), "zookeeper plane")

    async def stop(self) -> None:
        """Leave: the session is closed; the registration and the controller's znode go with it."""
        self._retired = True
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._step_down()
        self.settings.close()
        if self.presenting is not None:
            self.presenting.close()
        try:
            await asyncio.wait_for(self.zk.stop(), RETRY_MAX_MS / 1000)
        except (TimeoutError, ZooKeeperError) as error:
            log.warning("the session could not be closed: %r", error)

    async def retire(self) -> None:
        """The broker is about to stop: be registered no more, so that the next controller does not take it for alive,
        and hand the controller role over if we hold it."""
        self._retired = True
        if self.presenting is not None:
            self.presenting.close()
        self._step_down()
        try:
            await asyncio.wait_for(self._deregister(), RETRY_MAX_MS / 1000)
        except (TimeoutError, ZooKeeperError) as error:
            log.warning("the session's end must say that this broker leaves: %r", error)

    async def _deregister(self) -> None:
        await deregister(self._node, self.zk)
        await self.election.resign()

    # ---- the session

    def _linked(self, link: Link) -> None:
        self._follow_link(link)
        if link is Link.SUSPENDED:
            log.warning(
                "the connection to ZooKeeper broke; the session may still live. Should ZooKeeper have a majority and"
                " take no connection for minutes, then its data may be an older copy of what was read before: stop all"
                " brokers, then start them"
            )
        elif link is Link.LOST and not self._retired:
            log.warning("the session with ZooKeeper is lost")
            self._step_down()
            self.controller_requests.forget()
            self._node.lifecycle.lost()
            self._news.set()

    def _follow_link(self, link: Link) -> None:
        self._link = link
        self._link_news.set()
        if link is Link.CONNECTED:
            self._cut_ms = None
        elif self._cut_ms is None:
            self._cut_ms = self._world.clock.monotonic_ms()

    @property
    def cut_off_ms(self) -> int:
        """For how long there has been no connection with ZooKeeper."""
        return 0 if self._cut_ms is None else self._world.clock.monotonic_ms() - self._cut_ms

    @property
    def is_cut_off(self) -> bool:
        """See ``Plane.is_cut_off``."""
        return self.cut_off_ms >= CUT_OFF_MS

    @property
    def unregistered(self) -> str:
        """See ``reported.Plane``. Not before the session may have ended: until then the broker leads what it led, and a
        change of ZooKeeper's own leader cuts off every broker for a moment."""
        if self._link is Link.LOST:
            return "the session with ZooKeeper is lost: the broker registers again as soon as it has another"
        lasts_ms, cut_ms = self.zk.session_timeout_ms, self.cut_off_ms
        if cut_ms < lasts_ms:
            return ""
        return (
            f"no connection with ZooKeeper for {cut_ms / 1000:.0f} s: the session, which lasts {lasts_ms / 1000:g} s,"
            " is over where ZooKeeper is reached, and others lead"
        )

    async def connected(self) -> bool:
        """Wait while the link is SUSPENDED; whether the session lives."""
        while self._link is Link.SUSPENDED:
            self._link_news.clear()
            await self._link_news.wait()
        if self._link is Link.CONNECTED:
            await sleep(self._world.tasks, 1)  # a loss that the link has not told of yet shows now
        return self._link is not Link.LOST

    async def retry_until_connected(self, call: Callable[[], Awaitable[T]]) -> T:
        """Repeat what may be repeated until it is answered; SessionExpired when the session ended meanwhile."""
        while True:
            try:
                return await call()
            except ConnectionLoss as error:
                if not await self.connected():
                    raise SessionExpired(error.path) from error

    async def _run(self) -> None:
        while True:
            try:
                self._own_watched = False
                await self._see_controller()
                await self.retry_until_connected(lambda: self._node.lifecycle.register(self.zk))
                if self.presenting is not None:
                    self.presenting.open()
                await self.retry_until_connected(self.settings.open)
                await self._follow()
            except SessionExpired:
                pass
            await self._renew()

    async def _see_controller(self) -> None:
        """Who is controller, before one tells this broker to serve: it would name itself to its first clients. What is
        in the way is named when it stands for election."""
        try:
            await self.retry_until_connected(self.election.read_controller)
        except SessionExpired:
            raise
        except (BadZnode, ZooKeeperError) as error:
            log.debug("nobody says yet who is controller: %s", error)

    async def _renew(self) -> None:
        """A new session, as long as it takes."""
        wait_ms = RETRY_MS
        while True:
            try:
                await self.zk.reopen()
                self._follow_link(Link.CONNECTED)
                return
            except ZooKeeperError as error:
                log.warning("no new session with ZooKeeper yet: %s", error)
            await sleep(self._world.tasks, wait_ms)
            wait_ms = min(2 * wait_ms, RETRY_MAX_MS)

    async def _follow(self) -> None:
        """Until the session is lost: look who is controller whenever that may have changed, and stand if nobody is."""
        while True:
            self._news.clear()
            try:
                await self.retry_until_connected(self._stay_registered)
                await self._check_controller()
            except SessionExpired:
                raise
            except (BadZnode, ZooKeeperError) as error:
                await self._unable(error)
            await self._wait_for_news()
            if self._link is Link.LOST:
                return

    async def _wait_for_news(self) -> None:
        """Until something may have changed. Where there is no controller although /controller is there, for a while
        only: no watch tells of a registration that makes its broker known."""
        timer = self._world.tasks.call_later(RETRY_MAX_MS, self._news.set) if self._suspected else None
        try:
            await self._news.wait()
        finally:
            if timer is not None:
                timer.cancel()

    def _tell(self, trouble: str) -> None:
        """Say why nobody is controller, once that was seen twice; in the log again from time to time."""
        now_ms = self._world.clock.monotonic_ms()
        if trouble != self._suspected:
            self._suspected, self.why_no_controller, self._tell_ms = trouble, "", now_ms
            return
        self.why_no_controller = trouble
        if trouble and now_ms >= self._tell_ms:
            log.error("%s", trouble)
            self._tell_ms = now_ms + TOLD_AGAIN_MS

    async def _stay_registered(self) -> None:
        """Register again if another client has removed the registration: while the session lives nothing else would."""
        if self._own_watched or self._retired:
            return
        self._own_watched = True
        try:
            if await self._is_removed(paths.broker(self._node.config.node_id)) and not self._retired:
                log.warning("the registration of this broker was removed by another client; it registers again")
                await self._node.lifecycle.register(self.zk)
        except BaseException:
            self._own_watched = False
            raise

    async def _is_removed(self, own: str) -> bool:
        """Whether this broker's registration is gone; not if another client keeps it from us, for then it stands."""
        try:
            return await self.zk.exists(own, self._own_changed) is None
        except NoAuth:
            self._own_watched = False
            return False

    def _own_changed(self, happened: object, path: str) -> None:
        self._own_watched = False
        self._news.set()

    async def _unable(self, error: Exception) -> None:
        """A znode holds nonsense, or may not be read or written: nothing is done until somebody mends it."""
        log.error("nobody can be controller until this is mended: %s", error)
        await sleep(self._world.tasks, RETRY_MAX_MS)
        self._news.set()

    async def _check_controller(self) -> None:
        seen = await self.retry_until_connected(self.election.read_controller)
        self._tell(seen.trouble if isinstance(seen, ControllerElsewhere) else "")
        if not isinstance(seen, ControllerHere):
            if self.claimed_epoch is not None:
                self.deposed("/controller is not ours any more")  # resign first
            if isinstance(seen, ControllerVacant) and not self._retired:
                won = await self._elect()
                if won is not None:
                    await self._claim(won)
            return
        if self.claimed_epoch is None:
            if self._retired or seen.resigned:
                await sleep(self._world.tasks, self._rest_ms)
                await self.retry_until_connected(self.election.resign)
                self._news.set()
            else:
                await self._claim(seen)  # the answer to our election was lost

    async def _elect(self) -> ControllerHere | None:
        try:
            return await self.election.elect()
        except ConnectionLoss:
            if not await self.connected():
                raise SessionExpired("/controller") from None
            self._news.set()
        return None

    # ---- the controller role

    async def _claim(self, won: ControllerHere) -> None:
        """Read everything, tell the brokers everything, then decide."""
        node = self._node
        log.info("elected controller, epoch %d", won.epoch)
        self.controller_requests.saw(won.epoch)
        try:
            found = await self.retry_until_connected(lambda: load(node, self.zk, won.epoch, won.epoch_version))
        except SessionExpired:
            raise
        except (BadZnode, ZooKeeperError) as error:
            await self._unable(error)
            self.election.resigned = won.epoch  # another may be able to
            return
        if self._link is Link.LOST:
            raise SessionExpired("/controller")
        self._next += 1
        keep(node, found)
        node.replicas.stopped.clear()
        self.publisher.event(lambda listener: listener.load_snapshot(found.records, self._next - 1, won.epoch))
        self.controller_requests.complete = True
        self.claimed_epoch = won.epoch
        self.writer.open(won.epoch, won.epoch_version, found.known_znodes)
        self.channels.open(won.epoch, self._next - 1, found.written_by)
        self.publisher.event(lambda listener: listener.became_active(won.epoch))
        node.controller.have_partly_read(found.partly_read)
        node.lifecycle.metadata_changed()
        node.controller.submit_nowait(requests.ReconcileOnFailover(dead=found.dead, back=found.back))
        self.watching.open()

    def _step_down(self) -> None:
        """Be the controller no longer, at once: nothing of it acts afterwards."""
        if self.claimed_epoch is None:
            return
        self.claimed_epoch = None
        self._node.replicas.undecided.kept = frozenset()
        self.controller_requests.forget()  # what we read is no ground to serve on: we may not have decided on it
        self.watching.close()
        self.writer.close()
        self.channels.close()
        self.publisher.event(lambda listener: listener.lost_active())
        self.settings.read_again()

    def denied(self, offset: int, why: str, code: Code = Code.CLUSTER_AUTHORIZATION_FAILED) -> None:
        """What was proposed up to ``offset`` cannot be written. Whoever asked for it is told, and everything is read
        anew, after a rest: a znode of a tool's, or a leader, may wish for it again."""
        self.watching.admin.denied(why, code)
        self._node.controller.denied(offset, why, code)
        self.deposed(why, rest_ms=DENIED_REST_MS)

    def _refused_by_broker(self, broker_id: int) -> None:
        self.election.refused_by_broker()
        self.deposed(f"broker {broker_id} knows a newer controller epoch than {self.claimed_epoch}")

    def deposed(self, why: str, *, rest_ms: int = RETRY_MS) -> None:
        """This node may not, or must not, be controller any more: leave, give /controller up if it is still ours, and
        see who is. ``rest_ms``: before it is given up, since what deposed us may do so again at once."""
        self._rest_ms = rest_ms
        if self.claimed_epoch is not None:
            log.warning("giving up the controller role: %s", why)
            self.election.resigned = self.claimed_epoch
            self._step_down()
        self._news.set()

    # ---- what the controller asks

    def propose(self, records: Sequence[Message], epoch: int) -> int | None:
        """See ``ControlPlane.propose``."""
        if self.claimed_epoch != epoch:
            return None
        self._next += len(records)
        self.writer.propose(records, self._next - 1)
        return self._next - 1

    def resign(self) -> None:
        """See ``ControlPlane.resign``."""
        self.deposed("it resigns")

    async def deliver(self, records: Sequence[Message], offset: int, epoch: int) -> None:
        """The writer's word that records are in the znodes."""
        await self.publisher.free()
        await self.publisher.committed(records, offset, epoch)

    # ---- what the node asks

    async def feed(self, records: Sequence[Message]) -> None:
        """What another controller decided, told by a request, or what stands in a znode of settings. Returns when it is
        carried out; begins at once, so be ``publisher.free`` before you look at the image."""
        if records:
            self._next += len(records)
            await self.publisher.committed(records, self._next - 1, self.controller_requests.controller_epoch)

    def _whole(self, topic: Topic) -> Topic:
        return self._node.replicas.undecided.topic(self._node.metadata.image, topic.id) or topic

    @property
    def leader(self) -> tuple[int | None, int]:
        """The controller as known here, and the newest controller epoch seen."""
        if self.claimed_epoch is not None:
            return self._node.config.node_id, self.claimed_epoch
        elsewhere = self.election.elsewhere
        return (None if elsewhere is None else elsewhere.broker_id), self.controller_requests.controller_epoch

    def voters(self) -> dict[int, tuple[str, int]]:
        """The controller's address, where other brokers reach it."""
        elsewhere: ControllerElsewhere | None = self.election.elsewhere
        return {} if elsewhere is None or elsewhere.address is None else {elsewhere.broker_id: elsewhere.address}

    @property
    def quorum(self) -> None:
        """There is no quorum of controllers here."""
        return None

    @property
    def next_offset(self) -> int:
        """What the next record proposed is counted as."""
        return self._next

    async def mark_for_deletion(self, topics: Sequence[str]) -> bool:
        """Leave what a tool leaves that wants topics deleted, which outlives this controller (TD-1); False when this
        is not the active controller any more."""
        try:
            await self.retry_until_connected(lambda: self.watching.admin.mark_for_deletion(topics))
        except SessionExpired:
            return False
        return self.writer.guard is not None

    def refused_deletion(self, topic_id: bytes) -> Refused | None:
        """Why a topic that was marked cannot be deleted, if its znodes may not be."""
        return self.watching.admin.refused.get(topic_id)

    def readers(self) -> dict[int, int]:
        """If we are active: broker -> offset up to which it has been told everything."""
        return self.channels.readers()
