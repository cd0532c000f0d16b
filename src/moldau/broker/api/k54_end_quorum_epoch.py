"""EndQuorumEpoch, 0-1, on controller listeners: a leader of the quorum leaves and names successors (KIP-595).

Answered by this node's Raft replica: ``broker/kraft/plane.py``.
"""

from __future__ import annotations

from moldau.broker.network.requests import Outcome, RequestContext
from moldau.broker.services import QuorumServices
from moldau.wire.messages.k54_end_quorum_epoch import EndQuorumEpochRequest


def control(node: QuorumServices, request: EndQuorumEpochRequest, context: RequestContext) -> Outcome:
    """The quorum's answer."""
    answer: Outcome = node.plane.handle(request, context.api_version)
    return answer
