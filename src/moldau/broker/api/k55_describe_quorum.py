"""DescribeQuorum, 0-2: leader, epoch, voters and observers with how far they are (KIP-595, KIP-836, KIP-853).

On a broker listener it is passed on to the controller, which alone knows the progress of others.
"""

from __future__ import annotations

from moldau.broker.api.forwarding import forward
from moldau.broker.network.requests import Outcome, RequestContext
from moldau.broker.services import QuorumServices
from moldau.wire.messages.k55_describe_quorum import DescribeQuorumRequest

handle = forward


def control(node: QuorumServices, request: DescribeQuorumRequest, context: RequestContext) -> Outcome:
    """The quorum's answer."""
    answer: Outcome = node.plane.handle(request, context.api_version)
    return answer
