"""A listener over real loopback sockets: order, back-pressure, and frames that lie."""

from __future__ import annotations

import asyncio
import socket
import struct
import subprocess
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from moldau.broker.api import ANSWERS, BROKER, ZOOKEEPER, handler
from moldau.broker.network.listener import SocketListener
from moldau.broker.network.listener_state import EARLY
from moldau.broker.network.regulating import UNANSWERED_MAX
from moldau.broker.network.requests import ServedApi
from moldau.model import Code
from moldau.runtime.world import new_loop, real_world
from moldau.wire.frames import read_response_body, request_frame
from moldau.wire.messages.k03_metadata import MetadataRequest, MetadataResponse
from moldau.wire.messages.k06_update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from moldau.wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.wire.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.packages import loops
from tests.packages.broker.doubles import PlaneDouble

FRAME_BYTES_MAX = 100_000


class FakeMetadata:
    offset = 7

    class image:
        features = {"metadata.version": 25}


class FakeNode:
    """A node that answers Metadata when it is told to."""

    def __init__(self) -> None:
        self.metadata = FakeMetadata()
        self.plane = PlaneDouble()
        self.failures: list[BaseException] = []
        self.parked: list[asyncio.Future[Any]] = []

    def handler_failed(self, header: Any, error: BaseException) -> None:
        self.failures.append(error)


Scene = Callable[[FakeNode, SocketListener, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def play(scene: Scene, handlers: dict[int, Any] | None = None, kind: str = BROKER) -> FakeNode:
    """Run a scene against a listener on a free port."""
    loop = new_loop()

    async def live() -> FakeNode:
        node = FakeNode()
        world = real_world(loop, lambda task, error: node.failures.append(error))
        socket_listener = SocketListener(
            world,
            name="PLAINTEXT",
            kind=kind,
            answers=ANSWERS[kind],
            dispatch=lambda key: partial(handler(key, kind), node),
            handler_failed=node.handler_failed,
            frame_bytes_max=FRAME_BYTES_MAX,
        )
        socket_listener.handlers.update({key: partial(handler, node) for key, handler in (handlers or {}).items()})
        listener = await world.net.listen("127.0.0.1", 0, socket_listener.accept)
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        try:
            await asyncio.wait_for(scene(node, socket_listener, reader, writer), 120)
        finally:
            writer.close()
            listener.close()
            socket_listener.close()
        return node

    try:
        return loop.run_until_complete(live())
    finally:
        loops.close(loop)


def frame(message: Any, version: int, id: int) -> bytes:
    return b"".join(bytes(part) for part in request_frame(message, version, id, "test"))


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


def correlation(body: bytes) -> int:
    return int.from_bytes(body[:4], "big")


def park(node: FakeNode, request: Any, context: Any) -> asyncio.Future[Any]:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    node.parked.append(future)
    return future


async def parked(node: FakeNode, count: int) -> None:
    """Wait until so many requests are parked; the time limit is ``play``'s."""
    while len(node.parked) < count:  # noqa: ASYNC110  # sockets set no event
        await asyncio.sleep(0)


def test_a_client_that_was_cut_off_is_noticed_on_a_connection_that_is_not_read_from() -> None:
    """Its requests held their memory, and a new client waited 6 to 13 s behind two hundred such connections."""

    async def scene(
        node: FakeNode, socket_listener: SocketListener, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(b"".join(frame(InitProducerIdRequest(), 4, number) for number in range(UNANSWERED_MAX + 1)))
        await parked(node, UNANSWERED_MAX + 1)
        found = writer.get_extra_info("socket")
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        while socket_listener.connections:  # noqa: ASYNC110  # sockets set no event; the time limit is play's
            await asyncio.sleep(0.01)

    assert not play(scene, {22: park}).failures


def test_what_a_client_sent_before_it_closed_is_handled_though_it_was_not_read_then() -> None:
    """A producer with acks=0 closes as soon as it has sent."""

    async def scene(
        node: FakeNode, socket_listener: SocketListener, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(b"".join(frame(InitProducerIdRequest(), 4, number) for number in range(2 * UNANSWERED_MAX)))
        await parked(node, UNANSWERED_MAX + 1)
        writer.close()
        await writer.wait_closed()
        socket_listener.unread._look()
        assert socket_listener.connections
        for future in node.parked:
            future.set_result(InitProducerIdResponse())
        await parked(node, 2 * UNANSWERED_MAX)

    assert not play(scene, {22: park}).failures


def test_answers_leave_in_the_order_of_their_requests_even_when_the_first_is_parked() -> None:
    async def scene(
        node: FakeNode, socket_listener: SocketListener, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(
            frame(InitProducerIdRequest(), 4, 1)
            + frame(ApiVersionsRequest(), 2, 2)
            + frame(InitProducerIdRequest(), 4, 3)
        )
        await parked(node, 2)
        node.parked[1].set_result(InitProducerIdResponse(producer_id=2))
        node.parked[0].set_result(InitProducerIdResponse(producer_id=1))
        bodies = [await read_frame(reader) for _ in range(3)]
        assert [correlation(body) for body in bodies] == [1, 2, 3]
        assert read_response_body(memoryview(bodies[0]), 22, 4).producer_id == 1  # type: ignore[attr-defined]

    play(scene, {22: park})


def test_a_connection_has_one_question_under_way_whatever_else_it_asks_for() -> None:
    """As in Apache Kafka. Two hundred that were begun at once were worked on after their client had gone."""

    async def scene(
        node: FakeNode, socket_listener: SocketListener, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(frame(InitProducerIdRequest(), 4, 1) + frame(MetadataRequest(), 12, 2) * 3)
        await parked(node, 2)
        for _ in range(200):
            await asyncio.sleep(0)
        assert len(node.parked) == 2
        node.parked[0].set_result(InitProducerIdResponse())
        for number in range(1, 4):
            await parked(node, number + 1)
            assert len(node.parked) == number + 1
            node.parked[number].set_result(MetadataResponse())
        assert [correlation(await read_frame(reader)) for _ in range(4)] == [1, 2, 2, 2]

    play(scene, {3: park, 22: park})


def test_a_version_of_api_versions_from_the_future_is_answered_in_version_0() -> None:
    async def scene(
        node: FakeNode, socket_listener: SocketListener, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(struct.pack(">ihhih", 11, 18, 99, 5, -1) + b"\0")
        body = await read_frame(reader)
        answer = ApiVersionsResponse.decode(memoryview(body)[4:], 0)
        assert answer.error_code == Code.UNSUPPORTED_VERSION
        assert {api.api_key for api in answer.api_keys} == set(socket_listener.answers)

    play(scene)


@pytest.mark.parametrize(
    "lie",
    [
        struct.pack(">i", FRAME_BYTES_MAX + 1),
        struct.pack(">i", -1),
        struct.pack(">i", 2) + b"\0\0",
        struct.pack(">ihhi", 8, 3, 12, 1),
        struct.pack(">ihhih", 10, 3, 12, 1, 400),
        struct.pack(">ihhih", 10, 999, 0, 1, -1),
        frame(MetadataRequest(), 12, 1)[:-1] + b"\xff",
        struct.pack(">ihhihi", 14, 3, 1, 1, -1, 2**31 - 1),
    ],
    ids=[
        "too large",
        "negative",
        "no header",
        "no client id",
        "client id past the end",
        "unknown key",
        "bad tags",
        "huge array",
    ],
)
def test_a_frame_that_lies_costs_its_connection_and_nothing_else(lie: bytes) -> None:
    async def scene(
        node: FakeNode, socket_listener: SocketListener, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(lie)
        assert await reader.read() == b""
        sock = writer.get_extra_info("peername")
        again, second = await asyncio.open_connection(*sock[:2])
        second.write(frame(ApiVersionsRequest(), 2, 9))
        assert correlation(await read_frame(again)) == 9
        second.close()

    node = play(scene)
    assert not node.failures


def test_frames_cut_into_single_bytes_and_frames_glued_together_are_the_same() -> None:
    async def scene(
        node: FakeNode, socket_listener: SocketListener, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        for byte in frame(ApiVersionsRequest(), 2, 1):
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        assert correlation(await read_frame(reader)) == 1
        writer.write(b"".join(frame(ApiVersionsRequest(), 2, n) for n in range(100)))
        assert [correlation(await read_frame(reader)) for _ in range(100)] == list(range(100))

    play(scene)


def test_clients_wait_until_they_are_admitted_and_the_controller_is_heard_before() -> None:
    seen: list[int] = []

    def note(node: Any, request: Any, context: Any) -> Any:
        seen.append(context.correlation_id)
        return MetadataResponse() if context.api_key == 3 else UpdateMetadataResponse()

    async def scene(
        node: FakeNode, socket_listener: SocketListener, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        socket_listener.early = EARLY
        writer.write(
            frame(ApiVersionsRequest(), 2, 1) + frame(MetadataRequest(), 12, 2) + frame(MetadataRequest(), 12, 3)
        )
        assert correlation(await read_frame(reader)) == 1
        controllers, controller = await asyncio.open_connection(*writer.get_extra_info("peername")[:2])
        controller.write(frame(UpdateMetadataRequest(), 8, 4))
        assert correlation(await read_frame(controllers)) == 4
        assert seen == [4], "the client's requests wait"
        socket_listener.admit()
        assert [correlation(await read_frame(reader)) for _ in range(2)] == [2, 3]
        writer.write(frame(MetadataRequest(), 12, 5))
        assert correlation(await read_frame(reader)) == 5
        controller.close()

    node = play(scene, {3: note, 6: note}, kind=ZOOKEEPER)
    assert not node.failures


def test_a_frame_larger_than_the_buffer_arrives_whole() -> None:
    names = [MetadataRequest.MetadataRequestTopic(name="x" * 200) for _ in range(400)]
    seen: list[int] = []

    def count(node: Any, request: MetadataRequest, context: Any) -> MetadataResponse:
        seen.append(len(request.topics or []))
        return MetadataResponse()

    async def scene(
        node: FakeNode, socket_listener: SocketListener, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        for id in range(3):
            writer.write(frame(MetadataRequest(topics=names), 12, id))
            assert correlation(await read_frame(reader)) == id

    play(scene, {3: count})
    assert seen == [400, 400, 400]


def test_a_client_that_asks_much_and_reads_nothing_is_not_read_from() -> None:
    async def scene(
        node: FakeNode, socket_listener: SocketListener, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        one = frame(InitProducerIdRequest(), 4, 1)
        for _ in range(2000):
            writer.write(one)
        await parked(node, 200)
        last = -1
        while len(node.parked) != last:  # until nothing more is taken in
            last = len(node.parked)
            for _ in range(200):
                await asyncio.sleep(0)
        assert len(node.parked) < 2000
        while sum(future.done() for future in node.parked) < 2000:
            for future in node.parked:
                if not future.done():
                    future.set_result(InitProducerIdResponse())
            await asyncio.sleep(0)
        for _ in range(2000):
            await read_frame(reader)

    play(scene, {22: park})


def test_a_handler_that_fails_costs_its_connection_and_is_reported() -> None:
    def broken(node: Any, request: Any, context: Any) -> None:
        raise OSError("disk")

    async def scene(
        node: FakeNode, socket_listener: SocketListener, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(frame(MetadataRequest(), 12, 1))
        assert await reader.read() == b""

    node = play(scene, {3: broken})
    assert [type(error) for error in node.failures] == [OSError]


@pytest.mark.parametrize("later", [False, True])
def test_an_answer_that_cannot_be_written_costs_its_connection_and_no_client_waits_for_it(*, later: bool) -> None:
    unspeakable = MetadataResponse(throttle_time_ms=1 << 40)

    def answer(node: Any, request: Any, context: Any) -> Any:
        async def soon() -> MetadataResponse:
            return unspeakable

        return soon() if later else unspeakable

    async def scene(
        node: FakeNode, socket_listener: SocketListener, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(frame(MetadataRequest(), 12, 1))
        assert await asyncio.wait_for(reader.read(), 60) == b""

    assert len(play(scene, {3: answer}).failures) == 1


def test_librdkafkas_request_for_all_topics_is_understood_though_it_is_too_long() -> None:
    seen: list[Any] = []

    def note(node: Any, request: MetadataRequest, context: Any) -> MetadataResponse:
        seen.append(request.topics)
        return MetadataResponse()

    async def scene(
        node: FakeNode, socket_listener: SocketListener, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        body = bytes.fromhex("0003000d00000003000772646b61666b610000000000010000")
        writer.write(struct.pack(">i", len(body)) + body)
        assert correlation(await read_frame(reader)) == 3

    play(scene, {3: note})
    assert seen == [None]


def test_everything_that_is_advertised_has_a_file_that_answers() -> None:
    from moldau.broker.api import ANSWERS, handler

    for kind, answers in ANSWERS.items():
        for answer in answers.values():
            assert isinstance(answer, ServedApi)
            assert callable(handler(answer.key, kind))


def test_the_handlers_of_all_requests_can_be_imported_before_the_first_one_comes() -> None:
    """The first request of each kind waited until its handler was read from the disk, and so did everybody else's."""
    imported = (
        "import sys, moldau.broker.api as api; from moldau.wire.apis import APIS; "
        "[load() for load in api.handlers_to_import()]; "
        "left = [key for kind in api.ANSWERS.values() for key in kind "
        "if f'moldau.broker.api.{APIS[key].module}' not in sys.modules]; assert not left, left"
    )
    subprocess.run([sys.executable, "-c", imported], check=True)
