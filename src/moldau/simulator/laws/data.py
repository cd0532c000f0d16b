"""Laws of partitions, checked between turns: what was once committed stays, on every replica, at its offset.

Remembers for each partition the committed batches up to the highest watermark ever seen (the true one), and compares
every replica with them as its own watermark moves. Laws that can be checked on a running replica come from
moldau.replication.laws.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Callable
from typing import Any, NamedTuple

from moldau.broker.controller.topic_creation import OFFSETS
from moldau.broker.node import Node
from moldau.broker.replicas.replica import Replica
from moldau.image import NO_LEADER, Delta, Recovery
from moldau.model import TopicPartition
from moldau.replication import laws as machine_laws
from moldau.replication.facts import Assignment
from moldau.replication.laws import Memory, ReplicaSight, Sight
from moldau.replication.roles import Role
from moldau.simulator.cluster_observer import ClusterObserver
from moldau.simulator.laws.compacted import CompactionLaws, LogEntry, entries, wanted
from moldau.storage import CorruptLog, Log
from moldau.wire import batch

TAIL = 20
"""How many committed batches of a new leader are read again at its election."""
CHECKS = (
    machine_laws.watermark_rule,
    machine_laws.quorum_superset,
    machine_laws.shown_never_goes_back,
    machine_laws.watermark_in_log,
)


class LoggedBatch(NamedTuple):
    """One batch as it stands in a log."""

    base: int
    last: int
    epoch: int
    crc: int


class SeenReplica(NamedTuple):
    """One replica at the last look. ``same_up_to``: its batches below were compared with the committed ones."""

    log: Log
    same_up_to: int
    state: tuple[Any, ...]


def pieces(log: Log, start: int, end: int) -> list[LoggedBatch]:
    """The batches of a log from ``start`` to ``end``, both at borders of batches; up to bytes named as corrupt,
    which nobody else is given either.
    """
    found: list[LoggedBatch] = []
    while start < end:
        try:
            data = log.read(start, 1 << 30, up_to=end)  # of one segment
        except CorruptLog:
            break
        more = [LoggedBatch(h.base_offset, h.last_offset, h.leader_epoch, h.crc) for _, h in batch.headers(data)]
        if not more:
            break
        found += more
        start = more[-1].last + 1
    return found


def is_corrupt(log: Log, offset: int) -> bool:
    """Whether the log names its bytes there as corrupt: they are not served, and the operator is told."""
    try:
        log.read(offset, 1 << 30)
    except CorruptLog:
        return True
    return False


def contents(log: Log, start: int, end: int) -> bytes:
    """All bytes of a log from ``start`` to ``end``."""
    found = b""
    while start < end:
        data = bytes(log.read(start, 1 << 30, up_to=end))
        last = [header.last_offset for _, header in batch.headers(data)]
        if not last:
            break
        found += data
        start = last[-1] + 1
    return found


class Past:
    """What is remembered of one partition; ``memory`` is the laws'. ``anew``: the leader epoch of its last unclean
    election, before which nothing counts; -1 where there was none. ``watermark`` is the highest that any replica has
    had, ``true_end`` is behind the last piece that was committed. ``read`` gives the pieces of a log: batches, or
    records where a log is compacted, of which ``newest`` has each key's last.
    """

    def __init__(self, anew: int = -1, read: Callable[[Any, int, int], Any] = pieces) -> None:
        self.anew, self.read = anew, read
        self.memory = Memory()
        self.true_end = self.watermark = 0
        self.pieces: list[Any] = []
        self.newest: dict[bytes, LogEntry] = {}
        self.seen: dict[int, SeenReplica] = {}

    @property
    def compacted(self) -> bool:
        return self.read is entries

    def commit(self, piece: Any) -> None:
        """It is below the true watermark from now on."""
        self.pieces.append(piece)
        self.true_end = piece.last + 1
        if self.compacted:
            self.newest[piece.key] = piece


def _sight(replica: Any) -> ReplicaSight:
    """A running replica with the broker epoch of its present life: a leader that is cut off knows the last one only."""
    own = replica.machine._brokers.broker_epoch(replica.machine.me)
    return ReplicaSight(replica.machine, replica.log, -1 if own is None else own)


class DataLaws:
    """``look`` between turns; ``heard`` at each committed batch."""

    def __init__(self, observer: ClusterObserver) -> None:
        self._observer = observer
        self._violated = observer.cluster.violated
        topics = observer.cluster.plan.topics
        self._risky = {topic.name for topic in topics if topic.unclean}
        self._keyed = {topic.name: topic.tombstones_stay for topic in topics if topic.keys}
        if observer.cluster.plan.group_log:
            self._keyed[OFFSETS] = True
        transactions = observer.cluster.plan.transactions
        self._transacted = None if transactions is None else transactions.name
        """The topic whose compaction ``TransactionLaws`` checks: what is a key's newest is decided later."""
        if transactions is not None and transactions.keys:
            self._keyed[transactions.name] = transactions.tombstones_stay
        deletions = observer.cluster.plan.deletions
        self._deleted = None if deletions is None else deletions.name
        self.compaction = CompactionLaws(observer)
        self.past: dict[Any, Past] = {}
        observer.listeners.append(self.heard)

    # ---- between turns

    def look(self) -> None:
        """Check every replica that has changed since the last look."""
        if self._keyed:
            self.compaction.look()
        for key, of in self._observer.replicas().items():
            past = self.past.get(key)
            if past is None:
                topic = next(iter(of.values())).partition.topic
                past = self.past[key] = Past(read=entries if topic in self._keyed else pieces)
            changed = False
            for id, replica in of.items():
                machine, log = replica.machine, replica.log
                if past.anew >= 0 and not self._knows(past, key, id, machine):
                    continue
                state = (machine.role, machine.leader_epoch, machine.high_watermark, log.log_end_offset, machine.isr)
                seen = past.seen.get(id)
                if log.dir.offline is not None:  # its directory has failed: it is about to lead and follow no more
                    continue
                if seen is None or seen.log is not log or seen.state != state:
                    changed = True
                    self._replica(past, id, replica, state)
            if changed:
                self._together(key, past, of)

    def true_watermark(self, where: TopicPartition) -> int:
        """The highest watermark that any replica of the partition has had."""
        past = self.past.get(self._observer.key(where))
        return 0 if past is None else past.watermark

    def _knows(self, past: Past, key: Any, id: int, machine: Any) -> bool:
        """Whether a replica has followed an unclean leader: before, it holds what that one has lost."""
        committed = self._observer.image.partition(*key)
        return committed is not None and id in committed.isr and machine.leader_epoch >= past.anew

    def _start(self, id: int, replica: Replica) -> None:
        """S20: no log start moves without a decision: no client deletes records here, and none expire. But of the one
        topic where it is so, of which ``DeletionLaws`` are.
        """
        if replica.log.log_start_offset and replica.partition.topic != self._deleted:
            self._violated(f"S20: n{id} has {replica.partition} from {replica.log.log_start_offset} on only")

    def _replica(self, past: Past, id: int, replica: Any, state: tuple[Any, ...]) -> None:
        machine, log, name = replica.machine, replica.log, replica.partition
        self._start(id, replica)
        seen = past.seen.get(id)
        same = seen.same_up_to if seen is not None and seen.log is log else log.log_start_offset
        if log.log_end_offset < same:
            self._violated(f"S12: n{id} cut {name} to {log.log_end_offset}, {same} was committed and on it")
            same = log.log_end_offset
        same = max(same, log.log_start_offset)
        high = machine.high_watermark
        if machine.role in (Role.LEADER, Role.FOLLOWER):
            past.watermark = max(past.watermark, high)
        if machine.role in (Role.LEADER, Role.FOLLOWER) and same < high <= log.log_end_offset:
            same = self._compare(past, id, name, past.read(log, same, high)) or same
        if machine.role is Role.LEADER:
            wrong = machine_laws.one_writer(id, machine.leader_epoch, past.memory)
            if wrong:
                self._violated(f"S13: {name}: {wrong}")
        past.seen[id] = SeenReplica(log, same, state)

    def _compare(self, past: Past, id: int, name: Any, found: list[Any]) -> int:
        """Compare batches below a watermark with the committed ones, or commit them; up to where they are the same."""
        for piece in found:
            if piece.base >= past.true_end:
                past.commit(piece)
                continue
            at = bisect_left(past.pieces, piece.base, key=lambda one: one.base)
            committed = past.pieces[at] if at < len(past.pieces) else None
            if name.topic == self._deleted and self._is_new(past, piece):
                past.pieces.insert(at, piece)
            elif committed != piece:
                self._violated(f"S4: n{id} has {piece} in {name}, committed is {committed}")
        return found[-1].last + 1 if found else 0

    def _is_new(self, past: Past, piece: LoggedBatch) -> bool:
        """Whether a batch is in none of those that were committed: it was deleted from the first log looked at."""
        at = bisect_left(past.pieces, piece.base, key=lambda one: one.base)
        before, after = past.pieces[max(at - 1, 0) : at], past.pieces[at : at + 1]
        return all(one.last < piece.base for one in before) and all(piece.last < one.base for one in after)

    def _together(self, key: Any, past: Past, of: dict[int, Any]) -> None:
        committed = self._observer.image.partition(*key)
        if committed is None:
            return
        sights = {id: _sight(one) for id, one in of.items() if one.machine.role in _RUNNING}
        assignment = Assignment(
            committed.leader, committed.leader_epoch, committed.partition_epoch, committed.isr, committed.replicas
        )
        sight = Sight(assignment, sights, past.memory)
        for check in CHECKS:
            wrong = check(sight)
            if wrong:
                law = (check.__doc__ or "").split(":")[0].split(" ")[0]
                self._violated(f"{law}: {next(iter(of.values())).partition}: {wrong}")

    # ---- at committed batches

    def heard(self, id: int, node: Node, delta: Delta, is_news: bool) -> None:
        """S2, S3: a replica that leads, or may be elected next, holds everything that was ever committed."""
        if not is_news or not delta.partitions:
            return
        self.look()
        replicas = self._observer.replicas()
        for topic, key, before, after in delta.partition_changes(self._observer.image):
            if before is None or after is None or (before.isr == after.isr and before.leader == after.leader):
                continue
            if self._is_unclean(topic, before, after):
                self.past[key] = Past(after.leader_epoch)
                self._observer.cluster.unclean.add(TopicPartition(topic, key[1]))
            here = replicas.get(key, {})
            for broker in (*after.isr, *after.elr):
                replica = here.get(broker)
                if replica is not None and replica.machine.role in _RUNNING and key in self.past:
                    law = "S2" if broker == after.leader else "S3"
                    where = "ISR" if broker in after.isr else "ELR"
                    self._complete(f"{law}: n{broker}, in the {where} of {topic}-{key[1]}", self.past[key], replica.log)
            leader = here.get(after.leader)
            if leader is not None and leader.machine.role is Role.LEADER and before.leader == after.leader:
                self._joins(topic, set(after.isr) - set(before.isr), leader.machine, here)

    def _is_unclean(self, topic: str, before: Any, after: Any) -> bool:
        """An election that is marked (C11), where the plan allows one; who led last has nothing to lose (KIP-966)."""
        if after.recovery != Recovery.RECOVERING or after.leader in (
            before.leader,
            NO_LEADER,
            *before.isr,
            *before.elr,
        ):
            return False
        return topic in self._risky and before.last_known_elr != (after.leader,)

    def _joins(self, topic: str, joined: set[int], leader: Any, here: dict[int, Any]) -> None:
        """S10: a replica that joins an ISR has reached watermark and epoch start of its leader."""
        for broker in sorted(joined & set(here)):
            replica = here[broker]
            if replica.machine.role in _RUNNING and replica.log.dir.offline is None:
                wrong = machine_laws.isr_join_rule(ReplicaSight(replica.machine, replica.log), leader)
                if wrong:
                    self._violated(f"S10: n{broker} in {topic}: {wrong}")

    def _complete(self, who: str, past: Past, log: Log) -> None:
        if log.dir.offline is not None:
            return
        if log.log_end_offset < past.true_end:
            self._violated(f"{who}, ends at {log.log_end_offset}: {past.true_end} is committed")
            return
        last = past.pieces[-TAIL:]
        if not last or last[0].base < log.log_start_offset:
            return
        found = past.read(log, last[0].base, past.true_end)
        if past.compacted and log.partition.topic == self._transacted:
            return
        if past.compacted:  # that nothing else is there is seen as its watermark moves
            last = [one for one in wanted(last, past.newest, tombstones=False) if one not in found]
            found = []
        if log.partition.topic == self._deleted:  # no other log may have had a batch when it was looked at (seed 7138)
            found = [one for one in found if one in last or not self._is_new(past, one)]
        corrupted = len(found) < len(last) and is_corrupt(log, last[len(found)].base)
        if found != last[: len(found) if corrupted else None]:
            self._violated(f"{who}, holds other records than were committed before {past.true_end}")

    # ---- at rest

    def at_rest(self) -> list[str]:
        """S5, S14 and S4 once more: all replicas are the same bytes, and their epoch tables are what the logs say."""
        broken = []
        for key, of in self._observer.replicas().items():
            name = next(iter(of.values())).partition
            if name.topic in self._keyed:
                broken += self._keyed_at_rest(key, of)
                continue
            begin = max(one.log.log_start_offset for one in of.values())
            end = min(one.machine.high_watermark for one in of.values())
            texts = {contents(one.log, begin, end) for one in of.values()}
            if len(texts) > 1:
                broken.append(f"S5: replicas of {name} differ below their watermarks")
            past = self.past.get(key)
            for id, one in of.items():
                log = one.log
                if past is not None and pieces(log, log.log_start_offset, past.true_end) != [
                    piece for piece in past.pieces if piece.last >= log.log_start_offset
                ]:
                    broken.append(f"S4: n{id} does not hold what was committed of {name}")
                wrong = _epochs(log)
                if wrong:
                    broken.append(f"S14: n{id}, {name}: {wrong}")
        return broken

    def _keyed_at_rest(self, key: Any, of: dict[int, Any]) -> list[str]:
        """S5: each replica holds every key's newest record, and its tombstone where those stay. S4, S14: what else it
        holds was committed there, in that epoch.
        """
        broken, past = [], self.past[key]
        for id, one in of.items():
            log, name = one.log, one.partition
            found = entries(log, log.log_start_offset, past.true_end)
            must = wanted(past.pieces, past.newest, tombstones=self._keyed[name.topic])
            lost = [entry for entry in must if entry not in set(found) and name.topic != self._transacted]
            strange = [entry for entry in found if entry not in set(past.pieces)]
            if lost:
                broken.append(f"S5: n{id} has lost the newest of {len(lost)} keys of {name}: {lost[0]}")
            if strange:
                broken.append(f"S4: n{id} holds what was never committed of {name}: {strange[0]}")
            table = [tuple(entry) for entry in log.epochs.entries()]
            told = [max((epoch for epoch, start in table if start <= entry.base), default=-1) for entry in found]
            if told != [entry.epoch for entry in found] or table != sorted(set(table)):
                broken.append(f"S14: n{id}, {name}: the epoch table is {table}, the log says otherwise")
        return broken


_RUNNING = (Role.LEADER, Role.FOLLOWER)


def _epochs(log: Log) -> str:
    """S14: the epoch table increases strictly, and is what the batches say (a last epoch may be empty still)."""
    entries = [tuple(entry) for entry in log.epochs.entries()]
    if any(old[0] >= new[0] or old[1] >= new[1] for old, new in itertools.pairwise(entries)):
        return f"the epoch table {entries} does not increase"
    rebuilt: list[tuple[int, int]] = []
    for piece in pieces(log, log.log_start_offset, log.log_end_offset):
        if not rebuilt or rebuilt[-1][0] != piece.epoch:
            rebuilt.append((piece.epoch, max(piece.base, log.log_start_offset)))
    told = entries[:-1] if entries and entries[-1][1] == log.log_end_offset else entries
    return "" if told == rebuilt else f"the epoch table is {entries}, the log says {rebuilt}"
