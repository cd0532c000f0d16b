"""Requests that tools leave in znodes: delete topics, move replicas, elect preferred leaders; notes of changed ISRs.

Each becomes a request to the controller role; the znode goes when it is done, as the tools that wait for it expect:
deletion when every live broker has answered, a move when it has ended. A deletion that must wait (TD-1) leaves its
znode, so that the next controller knows of it too, and is tried again whenever brokers or partitions change. What is
refused is logged and removed. The looks run in ``watching.py``. Source: Kafka's znodes.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress

from moldau.broker.loop import yield_to_loop
from moldau.broker.replicas.manager import REMOVED_AT_ONCE
from moldau.broker.zookeeper.parts import PlaneParts, ZooKeeperNode
from moldau.controller import requests
from moldau.controller.replies import DeleteResult, Refused
from moldau.image import Delta, Image, Partition
from moldau.model import Code, TopicPartition
from moldau.ports.zookeeper import BadVersion, CheckVersion, Create, Delete, NoAuth, NodeExists, NoNode, Op, Set
from moldau.zookeeper import paths
from moldau.zookeeper.notes import (
    parse_isr_note,
    parse_preferred_election,
    parse_reassignment,
    reassignment_json,
)
from moldau.zookeeper.payload import BadZnode
from moldau.zookeeper.survey import Found, get_each
from moldau.zookeeper.znodes import TopicZnode, parse_state, topic_json

log = logging.getLogger(__name__)

Moves = dict[TopicPartition, tuple[int, ...]]


class AdminZnodes:
    """The part of ``Watching`` that carries out requests of tools. ``mark`` has a look repeated."""

    def __init__(self, node: ZooKeeperNode, plane: PlaneParts, mark: Callable[[str], None]) -> None:
        self._node = node
        self._plane = plane
        self._mark = mark
        self._asked: Moves = {}
        self._waiting: frozenset[str] = frozenset()
        """Topics whose deletion waits until nothing of them moves and all their replicas are online."""
        self.refused: dict[bytes, Refused] = {}
        """Topics whose deletion may not be written: an ACL is in the way. Their marks are taken away by whoever of us
        is controller a second time, or every controller would give up its role for them."""
        self._going: bytes | None = None
        """The topic whose removal is asked for."""
        self._marks: dict[bytes, int] = {}
        self.looks: dict[str, Callable[[], Awaitable[object]]] = {
            "deletions": self._deletions,
            "moves": self._moves,
            "elections": self._elections,
            "isr notes": self._isr_notes,
        }
        plane.channels.on_deletion_answered.append(lambda: mark("deletions"))
        node.metadata.watch(self._changed)

    def forget(self) -> None:
        """The controller role is over: whoever has it next asks again."""
        self._asked = {}
        self._waiting = frozenset()
        self._going = None

    def _changed(self, image: Image, delta: Delta) -> None:
        if self._waiting and (delta.brokers or delta.partitions):
            self._mark("deletions")
        if self._asked and delta.partitions:
            self._mark("moves")

    def _watch(self, what: str) -> Callable[[object, str], None]:
        return lambda happened, path: self._mark(what)

    # ---- deletions

    async def _deletions(self) -> None:
        names = await self._plane.zk.children(paths.DELETE_TOPICS, self._watch("deletions"))
        wanted = await self._marked(names)
        if wanted:
            log.info("topics %s are to be deleted", list(wanted))
            ready = self._plane.channels.deleted()
            for id in [id for id in wanted.values() if id in ready]:  # each by itself: one may not be written
                if not await self._delete_topic(id):
                    return
            reply = await self._node.controller.submit(requests.DeleteTopics(topics=tuple(wanted.values())))
            if isinstance(reply, Refused):
                return
            self._note_waiting(reply.topics)
            await self._delete_replicas(reply.topics)
        else:
            self._note_waiting(())
        for name in names:
            if name not in self._waiting and not self._plane.channels.is_deleting(name):
                await self.remove(paths.delete_topic(name))

    async def _delete_topic(self, topic_id: bytes) -> bool:
        """Delete a topic whose replicas are deleted; False when this node is controller no more."""
        self._going = topic_id
        ask = requests.DeleteTopics(topics=(topic_id,), deleted=frozenset({topic_id}))
        reply = await self._node.controller.submit(ask)
        self._going = None
        return not isinstance(reply, Refused)

    def denied(self, why: str, code: Code) -> None:
        """A write was denied, and with it the controller role and this look end: remember if it was a deletion."""
        topic = None if self._going is None else self._node.metadata.image.topics.get(self._going)
        if topic is not None and f"{paths.topic(topic.name)}/" in why:
            self.refused[topic.id] = Refused(code, why)

    async def _delete_replicas(self, results: Iterable[DeleteResult]) -> None:
        """Have the replicas of topics deleted that may go now, and stop those of this broker: it deletes them with the
        topics."""
        begun = self._plane.channels.delete([each.topic_id for each in results if each.may_begin])
        image = self._node.metadata.image
        topics = (self._node.replicas.undecided.topic(image, id) or image.topics[id] for id in begun)
        keys = [part.key for topic in topics for part in topic.partitions.values()]
        for at, key in enumerate(keys, 1):
            self._node.replicas.stopped.stop(key)
            if not at % REMOVED_AT_ONCE:
                await yield_to_loop(self._node.world.tasks)
                if self._plane.writer.guard is None:
                    return  # whoever is controller now gives them their parts

    async def _marked(self, names: Iterable[str]) -> dict[str, bytes]:
        """Name -> id of the topics that are to be deleted.

        A mark that is older than its topic meant the one before, whose replicas are still being deleted: a topic that
        is made again under the name is not the one that somebody wanted to be rid of.
        """
        image = self._node.metadata.image
        ids = {name: image.names[name] for name in names if name in image.names}
        marks = await get_each(self._plane.zk, [paths.delete_topic(name) for name in ids])
        topics = await get_each(self._plane.zk, [paths.topic(name) for name in ids])
        wanted = {}
        for (name, id), mark, topic in zip(ids.items(), marks, topics, strict=True):
            if self._node.metadata.image.names.get(name) != id:
                self._mark("deletions")  # it was made anew meanwhile: which topic was read is not known
            elif mark is not None and not _is_older(mark, topic):
                if id in self.refused and self._marks.get(id) == _made_by(mark):
                    log.error("topic %s is not deleted: %s", name, self.refused.pop(id).message)
                    continue
                self._marks[id] = _made_by(mark)
                wanted[name] = id
        return wanted

    def _note_waiting(self, results: Iterable[DeleteResult]) -> None:
        """Remember which deletions wait, also for other decisions, and tell the operator why: once for each topic."""
        waiting = {}
        for each in results:
            if each.name is None:
                continue  # gone meanwhile
            if each.problem.code is Code.REQUEST_TIMED_OUT:
                waiting[each.name] = each.topic_id
                if each.name not in self._waiting:
                    log.log(logging.WARNING if each.waits else logging.INFO, "%s", each.problem.message)
                    self._mark("deletions")  # once more, now that no move of it begins any more
            elif each.problem.code is not Code.NONE:
                log.warning("topic %s is not deleted: %s", each.name, each.problem.message)
        self._waiting = frozenset(waiting)
        self._node.controller.mark_for_deletion(frozenset(waiting.values()))

    async def mark_for_deletion(self, names: Iterable[str]) -> None:
        """Leave a znode for each topic, as a tool does, for deletions that an API request asked for and that wait."""
        for name in names:
            self.refused.pop(self._node.metadata.image.names.get(name, b""), None)
            with suppress(NodeExists):
                await self._write(Create(path=paths.delete_topic(name), data=b""))
        self._mark("deletions")

    async def remove(self, path: str, version: int = -1) -> None:
        """Take a request or a note away that has been carried out."""
        await self._write(Delete(path=path, version=version))

    async def restore(self, topic: TopicZnode, version: int) -> None:
        """Write a topic's assignment as it should be over what another client has written, unless that wrote again."""
        await self._write(Set(path=paths.topic(topic.name), data=topic_json(topic), version=version))

    async def _write(self, op: Op) -> None:
        """Only as the controller that we think we are: a request that we know nothing of is the next one's (law Z1)."""
        guard: CheckVersion | None = self._plane.writer.guard
        if guard is None:
            return
        try:
            await self._plane.zk.multi([guard, op])
        except (NoNode, BadVersion) as error:
            if error.path == guard.path:
                self._plane.deposed("another controller has been elected since")
            # else somebody was faster; the watch tells what is new

    # ---- moves

    async def _moves(self) -> None:
        path = paths.REASSIGN_PARTITIONS
        if await self._plane.zk.exists(path, self._watch("moves")) is None:
            self._asked = {}
            return
        try:
            data, stat = await self._plane.zk.get(path, self._watch("moves"))
        except NoNode:
            self._mark("moves")
            return
        try:
            wishes = parse_reassignment(data)
        except BadZnode as error:
            log.error("no replica is moved: %s", error)
            await self.remove(path, stat.version)
            return
        fresh = {tp: replicas for tp, replicas in wishes.items() if self._asked.get(tp) != replicas}
        refused = await self._ask_moves(fresh) if fresh else set()
        if refused is None:
            return
        left = {tp: replicas for tp, replicas in wishes.items() if tp not in refused and self._is_moving(tp)}
        self._asked = left
        if not left:  # also a request that asked for nothing: nobody else takes it away
            await self.remove(path, stat.version)
        elif left != wishes:
            await self._write(Set(path=path, data=reassignment_json(left), version=stat.version))

    async def _ask_moves(self, wishes: Moves) -> set[TopicPartition] | None:
        """Partitions that will not be moved; None when this node is controller no more."""
        log.info("%d partition(s) are to be moved", len(wishes))
        for tp, replicas in wishes.items():
            if self._is_there(tp, replicas):
                log.info("%s-%d is not moved: %s are its replicas already", tp.topic, tp.partition, list(replicas))
        reply = await self._node.controller.submit(
            requests.AlterPartitionReassignments(
                moves=tuple(
                    requests.Move(topic=tp.topic, partition=tp.partition, replicas=replicas)
                    for tp, replicas in wishes.items()
                )
            )
        )
        if isinstance(reply, Refused):
            return None
        refused = set()
        for topic, partition, problem in reply.partitions:
            if problem.code is not Code.NONE:
                log.warning("%s-%d is not moved: %s", topic, partition, problem.message)
                refused.add(TopicPartition(topic, partition))
        return refused

    def _is_moving(self, tp: TopicPartition) -> bool:
        partition = self._partition(tp)
        return partition is not None and partition.reassigning

    def _is_there(self, tp: TopicPartition, replicas: Sequence[int]) -> bool:
        """Whether a partition has these replicas, in this order, and is moved nowhere: RA-2's move without a change."""
        partition = self._partition(tp)
        return partition is not None and not partition.reassigning and partition.replicas == tuple(replicas)

    def _partition(self, tp: TopicPartition) -> Partition | None:
        topic = self._node.metadata.image.topic(tp.topic)
        return None if topic is None else topic.partitions.get(tp.partition)

    # ---- preferred leaders

    async def _elections(self) -> None:
        path = paths.PREFERRED_ELECTION
        if await self._plane.zk.exists(path, self._watch("elections")) is None:
            return
        try:
            data, stat = await self._plane.zk.get(path)
            wanted = parse_preferred_election(data)
        except NoNode:
            self._mark("elections")
            return
        except BadZnode as error:
            log.error("no leader is elected: %s", error)
            await self.remove(path)
            return
        reply = await self._node.controller.submit(
            requests.ElectLeaders(
                election_type=requests.ElectionType.PREFERRED,
                partitions=tuple((tp.topic, tp.partition) for tp in wanted),
            )
        )
        if not isinstance(reply, Refused):
            await self.remove(path, stat.version)

    # ---- ISRs that leaders wrote themselves

    async def _isr_notes(self) -> None:
        """Leaders that know no AlterPartition write the state and leave a note: read anew what this image lacks."""
        names = await self._plane.zk.children(paths.ISR_NOTES, self._watch("isr notes"))
        notes = [f"{paths.ISR_NOTES}/{name}" for name in names]
        told: dict[TopicPartition, None] = {}
        for path, found in zip(notes, await get_each(self._plane.zk, notes), strict=True):
            try:
                if isinstance(found, NoAuth):
                    raise BadZnode(path, str(found))
                told.update(dict.fromkeys(parse_isr_note(path, found[0]) if found is not None else ()))
            except BadZnode as error:
                log.warning("a note is not understood: %s", error)
        overtaken = await self._overtaken(told)
        for path in notes:
            await self.remove(path)
        if overtaken:
            self._plane.deposed(f"leaders wrote states of {len(overtaken)} partition(s); everything is read anew")

    async def _overtaken(self, told: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Partitions whose znode is newer than the image."""
        known = [tp for tp in told if tp.topic in self._node.metadata.image.names]
        states = await get_each(self._plane.zk, [paths.state(*tp) for tp in known])
        found = []
        for tp, state in zip(known, states, strict=True):
            topic = self._node.metadata.image.topic(tp.topic)
            partition = None if topic is None else topic.partitions.get(tp.partition)
            if state is None or isinstance(state, NoAuth) or partition is None:
                continue
            if state[1].version > partition.partition_epoch:
                parse_state(*tp, state[0])
                found.append(tp)
        return found


def _made_by(found: Found | NoAuth) -> int:
    """The transaction that made a znode; -1 for one that may not be read."""
    return found[1].czxid if isinstance(found, tuple) else -1


def _is_older(mark: Found | NoAuth, topic: Found | NoAuth | None) -> bool:
    """Whether a znode was made before another, as far as both may be read."""
    return isinstance(mark, tuple) and isinstance(topic, tuple) and mark[1].czxid < topic[1].czxid
