"""Replicas that brokers have to delete as they moved away, and that are not known to be deleted.

A broker that answers with a code, or dies before it answers, is told again when it registers anew, and one whose disk
took too long also a while later. Its topic may be gone by then: the topic's id tells whether a topic of that name is
the same, as StopReplica names no id. Known to the active controller only: the next one begins without, as Kafka's does.
Replicas of topics that are deleted are ``ReplicaStates``'s; only to brokers in a migration are they told once their
topic is gone.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from moldau.broker.zookeeper import batch
from moldau.controller.replica_states import ReplicaStates, ReplicaStep
from moldau.image import Broker, Delta, Image
from moldau.model import Code
from moldau.wire.messages.k05_stop_replica import StopReplicaRequest
from moldau.wire.schema import Message

log = logging.getLogger(__name__)

Name = tuple[str, int]
"""A partition as StopReplica names it."""


class Undeleted:
    """One controller's. ``states``: where it is held what became of each replica."""

    def __init__(self, states: ReplicaStates) -> None:
        self._states = states
        self._asked: dict[int, dict[Name, bytes]] = {}
        self._refused: dict[tuple[int, Name], Code] = {}

    def __len__(self) -> int:
        """How many replicas their brokers have yet to delete."""
        return sum(map(len, self._asked.values()))

    @property
    def refused(self) -> dict[tuple[int, Name], Code]:
        """(broker, partition) -> why its broker could not delete it."""
        return dict(self._refused)

    def clear(self) -> None:
        self._asked.clear()
        self._refused.clear()

    def asked(self, image: Image, delta: Delta, sender: batch.SendingController) -> None:
        """Brokers have to delete replicas, as a committed batch made it so: those that live are told with it, the
        others when they register. The sender itself is told of nothing, nor are brokers that read the quorum's log."""
        for topic, key, before, after in delta.changes(image):
            if before is None or (after is not None and after.replicas == before.replicas):
                continue
            if key[0] in self._states.deleting:
                continue  # its replicas went before it
            kept = () if after is None else after.replicas
            for broker_id in before.replicas:
                if broker_id not in kept and broker_id != sender.controller_id and _hears(image, broker_id, sender):
                    self._asked.setdefault(broker_id, {})[topic, key[1]] = key[0]

    def stop_replica_answered(
        self,
        image: Image,
        broker_id: int,
        message: StopReplicaRequest,
        answer: Any,  # Any: as the network has it
    ) -> list[ReplicaStep]:
        """A broker answered: what it deleted is deleted, and what it could not is told.
        Returned are the steps of the replicas."""
        if not _deletes(message) or answer.error_code:
            return []
        codes = {(one.topic_name, one.partition_index): Code(one.error_code) for one in answer.partition_errors}
        steps: list[ReplicaStep] = []
        for name in _named(message):
            code = codes.get(name, Code.NONE)
            topic_id = self._asked.get(broker_id, {}).get(name) or self._states.named(name[0])
            if topic_id is not None:
                steps += self._states.answered(image, broker_id, (topic_id, name[1]), deleted=code is Code.NONE)
            if code is Code.NONE:
                self._forget(broker_id, name)
                continue
            self._refused[broker_id, name] = code
            log.warning(
                "broker %d cannot delete its replica of %s-%d, and is told again %s: %s",
                broker_id, *name, "soon" if code is Code.REQUEST_TIMED_OUT else "when it registers anew", code.name,
            )  # fmt: skip
        return steps

    def again(
        self, image: Image, broker: Broker, sender: batch.SendingController
    ) -> tuple[list[Message], list[ReplicaStep]]:
        """What a broker that registered is told to delete, once more, and the steps of these replicas."""
        stops = []
        steps: list[ReplicaStep] = []
        for name, topic_id in list(self._asked.get(broker.id, {}).items()):
            epoch, key = _epoch(image, broker.id, name, topic_id), (topic_id, name[1])
            if epoch is None:
                self._forget(broker.id, name)
                steps += self._states.forget(broker.id, key)
            else:
                stops.append((*name, epoch))
                steps += self._states.again(broker.id, key)
        if not stops:
            return [], steps
        log.info("broker %d is told again to delete %d replica(s)", broker.id, len(stops))
        return [batch.stop_replica(broker, stops, sender, delete=True)], steps

    def _forget(self, broker_id: int, name: Name) -> None:
        left = self._asked.get(broker_id, {})
        left.pop(name, None)
        self._refused.pop((broker_id, name), None)
        if not left:
            self._asked.pop(broker_id, None)


def _hears(image: Image, broker_id: int, sender: batch.SendingController) -> bool:
    broker = image.brokers.get(broker_id)
    return not sender.to_migrating or (broker is not None and broker.is_migrating)


def _epoch(image: Image, broker_id: int, name: Name, topic_id: bytes) -> int | None:
    """The leader epoch under which a replica is to go; None when it is to stay: it, or another topic of its name, has a
    place there now."""
    topic = image.topic(name[0])
    if topic is None:
        return batch.DURING_DELETE
    partition = topic.partitions.get(name[1])
    if topic.id != topic_id or partition is None or broker_id in partition.replicas:
        return None
    return partition.leader_epoch


def _deletes(message: Message) -> bool:
    return isinstance(message, StopReplicaRequest) and any(
        state.delete_partition for topic in message.topic_states for state in topic.partition_states
    )


def _named(message: Message) -> Sequence[Name]:
    assert isinstance(message, StopReplicaRequest)
    return [
        (topic.topic_name, state.partition_index) for topic in message.topic_states for state in topic.partition_states
    ]
