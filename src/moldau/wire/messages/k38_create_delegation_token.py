"""CreateDelegationToken: request and response, every version.

Api key 38. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class CreateDelegationTokenResponse(Message, key=38, versions=(0, 3), flexible=2):
    """Answers CreateDelegationToken."""

    error_code: int = at(0, "int16")
    principal_type: str = at(0, "string")
    principal_name: str = at(0, "string")
    token_requester_principal_type: str = at(3, "string")
    token_requester_principal_name: str = at(3, "string")
    issue_timestamp_ms: int = at(0, "int64")
    expiry_timestamp_ms: int = at(0, "int64")
    max_timestamp_ms: int = at(0, "int64")
    token_id: str = at(0, "string")
    hmac: bytes = at(0, "bytes")
    throttle_time_ms: int = at(0, "int32")


class CreateDelegationTokenRequest(Request[CreateDelegationTokenResponse], key=38, versions=(0, 3), flexible=2):
    """Asks CreateDelegationToken."""

    class CreatableRenewers(Struct):
        principal_type: str = at(0, "string")
        principal_name: str = at(0, "string")

    owner_principal_type: str | None = at(3, "string", null=3)
    owner_principal_name: str | None = at(3, "string", null=3)
    renewers: list[CreateDelegationTokenRequest.CreatableRenewers] = at(0, ["CreatableRenewers"])
    max_lifetime_ms: int = at(0, "int64")
