"""Large requests of all connections have a few milliseconds of a turn of the loop: what has come beyond waits where it
is, uncopied, and nobody else waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from moldau.broker.api import ANSWERS, BROKER, handler
from moldau.broker.network.connection import Connection
from moldau.broker.network.listener_state import ListenerState
from moldau.broker.network.turn import A_TURN, OVER_NS
from moldau.model.value import replace
from moldau.runtime.world import new_loop, real_world
from moldau.wire.messages.k00_produce import ProduceRequest, ProduceResponse
from moldau.wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.wire.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.packages import loops
from tests.packages.broker.test_network_memory import frame
from tests.packages.manual_clock import ManualClock

RECORDS = bytes(100_000)
TOOK_MS = OVER_NS // 2_000_000 + 1
"""How long each large request takes: the second one ends the turn."""
FRAME = frame(
    ProduceRequest(
        acks=1,
        timeout_ms=1000,
        topic_data=[
            ProduceRequest.TopicProduceData(
                name="t", partition_data=[ProduceRequest.PartitionProduceData(index=0, records=RECORDS)]
            )
        ],
    ),
    9,
    1,
)


class Peer:
    """A client whose bytes are all there: the transport of its connection, which reads whenever it may."""

    def __init__(self, listener: ListenerState) -> None:
        self.connection = Connection(listener)
        self.reading = True
        self.written = 0
        self.connection.connection_made(self)

    def brings(self, data: bytes) -> int:
        """Put data into the connection until it is read from no more; how much was left."""
        while data and self.reading:
            space = self.connection.get_buffer(-1)
            size = min(len(space), len(data))
            space[:size] = data[:size]
            data = data[size:]
            self.connection.buffer_updated(size)
        return len(data)

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def write(self, data: bytes) -> None:
        self.written += 1

    def writelines(self, data: list[bytes]) -> None:
        self.written += 1

    def get_extra_info(self, name: str) -> Any:
        return None

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        self.connection.connection_lost(None)

    abort = close


class Scene:
    """A listener on which a produce request takes ``TOOK_MS``."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.failures: list[BaseException] = []
        self.handled: list[bytes] = []
        self.slow = 0
        world = real_world(asyncio.get_running_loop(), lambda task, error: self.failures.append(error))
        self.listener = ListenerState(
            replace(world, clock=self.clock),
            name="PLAINTEXT",
            kind=BROKER,
            answers=ANSWERS[BROKER],
            dispatch=lambda key: partial(handler(key, BROKER), self),
            handler_failed=lambda header, error: self.failures.append(error),
            frame_bytes_max=1 << 20,
        )
        self.listener.handlers[0] = self._produce
        self.listener.handlers[22] = self._init_producer_id
        self.listener.handlers[18] = lambda request, context: ApiVersionsResponse()

    def _produce(self, request: Any, context: Any) -> ProduceResponse:
        records = request.topic_data[0].partition_data[0].records
        assert bytes(records) == RECORDS
        self.handled.append(records)
        self.clock.now_ms += TOOK_MS
        return ProduceResponse(responses=[])

    def _init_producer_id(self, request: Any, context: Any) -> InitProducerIdResponse:
        """A short request that takes as long."""
        self.slow += 1
        self.clock.now_ms += TOOK_MS
        return InitProducerIdResponse()


def play(work: Callable[[Scene], Awaitable[None]]) -> None:
    loop = new_loop()

    async def live() -> None:
        scene = Scene()
        await asyncio.wait_for(work(scene), 60)
        scene.listener.close()
        assert not scene.failures
        assert scene.listener.memory.request_bytes == 0

    try:
        loop.run_until_complete(live())
    finally:
        loops.close(loop)


def test_what_comes_in_one_turn_of_the_loop_is_handled_in_several() -> None:
    async def work(scene: Scene) -> None:
        peer = Peer(scene.listener)
        left = peer.brings(FRAME * 8)
        assert len(scene.handled) == 2, "two requests fill a turn, however many have come"
        turns = 1
        while left or len(scene.handled) < 8:
            before = len(scene.handled)
            await asyncio.sleep(0)
            left = peer.brings((FRAME * 8)[-left:] if left else b"")
            assert len(scene.handled) - before <= 2
            turns += len(scene.handled) > before
        assert turns == 4
        assert peer.written == 8
        peer.close()

    play(work)


def test_the_requests_of_all_connections_share_the_turn_and_small_ones_do_not_wait() -> None:
    async def work(scene: Scene) -> None:
        one, two, third = Peer(scene.listener), Peer(scene.listener), Peer(scene.listener)
        assert one.brings(FRAME * 2) == 0
        two.brings(FRAME)
        third.brings(frame(ApiVersionsRequest(), 2, 9))
        assert len(scene.handled) == 2
        assert (two.written, third.written) == (0, 1)
        while not two.written:  # noqa: ASYNC110  # a transport sets no event
            await asyncio.sleep(0)
        assert len(scene.handled) == 3
        for peer in (one, two, third):
            peer.close()

    play(work)


def test_a_request_that_waits_for_its_turn_is_not_copied() -> None:
    async def work(scene: Scene) -> None:
        peer = Peer(scene.listener)
        peer.brings(FRAME * 3)
        held = scene.listener.memory.request_bytes
        assert len(scene.handled) == 2
        while len(scene.handled) < 3:  # a transport sets no event
            assert scene.listener.memory.request_bytes == held
            await asyncio.sleep(0)
        peer.close()

    play(work)


def test_of_many_whose_short_requests_take_long_few_have_each_turn_in_order_and_a_new_client_has_its_own() -> None:
    """A new client waited some seconds behind the fetches of two hundred connections, each of which took 2 ms."""

    async def work(scene: Scene) -> None:
        slow = frame(InitProducerIdRequest(), 4, 1)
        peers = [Peer(scene.listener) for _ in range(20)]
        for peer in peers:
            peer.brings(slow)
        assert scene.slow == len(peers), "nobody is known to be slow yet"
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for peer in peers:
            peer.brings(slow)
        most, before = 0, len(peers)
        order = [peer.written for peer in peers]
        while scene.slow < 2 * len(peers):
            new = Peer(scene.listener)
            new.brings(frame(ApiVersionsRequest(), 2, 9))
            assert new.written == 1, "who has not been slow does not wait"
            new.close()
            await asyncio.sleep(0)
            most, before = max(most, scene.slow - before), scene.slow
            order = [peer.written for peer in peers]
            assert order == sorted(order, reverse=True), "in the order in which they came"
        assert most <= A_TURN + 1, "the first turn had not been over before"
        for peer in peers:
            peer.close()

    play(work)
