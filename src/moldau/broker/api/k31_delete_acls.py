"""DeleteAcls, 1-3: SECURITY_DISABLED for each filter, as from every Apache Kafka that is given no authorizer."""

from __future__ import annotations

from moldau.broker.api.k29_describe_acls import NO_AUTHORIZER
from moldau.broker.network.requests import RequestContext
from moldau.broker.services import NodeServices
from moldau.model import Code
from moldau.wire.messages.k31_delete_acls import DeleteAclsRequest, DeleteAclsResponse

KEY = 31
Result = DeleteAclsResponse.DeleteAclsFilterResult


def handle(node: NodeServices, request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    """Refuse: nobody keeps ACLs."""
    refused = Result(error_code=Code.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    return DeleteAclsResponse(filter_results=[refused] * len(request.filters))


control = handle
