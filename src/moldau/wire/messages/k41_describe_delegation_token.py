"""DescribeDelegationToken: request and response, every version.

Api key 41. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class DescribeDelegationTokenResponse(Message, key=41, versions=(0, 3), flexible=2):
    """Answers DescribeDelegationToken."""

    class DescribedDelegationToken(Struct):
        principal_type: str = at(0, "string")
        principal_name: str = at(0, "string")
        token_requester_principal_type: str = at(3, "string")
        token_requester_principal_name: str = at(3, "string")
        issue_timestamp: int = at(0, "int64")
        expiry_timestamp: int = at(0, "int64")
        max_timestamp: int = at(0, "int64")
        token_id: str = at(0, "string")
        hmac: bytes = at(0, "bytes")
        renewers: list[DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer] = at(
            0, ["DescribedDelegationTokenRenewer"]
        )

    class DescribedDelegationTokenRenewer(Struct):
        principal_type: str = at(0, "string")
        principal_name: str = at(0, "string")

    error_code: int = at(0, "int16")
    tokens: list[DescribeDelegationTokenResponse.DescribedDelegationToken] = at(0, ["DescribedDelegationToken"])
    throttle_time_ms: int = at(0, "int32")


class DescribeDelegationTokenRequest(Request[DescribeDelegationTokenResponse], key=41, versions=(0, 3), flexible=2):
    """Asks DescribeDelegationToken."""

    class DescribeDelegationTokenOwner(Struct):
        principal_type: str = at(0, "string")
        principal_name: str = at(0, "string")

    owners: list[DescribeDelegationTokenRequest.DescribeDelegationTokenOwner] | None = at(
        0, ["DescribeDelegationTokenOwner"], null=0
    )
