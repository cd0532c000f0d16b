"""OffsetForLeaderEpoch, 2-4: where a leader epoch ends in the leader's log, for readers that must find where to cut.

Consumers and (before Fetch version 12) followers ask it after a leader change. Source: KIP-101, KIP-279, KIP-320.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator

from moldau.broker.loop import Pace, at_once_or_in_slices
from moldau.broker.network.context import Context
from moldau.broker.replicas.replica import Replica
from moldau.broker.services import BrokerServices
from moldau.model import Code
from moldau.wire.messages.k23_offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse


def handle(
    node: BrokerServices, request: OffsetForLeaderEpochRequest, context: Context
) -> OffsetForLeaderEpochResponse | Awaitable[OffsetForLeaderEpochResponse]:
    """Look up in the epoch tables, some partitions in each turn of the loop."""
    return at_once_or_in_slices(node.world.tasks, _steps(node, request))


def _steps(
    node: BrokerServices, request: OffsetForLeaderEpochRequest
) -> Generator[None, None, OffsetForLeaderEpochResponse]:
    response, pace = OffsetForLeaderEpochResponse(), Pace(node.world.step)
    for topic in request.topics:
        shown = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic=topic.topic)
        response.topics.append(shown)
        for part in topic.partitions:
            slot = OffsetForLeaderEpochResponse.EpochEndOffset(partition=part.partition)
            shown.partitions.append(slot)
            if pace.spent(1):
                yield
            replica: Replica | Code = node.replicas.find(topic.topic, part.partition)
            if isinstance(replica, Code):
                slot.error_code = replica
                continue
            code, slot.leader_epoch, slot.end_offset = replica.machine.epoch_end(
                part.current_leader_epoch, part.leader_epoch
            )
            slot.error_code = code
    return response
