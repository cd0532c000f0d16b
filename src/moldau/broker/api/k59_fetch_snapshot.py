"""FetchSnapshot, 0-1, on controller listeners: a piece of a metadata snapshot (KIP-630).

Answered by this node's seat in the quorum: ``broker/quorum_plane.py``.
"""

from __future__ import annotations

from typing import Any

from moldau.wire.messages.k59_fetch_snapshot import FetchSnapshotRequest


def control(node: Any, request: FetchSnapshotRequest, context: Any) -> Any:
    """The quorum's answer."""
    return node.plane.handle(request, context.api_version)
