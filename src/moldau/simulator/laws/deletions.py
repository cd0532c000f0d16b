"""Laws of a topic whose records are deleted (DeleteRecords): S21 (what was deleted stays so), S20, S1, S16, L13.

What replicas in sync, or that may be elected, have deleted is remembered: their log starts now, of those that are down
what stood on their disks. A deletion is forgotten only when a crash took it from all of them, as it is on disks at
the next checkpoint only (replica.high.watermark.checkpoint.interval.ms), as in Apache Kafka. Read next: deleter.py.
"""

from __future__ import annotations

from typing import NamedTuple

from moldau.broker.replicas.replica import Replica
from moldau.history.rows import OK, Send
from moldau.image.partition import Partition
from moldau.model import TopicPartition
from moldau.replication.roles import Role
from moldau.simulator.cluster_observer import ClusterObserver, partitions_of
from moldau.simulator.laws.compacted import SHOWN, walk
from moldau.simulator.laws.decisions import CONTROL
from moldau.simulator.plan import TopicPlan
from moldau.storage import Log
from moldau.wire import batch

RUNNING = (Role.LEADER, Role.FOLLOWER)
ALL = -1


class DeletedLog(NamedTuple):
    """A replica's log at the last look, where it began, what stood on the disk of that, and where this life of its
    had to begin by what had stood there.
    """

    log: Log
    start: int
    on_file: int
    due: int


class DeletionLaws:
    """``look`` between turns; ``asked``, ``answered`` and ``failed`` at requests; ``at_rest`` when all is over."""

    def __init__(self, observer: ClusterObserver, topic: TopicPlan, *, expires: bool) -> None:
        self._observer, self._topic, self._expires = observer, topic, expires
        self._violated = observer.cluster.violated
        self._held: dict[TopicPartition, dict[int, DeletedLog]] = {}
        self._deleted: dict[TopicPartition, int] = {}
        self._may_begin: dict[TopicPartition, int] = {}
        self._unbounded: set[TopicPartition] = set()
        self.coverage: set[str] = set()

    # ---- between turns

    def look(self) -> None:
        """S21, S20: a leader has deleted what was deleted, and no log of a running node begins earlier than before."""
        for where, state, of in partitions_of(self._observer, self._topic.name):
            held = self._held.setdefault(where, {})
            for id in held.keys() - set(state.replicas):
                del held[id]  # it is moved away, and may come back as another
            self._forget(where, state, of)
            for id, replica in of.items():
                log, start = replica.log, replica.log.log_start_offset
                seen = held.get(id)
                if log.dir.offline is not None:
                    continue
                if seen is not None and seen.log is log and start < seen.start:
                    self._violated(f"S20: n{id} has {where} from {start} on, and had it from {seen.start} on")
                due = 0 if seen is None else seen.due if seen.log is log else seen.on_file
                held[id] = DeletedLog(log, start, log.dir.starts.on_file.get(where, 0), due)
            leader = of.get(state.leader)
            if leader is not None and leader.log.dir.offline is None and _follows(leader, state):
                self._holds(where, state.leader, "leads", leader)

    def _forget(self, where: TopicPartition, state: Partition, of: dict[int, Replica]) -> None:
        """A crash of all that may lead may take back what was not on their disks."""
        deleted, held = self._deleted.get(where, 0), self._held.get(where, {})
        known = []
        for id in {*state.isr, *state.elr}:
            seen, replica = held.get(id), of.get(id)
            if replica is not None and (seen is None or seen.log is not replica.log):
                known.append(max(replica.log.log_start_offset, 0 if seen is None else seen.on_file))  # a new life
            elif seen is not None:
                known.append(max(seen.start, seen.due) if replica is not None else seen.on_file)
        if known and max(known) < deleted:
            self.coverage.add("crashes took a deletion back")
            self._deleted[where] = max(known)

    def _holds(self, where: TopicPartition, id: int, as_what: str, replica: Replica) -> None:
        start, deleted = replica.log.log_start_offset, self._deleted.get(where, 0)
        if start < deleted:
            self._violated(f"S21: n{id} {as_what} {where} and has it from {start} on: below {deleted} it was deleted")

    # ---- requests

    def asked(self, where: TopicPartition, before: int) -> None:
        """A request is about to be sent."""
        self._may_begin[where] = max(before, self._may_begin.get(where, 0))

    def failed(self, where: TopicPartition, before: int) -> None:
        """It was refused, or not answered: it may have been done, and may be still."""
        if before == ALL:
            self._unbounded.add(where)

    def answered(self, where: TopicPartition, before: int, low: int) -> None:
        """S21: who is in sync and lives has deleted what is answered to be deleted."""
        if low < before or low < 0:
            self._violated(f"S21: records of {where} below {before} were deleted, and it is answered {low}")
        self._may_begin[where] = max(low, self._may_begin.get(where, 0))
        self.look()
        self._deleted[where] = max(low, self._deleted.get(where, 0))
        for one, state, of in partitions_of(self._observer, self._topic.name):
            if one == where:
                self._forget(where, state, of)
                for id, replica in of.items():
                    if id in state.isr and replica.log.dir.offline is None and _follows(replica, state):
                        self._holds(where, id, "is in sync with", replica)

    # ---- at rest

    def lagging(self, where: TopicPartition) -> str:
        """L13: who is in sync, lives, and has not deleted what was deleted; empty when all have."""
        deleted = self._deleted.get(where, 0)
        for one, state, of in partitions_of(self._observer, self._topic.name):
            for id in state.isr if one == where else ():
                replica = of.get(id)
                if replica is not None and replica.log.log_start_offset < deleted:
                    return f"n{id} has {where} from {replica.log.log_start_offset} on, not from {deleted} on"
        return ""

    def at_rest(self, sends: list[Send]) -> list[str]:
        """S1, S16: what was acknowledged and not deleted is there, once; S20: nothing else was deleted."""
        self.look()
        broken = []
        for where, state, of in partitions_of(self._observer, self._topic.name):
            if lagging := self.lagging(where):
                broken.append(f"S21: {lagging}")
            leader = of.get(state.leader)
            if leader is None:
                broken.append(f"L1: nobody leads {where}")
                continue
            start, may = leader.log.log_start_offset, self._may_begin.get(where, 0)
            if start > may and not self._expires and where not in self._unbounded:
                broken.append(f"S20: {where} begins at {start}, and was deleted below {may} at most")
            mine = [one for one in sends if one.partition == where.partition]
            broken += unkept(where, mine, start, texts(leader.log))
        return broken


def texts(log: Log) -> dict[int, str]:
    """The values of a log's records by their offsets."""
    found: dict[int, str] = {}
    for header, raw in walk(log, log.log_start_offset, log.log_end_offset):
        records = () if header.attributes & CONTROL else batch.records(raw)
        found |= {one.offset: bytes(one.value or b"").decode() for one in records if one.offset >= log.log_start_offset}
    return found


def unkept(where: TopicPartition, sends: list[Send], start: int, held: dict[int, str]) -> list[str]:
    """S1, S16: what was acknowledged at or above ``start`` is at its offset, and nothing is in the log twice."""
    lost = [one for one in sends if one.outcome == OK and one.offset >= start and held.get(one.offset) != one.value]
    broken = [f"S1: {where} has {held.get(one.offset)} at {one.offset}, acknowledged was {one.value}" for one in lost]
    twice = len(held) - len(set(held.values()))
    return broken[:SHOWN] + ([f"S16: {twice} records are in {where} twice"] if twice else [])


def _follows(replica: Replica, state: Partition) -> bool:
    """Whether a replica has its part under the committed leader epoch."""
    machine = replica.machine
    return machine.role in RUNNING and machine.leader_epoch == state.leader_epoch
