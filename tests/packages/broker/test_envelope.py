"""Envelope: a broker of Apache Kafka passes its clients' requests on, and hears what it would have heard itself."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from moldau.broker.network.requests import CONTROLLER
from moldau.model import Code
from moldau.wire.frames import read_response_body, request_frame
from moldau.wire.messages.k18_api_versions import ApiVersionsRequest
from moldau.wire.messages.k19_create_topics import CreateTopicsRequest, CreateTopicsResponse
from moldau.wire.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from moldau.wire.messages.k51_alter_user_scram_credentials import AlterUserScramCredentialsRequest
from moldau.wire.messages.k58_envelope import EnvelopeRequest, EnvelopeResponse
from moldau.wire.schema import Message
from tests.packages.broker.data_cluster import until
from tests.packages.broker.whole_node import WholeNode, feed, whole_node

LOOPBACK = bytes([127, 0, 0, 1])


async def answers(one: WholeNode, requests: Sequence[tuple[bytes, bytes]]) -> list[EnvelopeResponse]:
    """What a controller's listener answers to envelopes of (request, client's address), asked one after the other."""
    connection, wire = one.connection(CONTROLLER)
    found = []
    for number, (data, host) in enumerate(requests):
        wire.out.clear()
        envelope = EnvelopeRequest(request_data=data, request_principal=b"User:ann", client_host_address=host)
        feed(connection, b"".join(request_frame(envelope, 0, number, "kafka")))
        await until(lambda: len(wire.out) > 4 and len(wire.out) - 4 == int.from_bytes(wire.out[:4]), "an answer")
        response = read_response_body(memoryview(bytes(wire.out[4:])), 58, 0)
        assert isinstance(response, EnvelopeResponse)
        found.append(response)
    assert not one.failures
    assert not one.ended
    return found


def inside(message: Message, version: int) -> bytes:
    return b"".join(request_frame(message, version, 77, "ann's client"))[4:]


def test_a_request_in_an_envelope_is_answered_with_its_own_header(tmp_path: Path) -> None:
    topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=2, replication_factor=1)
    create = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=2, resource_name="t", configuration_keys=None
    )

    async def scenario() -> None:
        async with whole_node(tmp_path) as one:
            made, shown = await answers(
                one,
                [(inside(create, 7), LOOPBACK), (inside(DescribeConfigsRequest(resources=[resource]), 4), LOOPBACK)],
            )
            assert made.error_code == shown.error_code == Code.NONE
            assert made.response_data is not None
            assert shown.response_data is not None
            assert int.from_bytes(made.response_data[:4]) == 77
            created = read_response_body(memoryview(made.response_data), 19, 7)
            assert isinstance(created, CreateTopicsResponse)
            assert [(t.name, t.error_code, t.num_partitions) for t in created.topics] == [("t", 0, 2)]
            described = read_response_body(memoryview(shown.response_data), 32, 4)
            assert isinstance(described, DescribeConfigsResponse)
            assert described.results[0].error_code == 0
            assert described.results[0].configs

    asyncio.run(scenario())


def test_what_a_controller_that_is_not_active_yet_refuses_is_for_the_broker_to_ask_again(tmp_path: Path) -> None:
    """A client of Kafka's broker was told NOT_CONTROLLER, of which it cannot make anything."""
    topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=2, replication_factor=1)

    async def scenario() -> None:
        async with whole_node(tmp_path) as one:
            one.node.controller._controller.epoch = None  # elected, and its log is not applied yet
            (answer,) = await answers(one, [(inside(CreateTopicsRequest(topics=[topic]), 7), LOOPBACK)])
            assert answer.error_code == Code.NOT_CONTROLLER
            assert not answer.response_data

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("data", "host", "code"),
    [
        (b"", LOOPBACK, Code.INVALID_REQUEST),
        (b"\x00" * 7, LOOPBACK, Code.INVALID_REQUEST),
        (inside(ApiVersionsRequest(), 3), LOOPBACK, Code.INVALID_REQUEST),
        (inside(EnvelopeRequest(client_host_address=LOOPBACK), 0), LOOPBACK, Code.INVALID_REQUEST),
        (inside(CreateTopicsRequest(), 7)[:-3], LOOPBACK, Code.INVALID_REQUEST),
        (inside(CreateTopicsRequest(), 7), b"127.0.0.1", Code.INVALID_REQUEST),
        (b"\x00\x13\x00\x63" + inside(CreateTopicsRequest(), 7)[4:], LOOPBACK, Code.UNSUPPORTED_VERSION),
        (inside(AlterUserScramCredentialsRequest(), 0), LOOPBACK, Code.UNSUPPORTED_VERSION),
    ],
    ids=[
        "empty",
        "no header",
        "not forwarded",
        "envelope in envelope",
        "cut off",
        "no address",
        "newer version",
        "of a SCRAM user",
    ],
)
def test_an_envelope_that_holds_no_request_of_a_client_is_refused(
    tmp_path: Path, data: bytes, host: bytes, code: Code
) -> None:
    async def scenario() -> None:
        async with whole_node(tmp_path) as one:
            (answer,) = await answers(one, [(data, host)])
            assert (answer.error_code, answer.response_data) == (code, None)

    asyncio.run(scenario())
