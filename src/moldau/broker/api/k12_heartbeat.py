"""Heartbeat, 0-4: a member is alive; told REBALANCE_IN_PROGRESS to have it rejoin. Instance ids from 3 (KIP-345)."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.broker.groups.coordinator import Answering
from moldau.broker.network.context import Context
from moldau.broker.services import BrokerServices
from moldau.groups.facts import Heartbeat, HeartbeatReply
from moldau.wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse

KEY = 12


def handle(node: BrokerServices, request: HeartbeatRequest, context: Context) -> Answering:
    """The group's reply as a response, at once."""
    group_request = Heartbeat(request.group_id, request.member_id, request.group_instance_id, request.generation_id)
    return node.coordinator.submit([group_request], _finish)


def _finish(replies: Sequence[HeartbeatReply]) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=replies[0].code)
