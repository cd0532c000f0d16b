"""CreateAcls, 1-3: SECURITY_DISABLED for each, as from every Apache Kafka that is given no authorizer."""

from __future__ import annotations

from moldau.broker.api.k29_describe_acls import NO_AUTHORIZER
from moldau.broker.network.requests import RequestContext
from moldau.broker.services import NodeServices
from moldau.model import Code
from moldau.wire.messages.k30_create_acls import CreateAclsRequest, CreateAclsResponse

KEY = 30
Result = CreateAclsResponse.AclCreationResult


def handle(node: NodeServices, request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    """Refuse: nobody would enforce them."""
    refused = Result(error_code=Code.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    return CreateAclsResponse(results=[refused] * len(request.creations))


control = handle
