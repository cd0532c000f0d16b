"""What the state-change log says of a committed batch: each event a value, a line in Kafka's format, and a JSON line.

A pure function of what changed and who decided it. Lines are those of Kafka 1.0 to 3.x (``Changed partition foo-0 from
OnlinePartition to OfflinePartition``), which log readers know, and in ZooKeeper mode to the letter those of 3.9's
controller; reasons ("broker 2 was fenced") are seen from the batch itself, and stand in the JSON only. The steps of
replicas are ``replica_states``'s. What a broker writes of its own replicas is
``moldau.broker.metadata.state_change_log``'s.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain
from typing import Any

from moldau.controller.states import PARTITION_MOVES, REPLICA_MOVES, PartitionState, ReplicaState, path, state_of
from moldau.image import NO_LEADER, Broker, Delta, Image, Partition, Recovery
from moldau.image.delta import PartitionDelta
from moldau.model import uuid_text
from moldau.model.named import NamedTuple

LOGGER = "state.change.logger"

State = PartitionState | ReplicaState


class Author(NamedTuple):
    """The controller that decided: node id and epoch."""

    id: int
    epoch: int

    def __str__(self) -> str:
        return f"[Controller id={self.id} epoch={self.epoch}]"


class StateChange(NamedTuple):
    """One event. ``facts`` are its JSON fields; ``is_refusal``: it was a step that the table does not have."""

    text: str
    facts: dict[str, Any]  # Any: what JSON can hold
    is_refusal: bool = False

    def line(self, time: str, level: str = "INFO") -> str:
        """The log line; ``time`` as Kafka writes it, ``2024-01-31 12:00:00,123``."""
        return f"[{time}] {level} {self.text} ({LOGGER})"


def state_changes(delta: Delta, image: Image, author: Author, *, zookeeper_mode: bool = False) -> Iterator[StateChange]:
    """Events of a batch, brokers first: what happened to them is why the partitions moved. In ``zookeeper_mode``
    Kafka's controller has such lines itself.

    The image is looked at now; the events are put into words as they are asked for, however far it has gone by then.
    """
    brokers = [
        event
        for id in sorted(delta.brokers)
        for event in _broker_event(delta.brokers[id], image.brokers.get(id), author)
    ]
    reasons = _Reasons(delta, image)
    lives = _lives_on(delta, image) if zookeeper_mode else None
    partitions = sorted(delta.partition_changes(image), key=lambda c: (c.topic, c.key[1], c.after is not None))
    return chain(
        brokers, (event for one in partitions for event in _partition_events(one, author, reasons.of(one), lives))
    )


def _lives_on(delta: Delta, image: Image) -> frozenset[int]:
    """Brokers that are alive, as the process that they were before the batch."""
    before = {broker.id: delta.brokers.get(broker.id, broker) for broker in image.live_brokers()}
    return frozenset(id for id, was in before.items() if was is not None and was.epoch == image.brokers[id].epoch)


def _broker_event(before: Broker | None, after: Broker | None, author: Author) -> Iterator[StateChange]:
    known = after or before
    assert known is not None
    was, now = _broker_state(before), _broker_state(after)
    if was != now or (before and after and before.epoch != after.epoch):
        text = f"{author} Changed broker {known.id} with epoch {known.epoch} from {was} to {now}"
        yield StateChange(
            text,
            {
                "event": "broker", "broker": known.id, "brokerEpoch": known.epoch, "from": was, "to": now,
                "controller": author.id, "controllerEpoch": author.epoch,
            },
        )  # fmt: skip


def _broker_state(broker: Broker | None) -> str:
    if broker is None:
        return "unregistered"
    if broker.fenced:
        return "fenced"
    return "in controlled shutdown" if broker.in_controlled_shutdown else "active"


def _partition_events(
    changed: PartitionDelta, author: Author, why: str, lives: frozenset[int] | None
) -> Iterator[StateChange]:
    topic, key, before, after = changed
    at = state_of(before)
    name = f"{topic}-{key[1]}"
    if lives is not None and (removed := _left_behind(before, after)):
        assert after is not None
        for replica in removed:
            text = (
                f"{author} Partition {name} state changed to {_in_sync(after, author)} after removing replica {replica}"
            )
            facts = _facts(changed, at, at, author, why)
            yield StateChange(f"{text} from the ISR as part of transition to OfflineReplica", facts)
        return
    steps = path(at, state_of(after))
    if lives is not None and before is not None and after is not None and _is_led_anew(before, after, lives):
        steps = [PartitionState.OFFLINE, *steps]
    for to in steps:
        if to not in PARTITION_MOVES[at]:
            words = f"failed to change state for partition {name} from {at.value} to {to.value}"
            yield refusal(author, words, f"Partition {name}", at, to)
            return
        if to is PartitionState.ONLINE:
            assert after is not None
            state = leader_and_isr(after) if lives is None else _with_broker_epochs(after)
            text = f"{author} Changed partition {name} from {at.value} to {to.value} with state {state}"
        else:
            text = f"{author} Changed partition {name} state from {at.value} to {to.value}"
            if to is PartitionState.NEW and after is not None:
                text += f" with assigned replicas {','.join(map(str, after.replicas))}"
        yield StateChange(text, _facts(changed, at, to, author, why))
        at = to


def refusal(author: Author, words: str, of: str, at: State, to: State) -> StateChange:
    """The event of a step from ``at`` to ``to`` that its table does not have: ``words`` as Kafka's controller has them
    of a step that failed, and those of its exception in the same line."""
    moves: list[tuple[State, Collection[State]]] = [*PARTITION_MOVES.items(), *REPLICA_MOVES.items()]
    before = ",".join(state.value for state, steps in moves if to in steps)
    where = f"should be in the {before} states before moving to {to.value} state. Instead it is in {at.value} state"
    return StateChange(
        f"{author} Controller {author.id} epoch {author.epoch} {words}: {of} {where}",
        {
            "event": "refused state change", "of": of, "from": at.value, "to": to.value,
            "controller": author.id, "controllerEpoch": author.epoch,
        },
        is_refusal=True,
    )  # fmt: skip


def _left_behind(before: Partition | None, after: Partition | None) -> tuple[int, ...]:
    """Whom the controller took out of the ISR of a partition that changed in nothing else. Leaders shrink their ISRs
    themselves, under the epoch that they have."""
    if before is None or after is None or after.leader != before.leader or after.leader == NO_LEADER:
        return ()
    if after.leader_epoch == before.leader_epoch or after.replicas != before.replicas or after.adding != before.adding:
        return ()
    return tuple(replica for replica in before.isr if replica not in after.isr)


def _is_led_anew(before: Partition, after: Partition, lives: frozenset[int]) -> bool:
    """Whether a partition got another leader since its own died: it was offline in between."""
    return (
        NO_LEADER not in (before.leader, after.leader)
        and after.leader_epoch != before.leader_epoch
        and (before.leader not in lives)
    )


def _facts(
    changed: PartitionDelta, at: PartitionState, to: PartitionState, author: Author, why: str
) -> dict[str, Any]:  # Any: as above
    topic, key, before, after = changed
    now = after or before
    assert now is not None
    return {
        "event": "partition", "topic": topic, "topicId": uuid_text(key[0]), "partition": key[1],
        "from": at.value, "to": to.value, "leader": NO_LEADER if after is None else after.leader,
        "leaderEpoch": now.leader_epoch, "partitionEpoch": now.partition_epoch, "isr": list(now.isr),
        "replicas": list(now.replicas), "adding": list(now.adding), "removing": list(now.removing),
        "elr": list(now.elr), "previousLeader": NO_LEADER if before is None else before.leader, "why": why,
        "controller": author.id, "controllerEpoch": author.epoch,
    }  # fmt: skip


def leader_and_isr(partition: Partition) -> str:
    """A partition's state as Kafka 3.x prints it."""
    isr = ", ".join(map(str, partition.isr))
    return (
        f"LeaderAndIsr(leader={partition.leader}, leaderEpoch={partition.leader_epoch}, isr=List({isr}), "
        f"leaderRecoveryState={Recovery(partition.recovery).name}, partitionEpoch={partition.partition_epoch})"
    )


def _with_broker_epochs(partition: Partition) -> str:
    """The same as Kafka 3.9's controller prints what it read of ZooKeeper, where no epochs of brokers stand."""
    isr = ", ".join(f"BrokerState(brokerId={replica}, brokerEpoch=-1)" for replica in partition.isr)
    return (
        f"LeaderAndIsr(leader={partition.leader}, leaderEpoch={partition.leader_epoch}, "
        f"isrWithBrokerEpoch=List({isr}), "
        f"leaderRecoveryState={Recovery(partition.recovery).name}, partitionEpoch={partition.partition_epoch})"
    )


def _in_sync(partition: Partition, author: Author) -> str:
    """A partition's state as Kafka 3.x prints it with the controller's epoch."""
    return (
        f"(Leader:{partition.leader},ISR:{','.join(map(str, partition.isr))},"
        f"LeaderRecoveryState:{Recovery(partition.recovery).name},LeaderEpoch:{partition.leader_epoch},"
        f"ZkVersion:{partition.partition_epoch},ControllerEpoch:{author.epoch})"
    )


class _Reasons:
    """Why partitions changed, read off the batch that changed them."""

    def __init__(self, delta: Delta, image: Image) -> None:
        self._brokers: dict[int, str] = {}
        self._left: set[int] = set()
        """Brokers that went: no reason where they neither led nor were in sync."""
        for id, before in delta.brokers.items():
            after = image.brokers.get(id)
            if after is None:
                self._brokers[id] = f"broker {id} was unregistered"
                self._left.add(id)
            elif before is not None and before.epoch != after.epoch:
                self._brokers[id] = f"broker {id} came back as a new process"
            elif after.fenced and before is not None and not before.fenced:
                self._brokers[id] = f"broker {id} was fenced"
                self._left.add(id)
            elif not after.fenced and before is not None and before.fenced:
                self._brokers[id] = f"broker {id} was unfenced"
            elif after.in_controlled_shutdown and before is not None and not before.in_controlled_shutdown:
                self._brokers[id] = f"broker {id} is shutting down"

    def of(self, changed: PartitionDelta) -> str:
        _, _, before, after = changed
        if before is None:
            return "created"
        if after is None:
            return "topic deleted"
        safe = (NO_LEADER, before.leader, *before.isr, *before.elr)
        causes = [
            why
            for id, why in sorted(self._brokers.items())
            if id in (safe if id in self._left else (*before.replicas, *after.replicas))
        ]
        if after.recovery == Recovery.RECOVERING and after.leader not in safe:
            return "unclean election" + (f": {', '.join(causes)}" if causes else "")
        if causes:
            return ", ".join(causes)
        return _quiet_reason(before, after)


def _quiet_reason(before: Partition, after: Partition) -> str:
    """Why a partition changed although no broker did."""
    if before.reassigning and not after.reassigning:
        return "reassignment completed" if set(before.removing).isdisjoint(after.replicas) else "reassignment cancelled"
    if after.reassigning and (before.adding, before.removing) != (after.adding, after.removing):
        return "reassignment began"
    if after.leader != before.leader:
        return "preferred election" if after.leader == after.replicas[0] else "election"
    if after.isr != before.isr:
        return "isr grew" if len(after.isr) > len(before.isr) else "isr shrank"
    return "recovered" if after.recovery != before.recovery else "state changed"
