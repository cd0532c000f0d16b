"""Laws of a topic that is written in transactions: S17 (what a reader of committed records is given), L10 (they end).

What readers were given is compared with what coordinators decided; what leaders tell of the last stable offset, and
which transactions brokers hold for aborted, with what the batches of their logs say. Read next: transactional.py,
laws/decisions.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from moldau.broker.replicas.replica import Replica
from moldau.history.rows import OK, Read, Send, is_tombstone, key_of
from moldau.model import TopicPartition
from moldau.replication.roles import Role
from moldau.simulator.cluster_observer import ClusterObserver, partitions_of
from moldau.simulator.laws.compacted import SHOWN, walk
from moldau.simulator.laws.decisions import Decisions
from moldau.simulator.plan import TopicPlan
from moldau.storage import Log
from moldau.storage.transactions import all_aborted

RUNNING = (Role.LEADER, Role.FOLLOWER)


class SimulatedTransaction:
    """One transaction. ``committed``: None while its coordinator has not decided. ``records``: (partition, offset) ->
    text of what was acknowledged. ``ended``: all its markers were."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.committed: bool | None = None
        self.ended = False
        self.partitions: set[int] = set()
        self.records: dict[tuple[int, int], str] = {}


class FollowedLog:
    """A log as far as it was walked through. ``is_whole``: no batch of it was unreadable."""

    def __init__(self, log: Log) -> None:
        self.log, self.truncations, self.at = log, log.truncations, log.log_start_offset
        self.decisions = Decisions()
        self.is_new = self.is_whole = True

    def is_of(self, log: Log) -> bool:
        """Whether nothing was cut since."""
        return self.log is log and self.truncations == log.truncations

    def follow(self) -> None:
        """Walk on to its end."""
        end = self.log.log_end_offset
        if not self.is_whole or self.at >= end:
            return
        for header, raw in walk(self.log, self.at, end):
            self.decisions.take(header, raw)
            self.at = header.last_offset + 1
        self.is_whole = self.at == end


class CommittedView(NamedTuple):
    """What a reader of committed records was given, and how far it had come, by partition."""

    name: str
    reads: Sequence[Read]
    positions: Mapping[int, int]


class TransactionLaws:
    """``look`` between turns; ``began`` and ``read`` as it happens; ``at_rest`` when all is over."""

    def __init__(self, observer: ClusterObserver, topic: TopicPlan) -> None:
        self._observer, self._topic = observer, topic
        self._violated = observer.cluster.violated
        self._transactions: list[SimulatedTransaction] = []
        self._of: dict[str, SimulatedTransaction] = {}
        self._followed: dict[tuple[TopicPartition, int], FollowedLog] = {}
        self._shown: dict[TopicPartition, int] = {}
        self._epochs: dict[TopicPartition, int] = {}
        self.coverage: set[str] = set()

    # ---- what clients do

    def began(self, transaction: SimulatedTransaction) -> None:
        """A transaction is about to be written."""
        self._transactions.append(transaction)

    def writes(self, transaction: SimulatedTransaction, texts: Iterable[str]) -> None:
        """Records of a transaction are about to be sent."""
        self._of.update(dict.fromkeys(texts, transaction))

    def read(self, one: Read) -> None:
        """S17: a reader of committed records is given nothing of a transaction that is open, or was aborted."""
        transaction = self._of.get(one.value)
        if transaction is None or transaction.committed:
            return
        became = "is not decided" if transaction.committed is None else "was aborted"
        where = TopicPartition(self._topic.name, one.partition)
        self._violated(f"S17: {one.process} is given {one.value}, {where} at {one.offset}: {transaction.name} {became}")

    # ---- between turns

    def look(self) -> None:
        """Follow every running replica's log, and check what its broker makes of it."""
        for where, state, of in partitions_of(self._observer, self._topic.name):
            if self._epochs.get(where, state.leader_epoch) != state.leader_epoch and self._is_open(where):
                self.coverage.add("a leader changed under an open transaction")
            self._epochs[where] = state.leader_epoch
            for id, replica in of.items():
                self._follow(where, id, replica)
            leader = of.get(state.leader)
            if leader is not None and leader.machine.leader_epoch == state.leader_epoch:
                self._leads(where, state.leader, leader)

    def _is_open(self, where: TopicPartition) -> bool:
        return any(not one.ended and where.partition in one.partitions for one in self._transactions)

    def _follow(self, where: TopicPartition, id: int, replica: Replica) -> None:
        log = replica.log
        if replica.machine.role not in RUNNING or log.dir.offline is not None:
            return
        followed = self._followed.get((where, id))
        if followed is None or not followed.is_of(log):
            before, followed = followed, FollowedLog(log)
            self._followed[where, id] = followed
            if before is not None and before.decisions.open:
                how = "was cut" if before.log is log else "began another life"
                self.coverage.add(f"a log with an open transaction {how}")
        followed.follow()
        if followed.is_new and followed.is_whole and log.known_producers is not None:
            followed.is_new = False
            for law in self._aborted(where, id, followed):
                self._violated(law)

    def _leads(self, where: TopicPartition, id: int, replica: Replica) -> None:
        """S17: the last stable offset of a valid leader is what its log says, and never goes back."""
        machine, log = replica.machine, replica.log
        followed = self._followed.get((where, id))
        if machine.role is not Role.LEADER or machine.latest() is None or log.known_producers is None:
            return
        if log.dir.offline is not None or followed is None or not (followed.is_whole and followed.is_of(log)):
            return
        told, stable = (
            log.known_producers.stable_offset(machine.high_watermark),
            followed.decisions.stable_offset(machine.high_watermark),
        )
        if told != stable:
            self._violated(f"S17: n{id} takes {told} for the last stable offset of {where}, its log says {stable}")
        if told < self._shown.get(where, 0):
            self._violated(f"S17: the last stable offset of {where} went back from {self._shown[where]} to {told}")
        self._shown[where] = told
        if told < machine.high_watermark:
            self.coverage.add("readers of committed records were held back")

    def _aborted(self, where: TopicPartition, id: int, followed: FollowedLog) -> list[str]:
        """S17: a broker holds those transactions for aborted whose markers say so, each from its first record on, and
        those for open that have none."""
        name = f"S17: n{id}, {where}"
        begun = {id: one.txn_first_offset for id, one in followed.log.producers if one.txn_first_offset >= 0}
        told = {(one.producer_id, one.last_offset): one.first_offset for one in all_aborted(followed.log)}
        broken = []
        if begun != followed.decisions.open:
            broken.append(f"{name}: {begun} are held for open, the log says {followed.decisions.open}")
        for one in followed.decisions.ended:
            first = told.pop((one.producer_id, one.marker), None)
            if one.committed and first is not None:
                broken.append(f"{name}: the transaction that ends at {one.marker} is held for aborted")
            elif not one.committed and (first is None or first > one.first):
                broken.append(f"{name}: nobody is told that the records from {one.first} to {one.marker} were aborted")
            elif not one.committed and first is not None and first <= one.before:
                broken.append(f"{name}: what ended at {one.before} is held for aborted with what ended at {one.marker}")
        strange = {marker for _, marker in told} - followed.decisions.markers.keys()
        if strange and not self._topic.keys:
            broken.append(f"{name}: what ended at {min(strange)} is held for aborted, and no marker is there")
        return broken[:SHOWN]

    # ---- at rest

    def at_rest(self, readers: Iterable[CommittedView], plain: Sequence[Send]) -> list[str]:
        """S17: readers were given every committed record below their positions, once."""
        self.look()
        committed = {(one.partition, one.offset): one.value for one in plain if one.outcome == OK and one.offset >= 0}
        for transaction in self._transactions:
            if transaction.committed:
                committed |= transaction.records
        newest: dict[tuple[int, str], int] = {}
        for number, offset in committed:
            key = number, key_of(committed[number, offset])
            newest[key] = max(offset, newest.get(key, -1))
        broken = [*self._undecided(), *self._held()]
        for reader in readers:
            given = {(one.partition, one.offset): one.value for one in reader.reads}
            lost = []
            for (number, offset), text in committed.items():
                if offset >= reader.positions[number] or given.get((number, offset)) == text:
                    continue
                if self._topic.keys and (newest[number, key_of(text)] > offset or self._may_go(text)):
                    continue
                lost.append(f"S17: {reader.name} is not given {text}, which is committed at {offset} of {number}")
            twice = len(reader.reads) - len({one.value for one in reader.reads})
            broken += lost[:SHOWN] + ([f"S17: {reader.name} is given {twice} records twice"] if twice else [])
        return broken

    def _may_go(self, text: str) -> bool:
        return is_tombstone(text) and not self._topic.tombstones_stay

    def _undecided(self) -> list[str]:
        """L10: every transaction has ended, and the last stable offset of all replicas is their watermark."""
        broken = [f"L10: {one.name} has not ended" for one in self._transactions if not one.ended][:SHOWN]
        for where, _, of in partitions_of(self._observer, self._topic.name):
            for id, replica in of.items():
                high, log = replica.machine.high_watermark, replica.log
                if log.dir.offline is None and (stable := log.producers.stable_offset(high)) < high:
                    broken.append(f"L10: n{id} holds readers of {where} at {stable}, the watermark is {high}")
        return broken

    def _held(self) -> list[str]:
        """S17: every replica holds the right transactions for aborted, whatever compaction has taken."""
        broken = []
        for where, _, of in partitions_of(self._observer, self._topic.name):
            for id, replica in of.items():
                if replica.log.dir.offline is None:
                    followed = FollowedLog(replica.log)
                    followed.follow()
                    broken += self._aborted(where, id, followed) if followed.is_whole else []
        return broken
