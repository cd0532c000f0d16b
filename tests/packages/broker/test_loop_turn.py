"""Large requests of all connections have a few milliseconds of a turn of the loop: what has come beyond waits where it
is, uncopied, and nobody else waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any

import pytest

from moldau.broker.api import ANSWERS, BROKER, handler
from moldau.broker.network.connection import TURN_NS, Connection
from moldau.broker.network.listener_state import ListenerState
from moldau.broker.network.serving import encoded
from moldau.broker.network.turn import A_TURN, LITTLE_BYTES, NEW_A_TURN, OVER_NS
from moldau.model.value import replace
from moldau.runtime.world import new_loop, real_world
from moldau.wire.messages.k00_produce import ProduceRequest, ProduceResponse
from moldau.wire.messages.k03_metadata import MetadataRequest, MetadataResponse
from moldau.wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.wire.messages.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse
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


WORK = frame(HeartbeatRequest(), 4, 1)
"""What is worked on in ``SLICES`` slices on the listener of a ``Scene``."""
SLICES = 5


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
        self.slow = self.ended = 0
        self.steps: list[object] = []
        """Of which connection each step of a work in slices was, in order."""
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
        self.listener.handlers[12] = self._work
        self.listener.handlers[13] = self._wait
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

    def _work(self, request: Any, context: Any) -> Generator[None, None, HeartbeatResponse]:
        """A short request that is worked on in slices, each of which takes as long."""
        try:
            for _ in range(SLICES - 1):
                self.step(context.connection)
                yield
            self.step(context.connection)
            return HeartbeatResponse()
        finally:
            self.ended += 1

    def step(self, connection: object) -> None:
        self.steps.append(connection)
        self.clock.now_ms += TOOK_MS

    def _wait(self, request: Any, context: Any) -> LeaveGroupResponse:
        """A short request, in the middle of which others have the processor."""
        self.clock.now_ms += 1
        self.clock.waited_ms += 1
        return LeaveGroupResponse()


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


def test_a_request_that_takes_a_whole_turn_is_the_only_one_of_its_connection_in_it() -> None:
    """A second one was always begun with it, however long the first had taken."""

    async def work(scene: Scene) -> None:
        def slow(request: Any, context: Any) -> InitProducerIdResponse:
            scene.slow += 1
            scene.clock.now_ms += TURN_NS // 1_000_000
            return InitProducerIdResponse()

        scene.listener.handlers[22] = slow
        peer = Peer(scene.listener)
        peer.brings(frame(InitProducerIdRequest(), 4, 1) * 2)
        assert scene.slow == 1
        while scene.slow < 2:  # noqa: ASYNC110  # nothing else tells
            await asyncio.sleep(0)
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


def test_of_many_new_clients_whose_first_requests_may_take_long_few_have_each_turn() -> None:
    """Three hundred clients that had said nothing before fetched of a hundred partitions each, in one turn of the loop:
    it took 3.5 s."""

    async def work(scene: Scene) -> None:
        unknown = frame(InitProducerIdRequest(transactional_id="t" * (LITTLE_BYTES + 1)), 4, 1)
        slow = [Peer(scene.listener) for _ in range(20)]
        for peer in slow:
            peer.brings(unknown)
        assert scene.slow == 2, "two of them fill a turn"
        while scene.slow < len(slow):
            before = scene.slow
            new = Peer(scene.listener)
            new.brings(frame(ApiVersionsRequest(), 2, 9))
            assert new.written == 1, "who asks for little does not wait"
            new.close()
            await asyncio.sleep(0)
            assert scene.slow - before <= NEW_A_TURN
            order = [peer.written for peer in slow]
            assert order == sorted(order, reverse=True), "in the order in which they came"
        for peer in slow:
            peer.close()

    play(work)


def test_a_new_client_does_not_stand_behind_all_that_are_known_to_take_long() -> None:
    async def work(scene: Scene) -> None:
        peers = [Peer(scene.listener) for _ in range(20)]
        for _ in range(2):
            for peer in peers:
                peer.brings(frame(InitProducerIdRequest(), 4, 1))
            await asyncio.sleep(0)
        before = scene.slow
        new = Peer(scene.listener)
        new.brings(frame(ApiVersionsRequest(client_software_name="x" * (LITTLE_BYTES + 1)), 3, 9))
        assert not new.written, "nobody knows whether it takes long"
        while not new.written:  # noqa: ASYNC110  # a transport sets no event
            await asyncio.sleep(0)
        assert scene.slow - before <= 2 * A_TURN
        for peer in [*peers, new]:
            peer.close()

    play(work)


def test_a_client_whose_requests_of_some_size_take_little_does_not_wait_with_such() -> None:
    async def work(scene: Scene) -> None:
        peer = Peer(scene.listener)
        some = frame(ApiVersionsRequest(client_software_name="x" * (2 * LITTLE_BYTES)), 3, 9)
        peer.brings(some)
        slow = [Peer(scene.listener) for _ in range(4)]
        for one in slow:
            one.brings(frame(InitProducerIdRequest(), 4, 1))
        peer.brings(some)
        assert peer.written == 2
        for one in [*slow, peer]:
            one.close()

    play(work)


def test_works_in_slices_of_many_connections_go_on_in_order_a_few_milliseconds_a_turn() -> None:
    """Three hundred producers to five hundred partitions each had a slice in each turn: a new client waited 14 s."""

    async def work(scene: Scene) -> None:
        peers = [Peer(scene.listener) for _ in range(20)]
        for peer in peers:
            peer.brings(WORK)
        connections = [peer.connection for peer in peers]
        assert scene.steps == connections, "nobody is known to be slow yet"
        before = len(scene.steps)
        while scene.ended < len(peers):
            await asyncio.sleep(0)
            new = Peer(scene.listener)
            new.brings(frame(ApiVersionsRequest(), 2, 9))
            assert new.written == 1, "who has not been slow does not wait"
            new.close()
            assert 1 <= len(scene.steps) - before <= 2, "two slices fill a turn, however many works there are"
            before = len(scene.steps)
        assert scene.steps == connections * SLICES
        await asyncio.sleep(0)
        assert [peer.written for peer in peers] == [1] * len(peers)
        assert scene.listener.memory.requests == 0
        for peer in peers:
            peer.close()

    play(work)


def test_works_of_one_kind_do_not_stand_behind_all_those_of_another() -> None:
    """A follower's fetch waited for a slice of each of a hundred produce requests before each slice of its own."""

    async def work(scene: Scene) -> None:
        scene.listener.handlers[13] = scene.listener.handlers[12]
        peers = [Peer(scene.listener) for _ in range(20)]
        for peer in peers:
            peer.brings(WORK)
        other = Peer(scene.listener)
        other.brings(frame(LeaveGroupRequest(), 4, 1))
        while not other.written:  # noqa: ASYNC110  # a transport sets no event
            await asyncio.sleep(0)
        steps = scene.steps[len(peers) :]
        assert steps.count(other.connection) == SLICES
        assert len(steps) <= 2 * SLICES + 2, "each other one is its own"
        assert scene.ended == 1
        for peer in [*peers, other]:
            peer.close()

    play(work)


def test_questions_that_take_slices_do_not_wait_until_few_producers_are_under_way() -> None:
    """Of questions that were seen to take slices 16 are begun at once, and producers' works counted as such."""

    async def work(scene: Scene) -> None:
        def metadata(request: Any, context: Any) -> Generator[None, None, MetadataResponse]:
            yield
            return MetadataResponse()

        scene.listener.handlers[0], scene.listener.handlers[3] = scene.listener.handlers[12], metadata
        producers = [Peer(scene.listener) for _ in range(20)]
        for peer in producers:
            peer.brings(frame(ProduceRequest(acks=1, timeout_ms=1000), 9, 1))
        assert scene.listener.memory.requests == len(producers)
        for _ in range(3):
            client = Peer(scene.listener)
            client.brings(frame(MetadataRequest(topics=[]), 9, 1))
            while not client.written:  # a transport sets no event
                assert scene.ended == 0
                await asyncio.sleep(0)
            client.close()
        for peer in producers:
            peer.close()

    play(work)


def test_what_has_come_waits_when_works_in_slices_have_had_the_turn() -> None:
    async def work(scene: Scene) -> None:
        peers = [Peer(scene.listener) for _ in range(20)]
        for peer in peers:
            peer.brings(WORK)
        await asyncio.sleep(0)
        large = Peer(scene.listener)
        large.brings(FRAME)
        assert not scene.handled
        before = len(scene.steps)
        while not scene.handled:  # noqa: ASYNC110  # nothing else tells
            await asyncio.sleep(0)
        assert len(scene.steps) - before <= 6, "it is among those that go on in the next turn"
        assert scene.ended == 0
        for peer in [*peers, large]:
            peer.close()

    play(work)


def test_a_connections_next_request_begins_when_its_work_in_slices_is_through() -> None:
    async def work(scene: Scene) -> None:
        peers = [Peer(scene.listener) for _ in range(6)]
        for peer in peers:
            peer.brings(WORK * 2 + frame(InitProducerIdRequest(), 4, 1))
        while not all(peer.written for peer in peers) or scene.slow < len(peers):
            steps, slow = len(scene.steps), scene.slow
            assert slow <= max(0, scene.ended - len(peers)), "each had its two works done first"
            await asyncio.sleep(0)
            assert len(scene.steps) - steps + scene.slow - slow <= 2 + A_TURN
        assert scene.ended == 2 * len(peers)
        assert [scene.steps.count(peer.connection) for peer in peers] == [2 * SLICES] * len(peers)
        for peer in peers:
            peer.close()

    play(work)


def test_works_of_connections_that_ended_are_given_up_and_the_others_go_on() -> None:
    async def work(scene: Scene) -> None:
        peers = [Peer(scene.listener) for _ in range(20)]
        for peer in peers:
            peer.brings(WORK)
        for peer in peers[::2]:
            peer.close()
        while scene.ended < len(peers):  # noqa: ASYNC110  # nothing else tells
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [scene.steps.count(peer.connection) for peer in peers] == [1, SLICES] * 10
        assert [peer.written for peer in peers[1::2]] == [1] * 10
        assert scene.listener.memory.requests == 0
        for peer in peers[1::2]:
            peer.close()

    play(work)


def test_answers_that_are_encoded_in_slices_share_the_turn_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(scene: Scene) -> None:
        def slowly(response: Any, header: Any, tasks: Any) -> Any:
            if header.api_key != 22:
                return encoded(response, header, tasks)
            return encode(header, tasks)

        def encode(header: Any, tasks: Any) -> Generator[None, None, Any]:
            for _ in range(SLICES):
                scene.step(None)
                yield
            return encoded(InitProducerIdResponse(), header, tasks)

        monkeypatch.setattr("moldau.broker.network.connection.encoded", slowly)
        peers = [Peer(scene.listener) for _ in range(20)]
        for peer in peers:
            peer.brings(frame(InitProducerIdRequest(), 4, 1))
        while not all(peer.written for peer in peers):
            before = len(scene.steps)
            await asyncio.sleep(0)
            assert len(scene.steps) - before <= 2
        assert len(scene.steps) == SLICES * len(peers)
        assert scene.listener.memory.requests == 0
        for peer in peers:
            peer.close()

    play(work)


def test_a_client_whose_request_waited_for_the_processor_is_not_one_whose_requests_take_long() -> None:
    """On a busy machine each small producer counted as one, and waited behind all works in slices."""

    async def work(scene: Scene) -> None:
        peers = [Peer(scene.listener) for _ in range(20)]
        for peer in peers:
            peer.brings(WORK)
        small = Peer(scene.listener)
        for count in range(1, 5):
            small.brings(frame(LeaveGroupRequest(), 4, count))
            assert small.written == count
            await asyncio.sleep(0)
        for peer in [*peers, small]:
            peer.close()

    play(work)


def test_a_client_whose_requests_wait_for_the_disk_time_and_again_is_one_whose_requests_take_long() -> None:
    async def work(scene: Scene) -> None:
        def wait_for_disk(request: Any, context: Any) -> LeaveGroupResponse:
            scene.clock.now_ms += TOOK_MS * 2
            scene.clock.waited_ms += TOOK_MS * 2
            return LeaveGroupResponse()

        scene.listener.handlers[13] = wait_for_disk
        peers = [Peer(scene.listener) for _ in range(20)]
        for peer in peers:
            peer.brings(WORK)
        slow = Peer(scene.listener)
        for count in (1, 2, 3):
            slow.brings(frame(LeaveGroupRequest(), 4, count))
            assert slow.written == min(count, 2)
            await asyncio.sleep(0)
        while slow.written < 3:  # noqa: ASYNC110  # a transport sets no event
            await asyncio.sleep(0)
        for peer in [*peers, slow]:
            peer.close()

    play(work)
