"""BeginQuorumEpoch, 0-1, on controller listeners: a new leader of the quorum announces itself (KIP-595).

Answered by this node's seat in the quorum: ``broker/quorum_plane.py``.
"""

from __future__ import annotations

from typing import Any

from moldau.wire.messages.k53_begin_quorum_epoch import BeginQuorumEpochRequest


def control(node: Any, request: BeginQuorumEpochRequest, context: Any) -> Any:
    """The quorum's answer."""
    return node.plane.handle(request, context.api_version)
