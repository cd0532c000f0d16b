"""Models around replication machines: logs that may lose a tail, what a broker knows of the others, and a controller.

The controller's rules are those of AlterPartition and of clean elections, small enough to be trusted; the real one has
its own simulation (controller_play.py). Read next: replication_world.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from moldau.model import Code
from moldau.replication.effects import AlterIsr
from moldau.replication.epochs import EpochTable
from moldau.replication.facts import Assignment, IsrAnswer

Entry = tuple[int, object]


class ModelLog:
    """A log as a list of (epoch, value); what lies at or above ``flushed`` goes when the power does."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.log_start_offset = 0
        self.epochs = EpochTable()
        self.flushed = 0

    @property
    def log_end_offset(self) -> int:
        return len(self.entries)

    @property
    def settled_end(self) -> int:
        return len(self.entries)

    def entry(self, offset: int) -> Entry:
        return self.entries[offset]

    def append(self, epoch: int, value: object) -> None:
        self.epochs.assign(epoch, len(self.entries))
        self.entries.append((epoch, value))

    def truncate(self, offset: int) -> None:
        del self.entries[offset:]
        self.epochs.truncate_from_end(offset)
        self.flushed = min(self.flushed, offset)

    def copy(self) -> ModelLog:
        other = ModelLog()
        other.entries = self.entries.copy()
        other.epochs = self.epochs.copy()
        other.flushed = self.flushed
        return other


class Brokers:
    """What one broker's image says of the others: it may be older than the truth."""

    def __init__(self, registered: dict[int, int] | None = None, fenced: frozenset[int] = frozenset()) -> None:
        self.registered = dict.fromkeys(range(3), 1) if registered is None else registered
        self.fenced = fenced

    def broker_epoch(self, broker_id: int) -> int | None:
        return self.registered.get(broker_id)

    def may_join_isr(self, broker_id: int) -> bool:
        return broker_id in self.registered and broker_id not in self.fenced

    def copy(self) -> Brokers:
        return Brokers(dict(self.registered), self.fenced)


class ModelController:
    """The committed state, and the rules of AlterPartition and of elections without unclean ones."""

    def __init__(self, ids: Iterable[int]) -> None:
        every = tuple(ids)
        self.state = Assignment(0, 0, 0, every, every)
        self.brokers = Brokers(dict.fromkeys(every, 1))
        self.history: list[tuple[Assignment, dict[int, int], frozenset[int]]] = []
        self.publish()

    def copy(self) -> ModelController:
        other = ModelController(())
        other.state, other.brokers, other.history = self.state, self.brokers.copy(), self.history.copy()
        return other

    def publish(self) -> None:
        self.history.append((self.state, dict(self.brokers.registered), self.brokers.fenced))

    def change(self, **fields: Any) -> None:
        self.state = self.state._replace(partition_epoch=self.state.partition_epoch + 1, **fields)
        self.publish()

    def alter(self, sender: int, ask: AlterIsr) -> IsrAnswer:
        state = self.state
        members = tuple(broker for broker, _ in ask.isr)
        if ask.leader_epoch > state.leader_epoch or ask.partition_epoch > state.partition_epoch:
            return IsrAnswer(ask.serial, Code.NOT_CONTROLLER)
        if ask.leader_epoch < state.leader_epoch or sender != state.leader:
            return IsrAnswer(ask.serial, Code.FENCED_LEADER_EPOCH)
        if ask.partition_epoch < state.partition_epoch:
            if set(members) == set(state.isr):
                return IsrAnswer(ask.serial, Code.NONE, state.leader_epoch, state.partition_epoch, state.isr)
            return IsrAnswer(ask.serial, Code.INVALID_UPDATE_VERSION)
        if not set(members) <= set(state.replicas):
            return IsrAnswer(ask.serial, Code.INVALID_REQUEST)
        for broker, epoch in ask.isr:
            if broker in self.brokers.fenced or epoch not in (-1, self.brokers.registered[broker]):
                return IsrAnswer(ask.serial, Code.INELIGIBLE_REPLICA)
        if members != state.isr:
            self.change(isr=members)
        return IsrAnswer(ask.serial, Code.NONE, state.leader_epoch, self.state.partition_epoch, members)

    def live_isr(self) -> list[int]:
        return [b for b in self.state.isr if b not in self.brokers.fenced]

    def fence(self, broker: int) -> None:
        self.brokers.fenced |= {broker}
        isr = tuple(b for b in self.state.isr if b != broker) or self.state.isr
        if self.state.leader == broker:
            self.elect(isr)
        elif isr != self.state.isr:
            self.change(isr=isr)
        else:
            self.publish()

    def elect(self, isr: tuple[int, ...], among: tuple[int, ...] | None = None) -> None:
        live = [b for b in among or isr if b not in self.brokers.fenced]
        self.change(leader=live[0] if live else -1, leader_epoch=self.state.leader_epoch + 1, isr=isr)

    def register(self, broker: int) -> None:
        """A restarted broker: a new broker epoch; it is not to be trusted in the ISR unless it is the last member."""
        self.brokers.registered[broker] = self.brokers.registered[broker] + 1
        self.fence(broker)

    def unfence(self, broker: int) -> None:
        self.brokers.fenced -= {broker}
        if self.state.leader == -1 and broker in self.state.isr:
            self.elect(self.state.isr)
        else:
            self.publish()

    def drop(self, broker: int) -> bool:
        """Take a replica away; another of the ISR stays. It bumps the leader epoch, or strays go unseen (KAFKA-13972).

        False when it may not go.
        """
        state = self.state
        isr = tuple(b for b in state.isr if b != broker)
        if broker not in state.replicas or not [b for b in isr if b not in self.brokers.fenced]:
            return False
        replicas = tuple(b for b in state.replicas if b != broker)
        self.state = state._replace(replicas=replicas)
        self.elect(isr, (state.leader,) if state.leader in isr else None)
        return True

    def add(self, broker: int) -> None:
        """Bring a replica (back), outside the ISR."""
        self.change(replicas=(*self.state.replicas, broker))
