"""JoinGroup, 0-9: become a member, or take part in a rebalance; answered when the rebalance is over.

The rebalance timeout is the session timeout in 0 (KIP-62). A new dynamic member is first told its id from 4 on
(KIP-394); instance ids from 5 (KIP-345); protocol type and a null protocol from 7 (KIP-559); a static leader that came
back may skip the assignment from 9 (KIP-814). Reasons (8, KIP-800) are for the log only.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from moldau.broker.groups.coordinator import Answering
from moldau.broker.network.context import Context
from moldau.broker.services import BrokerServices
from moldau.groups.facts import Join, JoinReply, Protocol
from moldau.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupResponse

log = logging.getLogger(__name__)

KEY = 11


def handle(node: BrokerServices, request: JoinGroupRequest, context: Context) -> Answering:
    """The group's reply as a response: when the rebalance is over, or at once where the member need not wait."""
    version = context.api_version
    if request.reason:
        log.info("%s joins group %s: %s", request.member_id or context.client_id, request.group_id, request.reason)
    group_request = Join(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.protocol_type,
        tuple(Protocol(protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
        request.session_timeout_ms,
        request.session_timeout_ms if version < 1 else request.rebalance_timeout_ms,
        context.client_id or "",
        f"/{context.peer_host}",
        uuid_java_text(node.world.random.uuid()),
        known_member_id_required=version >= 4,
        skip_assignment_understood=version >= 9,
    )

    def finish(replies: Sequence[JoinReply]) -> JoinGroupResponse:
        reply = replies[0]
        protocol_name = reply.protocol_name
        return JoinGroupResponse(
            error_code=reply.code,
            generation_id=reply.generation,
            protocol_type=reply.protocol_type,
            protocol_name="" if protocol_name is None and version < 7 else protocol_name,
            leader=reply.leader_id,
            skip_assignment=reply.skip_assignment,
            member_id=reply.member_id,
            members=[
                JoinGroupResponse.JoinGroupResponseMember(
                    member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.metadata
                )
                for member in reply.members
            ],
        )

    return node.coordinator.submit([group_request], finish)


def uuid_java_text(id: bytes) -> str:
    """Sixteen bytes as 8-4-4-4-12 hex digits, the form in which tools expect the end of a member id."""
    text = id.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
