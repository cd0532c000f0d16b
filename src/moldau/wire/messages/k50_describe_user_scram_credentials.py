"""DescribeUserScramCredentials: request and response, every version.

Api key 50. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class DescribeUserScramCredentialsResponse(Message, key=50, versions=(0, 0)):
    """Answers DescribeUserScramCredentials."""

    class DescribeUserScramCredentialsResult(Struct):
        user: str = at(0, "string")
        error_code: int = at(0, "int16")
        error_message: str | None = at(0, "string", null=0)
        credential_infos: list[DescribeUserScramCredentialsResponse.CredentialInfo] = at(0, ["CredentialInfo"])

    class CredentialInfo(Struct):
        mechanism: int = at(0, "int8")
        iterations: int = at(0, "int32")

    throttle_time_ms: int = at(0, "int32")
    error_code: int = at(0, "int16")
    error_message: str | None = at(0, "string", null=0)
    results: list[DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult] = at(
        0, ["DescribeUserScramCredentialsResult"]
    )


class DescribeUserScramCredentialsRequest(Request[DescribeUserScramCredentialsResponse], key=50, versions=(0, 0)):
    """Asks DescribeUserScramCredentials."""

    class UserName(Struct):
        name: str = at(0, "string")

    users: list[DescribeUserScramCredentialsRequest.UserName] | None = at(0, ["UserName"], null=0)
