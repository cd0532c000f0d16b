"""RemoveRaftVoter, 0: let a controller vote no more (KIP-853).

On a broker listener it is passed on to the controller that leads. Decided by ``moldau.quorum.changes``.
"""

from __future__ import annotations

from moldau.broker.api.forwarding import forward
from moldau.broker.network.requests import RequestContext
from moldau.broker.services import QuorumServices
from moldau.wire.messages.k81_remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

handle = forward


async def control(
    node: QuorumServices, request: RemoveRaftVoterRequest, context: RequestContext
) -> RemoveRaftVoterResponse:
    """The leader's answer, when the change is committed."""
    answer = await node.plane.change_voters(request)
    return RemoveRaftVoterResponse(error_code=answer.code, error_message=answer.message)
