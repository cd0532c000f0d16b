"""SyncGroup, 0-5: the leader hands in the assignment, everybody gets its own; answered when the log has it.

Instance ids from 3 (KIP-345); protocol type and name, which must be the group's, from 5 (KIP-559).
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.broker.groups.coordinator import Answering
from moldau.broker.network.context import Context
from moldau.broker.services import BrokerServices
from moldau.groups.facts import SyncGroup, SyncReply
from moldau.wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupResponse

KEY = 14


def handle(node: BrokerServices, request: SyncGroupRequest, context: Context) -> Answering:
    """The group's reply as a response, when its leader has sent the assignment and that is committed."""
    group_request = SyncGroup(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id,
        request.protocol_type,
        request.protocol_name,
        tuple((given.member_id, bytes(given.assignment)) for given in request.assignments),
    )
    return node.coordinator.submit([group_request], _finish)


def _finish(replies: Sequence[SyncReply]) -> SyncGroupResponse:
    code, assignment, protocol_type, protocol_name = replies[0]
    return SyncGroupResponse(
        error_code=code, assignment=assignment, protocol_type=protocol_type, protocol_name=protocol_name
    )
