"""Carries out the migration on a controller of the quorum: does what ``stages.py`` says while this controller rules.

A listener of the metadata quorum, after the controller role: every committed batch goes on to ZooKeeper through the
writer of ZooKeeper mode, in order, whole, fenced by the epoch that was claimed; and to brokers in ZooKeeper mode
through its channels. Clients are answered when the quorum has committed; ZooKeeper follows. Source: KIP-866.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from moldau.broker.host import Host, WithClusterId, WithPeers
from moldau.broker.lifecycle import RegistrationRefused
from moldau.broker.loop import run_in_slices, sleep
from moldau.broker.migration import stages
from moldau.broker.migration.claiming import Claim, NotOurs, claim, mark
from moldau.broker.migration.mode import ZooKeeperMode, controllers_missing
from moldau.broker.migration.stages import Action, Event, MigrationMachine, MigrationStage, step
from moldau.broker.node_parts import WithBrokerChannels, WithReplicas
from moldau.broker.zookeeper.channels import Channels
from moldau.broker.zookeeper.directories import Directories
from moldau.broker.zookeeper.loading import read_all
from moldau.broker.zookeeper.restoring import in_transactions
from moldau.broker.zookeeper.rules import Rules
from moldau.broker.zookeeper.writer import Writer
from moldau.controller import requests
from moldau.controller.migration import MigrationState
from moldau.controller.replies import Refused
from moldau.model import Code
from moldau.model.backoff import longer_ms
from moldau.ports import Handle
from moldau.ports.zookeeper import BadVersion, CheckVersion, Delete, Link, NoNode, Op, Set, ZooKeeper, ZooKeeperError
from moldau.wire.records.metadata import FeatureLevelRecord, RegisterBrokerRecord
from moldau.wire.schema import Message
from moldau.zookeeper import paths
from moldau.zookeeper.catching_up import catch_up, image_in_slices
from moldau.zookeeper.payload import BadZnode
from moldau.zookeeper.reading import SurveyResult

log = logging.getLogger(__name__)

PAUSE_MS = 500
RETRY_MAX_MS = 2_000
DRAIN_MS = 5_000


class Voters(Protocol):
    """The quorum of controllers."""

    @property
    def next_offset(self) -> int: ...

    def voters(self) -> Mapping[int, tuple[str, int]]: ...


class MigratingNode(Host, WithBrokerChannels, WithClusterId, WithPeers, WithReplicas, Protocol):
    """A controller of the quorum that takes a cluster over."""

    @property
    def plane(self) -> Voters: ...

    def failed(self, task: str, error: BaseException) -> None: ...


class MigrationDriver:
    """One controller's part. ``state`` is where it stands; ``zk`` is its session, which is connected."""

    def __init__(self, node: MigratingNode, zk: ZooKeeper) -> None:
        self._node = node
        self._tasks = node.world.tasks
        self.zk = zk
        self.state = MigrationMachine()
        self._waits_for_log = False
        self._quorum_epoch = -1
        self._claim = Claim(-1, -1)
        self._comparing = self._written = -1
        self.behind = 0
        """Records that ZooKeeper was not told of when this controller left."""
        self._work: Handle | None = None
        self._stopped = False
        self._link = Link.CONNECTED
        self._link_news = asyncio.Event()
        self.channels = Channels(node, Rules(), to_migrating=True)
        self.channels.on_unsent.append(self.deposed)
        self.writer = Writer(node, self, self._seal)
        self._directories = Directories(node, zk, self.channels, self._remove)
        self.mode = ZooKeeperMode(node, zk, self.channels, self._take_notes)
        node.metadata.watch(self.channels.send_changes)
        zk.on_link(self._linked)

    async def stop(self) -> None:
        """Leave: what is decided is written first, if ZooKeeper takes it; somebody may want to go back there."""
        deadline_ms = self._node.world.clock.monotonic_ms() + DRAIN_MS
        while self.state.copied and not self._is_level() and self._node.world.clock.monotonic_ms() < deadline_ms:
            await sleep(self._tasks, 5)
        if self.state.copied and not self._is_level():
            self.behind = max(self._node.metadata.offset - self._written, 1)
            log.error(
                "ZooKeeper lacks the last %d record(s) of the metadata log, up to offset %d (%s): before the cluster"
                " goes back there, start the controllers again until it is told",
                self.behind,
                self._node.metadata.offset,
                self.state.said or self.state.stage.value,
            )
        self._stopped = True
        self.feed(stages.RulesNoMore())
        try:
            await asyncio.wait_for(self.zk.stop(), RETRY_MAX_MS / 1000)
        except (TimeoutError, ZooKeeperError) as error:
            log.warning("the session with ZooKeeper could not be closed: %r", error)

    def _is_level(self) -> bool:
        """Whether ZooKeeper holds all that is decided."""
        return self.state.stage is MigrationStage.BOTH and self.writer.idle

    # ---- the plane's events

    def became_active(self, epoch: int) -> None:
        self._quorum_epoch = epoch
        self._waits_for_log = True
        self._begin()

    def lost_active(self) -> None:
        self._waits_for_log = False
        self.feed(stages.RulesNoMore())

    def committed(self, records: Sequence[Message], offset: int, epoch: int) -> None:
        if self.state.stage in (MigrationStage.COMPARE, MigrationStage.BOTH) and self.writer.is_open:
            # Levels of features are the quorum's own: ZooKeeper's are as they were.
            self.writer.propose([r for r in records if not isinstance(r, FeatureLevelRecord)], offset)
        self._begin()

    def load_snapshot(self, records: Sequence[Message], offset: int, epoch: int) -> None:
        """What it says is in the image; who rules never loads one (law R7)."""

    def _begin(self) -> None:
        """Once the log says how far the migration is: an empty one does not, until its first records are there."""
        image = self._node.metadata.image
        if self._waits_for_log and image.features:
            self._waits_for_log = False
            found = MigrationState(image.zk_migration_state)
            if found in (MigrationState.PRE_MIGRATION, MigrationState.MIGRATION):
                self.mode.open()
            self.feed(stages.MigrationRules(found))

    # ---- the machine

    def feed(self, event: Event) -> None:
        """Take a step, and do what it says."""
        self.state, effects = step(self.state, event)
        if isinstance(event, stages.RulesNoMore) and self._work is not None:
            self._work.cancel()
            self._work = None
        for effect in effects:
            if isinstance(effect, stages.Say):
                log.log(logging.WARNING if effect.is_trouble else logging.INFO, "migration: %s", effect.text)
            elif isinstance(effect, stages.EndNode):
                self._node.failed("migration", RegistrationRefused(effect.why))
            else:
                self._do(effect)

    def _do(self, action: Action) -> None:
        match action:
            case Action.SEND:
                self.channels.open(self._claim.epoch, self._node.metadata.offset)
            case Action.STOP_WRITING:
                self.writer.close()
            case Action.STOP_SENDING:
                self.channels.close()
                self.mode.close()
            case _:
                work: dict[Action, Callable[[], Awaitable[None]]] = {
                    Action.COUNT: self._count,
                    Action.CLAIM: self._take,
                    Action.COPY: self._copy,
                    Action.COMPARE: self._compare,
                    Action.PAUSE: self._pause,
                }
                if self._work is not None:
                    self._work.cancel()
                self._work = self._tasks.spawn(self._carefully(work[action]), action.value)

    async def _carefully(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except (ZooKeeperError, BadZnode, NotOurs) as error:
            self.feed(stages.Failed(str(error)))

    # ---- steps

    async def _pause(self) -> None:
        await sleep(self._tasks, PAUSE_MS)
        self.feed(stages.PauseOver())

    async def _count(self) -> None:
        image = self._node.metadata.image
        missing = controllers_missing(image, self._node.plane.voters()) or await self.mode.missing()
        self.feed(stages.Counted("the migration waits for " + "; ".join(missing) if missing else ""))

    async def _take(self) -> None:
        self._claim = await claim(self._node, self.zk, self._quorum_epoch, copied=self.state.copied)
        self.feed(stages.Claimed())

    async def _copy(self) -> None:
        reading = await self._read()
        if reading.repairs:
            log.info("%d topic(s) from before topic ids get one", len(reading.repairs))
            for some in in_transactions([op] for op in reading.repairs):
                await self.zk.multi([self._fence(), *some])
        found = tuple(r for r in reading.records if not isinstance(r, RegisterBrokerRecord | FeatureLevelRecord))
        log.info("%d records are copied from ZooKeeper", len(found))
        reply = await self._node.controller.submit(requests.AdoptCluster(records=found))
        if isinstance(reply, Refused):
            raise NotOurs(f"{reply.code.name} {reply.message or ''}")
        self.feed(stages.Copied())

    async def _compare(self) -> None:
        reading = await self._read()
        there = await run_in_slices(self._tasks, image_in_slices(reading, self._node.world.step))
        # From here to the end of this block nothing is committed in between.
        ops = catch_up(self._node.metadata.image, there, reading.known_znodes, self._claim.epoch)
        self._comparing = self._node.metadata.offset
        self.writer.open(self._claim.epoch, self._claim.version, reading.known_znodes)
        self.writer.put([*ops, *self._seal(self._comparing)], self._comparing)
        if ops:
            log.info("%d operations bring ZooKeeper up to date", len(ops))
        for name, waiting in sorted(reading.known_znodes.new_partitions.items()):
            id = self._node.metadata.image.names.get(name)
            if id is not None:
                partitions = tuple((number, each.replicas) for number, each in sorted(waiting.items()))
                await self._node.controller.submit(
                    requests.AdoptPartitions(name=name, topic_id=id, configs=(), partitions=partitions)
                )

    async def _read(self) -> SurveyResult:
        """Everything; NotOurs when there is what nobody may decide about. A broker that crossed, and was told nothing
        of it, would take its replicas of that for strays."""
        reading = await read_all(self._node, self.zk)
        if reading.known_znodes.unread:
            raise NotOurs(f"these znodes cannot be read: {', '.join(sorted(reading.known_znodes.unread))}")
        return reading

    def _fence(self) -> CheckVersion:
        return CheckVersion(path=paths.CONTROLLER_EPOCH, version=self._claim.version)

    def _seal(self, offset: int) -> Sequence[Op]:
        return [Set(path=paths.MIGRATION, data=mark(self._node.config.node_id, self._quorum_epoch, offset))]

    # ---- what brokers in ZooKeeper mode leave there

    async def _take_notes(self) -> None:
        """Log directories that failed; nobody but who writes to ZooKeeper takes these notes away (law Z1)."""
        if self.state.stage is MigrationStage.BOTH:
            await self._directories.take_notes()

    async def _remove(self, path: str) -> None:
        guard = self.writer.guard
        if guard is None:
            return
        try:
            await self.zk.multi([guard, Delete(path=path)])
        except (NoNode, BadVersion) as error:
            if error.path == guard.path:
                self.deposed("another controller has been elected since")

    # ---- what the writer asks of a plane

    async def deliver(self, records: Sequence[Message], offset: int, epoch: int) -> None:
        """ZooKeeper holds everything up to an offset."""
        self._written = offset
        if self.state.stage is MigrationStage.COMPARE and offset >= self._comparing:
            self.feed(stages.Compared())

    def deposed(self, why: str) -> None:
        """A write failed: see who rules ZooKeeper, and what stands there."""
        self.feed(stages.Failed(why))

    def denied(self, offset: int, why: str, code: Code = Code.NONE) -> None:
        """An ACL is in the way, or a server's largest packet; nobody waits for the answer: the quorum gave it."""
        self.deposed(why)

    async def connected(self) -> bool:
        """Wait while the link is SUSPENDED; whether the session lives."""
        while self._link is Link.SUSPENDED:
            self._link_news.clear()
            await self._link_news.wait()
        if self._link is Link.CONNECTED:
            await sleep(self._tasks, 1)  # a loss that the link has not told of yet shows now
        return self._link is not Link.LOST

    def _linked(self, link: Link) -> None:
        self._link = link
        self._link_news.set()
        if link is Link.LOST and not self._stopped:
            self.feed(stages.Failed("the session with ZooKeeper is lost"))
            self._tasks.spawn(self._renew(), "new session with ZooKeeper")

    async def _renew(self) -> None:
        wait_ms = PAUSE_MS
        while not self._stopped:
            try:
                await self.zk.reopen()
                self._link = Link.CONNECTED
                return
            except ZooKeeperError as error:
                log.warning("no new session with ZooKeeper yet: %s", error)
            await sleep(self._tasks, wait_ms)
            wait_ms = longer_ms(wait_ms, PAUSE_MS, RETRY_MAX_MS)

    # ---- what the node asks

    def readers(self) -> dict[int, int]:
        """Broker in ZooKeeper mode -> offset up to which it has been told everything."""
        return self.channels.readers()
