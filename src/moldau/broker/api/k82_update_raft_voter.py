"""UpdateRaftVoter, 0, on controller listeners: a voter says where it listens now (KIP-853).

Sent by controllers (``broker/kraft/membership.py``). Decided by ``moldau.quorum.changes``.
"""

from __future__ import annotations

from moldau.broker.network.requests import RequestContext
from moldau.broker.services import QuorumServices
from moldau.wire.messages.k82_update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse


async def control(
    node: QuorumServices, request: UpdateRaftVoterRequest, context: RequestContext
) -> UpdateRaftVoterResponse:
    """The leader's answer, when the change is appended; and who leads, as far as this node knows."""
    answer = await node.plane.change_voters(request)
    leader = UpdateRaftVoterResponse.CurrentLeader(leader_epoch=answer.epoch)
    id = answer.leader
    where = None if id is None else node.voters().get(id)
    if id is not None and where is not None:
        leader.leader_id, (leader.host, leader.port) = id, where
    return UpdateRaftVoterResponse(error_code=answer.code, current_leader=leader)
