"""DescribeUserScramCredentials, 0: which SCRAM credentials the cluster keeps, without their secrets (KIP-554).

They cannot be altered here yet, what is shown was made by Apache Kafka, in either mode. kafka-configs.sh asks for them
whenever it describes users, whose quotas are served.
"""

from __future__ import annotations

from collections.abc import Generator

from moldau.broker.loop import InWorld
from moldau.image import Image
from moldau.model import Code
from moldau.model.config_key import shown
from moldau.model.protocol import Protocol
from moldau.wire.messages.k50_describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from moldau.wire.records.metadata import UserScramCredentialRecord

Request = DescribeUserScramCredentialsRequest
Response = DescribeUserScramCredentialsResponse
Result = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult


class WithImage(InWorld, Protocol):
    """Whose credentials are described."""

    @property
    def image(self) -> Image: ...


def handle(node: WithImage, request: Request, context: object) -> Generator[None, None, Response]:
    """Look through all that is kept; there is a pause after some of it."""
    known: dict[str, list[Response.CredentialInfo]] = {}
    left = list(node.image.opaque)
    for begin in range(0, len(left), 10 * node.world.step):
        for key in left[begin : begin + 10 * node.world.step]:
            record = node.image.opaque.get(key)
            if isinstance(record, UserScramCredentialRecord):
                info = Response.CredentialInfo(mechanism=record.mechanism, iterations=record.iterations)
                known.setdefault(record.name, []).append(info)
        yield
    response = Response()
    names = [user.name for user in request.users or ()] or list(known)
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
    for number, (name, times) in enumerate(seen.items(), 1):
        response.results.append(_result(name, times, known.get(name)))
        if not number % (10 * node.world.step):
            yield
    return response


def _result(name: str, times: int, infos: list[Response.CredentialInfo] | None) -> Result:
    if times > 1:
        why = f"Cannot describe SCRAM credentials for the same user twice in a single request: {shown(name)}"
        return Result(user=name, error_code=Code.DUPLICATE_RESOURCE, error_message=why)
    if infos is None:
        why = f"Attempt to describe a user credential that does not exist: {shown(name)}"
        return Result(user=name, error_code=Code.RESOURCE_NOT_FOUND, error_message=why)
    return Result(user=name, credential_infos=infos)
