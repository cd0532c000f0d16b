"""Vote, 0-2, on controller listeners: a candidate (or one who asks whether it should be) wants our vote (KIP-595,
KIP-996).

Answered by this node's Raft replica: ``broker/kraft/plane.py``.
"""

from __future__ import annotations

from moldau.broker.network.requests import Outcome, RequestContext
from moldau.broker.services import QuorumServices
from moldau.wire.messages.k52_vote import VoteRequest


def control(node: QuorumServices, request: VoteRequest, context: RequestContext) -> Outcome:
    """The quorum's answer."""
    answer: Outcome = node.plane.handle(request, context.api_version)
    return answer
