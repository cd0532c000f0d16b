"""AddRaftVoter, 0-1: let a controller vote, once it has caught up (KIP-853, KIP-1186).

On a broker listener it is passed on to the controller that leads. Decided by ``moldau.quorum.changes``.
"""

from __future__ import annotations

from moldau.broker.api.forwarding import forward
from moldau.broker.network.requests import RequestContext
from moldau.broker.services import QuorumServices
from moldau.wire.messages.k80_add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse

handle = forward


async def control(node: QuorumServices, request: AddRaftVoterRequest, context: RequestContext) -> AddRaftVoterResponse:
    """The leader's answer, when the change is committed (or appended, if that is enough for the asker)."""
    answer = await node.plane.change_voters(request)
    return AddRaftVoterResponse(error_code=answer.code, error_message=answer.message)
