"""One replica on this broker: its log, its replication machine, and who waits for it.

Decides nothing; it is what ``replicas/manager.py`` keeps by the thousand, so it owns no task, timer or file of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from moldau.broker.network.traffic import Traffic
from moldau.model import Code, TopicPartition
from moldau.model.protocol import Protocol
from moldau.replication.partition import Partition
from moldau.storage import Log

if TYPE_CHECKING:
    from moldau.broker.purgatory import DelayedResponse, PartitionAnswer

    class Deleted(PartitionAnswer, Protocol):
        """One partition of an answer to DeleteRecords."""

        low_watermark: int


Key = tuple[bytes, int]
"""(topic id, partition number)."""


class CommitWaiter(Protocol):
    """Somebody who waits until the high watermark has passed an offset."""

    @property
    def done(self) -> bool:
        """Whether it waits no longer: it is not told then."""

    def complete(self, slot: Any, code: Code) -> None:  # Any: what the waiter gave with the offset
        """The records are committed, or ``code`` says why they are not known to be."""


class FetchWaiter(Protocol):
    """A partition of a fetch, or of a session of fetches, that is told what happens here."""

    @property
    def replica_id(self) -> int:
        """The follower that fetches; -1 for a consumer."""

    def records_appended(self, first_offset: int) -> None:
        """Records were appended from ``first_offset`` on."""

    def notify(self, *, urgent: bool = False) -> None:
        """There may be something to read, or (``urgent``) something to say at once."""

    def mark_changed(self) -> None:
        """There is something new to tell, which nobody need be woken for."""

    def count_next_fetch(self) -> None:
        """The leader counts this follower's next fetch, whether or not it names the partition."""


class Replica:
    """``key`` names the partition for good, ``partition`` by its topic's name."""

    __slots__ = (
        "commit_waiters", "consumers", "deletions", "followers", "key", "log", "machine", "partition", "traffic",
        "unflushed",
    )  # fmt: skip

    def __init__(self, partition: TopicPartition, key: Key, log: Log, machine: Partition, traffic: Traffic) -> None:
        self.partition = partition
        self.traffic = traffic
        self.key = key
        self.log = log
        self.machine = machine
        self.commit_waiters: deque[tuple[int, CommitWaiter, object]] = deque()
        """Who waits for the high watermark, in offset order; see ``when_committed``."""
        self.unflushed: deque[tuple[int, DelayedResponse, PartitionAnswer]] = deque()
        """acks=1 produces that wait for a flush, in the same form."""
        self.deletions: list[tuple[int, DelayedResponse, Deleted]] = []
        """DeleteRecords that wait for followers: (new log start, response that waits, part of it)."""
        self.consumers: dict[FetchWaiter, None] = {}
        """Fetches that a higher watermark would interest. A dict for its order: a simulated run must repeat."""
        self.followers: dict[FetchWaiter, None] = {}
        """Fetches of followers, which any new record interests."""

    def __repr__(self) -> str:
        it, waiting = self.machine, len(self.commit_waiters) + len(self.consumers) + len(self.followers)
        return (
            f"Replica({self.partition} {it.role.value}: leader {it.leader} in epoch {it.leader_epoch}, "
            f"isr {list(it.isr)} of {list(it.replicas)}, high watermark {it.high_watermark}, {self.log!r}, "
            f"{waiting} waiting)"
        )

    def when_committed(self, next_offset: int, waiter: CommitWaiter, slot: object = None) -> None:
        """Have ``waiter.complete(slot, code)`` called once the high watermark reaches ``next_offset``, just above the
        last record, or when this broker leads no more. For what ``machine.acknowledged`` does not tell yet."""
        self.commit_waiters.append((next_offset, waiter, slot))

    def complete_produces(self) -> None:
        """The watermark, the ISR or the leadership moved: answer the produces whose fate is known."""
        waiters, machine = self.commit_waiters, self.machine
        if self.unflushed:
            self._complete_unflushed()
        while waiters:
            next_offset, waiter, slot = waiters[0]
            if not waiter.done:
                code = machine.acknowledged(next_offset)
                if code is None:
                    return
                waiter.complete(slot, code)
            waiters.popleft()

    def _complete_unflushed(self) -> None:
        """Answer what was flushed; when this broker does not lead any more, everything."""
        waiting, settled, code = self.unflushed, self.log.settled_end, self.machine.check_epoch(-1)
        while waiting:
            next_offset, delayed, slot = waiting[0]
            if code is Code.NONE and settled < next_offset and not delayed.done:
                return
            delayed.complete(slot, code)
            waiting.popleft()

    def refuse_unflushed(self, code: Code) -> None:
        """The flush has failed: whoever waits for it hears that."""
        while self.unflushed:
            _, delayed, slot = self.unflushed.popleft()
            delayed.complete(slot, code)

    def complete_deletions(self) -> None:
        """A follower told its log start: answer the deletions that all live replicas have done."""
        low = self.machine.low_watermark
        waiting = []
        for offset, delayed, slot in self.deletions:
            if delayed.done:
                continue
            code = self.machine.check_epoch(-1)
            if code is Code.NONE and low < offset:
                waiting.append((offset, delayed, slot))
                continue
            slot.low_watermark = low if code is Code.NONE else -1
            delayed.complete(slot, code)
        self.deletions = waiting

    def data_arrived(self, first_offset: int) -> None:
        """Records were appended from ``first_offset`` on: followers that wait here have something to fetch."""
        for waiter in self.followers:
            waiter.records_appended(first_offset)

    def committed(self) -> None:
        """The watermark moved up: consumers may read further, produces may be acknowledged."""
        self.complete_produces()
        for waiter in self.consumers:
            waiter.notify()
        for waiter in self.followers:
            waiter.mark_changed()

    def left_isr(self, brokers: Collection[int]) -> None:
        """These were taken out of the ISR, if any were: their next fetch may bring them back, named or not. Not one
        that waits here already, for it says nothing of who died since. Who waited for them need not any more."""
        for waiter in self.followers:
            if waiter.replica_id in brokers:
                waiter.count_next_fetch()
        self.complete_produces()
        self.followers_changed()

    def followers_changed(self) -> None:
        """Followers came, died or left: deletions wait for those that live."""
        if self.deletions:
            self.complete_deletions()

    def changed(self) -> None:
        """Role, epoch or log start changed: everybody who waits here looks again."""
        self.complete_produces()
        self.followers_changed()
        for waiter in (*self.consumers, *self.followers):
            waiter.notify(urgent=True)
