"""What others write into ZooKeeper, as the active controller notices it: brokers that come and go, topics made by hand.

One task, one look at a time: a watch only marks what must be looked at again, and each look arms its watch before it
reads (law Z7). What is found becomes requests to the controller role. Requests of tools are in ``admin_znodes.py``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from moldau.broker.controller.failure_detector import is_refused
from moldau.broker.loop import sleep
from moldau.broker.zookeeper.admin_znodes import AdminZnodes
from moldau.broker.zookeeper.directories import Directories
from moldau.broker.zookeeper.folders import make_again
from moldau.broker.zookeeper.moving_states import MovingStates
from moldau.broker.zookeeper.parts import PlaneParts, ZooKeeperNode
from moldau.broker.zookeeper.translation import incarnation
from moldau.controller import requests
from moldau.controller.replies import Refused
from moldau.image import Broker, Topic
from moldau.model import Code
from moldau.model.ids import is_topic_name
from moldau.ports import Handle
from moldau.ports.zookeeper import NoAuth, NoNode, SessionExpired, ZooKeeperError
from moldau.zookeeper import paths
from moldau.zookeeper.payload import BadZnode
from moldau.zookeeper.survey import get_each
from moldau.zookeeper.survey import topic as survey_topic
from moldau.zookeeper.znodes import BrokerZnode, ReplicaAssignment, TopicZnode, parse_broker, parse_topic

log = logging.getLogger(__name__)

Look = Callable[[], Awaitable[object]]

AT_ONCE = 200
"""Watches that are set at the same time."""
REFUSED_AGAIN_MS = 2_000
"""Before a look is repeated that ZooKeeper refused: an ACL, a folder that is missing."""
SECOND_LOOK_MS = 1_000
"""Between two looks at brokers that are registered and fenced: who refused connections may answer again."""


class Watching:
    """The watches of an active controller; closed while this node is not active."""

    def __init__(self, node: ZooKeeperNode, plane: PlaneParts) -> None:
        self._node = node
        self._plane = plane
        self._news = asyncio.Event()
        self._dirty: set[str] = set()
        self._task: Handle | None = None
        self._timer: Handle | None = None
        self._watched: set[str] = set()
        self._touched: set[str] = set()
        self._denied: set[str] = set()
        self._strangers: set[str] = set()
        self._unreadable: set[int] = set()
        """Brokers whose registration stands and cannot be read, or may not be."""
        self._watched_brokers: set[int] = set()
        self.admin = AdminZnodes(node, plane, self.mark)
        self._moving = MovingStates(node, plane, partial(self.mark, "moving states"))
        self._directories = Directories(node, plane.zk, plane.channels, self.admin.remove)
        self._looks: dict[str, Look] = {
            "brokers": self._brokers,
            "topics": self._topics,
            **self.admin.looks,
            "moving states": self._moving.check,
            "directories": self._failed_directories,
            "unread": self._unread,
        }

    def open(self) -> None:
        """Look at everything, and from then on at what changes."""
        self.close()
        self._watched, self._touched, self._denied, self._strangers = set(), set(), set(), set()
        self._unreadable, self._watched_brokers = set(), set()
        self._dirty = set(self._looks)
        self._news.set()
        self._task = self._node.world.tasks.spawn(self._follow(), "watches of the controller")
        self._tick()

    def close(self) -> None:
        self.admin.forget()
        self._moving.forget()
        for work in (self._task, self._timer):
            if work is not None:
                work.cancel()
        self._task = self._timer = None

    def mark(self, what: str) -> None:
        """Have something looked at again."""
        self._dirty.add(what)
        self._news.set()

    def _tick(self) -> None:
        self._timer = self._node.world.tasks.call_later(SECOND_LOOK_MS, self._tick)
        if self._unreadable or any(broker.fenced for broker in self._node.metadata.image.brokers.values()):
            self.mark("brokers")
        if self._plane.writer.known_znodes.new_partitions:
            self.mark("topics")
        if self._plane.writer.known_znodes.unread:
            self.mark("unread")

    async def _follow(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            dirty, self._dirty = self._dirty, set()
            for what, look in self._looks.items():
                if what not in dirty:
                    continue
                try:
                    await self._plane.retry_until_connected(look)
                except SessionExpired:
                    return
                except BadZnode as error:
                    log.error("a znode is not understood, and left alone: %s", error)
                except ZooKeeperError as error:
                    log.error("%s are looked at again in a while: %s", what, error)
                    if isinstance(error, NoNode):
                        await self._make_folders()
                    self._node.world.tasks.call_later(REFUSED_AGAIN_MS, partial(self.mark, what))

    async def _make_folders(self) -> None:
        """What every broker makes at its start, and somebody has removed from under this controller."""
        with suppress(ZooKeeperError):  # the next look says it
            await self._plane.retry_until_connected(partial(make_again, self._plane.zk))

    # ---- brokers

    async def _brokers(self) -> None:
        names = await self._plane.zk.children(paths.BROKER_IDS, lambda happened, path: self.mark("brokers"))
        ids, foreign = paths.broker_ids(names)
        self._leave_alone(paths.BROKER_IDS, foreign)
        registered: dict[int, tuple[BrokerZnode, int]] = {}
        denied = set()
        named, self._unreadable = self._unreadable, set()
        for id in ids:
            await self._watch_broker(id)
        for id, found in zip(ids, await get_each(self._plane.zk, [paths.broker(id) for id in ids]), strict=True):
            try:
                if isinstance(found, NoAuth):
                    denied.add(id)
                    self._cannot_read(id, named, f"broker {id} is taken for what it was: {found}")
                elif found is not None:
                    registered[id] = parse_broker(id, found[0]), found[1].czxid
            except BadZnode as error:
                self._cannot_read(id, named, f"broker {id} does not count until this is mended: {error}")
        image = self._node.metadata.image
        gone = tuple(
            (id, known.epoch)
            for id, known in image.brokers.items()
            if not known.fenced and id not in registered and id not in denied
        )
        if gone:
            log.info("brokers %s are not registered any more", [id for id, _ in gone])
            await self._submit(requests.BrokersGone(brokers=gone))
        for znode, epoch in registered.values():
            await self._registered(znode, epoch)

    async def _watch_broker(self, id: int) -> None:
        """Have changes of a registration told: a broker of Kafka's writes its own anew when its listeners change."""
        if id in self._watched_brokers:
            return
        self._watched_brokers.add(id)  # before it is told of the first change
        try:
            await self._plane.zk.exists(paths.broker(id), partial(self._broker_changed, id))
        except ZooKeeperError as error:
            self._watched_brokers.discard(id)
            if not isinstance(error, NoAuth):
                raise

    def _broker_changed(self, id: int, happened: object, path: str) -> None:
        self._watched_brokers.discard(id)
        self.mark("brokers")

    def _cannot_read(self, id: int, named: set[int], why: str) -> None:
        """A registration is looked at again and again until it is mended: nobody tells that another client wrote it."""
        self._unreadable.add(id)
        if id not in named:
            log.error("%s", why)

    async def _registered(self, znode: BrokerZnode, epoch: int) -> None:
        """A broker's znode is there: take it in, or back, unless it is in already."""
        known = self._node.metadata.image.brokers.get(znode.id)
        same = known if known is not None and known.epoch == epoch else None
        # Written anew by the broker itself, or it could not be read when the controller role began.
        changed = (
            same is not None and bool(znode.endpoints) and (same.endpoints, same.rack) != (znode.endpoints, znode.rack)
        )
        if same is None or changed:
            log.info("broker %d is registered, epoch %d", znode.id, epoch)
            await self._submit(
                requests.RegisterBroker(
                    broker_id=znode.id,
                    cluster_id=self._node.cluster_id,
                    # A session's, not a process's: the same may come back (C7).
                    incarnation_id=incarnation(epoch) if same is None else same.incarnation_id,
                    endpoints=znode.endpoints,
                    features=znode.features,
                    rack=znode.rack,
                    previous_is_gone=True,
                    previous_broker_epoch=_known_epoch(known, znode.lives_since(epoch)),
                    broker_epoch=epoch,
                )
            )
        elif not same.fenced or same.in_controlled_shutdown:
            return
        elif znode.id != self._node.config.node_id and (
            not znode.endpoints
            or await is_refused(self._node.peers, znode.endpoints, self._node.config.inter_broker_listener)
        ):
            return  # its process is gone; its session will follow
        await self._submit(
            requests.BrokerHeartbeat(broker_id=znode.id, broker_epoch=epoch, metadata_offset=self._plane.next_offset)
        )

    async def _submit(self, request: object) -> Any:  # Any: each request has a reply of its own kind
        reply = await self._node.controller.submit(request)
        if isinstance(reply, Refused):
            log.info("%s: %s %s", type(request).__name__, reply.code.name, reply.message or "")
        return reply

    # ---- log directories (KIP-112)

    async def _failed_directories(self) -> None:
        self._directories.own()
        await self._directories.take_notes(lambda happened, path: self.mark("directories"))

    # ---- topics

    async def _topics(self) -> None:
        there = await self._plane.zk.children(paths.TOPICS, lambda happened, path: self.mark("topics"))
        self._leave_alone(paths.TOPICS, [name for name in there if not is_topic_name(name)])
        names = {name for name in there if is_topic_name(name)}
        while not self._plane.writer.idle:
            await sleep(self._node.world.tasks, 2)  # what this controller made itself is no news
        await self._watch_topics(sorted(names - self._watched))
        image = self._node.metadata.image
        self._touched &= names
        for name in sorted(
            names - image.names.keys() | self._plane.writer.known_znodes.new_partitions.keys() | self._touched
        ):
            self._touched.discard(name)  # before it is read: what changes meanwhile is looked at again
            try:
                await self._adopt(name)
            except BadZnode as error:
                log.error("topic %s is left as it is: %s", name, error)
            except NoAuth as error:
                self._touched.add(name)
                self._deny(name, error)
            except ZooKeeperError:
                self._touched.add(name)
                raise
        lost = [name for name in image.names if name not in names]
        if lost and set(lost) & (image.names.keys() - set(await self._plane.zk.children(paths.TOPICS))):
            self._plane.deposed(f"topics {lost} were removed from ZooKeeper by another client; everything is read anew")

    def _deny(self, name: str, error: NoAuth) -> None:
        """An ACL keeps a topic from us: it is looked at again in a while, and the others are looked at now."""
        if name not in self._denied:
            self._denied.add(name)
            log.error("topic %s is left as it is until this is mended: %s", name, error)
        self._node.world.tasks.call_later(REFUSED_AGAIN_MS, partial(self.mark, "topics"))

    def _leave_alone(self, folder: str, names: Iterable[str]) -> None:
        """Say once in a controller role what is named as nothing can be."""
        for path in {f"{folder}/{name}" for name in names} - self._strangers:
            self._strangers.add(path)
            log.warning("neither a broker nor a topic can have this name; it is left alone: %.100s", path)

    async def _unread(self) -> None:
        """Znodes that could not be read, and kept what they hold out of everybody's decisions: mended is mended."""
        unread = dict(self._plane.writer.known_znodes.unread)
        for (path, seen), found in zip(unread.items(), await get_each(self._plane.zk, list(unread)), strict=True):
            if not isinstance(found, NoAuth) and (found is None or found[1].mzxid != seen):
                self._plane.deposed(f"{path}, which could not be read, has changed since; everything is read anew")
                return

    async def _watch_topics(self, names: list[str]) -> None:
        """A tool adds partitions by writing into the topic's znode."""
        for at in range(0, len(names), AT_ONCE):
            ended = await asyncio.gather(*map(self._watch_topic, names[at : at + AT_ONCE]), return_exceptions=True)
            for error in filter(None, ended):  # each has ended by then, or a watch would be set after the next look
                raise error

    async def _watch_topic(self, name: str) -> None:
        """Have changes of a topic's znode told, and look at it if it is not what is known of it: it may have been
        written since it was read or made. Where an ACL denies that it is looked at again, as one that cannot be read.
        """
        self._watched.add(name)  # before it is told of the first change
        try:
            data, _ = await self._plane.zk.get(paths.topic(name), partial(self._topic_changed, name))
        except (NoNode, NoAuth):
            self._watched.discard(name)
            return
        except ZooKeeperError:
            self._watched.discard(name)
            raise
        if not self._is_known(name, data):
            self._touched.add(name)

    def _is_known(self, name: str, data: bytes) -> bool:
        """Whether a topic's znode has the partitions that this controller knows of."""
        known_znodes, topic = self._plane.writer.known_znodes, self._node.metadata.image.topic(name)
        if topic is None or paths.topic(name) in known_znodes.unread:
            return True  # looked at anyway, or not at all
        try:
            found = parse_topic(name, data).partitions.keys()
        except BadZnode:
            return False
        apart = known_znodes.new_partitions.get(name, {}).keys() | known_znodes.set_apart.get(name, {}).keys()
        return found == topic.partitions.keys() | apart

    def _topic_changed(self, name: str, happened: object, path: str) -> None:
        self._watched.discard(name)
        self._touched.add(name)
        self.mark("topics")

    async def _adopt(self, name: str) -> None:
        """A topic, or more partitions of one, that a tool wrote: give them leaders."""
        if paths.topic(name) in self._plane.writer.known_znodes.unread:
            return
        known = self._node.metadata.image.topic(name)  # before it is read, or what is added meanwhile would seem taken
        found = await survey_topic(self._plane.zk, name)
        if name not in found.topics:
            return
        data = found.topics[name][0]
        znode = parse_topic(name, data)
        known_znodes = self._plane.writer.known_znodes
        known_znodes.add(found.present)
        known_znodes.saw(paths.topic(name), data)
        settings: dict[str, str] = {}
        for entity, raw in found.configs.items():
            known_znodes.saw(paths.config(entity), raw)
            settings = known_znodes.settings[entity]
        waiting = known_znodes.new_partitions.get(name, {})
        if waiting:
            reply = await self._submit(
                requests.AdoptPartitions(
                    name=name,
                    topic_id=znode.id,
                    configs=tuple(sorted(settings.items())),
                    partitions=tuple((number, each.replicas) for number, each in sorted(waiting.items())),
                )
            )
            if isinstance(reply, Refused) and reply.code is Code.INVALID_TOPIC_EXCEPTION:
                log.warning("partitions %s are not added to topic %s, which is being deleted", sorted(waiting), name)
                znode = znode._replace(partitions={n: a for n, a in znode.partitions.items() if n not in waiting})
                await self.admin.restore(znode, found.topics[name][1].version)
        if known is not None and znode.id in (None, known.id):
            await self._refuse_decrease(known, znode, found.topics[name][1].version)

    async def _refuse_decrease(self, known: Topic, znode: TopicZnode, version: int) -> None:
        """Put partitions back into a topic's znode that another client took away (LI-2): they stand, with their leaders
        and replicas, and the next controller would know of none of them."""
        taken = [number for number in known.partitions if number not in znode.partitions]
        if not taken:
            return
        log.error("topic %s: partitions %s were taken out of its znode, and are put back", known.name, taken)
        assigned = {n: ReplicaAssignment(p.replicas, p.adding, p.removing) for n, p in known.partitions.items()}
        mended = TopicZnode(known.name, known.id, {**znode.partitions, **{n: assigned[n] for n in taken}})
        await self.admin.restore(mended, version)


def _known_epoch(known: Broker | None, lives_since: int) -> int:
    """The epoch under which a broker is known, if its process is the same that lived then: only its session is another,
    and it has lost nothing. -1 else."""
    return known.epoch if known is not None and lives_since <= known.epoch else -1
