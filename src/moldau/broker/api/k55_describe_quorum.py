"""DescribeQuorum, 0-2: leader, epoch, voters and observers with how far they are (KIP-595, KIP-836, KIP-853).

On a broker listener it is passed on to the controller, which alone knows the progress of others.
"""

from __future__ import annotations

from moldau.broker.api.forwarding import forward
from moldau.broker.network.requests import Outcome, RequestContext
from moldau.broker.services import BrokerServices, QuorumServices
from moldau.model import Code
from moldau.wire.messages.k55_describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse

PARTITIONS_MAX = 1_000
"""So many a request names: there is one, and what is said of all others is made in one step."""


async def handle(
    node: BrokerServices, request: DescribeQuorumRequest, context: RequestContext
) -> DescribeQuorumResponse:
    """The controller's answer."""
    refusal = _refusal(request)
    return await forward(node, request, context) if refusal is None else refusal


def control(node: QuorumServices, request: DescribeQuorumRequest, context: RequestContext) -> Outcome:
    """The quorum's answer."""
    answer: Outcome = _refusal(request)
    if answer is None:
        answer = node.plane.handle(request, context.api_version)
    return answer


def _refusal(request: DescribeQuorumRequest) -> DescribeQuorumResponse | None:
    named = 0
    for topic in request.topics:
        named += 1 + len(topic.partitions)
        if named > PARTITIONS_MAX:
            why = f"A request names at most {PARTITIONS_MAX} topics and partitions."
            return DescribeQuorumResponse(error_code=Code.INVALID_REQUEST, error_message=why)
    return None
