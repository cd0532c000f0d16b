"""DescribeQuorum, 0-2: leader, epoch, voters and observers with how far they are (KIP-595, KIP-836, KIP-853).

On a broker listener it is passed on to the controller, which alone knows the progress of others.
"""

from __future__ import annotations

from typing import Any

from moldau.broker.api.forwarding import forward
from moldau.wire.messages.k55_describe_quorum import DescribeQuorumRequest

handle = forward


def control(node: Any, request: DescribeQuorumRequest, context: Any) -> Any:
    """The quorum's answer."""
    return node.plane.handle(request, context.api_version)
