"""Bytes of requests and responses have one owner: clients that read nothing, send half of what they announce, or are
many, cost what they are allowed to, and nobody else waits for them. Over real loopback sockets."""

from __future__ import annotations

import asyncio
import gc
import struct
import tracemalloc
from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any

import pytest

from moldau.broker.api import ANSWERS, BROKER, handler
from moldau.broker.network import memory as limits
from moldau.broker.network import parked
from moldau.broker.network.connection import Connection
from moldau.broker.network.listener import SocketListener
from moldau.broker.network.memory import RequestMemory
from moldau.broker.network.receive_buffer import SHARED_BYTES
from moldau.ports import Handle
from moldau.runtime.world import new_loop, real_world
from moldau.wire.frames import request_frame
from moldau.wire.messages.k01_fetch import FetchRequest, FetchResponse
from moldau.wire.messages.k02_list_offsets import ListOffsetsRequest, ListOffsetsResponse
from moldau.wire.messages.k03_metadata import MetadataRequest, MetadataResponse
from moldau.wire.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from moldau.wire.messages.k18_api_versions import ApiVersionsRequest
from tests.packages import loops
from tests.packages.broker.doubles import PlaneDouble
from tests.packages.doubles import ManualTasks

FRAME_BYTES_MAX = 100 << 20


class Node:
    """Answers Metadata with as many bytes as it is told to."""

    def __init__(self) -> None:
        self.failures: list[BaseException] = []
        self.answered = 0
        self.words = ""

        class metadata:
            offset = 7

            class image:
                features = {"metadata.version": 25}

        self.metadata = metadata
        self.plane = PlaneDouble()

    def handler_failed(self, header: Any, error: BaseException) -> None:
        self.failures.append(error)


def connections_of(scene: Scene) -> list[Connection]:
    """The connections of the scene's listener."""
    found = [one for one in scene.listener.connections if isinstance(one, Connection)]
    assert len(found) == len(scene.listener.connections)
    return found


class Scene:
    """A listener and its clients."""

    def __init__(self, **options: Any) -> None:
        self.node = Node()
        world = real_world(asyncio.get_running_loop(), lambda task, error: self.node.failures.append(error))
        self.world = world
        self.memory = RequestMemory(world.tasks, **options)
        self.listener = SocketListener(
            world,
            name="PLAINTEXT",
            kind=BROKER,
            answers=ANSWERS[BROKER],
            dispatch=lambda key: partial(handler(key, BROKER), self.node),
            handler_failed=self.node.handler_failed,
            frame_bytes_max=FRAME_BYTES_MAX,
            memory=self.memory,
        )
        self.listener.handlers[3] = self._metadata
        self.port = 0
        self.writers: list[asyncio.StreamWriter] = []

    def _metadata(self, request: Any, context: Any) -> MetadataResponse:
        self.node.answered += 1
        return MetadataResponse(brokers=[MetadataResponse.MetadataResponseBroker(host="h" * 30_000)] * 10)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 12)
        self.writers.append(writer)
        return reader, writer

    async def settled(self, figure: Callable[[], object]) -> None:
        """Until a figure stays as it is for many turns of the loop: nothing more is taken in."""
        last, same = figure(), 0
        while same < 300:
            await asyncio.sleep(0)
            last, same = figure(), same + 1 if figure() == last else 0

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():  # noqa: ASYNC110  # sockets set no event
            await asyncio.sleep(0)

    async def somebody_else_is_answered(self) -> None:
        reader, writer = await self.connect()
        writer.write(frame(ApiVersionsRequest(), 2, 9))
        assert (await read_frame(reader))[:4] == struct.pack(">i", 9)


def play(work: Callable[[Scene], Awaitable[None]], **options: Any) -> None:
    loop = new_loop()

    async def live() -> None:
        scene = Scene(**options)
        bound = await scene.world.net.listen("127.0.0.1", 0, scene.listener.accept)
        scene.port = bound.port
        try:
            await asyncio.wait_for(work(scene), 240)
        finally:
            for writer in scene.writers:
                writer.close()
            bound.close()
            scene.listener.close()
            scene.memory.close()
        await scene.until(lambda: not scene.listener.connections)
        assert not scene.node.failures, scene.node.failures
        await scene.until(lambda: not scene.memory.parked.bytes)
        assert (scene.memory.request_bytes, scene.memory.response_bytes, scene.memory.requests) == (0, 0, 0)

    try:
        loop.run_until_complete(live())
    finally:
        loops.close(loop)


def frame(message: Any, version: int, id: int) -> bytes:
    return b"".join(bytes(part) for part in request_frame(message, version, id, "test"))


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


METADATA = frame(MetadataRequest(), 12, 1)


def test_a_client_that_pipelines_and_reads_nothing_holds_one_share_and_is_served_when_it_reads() -> None:
    async def work(scene: Scene) -> None:
        reader, writer = await scene.connect()
        writer.write(METADATA * 100)
        await scene.until(lambda: scene.node.answered > 0)
        await scene.settled(lambda: scene.node.answered)
        assert scene.node.answered < 100, "each answer is 300 KB; sockets hold some megabytes"
        assert 0 < scene.memory.response_bytes <= limits.RESPONSE_SHARE_BYTES
        await scene.somebody_else_is_answered()
        for _ in range(100):
            assert len(await read_frame(reader)) > 300_000
        assert scene.node.answered == 100

    play(work)


def test_many_clients_that_read_nothing_hold_what_all_may_and_others_are_served(monkeypatch: Any) -> None:
    monkeypatch.setattr(limits, "RESPONSE_BYTES_MAX", 2 << 20)

    async def work(scene: Scene) -> None:
        greedy = [await scene.connect() for _ in range(30)]
        for _, writer in greedy:
            writer.write(METADATA * 40)
        await scene.until(lambda: scene.node.answered >= 30)
        await scene.settled(lambda: scene.node.answered)
        assert scene.memory.response_bytes <= (2 << 20) + 30 * 310_000, "one answer each above the limit"
        await scene.somebody_else_is_answered()

    play(work)


def test_however_many_clients_read_nothing_they_hold_what_all_may_and_others_are_served(monkeypatch: Any) -> None:
    """Each held nothing when it asked: a thousand connections held a thousand answers."""
    monkeypatch.setattr(limits, "RESPONSE_BYTES_MAX", 1 << 20)
    monkeypatch.setattr(limits, "RESPONSE_BYTES_MOST", 2 << 20)
    monkeypatch.setattr(limits, "CLOGGED_MS", 50)

    async def work(scene: Scene) -> None:
        most = 0

        def respond(holder: Any, size: int, real: Callable[[Any, int], None] = scene.memory.respond) -> None:
            nonlocal most
            real(holder, size)
            most = max(most, scene.memory.response_bytes)

        monkeypatch.setattr(scene.memory, "respond", respond)
        greedy = [await scene.connect() for _ in range(100)]
        for _, writer in greedy:
            writer.write(METADATA * 20)
        await scene.until(lambda: most >= 2 << 20)
        await scene.somebody_else_is_answered()
        await scene.somebody_else_is_answered()
        assert most <= (2 << 20) + 310_000, "one answer above the limit"

    play(work)


class AtOnce(ManualTasks):
    """Tasks whose next turn comes at once."""

    def call_soon(self, call: Callable[[], object]) -> Handle:
        handle = super().call_soon(call)
        self.turn()
        return handle


class Silent:
    """A client that takes nothing."""

    def __init__(self, memory: RequestMemory) -> None:
        self.memory, self.closed, self.woken = memory, False, False

    def memory_freed(self) -> None:
        self.woken = True

    def has_moved(self) -> bool:
        return False

    def keeps_pace(self, least: int) -> bool:
        return False

    def give_up(self, why: str) -> None:
        self.closed = True
        self.memory.left(self)

    def answer_parked(self) -> bool:
        return False


class Moving(Silent):
    """A client whose bytes move, as is told to who asks first."""

    def __init__(self, memory: RequestMemory) -> None:
        super().__init__(memory)
        self.moved = True

    def has_moved(self) -> bool:
        moved, self.moved = self.moved, False
        return moved

    def answer_parked(self) -> bool:
        return False


def test_who_holds_a_frame_and_an_answer_is_asked_once_whether_its_bytes_move() -> None:
    """It was asked twice, had not moved since, and was closed."""
    tasks = AtOnce()
    memory = RequestMemory(tasks, request_bytes_max=1 << 20)
    client = Moving(memory)
    assert memory.buffer(client, 1 << 20) is not None
    memory.respond(client, 100)
    [look] = [timer for timer in tasks.timers if timer.delay_ms == limits.STALL_MS]
    look()
    assert not client.closed


def test_a_parked_fetch_is_answered_though_another_client_holds_more_for_an_answer_that_is_made() -> None:
    """The other one was chosen in each turn of the loop, and had nothing to answer."""
    tasks = ManualTasks()
    memory = RequestMemory(tasks, request_bytes_max=1 << 20)

    class Parking(Moving):
        answered = 0

        def answer_parked(self) -> bool:
            self.answered += 1
            memory.unpark(self, 1 << 19)
            return True

    making, waiting, new = Moving(memory), Parking(memory), Moving(memory)
    memory.park(making, 7 << 20)
    memory.park(waiting, 1 << 19)
    assert not memory.parked.admits(new)
    tasks.advance(parked.PATIENCE_MS)
    assert waiting.answered == 1


def test_a_small_answer_does_not_wait_for_the_few_who_hold_much_and_a_large_one_does() -> None:
    memory = RequestMemory(AtOnce())
    other = Silent(memory)
    memory.respond(Silent(memory), 100 << 20)  # a group of a hundred members with a megabyte each
    assert memory.admits(other, ApiVersionsRequest.api_key)
    assert not memory.admits(other, MetadataRequest.api_key)
    many = limits.RESPONSE_BYTES_MAX // limits.LITTLE_BYTES
    for _ in range(many - 2):
        memory.respond(Silent(memory), 2 << 20)
    assert memory.admits(other, ApiVersionsRequest.api_key), "64 that took nothing had everybody wait for seconds"
    memory.respond(Silent(memory), 2 << 20)
    assert not memory.admits(other, ApiVersionsRequest.api_key), "so many together could hold any number of small ones"


def test_who_waited_while_it_held_a_little_is_woken_when_its_client_has_read_that() -> None:
    memory = RequestMemory(AtOnce())
    memory.respond(Silent(memory), 100 << 20)
    other = Silent(memory)
    memory.respond(other, 5_000)
    assert not memory.admits(other, ApiVersionsRequest.api_key)
    memory.respond(other, 0)
    assert other.woken
    assert memory.admits(other, ApiVersionsRequest.api_key)


def test_connections_that_ask_have_their_turns_in_the_order_in_which_they_came() -> None:
    tasks = ManualTasks()
    memory = RequestMemory(tasks)
    count = limits.READS_A_TURN
    begun, waiting, last = ([Silent(memory) for _ in range(count)] for _ in range(3))
    gone = Silent(memory)
    assert all(memory.may_begin_read(one) for one in begun)
    assert not any(memory.may_begin_read(one) for one in (gone, *waiting, *last))
    memory.left(gone)
    tasks.turn()
    assert [one.woken for one in (*waiting, *last)] == [True] * count + [False] * count
    assert not memory.may_begin_read(begun[0]), "it has been answered, and comes behind those that wait"
    assert all(memory.may_begin_read(one) for one in waiting)
    assert not memory.may_begin_read(waiting[0]), "its turn is over"
    while tasks.turn():
        pass
    assert all(one.woken for one in (*last, begun[0]))
    assert memory.may_begin_read(gone), "nobody waits any more"


def test_one_that_fails_when_it_is_its_turn_takes_no_turn_from_the_others() -> None:
    """Nobody was ever called again: every question of the node waited for good."""

    class Failing(Silent):
        def memory_freed(self) -> None:
            raise MemoryError

    tasks = ManualTasks()
    memory = RequestMemory(tasks)
    begun, others = ([Silent(memory) for _ in range(limits.READS_A_TURN)] for _ in range(2))
    assert all(memory.may_begin_read(one) for one in begun)
    assert not any(memory.may_begin_read(one) for one in (Failing(memory), *others))
    with pytest.raises(MemoryError):
        tasks.turn()
    while tasks.turn():
        pass
    assert all(one.woken for one in others)


def test_many_that_ask_at_once_leave_each_turn_of_the_loop_short() -> None:
    async def work(scene: Scene) -> None:
        turn, by_turn = 0, Counter[int]()

        def answer(request: Any, context: Any) -> MetadataResponse:
            by_turn[turn] += 1
            return MetadataResponse()

        def next_turn() -> None:
            nonlocal turn
            turn += 1
            scene.world.tasks.call_soon(next_turn)

        scene.listener.handlers[3] = answer
        clients = [await scene.connect() for _ in range(60)]
        next_turn()
        for _, writer in clients:
            writer.write(METADATA * 3)
        for reader, _ in clients:
            for _ in range(3):
                await read_frame(reader)
        assert sum(by_turn.values()) == 180
        assert max(by_turn.values()) <= 2 * limits.READS_A_TURN, "what is heard before and after the counting"

    play(work)


def test_who_held_responses_when_nobody_could_go_on_any_more_is_closed_at_the_first_look() -> None:
    tasks = AtOnce()
    memory = RequestMemory(tasks)
    greedy = Silent(memory)
    memory.respond(greedy, 100 << 20)
    (look,) = (timer for timer in tasks.timers if timer.delay_ms == limits.CLOGGED_MS)
    look()
    assert greedy.closed


def test_answers_that_are_being_made_count_as_what_answers_of_their_kind_needed(monkeypatch: Any) -> None:
    """Many waited for one thing, and were answered in one turn: none of them held anything before."""
    monkeypatch.setattr(limits, "RESPONSE_BYTES_MAX", 1 << 20)
    monkeypatch.setattr(limits, "RESPONSE_BYTES_MOST", 2 << 20)

    async def work(scene: Scene) -> None:
        begun, goes_on = 0, asyncio.Event()

        async def answer(request: Any, context: Any) -> MetadataResponse:
            nonlocal begun
            begun += 1
            await goes_on.wait()
            return scene._metadata(request, context)

        scene.listener.handlers[3] = answer
        clients = [await scene.connect() for _ in range(20)]
        for _, writer in clients:
            writer.write(METADATA * 10)
        await scene.until(lambda: begun > 0)
        await scene.settled(lambda: begun)
        assert begun <= limits.RESPONSE_BYTES_MOST // limits.EXPECTED_BYTES
        await scene.somebody_else_is_answered()
        goes_on.set()

        async def read(reader: asyncio.StreamReader) -> None:
            for _ in range(10):
                assert len(await read_frame(reader)) > 300_000

        await asyncio.gather(*(read(reader) for reader, _ in clients))
        assert begun == 200
        assert scene.memory.expected == 0

    play(work)


def test_who_reads_nothing_while_there_is_too_much_is_closed(monkeypatch: Any) -> None:
    monkeypatch.setattr(limits, "RESPONSE_BYTES_MAX", 1)
    monkeypatch.setattr(limits, "STALL_MS", 50)

    async def work(scene: Scene) -> None:
        _, greedy = await scene.connect()
        greedy.write(METADATA * 40)
        await scene.until(lambda: scene.memory.response_bytes > 0)
        await scene.until(lambda: not scene.listener.connections)
        assert scene.memory.response_bytes == 0
        await scene.somebody_else_is_answered()

    play(work)


def test_idle_connections_own_no_buffers_even_after_a_large_request() -> None:
    async def work(scene: Scene) -> None:
        streams = [await scene.connect() for _ in range(300)]
        for reader, writer in streams[:50]:
            names = [MetadataRequest.MetadataRequestTopic(name="x" * 30_000) for _ in range(35)]
            writer.write(frame(MetadataRequest(topics=names), 12, 1))
            await read_frame(reader)
        assert scene.memory.request_bytes == 0
        assert sum(len(buffer) for buffer in scene.memory._free) <= 4 * limits.LARGEST_BUFFER
        gc.collect()
        for connection in connections_of(scene):
            assert connection._receive_buffer.held == 0

    play(work)


def test_two_thousand_connections_take_less_than_four_kilobytes_each_of_python() -> None:
    """The connection object itself, without the loop's transport: that is counted by the bench."""

    async def work(scene: Scene) -> None:
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            made = [scene.listener.accept() for _ in range(2000)]
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert (after - before) / len(made) < 4096

    play(work)


@pytest.mark.parametrize("sent", [4, 5, 1000, SHARED_BYTES - 1, SHARED_BYTES, 3 * SHARED_BYTES])
def test_a_size_that_is_only_announced_takes_no_memory(sent: int) -> None:
    async def work(scene: Scene) -> None:
        _, writer = await scene.connect()
        writer.write(struct.pack(">i", FRAME_BYTES_MAX) + bytes(sent - 4))
        (connection,) = await listened(scene, 1)
        await scene.until(lambda: connection._receive_buffer.come == sent)
        assert scene.memory.request_bytes <= max(4 * sent, limits.SMALLEST_BUFFER)
        await scene.somebody_else_is_answered()

    play(work)


async def listened(scene: Scene, count: int) -> list[Any]:
    await scene.until(lambda: len(scene.listener.connections) == count)
    return list(scene.listener.connections)


@pytest.mark.parametrize("step", [1, 7, 100_000])
def test_frames_come_whole_however_they_are_cut(step: int) -> None:
    async def work(scene: Scene) -> None:
        reader, writer = await scene.connect()
        size = 300 if step < 10 else 20_000
        names = [MetadataRequest.MetadataRequestTopic(name="x" * size) for _ in range(20)]
        data = METADATA + frame(MetadataRequest(topics=names), 12, 2) + METADATA
        for at in range(0, len(data), step):
            writer.write(data[at : at + step])
            await asyncio.sleep(0)
        for _ in range(3):
            await read_frame(reader)
        assert scene.node.answered == 3

    play(work)


def test_half_frames_wait_for_memory_and_the_one_that_began_first_is_never_stuck(monkeypatch: Any) -> None:
    monkeypatch.setattr(limits, "STALL_MS", 600_000)  # on no machine is a frame taken for one that does not go on

    async def work(scene: Scene) -> None:
        names = [MetadataRequest.MetadataRequestTopic(name="x" * 30_000) for _ in range(40)]
        large = frame(MetadataRequest(topics=names), 12, 1)
        streams = [await scene.connect() for _ in range(8)]
        for _, writer in streams:
            writer.write(large[:-1])
        await scene.until(lambda: sum(one._receive_buffer.starved for one in connections_of(scene)) >= 6)
        await scene.settled(lambda: scene.memory.request_bytes)
        assert scene.memory.request_bytes < 4 << 20
        await scene.somebody_else_is_answered()
        for _, writer in streams:
            writer.write(large[-1:])
        for reader, _ in streams:
            assert len(await read_frame(reader)) > 300_000

    play(work, request_bytes_max=600_000)


def test_a_half_frame_that_does_not_go_on_is_closed_when_others_need_its_memory(monkeypatch: Any) -> None:
    monkeypatch.setattr(limits, "STALL_MS", 50)

    async def work(scene: Scene) -> None:
        names = [MetadataRequest.MetadataRequestTopic(name="x" * 30_000) for _ in range(40)]
        large = frame(MetadataRequest(topics=names), 12, 1)
        lazy_reader, lazy = await scene.connect()
        lazy.write(large[:-1])
        await scene.until(lambda: scene.memory.request_bytes > 600_000)
        reader, writer = await scene.connect()
        writer.write(large)
        assert len(await read_frame(reader)) > 300_000
        assert await lazy_reader.read() == b""

    play(work, request_bytes_max=600_000)


def test_a_request_with_a_quarter_of_a_million_items_is_worked_on_in_turns_with_everybody_else() -> None:
    async def work(scene: Scene) -> None:
        served: list[int] = []

        def offsets(request: Any, context: Any) -> OffsetFetchResponse:
            served.append(len(request.topics[0].partition_indexes))
            Part = OffsetFetchResponse.OffsetFetchResponsePartition
            parts = [Part(partition_index=0, metadata="")] * 100_000
            return OffsetFetchResponse(
                topics=[OffsetFetchResponse.OffsetFetchResponseTopic(name="t", partitions=parts)]
            )

        scene.listener.handlers[9] = offsets
        reader, writer = await scene.connect()
        other_reader, other = await scene.connect()
        Topic = OffsetFetchRequest.OffsetFetchRequestTopic
        asked = OffsetFetchRequest(group_id="g", topics=[Topic(name="t", partition_indexes=[1] * 250_000)])
        writer.write(frame(asked, 5, 1) + frame(ApiVersionsRequest(), 2, 2))
        await scene.until(lambda: scene.memory.requests == 1)
        for id in range(3):
            other.write(frame(ApiVersionsRequest(), 2, id))
            await read_frame(other_reader)
        assert not served, "others are answered while it is being decoded"
        assert (await read_frame(reader))[:4] == struct.pack(">i", 1)
        assert (await read_frame(reader))[:4] == struct.pack(">i", 2)
        assert served == [250_000]

    play(work)


def test_a_request_with_more_items_than_any_cluster_has_costs_its_connection() -> None:
    async def work(scene: Scene) -> None:
        Topic = OffsetFetchRequest.OffsetFetchRequestTopic
        reader, writer = await scene.connect()
        asked = OffsetFetchRequest(group_id="g", topics=[Topic(name="t", partition_indexes=[1] * 1_000_000)])
        writer.write(frame(asked, 5, 1))
        assert await reader.read() == b""
        await scene.somebody_else_is_answered()

    play(work)


def test_above_queued_max_requests_nobody_begins_another_until_one_is_through() -> None:
    async def work(scene: Scene) -> None:
        Topic = OffsetFetchRequest.OffsetFetchRequestTopic
        scene.listener.handlers[9] = lambda request, context: OffsetFetchResponse()
        streams = [await scene.connect() for _ in range(6)]
        asked = OffsetFetchRequest(group_id="g", topics=[Topic(name="t", partition_indexes=[1] * 60_000)])
        most = 0
        for _, writer in streams:
            writer.write(frame(asked, 5, 1))
        answers = asyncio.gather(*(read_frame(reader) for reader, _ in streams))
        while not answers.done():
            most = max(most, scene.memory.requests)
            await asyncio.sleep(0)
        assert most == 2
        assert len(await answers) == 6

    play(work, requests_max=2)


def test_requests_of_one_connection_do_not_hold_everybody_else() -> None:
    async def work(scene: Scene) -> None:
        order: list[int] = []
        now_ms = [0]
        scene.listener.now_ms = lambda: now_ms[0]  # type: ignore[method-assign]

        def slow(request: Any, context: Any) -> MetadataResponse:
            now_ms[0] += 2
            order.append(context.correlation_id)
            return MetadataResponse()

        scene.listener.handlers[3] = slow
        reader, writer = await scene.connect()
        other_reader, other = await scene.connect()
        writer.write(b"".join(frame(MetadataRequest(), 12, id) for id in range(100)))
        await scene.until(lambda: bool(order))
        other.write(frame(MetadataRequest(), 12, 1000))
        for _ in range(100):
            await read_frame(reader)
        await read_frame(other_reader)
        assert order.index(1000) < 50
        assert [id for id in order if id != 1000] == list(range(100))

    play(work)


class Parked:
    """A fetch that waits, as a handler makes it."""

    kind = "Fetch"

    def __init__(self) -> None:
        self.answer: asyncio.Future[FetchResponse | None] = asyncio.get_running_loop().create_future()
        self.done = False

    def look(self) -> None: ...

    def expire(self) -> None:
        self.done = True
        self.answer.set_result(FetchResponse())

    def abandon(self) -> None:
        self.done = True
        self.answer.cancel()

    def fail(self, error: Exception) -> None: ...


class FetchScene:
    """A scene in which every fetch is parked and takes ``each`` bytes; so many were ``parked`` at once, at most."""

    def __init__(self, scene: Scene, each: int) -> None:
        self.scene, self.each = scene, each
        self.waits: list[Parked] = []
        self.most = 0
        scene.listener.handlers[1] = self._park

    def _park(self, request: Any, context: Any) -> Awaitable[FetchResponse | None]:
        wait = Parked()
        self.waits.append(wait)
        context.connection.waiting.add_fetch(wait, self.each, of_consumer=True)
        self.most = max(self.most, self.scene.memory.parked.bytes)
        return wait.answer

    @property
    def under_way(self) -> list[Parked]:
        return [wait for wait in self.waits if not wait.done]


FETCH = frame(FetchRequest(), 12, 1)


def test_parked_fetches_of_however_many_connections_hold_what_all_may_and_each_is_answered() -> None:
    async def work(scene: Scene) -> None:
        its = FetchScene(scene, each=1 << 20)
        streams = [await scene.connect() for _ in range(40)]
        for _, writer in streams:
            writer.write(FETCH * 10)
        await scene.until(lambda: len(its.waits) >= 8)
        await scene.settled(lambda: len(its.waits))
        assert its.most == scene.memory.parked.bytes == 8 << 20
        await scene.somebody_else_is_answered()

        async def read_all(reader: asyncio.StreamReader) -> None:
            for _ in range(10):
                await read_frame(reader)

        answers = asyncio.gather(*(read_all(reader) for reader, _ in streams))
        while not answers.done():
            for wait in its.under_way:
                wait.expire()
            await asyncio.sleep(0)
        await answers
        assert len(its.waits) == 400
        assert its.most <= 8 << 20
        assert scene.memory.parked.bytes == 0

    play(work, request_bytes_max=4 << 20)


def test_who_has_a_fetch_parked_when_there_are_many_waits_with_the_next_and_others_do_not() -> None:
    async def work(scene: Scene) -> None:
        its = FetchScene(scene, each=1 << 20)
        reader, writer = await scene.connect()
        writer.write(FETCH * 100)
        await scene.until(lambda: len(its.waits) >= 4)
        await scene.settled(lambda: len(its.waits))
        assert len(its.under_way) == 4
        _, other = await scene.connect()
        other.write(FETCH)
        await scene.until(lambda: len(its.waits) == 5)
        for _ in range(100):
            next(wait for wait in its.under_way if wait is not its.waits[4]).expire()
            await read_frame(reader)
            await scene.until(lambda: len(its.waits) == 101 or len(its.under_way) == 4)

    play(work, request_bytes_max=4 << 20)


def test_fetches_that_wait_for_ever_are_answered_when_others_have_waited_to_be_parked(monkeypatch: Any) -> None:
    monkeypatch.setattr(parked, "PATIENCE_MS", 50)

    async def work(scene: Scene) -> None:
        its = FetchScene(scene, each=1 << 20)
        greedy = [await scene.connect() for _ in range(2)]
        for _, writer in greedy:
            writer.write(FETCH * 100)
        others = [await scene.connect() for _ in range(12)]
        for _, writer in others:
            writer.write(FETCH)
        await scene.until(lambda: len(its.under_way) == 8)
        first = list(its.waits)
        await scene.until(lambda: first[0].done)
        await asyncio.gather(*(read_frame(reader) for reader, _ in others[:2]))
        assert its.most <= 8 << 20

    play(work, request_bytes_max=4 << 20)


def test_one_fetch_of_those_who_hold_most_is_answered_in_a_turn_and_no_more_than_others_need(monkeypatch: Any) -> None:
    """All of them were answered at once, for as many as half of the memory held: most of a second, for everybody."""
    monkeypatch.setattr(parked, "PATIENCE_MS", 50)

    async def work(scene: Scene) -> None:
        its = FetchScene(scene, each=1 << 20)
        greedy = [await scene.connect() for _ in range(2)]
        for _, writer in greedy:
            writer.write(FETCH * 4)
        more = [await scene.connect() for _ in range(4)]
        for _, writer in more:
            writer.write(FETCH)
        await scene.until(lambda: len(its.under_way) == 8)
        _, last = await scene.connect()
        last.write(FETCH)
        before = 8
        while len(its.waits) < 9:
            assert before - len(its.under_way) <= 1, "one in a turn"
            before = len(its.under_way)
            await asyncio.sleep(0)
        await scene.settled(lambda: len(its.under_way))
        assert len(its.under_way) >= 7

    play(work, request_bytes_max=4 << 20)


def test_a_fetch_within_a_session_waits_for_no_parked_fetches() -> None:
    """Followers fetch so: writes with acks=all waited for them, where clients use the same listener."""

    async def work(scene: Scene) -> None:
        its = FetchScene(scene, each=1 << 20)
        streams = [await scene.connect() for _ in range(20)]
        for _, writer in streams:
            writer.write(FETCH * 10)
        await scene.until(lambda: scene.memory.parked.bytes == 8 << 20)
        await scene.settled(lambda: len(its.waits))
        its.each = 0
        for version in (12, 17):
            before = len(its.waits)
            _, follower = await scene.connect()
            follower.write(frame(FetchRequest(session_id=7, session_epoch=3, replica_id=2), version, 1))
            await scene.until(lambda before=before: len(its.waits) == before + 1)  # type: ignore[misc]

    play(work, request_bytes_max=4 << 20)


def test_a_client_that_is_gone_holds_no_parked_fetch() -> None:
    async def work(scene: Scene) -> None:
        its = FetchScene(scene, each=1 << 20)
        _, writer = await scene.connect()
        writer.write(FETCH * 4)
        await scene.until(lambda: len(its.waits) == 4)
        _, other = await scene.connect()
        other.write(FETCH * 2)
        await scene.until(lambda: len(its.waits) == 5)
        writer.close()
        await scene.until(lambda: len(its.waits) == 6)
        assert [wait.done for wait in its.waits] == [True] * 4 + [False] * 2

    play(work, request_bytes_max=4 << 20)


def test_a_fetch_within_a_clients_long_session_is_a_long_request_and_waits_for_parked_fetches() -> None:
    """Its answer holds as much as one of a fetch that names so many partitions."""

    async def work(scene: Scene) -> None:
        scene.memory.know_sessions(lambda session_id: session_id == 7)
        begun = 0

        def fetch(request: Any, context: Any) -> Any:
            nonlocal begun
            begun += 1
            return slowly() if request.session_id == 7 else FetchResponse()

        def slowly() -> Generator[None, None, FetchResponse]:
            while not released:
                yield
            return FetchResponse()

        released = False
        places = limits.LongWork(limits.WorkKind.FETCH).places
        assert places is not None
        scene.listener.handlers[1] = fetch
        many, few = (frame(FetchRequest(session_id=id, session_epoch=3), 12, 1) for id in (7, 8))
        streams = [await scene.connect() for _ in range(places + 5)]
        for _, writer in streams:
            writer.write(many)
        await scene.until(lambda: begun == places)
        await scene.settled(lambda: begun)
        assert begun == scene.memory.requests == places
        reader, other = await scene.connect()
        other.write(few)
        await read_frame(reader)
        released = True
        await asyncio.gather(*(read_frame(reader) for reader, _ in streams))
        its = FetchScene(scene, each=1 << 20)
        for _, writer in streams[:8]:
            writer.write(FETCH)
        await scene.until(lambda: scene.memory.parked.bytes == 8 << 20)
        other.write(many)
        await scene.settled(lambda: len(its.waits))
        assert len(its.waits) == 8

    play(work, request_bytes_max=4 << 20)


def test_nothing_else_of_a_connection_is_handled_while_a_long_answer_is_encoded() -> None:
    """A hundred fetches of one connection were read while the first answer was encoded."""
    answer = FetchResponse(
        responses=[FetchResponse.FetchableTopicResponse(partitions=[FetchResponse.PartitionData()] * 5_000)]
    )

    async def work(scene: Scene) -> None:
        most = 0

        def fetch(request: Any, context: Any) -> Generator[None, None, FetchResponse]:
            nonlocal most
            most = max(most, scene.memory.requests)
            yield
            context.connection.waiting.hold(1000)
            yield
            assert scene.memory.parked.bytes == 1000
            return answer

        scene.listener.handlers[1] = fetch
        reader, writer = await scene.connect()
        writer.write(FETCH * 20)
        for _ in range(20):
            await read_frame(reader)
        assert most == 1, "itself"
        assert not scene.memory.parked.bytes

    play(work)


def test_large_questions_that_wait_for_a_controller_take_no_place_from_others() -> None:
    async def work(scene: Scene) -> None:
        begun = 0
        released = asyncio.Event()

        async def created() -> MetadataResponse:
            await released.wait()
            return MetadataResponse()

        def metadata(request: Any, context: Any) -> Any:
            nonlocal begun
            begun += 1
            return created()

        scene.listener.handlers[MetadataRequest.api_key] = metadata
        topic = MetadataRequest.MetadataRequestTopic
        large = frame(MetadataRequest(topics=[topic(name="a topic")] * 10_000), 9, 1)
        streams = [await scene.connect() for _ in range(10)]
        for _, writer in streams:
            writer.write(large)
        await scene.until(lambda: begun == 10)
        released.set()
        await asyncio.gather(*(read_frame(reader) for reader, _ in streams))
        assert scene.memory.requests == 0

    play(work)


@pytest.mark.parametrize("is_awaited", [False, True])
def test_small_questions_wait_neither_for_large_ones_of_their_kind_nor_for_other_kinds(is_awaited: bool) -> None:
    """Twenty clients that asked for 100,000 offsets each held up one that asked for one, for half a minute: kinds of
    which one had taken slices were let in by sixteen, all together, in the order in which they came."""

    async def work(scene: Scene) -> None:
        begun = 0
        released = asyncio.Event()

        async def later() -> ListOffsetsResponse:
            await released.wait()
            return ListOffsetsResponse()

        def slowly() -> Generator[None, None, ListOffsetsResponse]:
            while not released.is_set():
                yield
            return ListOffsetsResponse()

        def offsets(request: Any, context: Any) -> Any:
            nonlocal begun
            if len(request.topics) == 1:
                return ListOffsetsResponse()
            begun += 1
            return later() if is_awaited else slowly()

        def metadata(request: Any, context: Any) -> Generator[None, None, MetadataResponse]:
            yield
            return MetadataResponse()

        places = limits.LongWork(limits.WorkKind.LARGE_READ).places
        assert places is not None
        scene.listener.handlers[ListOffsetsRequest.api_key] = offsets
        scene.listener.handlers[MetadataRequest.api_key] = metadata
        topic = ListOffsetsRequest.ListOffsetsTopic
        large, small = (
            frame(ListOffsetsRequest(topics=[topic(name="a topic")] * count), 5, 1) for count in (10_000, 1)
        )
        streams = [await scene.connect() for _ in range(places + 3)]
        for _, writer in streams:
            writer.write(large)
        await scene.until(lambda: begun == places)
        reader, other = await scene.connect()
        for _ in range(3):
            for question in (small, frame(MetadataRequest(topics=[]), 9, 1)):
                other.write(question)
                await read_frame(reader)
        await scene.settled(lambda: begun)
        assert begun == places, "and large ones are few at once"
        released.set()
        await asyncio.gather(*(read_frame(reader) for reader, _ in streams))
        assert begun == places + 3
        assert scene.memory.requests == 0

    play(work)
