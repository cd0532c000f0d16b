"""A cluster without an authorizer says so, request by request, as an unsecured Apache Kafka does (KIP-140)."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.broker.api import BROKER, CONTROLLER, ON_BROKER, handler
from moldau.model import Code
from moldau.wire.messages.k29_describe_acls import DescribeAclsRequest
from moldau.wire.messages.k30_create_acls import CreateAclsRequest
from moldau.wire.messages.k31_delete_acls import DeleteAclsRequest

ASKS: list[Any] = [
    DescribeAclsRequest(resource_type_filter=1, operation=1, permission_type=1),
    CreateAclsRequest(
        creations=[CreateAclsRequest.AclCreation(resource_type=2, resource_name="t", principal="User:a")] * 2
    ),
    DeleteAclsRequest(filters=[DeleteAclsRequest.DeleteAclsFilter(resource_type_filter=2)] * 2),
]


@pytest.mark.parametrize("kind", [BROKER, CONTROLLER])
@pytest.mark.parametrize("ask", ASKS, ids=lambda ask: type(ask).__name__)
def test_every_ask_for_acls_is_told_that_security_is_disabled(ask: Any, kind: str) -> None:
    served = ON_BROKER[ask.api_key]
    for version in range(served.low, served.high + 1):
        answer: Any = handler(ask.api_key, kind)(None, type(ask).decode(ask.encode(version), version), None)
        answer = type(answer).decode(answer.encode(version), version)
        each = {29: lambda one: [one], 30: lambda one: one.results, 31: lambda one: one.filter_results}[ask.api_key]
        found = [(one.error_code, one.error_message) for one in each(answer)]
        assert found == [(Code.SECURITY_DISABLED, "No Authorizer is configured.")] * (1 if ask.api_key == 29 else 2)
