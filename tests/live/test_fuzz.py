"""Random messages that are valid on the wire, sent to a running node: it prints no traceback and serves on.

Apis and versions are drawn from what the broker's listener advertises, about two requests for each pair. One that is
not
answered at once may be waiting (a fetch, a join) and is given up, so a hang is not seen here; nor is the controller's
listener. Strategies: tests/packages/wire/messages.py. Wrong bytes are in test_bad_input.py.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from one_node import OneNode
from tests.packages.wire.messages import struct

from moldau.wire.apis import APIS
from moldau.wire.frames import read_response_body, request_frame
from moldau.wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.wire.schema import Message

ANSWER_S = 60
PATIENCE_S = 0.1


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneNode]:
    node = OneNode(tmp_path_factory.mktemp("fuzz")).format()
    try:
        yield node.start()
    finally:
        node.close()


def _ask(port: int, message: Message, version: int, patience_s: float) -> memoryview | None:
    """The answer's frame; None when the node closed the connection or has not answered yet."""
    with socket.create_connection(("127.0.0.1", port), ANSWER_S) as line:
        line.sendall(b"".join(request_frame(message, version, 1, "fuzz")))
        line.settimeout(patience_s)
        stream = line.makefile("rb")
        try:
            size = stream.read(4)
            return memoryview(stream.read(int.from_bytes(size, "big"))) if len(size) == 4 else None
        except (TimeoutError, ConnectionResetError):
            return None


def _advertised(port: int) -> list[tuple[int, int]]:
    frame = _ask(port, ApiVersionsRequest(), 0, ANSWER_S)
    assert frame is not None
    answer = read_response_body(frame, 18, 0)
    assert isinstance(answer, ApiVersionsResponse)
    return [(one.api_key, v) for one in answer.api_keys for v in range(one.min_version, one.max_version + 1)]


def test_a_node_outlives_random_requests_of_the_versions_it_advertises(node: OneNode) -> None:
    asks = _advertised(node.port)

    @settings(
        max_examples=len(asks) * 2,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def one(data: st.DataObject) -> None:
        key, version = data.draw(st.sampled_from(asks))
        message = data.draw(struct(APIS[key].request, version))
        frame = _ask(node.port, message, version, PATIENCE_S)
        if frame is not None:
            read_response_body(frame, key, version)
        assert "Traceback" not in node.text, (key, version, message, node.text[-3000:])

    one()
    assert node.is_alive, node.text[-3000:]
    assert _advertised(node.port) == asks
