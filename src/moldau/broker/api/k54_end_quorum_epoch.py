"""EndQuorumEpoch, 0-1, on controller listeners: a leader of the quorum leaves and names successors (KIP-595).

Answered by this node's seat in the quorum: ``broker/quorum_plane.py``.
"""

from __future__ import annotations

from typing import Any

from moldau.wire.messages.k54_end_quorum_epoch import EndQuorumEpochRequest


def control(node: Any, request: EndQuorumEpochRequest, context: Any) -> Any:
    """The quorum's answer."""
    return node.plane.handle(request, context.api_version)
