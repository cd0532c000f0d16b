"""AlterUserScramCredentials: request and response, every version.

Api key 51. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class AlterUserScramCredentialsResponse(Message, key=51, versions=(0, 0)):
    """Answers AlterUserScramCredentials."""

    class AlterUserScramCredentialsResult(Struct):
        user: str = at(0, "string")
        error_code: int = at(0, "int16")
        error_message: str | None = at(0, "string", null=0)

    throttle_time_ms: int = at(0, "int32")
    results: list[AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult] = at(
        0, ["AlterUserScramCredentialsResult"]
    )


class AlterUserScramCredentialsRequest(Request[AlterUserScramCredentialsResponse], key=51, versions=(0, 0)):
    """Asks AlterUserScramCredentials."""

    class ScramCredentialDeletion(Struct):
        name: str = at(0, "string")
        mechanism: int = at(0, "int8")

    class ScramCredentialUpsertion(Struct):
        name: str = at(0, "string")
        mechanism: int = at(0, "int8")
        iterations: int = at(0, "int32")
        salt: bytes = at(0, "bytes")
        salted_password: bytes = at(0, "bytes")

    deletions: list[AlterUserScramCredentialsRequest.ScramCredentialDeletion] = at(0, ["ScramCredentialDeletion"])
    upsertions: list[AlterUserScramCredentialsRequest.ScramCredentialUpsertion] = at(0, ["ScramCredentialUpsertion"])
