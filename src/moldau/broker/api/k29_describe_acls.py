"""DescribeAcls, 1-3: SECURITY_DISABLED, as from every Apache Kafka that is given no authorizer. There is none here."""

from __future__ import annotations

from moldau.broker.network.requests import RequestContext
from moldau.broker.services import NodeServices
from moldau.model import Code
from moldau.wire.messages.k29_describe_acls import DescribeAclsRequest, DescribeAclsResponse

KEY = 29
NO_AUTHORIZER = "No Authorizer is configured."


def handle(node: NodeServices, request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    """Refuse: nobody keeps ACLs."""
    return DescribeAclsResponse(error_code=Code.SECURITY_DISABLED, error_message=NO_AUTHORIZER)


control = handle
