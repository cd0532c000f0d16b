"""FetchSnapshot, 0-1, on controller listeners: a piece of a metadata snapshot (KIP-630).

Answered by this node's Raft replica: ``broker/kraft/plane.py``.
"""

from __future__ import annotations

from moldau.broker.network.requests import Outcome, RequestContext
from moldau.broker.services import QuorumServices
from moldau.wire.messages.k59_fetch_snapshot import FetchSnapshotRequest


def control(node: QuorumServices, request: FetchSnapshotRequest, context: RequestContext) -> Outcome:
    """The quorum's answer."""
    answer: Outcome = node.plane.handle(request, context.api_version)
    return answer
