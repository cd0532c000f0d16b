"""DescribeProducers, 0: the idempotent producers that a replica of this broker remembers, by partition (KIP-664).

The leader's answer and a follower's may differ for a moment: each tells what its own log holds. A partition that is
named twice is answered once. A follower that has just truncated its log, and does not know yet, is asked again.
"""

from __future__ import annotations

from collections.abc import Generator

from moldau.broker.loop import InWorld, Pace
from moldau.broker.replicas.replica import Replica
from moldau.model import Code
from moldau.model.protocol import Protocol
from moldau.storage.producers import Producer
from moldau.wire.messages.k61_describe_producers import DescribeProducersRequest, DescribeProducersResponse

Shown = DescribeProducersResponse.PartitionResponse
State = DescribeProducersResponse.ProducerState


class Replicas(Protocol):
    """Where replicas are found."""

    def find(self, topic: str, number: int) -> Replica | Code: ...


class WithReplicas(InWorld, Protocol):
    """Whose replicas are described."""

    @property
    def replicas(self) -> Replicas: ...


def handle(
    node: WithReplicas, request: DescribeProducersRequest, context: object
) -> Generator[None, None, DescribeProducersResponse]:
    """List them; there is a pause after some of them."""
    response = DescribeProducersResponse()
    pace = Pace(10 * node.world.step)
    named: set[str] = set()
    for topic in request.topics:
        if topic.name in named:
            continue
        named.add(topic.name)
        told = DescribeProducersResponse.TopicResponse(name=topic.name)
        response.topics.append(told)
        for number in dict.fromkeys(topic.partition_indexes):
            shown = Shown(partition_index=number)
            told.partitions.append(shown)
            found = _producers(node.replicas, topic.name, number)
            if isinstance(found, Code):
                shown.error_code = found
                found = []
            if pace.spent(1):
                yield
            for id, producer in found:
                shown.active_producers.append(
                    State(
                        producer_id=id,
                        producer_epoch=producer.epoch,
                        last_sequence=producer.last_sequence,
                        last_timestamp=producer.last_timestamp,
                        coordinator_epoch=producer.coordinator_epoch,
                        current_txn_start_offset=producer.txn_first_offset,
                    )
                )
                if pace.spent(1):
                    yield
    return response


def _producers(replicas: Replicas, topic: str, number: int) -> list[tuple[int, Producer]] | Code:
    replica = replicas.find(topic, number)
    if isinstance(replica, Code):
        return replica
    known = replica.log.known_producers
    return Code.NOT_LEADER_OR_FOLLOWER if known is None else list(known)
