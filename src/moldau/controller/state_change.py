"""What the state-change log says of a committed batch: each event a value, a line in Kafka's format, and a JSON line.

A pure function of what changed and who decided it. Lines are those of Kafka 1.0 to 3.x (``Changed partition foo-0 from
OnlinePartition to OfflinePartition``), which log readers know; reasons ("broker 2 was fenced") are seen from the batch
itself, and stand in the JSON only. What a broker writes of its own replicas is
``moldau.broker.metadata.state_change_log``'s.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any

from moldau.controller.states import PARTITION_MOVES, PartitionState, path, state_of
from moldau.image import NO_LEADER, Broker, Delta, Image, Partition, Recovery
from moldau.image.delta import PartitionDelta
from moldau.model import uuid_text
from moldau.model.named import NamedTuple

LOGGER = "state.change.logger"


class Author(NamedTuple):
    """The controller that decided: node id and epoch."""

    id: int
    epoch: int

    def __str__(self) -> str:
        return f"[Controller id={self.id} epoch={self.epoch}]"


class StateChange(NamedTuple):
    """One event. ``facts`` are its JSON fields."""

    text: str
    facts: dict[str, Any]

    def line(self, time: str, level: str = "INFO") -> str:
        """The log line; ``time`` as Kafka writes it, ``2024-01-31 12:00:00,123``."""
        return f"[{time}] {level} {self.text} ({LOGGER})"

    def json(self, time: str) -> str:
        """The same event as a JSON line."""
        return json.dumps({"time": time, **self.facts}, separators=(",", ":"))


def state_changes(delta: Delta, image: Image, author: Author) -> Iterator[StateChange]:
    """Events of a batch, brokers first: what happened to them is why the partitions moved.

    The image is looked at now; the events are put into words as they are asked for, however far it has gone by then.
    """
    brokers = [
        event
        for id in sorted(delta.brokers)
        for event in _broker_event(delta.brokers[id], image.brokers.get(id), author)
    ]
    reasons = _Reasons(delta, image)
    partitions = sorted(delta.partition_changes(image), key=lambda c: (c.topic, c.key[1], c.after is not None))
    return chain(brokers, (event for one in partitions for event in _partition_events(one, author, reasons.of(one))))


def _broker_event(before: Broker | None, after: Broker | None, author: Author) -> Iterator[StateChange]:
    known = after or before
    assert known is not None
    was, now = _standing(before), _standing(after)
    if was != now or (before and after and before.epoch != after.epoch):
        text = f"{author} Changed broker {known.id} with epoch {known.epoch} from {was} to {now}"
        yield StateChange(
            text,
            {
                "event": "broker", "broker": known.id, "brokerEpoch": known.epoch, "from": was, "to": now,
                "controller": author.id, "controllerEpoch": author.epoch,
            },
        )  # fmt: skip


def _standing(broker: Broker | None) -> str:
    if broker is None:
        return "unregistered"
    if broker.fenced:
        return "fenced"
    return "in controlled shutdown" if broker.in_controlled_shutdown else "active"


def _partition_events(changed: PartitionDelta, author: Author, why: str) -> Iterator[StateChange]:
    topic, key, before, after = changed
    at = state_of(before)
    name = f"{topic}-{key[1]}"
    for to in path(at, state_of(after)):
        assert to in PARTITION_MOVES[at], f"{name} cannot go from {at} to {to}"
        if to is PartitionState.ONLINE:
            assert after is not None
            text = f"{author} Changed partition {name} from {at.value} to {to.value} with state {leader_and_isr(after)}"
        else:
            text = f"{author} Changed partition {name} state from {at.value} to {to.value}"
            if to is PartitionState.NEW and after is not None:
                text += f" with assigned replicas {','.join(map(str, after.replicas))}"
        yield StateChange(text, _facts(changed, at, to, author, why))
        at = to


def _facts(changed: PartitionDelta, at: PartitionState, to: PartitionState, author: Author, why: str) -> dict[str, Any]:
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


class _Reasons:
    """Why partitions changed, read off the batch that changed them."""

    def __init__(self, delta: Delta, image: Image) -> None:
        self._brokers: dict[int, str] = {}
        for id, before in delta.brokers.items():
            after = image.brokers.get(id)
            if after is None:
                self._brokers[id] = f"broker {id} was unregistered"
            elif before is not None and before.epoch != after.epoch:
                self._brokers[id] = f"broker {id} came back as a new process"
            elif after.fenced and before is not None and not before.fenced:
                self._brokers[id] = f"broker {id} was fenced"
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
        causes = [why for id, why in sorted(self._brokers.items()) if id in (*before.replicas, *after.replicas)]
        if after.recovery == Recovery.RECOVERING and after.leader != before.leader:
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
