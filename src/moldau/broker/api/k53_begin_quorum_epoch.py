"""BeginQuorumEpoch, 0-1, on controller listeners: a new leader of the quorum announces itself (KIP-595).

Answered by this node's Raft replica: ``broker/kraft/plane.py``.
"""

from __future__ import annotations

from moldau.broker.network.requests import Outcome, RequestContext
from moldau.broker.services import QuorumServices
from moldau.wire.messages.k53_begin_quorum_epoch import BeginQuorumEpochRequest


def control(node: QuorumServices, request: BeginQuorumEpochRequest, context: RequestContext) -> Outcome:
    """The quorum's answer."""
    answer: Outcome = node.plane.handle(request, context.api_version)
    return answer
