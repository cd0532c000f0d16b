"""Requests and answers of many items go over a connection in slices: the loop turns in between, the order is kept."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moldau.client.connection import Connection
from moldau.model.named import NamedTuple
from moldau.wire.frames import read_request, read_request_header, response_frame
from moldau.wire.messages.k03_metadata import MetadataRequest, MetadataResponse
from moldau.wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.wire.messages.k18_api_versions import ApiVersionsRequest
from tests.packages.client.fake_broker import run

NAMES = [f"topic-{number:06}" for number in range(20_000)]
MANY_TURNS = 10
VERSION = {3: 12, 12: 4, 18: 4}


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.reading = True
        self.ended = False

    def write(self, data: Any) -> None:
        self.sent += data

    def writelines(self, parts: Any) -> None:
        for part in parts:
            self.sent += part

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close(self) -> None:
        self.ended = True

    abort = close

    def get_extra_info(self, name: str) -> Any:
        return ("host", 9092)


class Asked(NamedTuple):
    connection: Connection
    wire: Wire

    def ask(self, message: Any) -> asyncio.Future[Any]:
        return self.connection.ask(message, version=VERSION[message.api_key])

    def hear(self, *frames: bytes) -> None:
        """Bytes come from the peer, as many at a time as there is room for."""
        rest = memoryview(b"".join(frames))
        while rest:
            room = self.connection.get_buffer(-1)
            size = min(len(room), len(rest))
            room[:size] = rest[:size]
            self.connection.buffer_updated(size)
            rest = rest[size:]

    def sent(self) -> list[Any]:
        """The requests that went out, in order."""
        found, rest = [], memoryview(bytes(self.wire.sent))
        while rest:
            size = int.from_bytes(rest[:4], "big")
            frame = rest[4 : 4 + size]
            found.append(read_request(frame, read_request_header(frame)))
            rest = rest[4 + size :]
        return found


def asked(world: Any) -> Asked:
    wire = Wire()
    connection = Connection(world)
    connection.connection_made(wire)
    return Asked(connection, wire)


def frame(answer: Any, id: int) -> bytes:
    return b"".join(response_frame(answer, VERSION[answer.api_key], id))


def named(names: list[str]) -> MetadataResponse:
    return MetadataResponse(topics=[MetadataResponse.MetadataResponseTopic(name=name) for name in names])


async def turns_until(done: Any) -> int:
    turns = 0
    while not done():
        await asyncio.sleep(0)
        turns += 1
    return turns


def test_a_long_answer_is_decoded_while_the_loop_turns_and_what_follows_it_waits() -> None:
    async def scene(world: Any) -> None:
        line = asked(world)
        first = line.ask(MetadataRequest())
        second = line.ask(HeartbeatRequest())
        third = line.ask(MetadataRequest())
        long = frame(named(NAMES), 0)
        line.hear(long)
        assert not first.done()
        assert not line.wire.reading
        line.hear(frame(HeartbeatResponse(throttle_time_ms=7), 1))  # was on its way already
        assert await turns_until(first.done) > MANY_TURNS
        assert [topic.name for topic in first.result().topics] == NAMES
        assert (await second).throttle_time_ms == 7
        assert line.wire.reading
        line.hear(long[:4] + (2).to_bytes(4, "big") + long[8:])
        assert len((await third).topics) == len(NAMES)
        assert line.wire.reading
        assert line.connection.in_flight == 0

    run(scene)


def test_several_answers_in_one_read_are_taken_one_after_the_other() -> None:
    async def scene(world: Any) -> None:
        line = asked(world)
        waiting = [line.ask(MetadataRequest()) for _ in range(2)] + [line.ask(HeartbeatRequest())]
        short = named(NAMES[:1_000])  # several slices, and still room for another in the buffer
        line.hear(frame(short, 0), frame(short, 1), frame(HeartbeatResponse(), 2))
        done = []
        for number, answer in enumerate(waiting):
            answer.add_done_callback(lambda _, number=number: done.append(number))
        await asyncio.gather(*waiting)
        assert done == [0, 1, 2]
        assert line.wire.reading

    run(scene)


def test_an_answer_whose_end_cannot_be_read_ends_the_connection_and_all_who_wait() -> None:
    async def scene(world: Any) -> None:
        line = asked(world)
        first, second = line.ask(MetadataRequest()), line.ask(HeartbeatRequest())
        good = frame(named(NAMES), 0)
        line.hear((len(good) - 3).to_bytes(4, "big") + good[4:] + b"x")
        for answer in (first, second):
            with pytest.raises(ConnectionError, match="cannot be read"):
                await answer
        assert line.connection.closed
        assert line.wire.ended

    run(scene)


def test_a_connection_that_ends_while_an_answer_is_decoded_tells_its_asker() -> None:
    async def scene(world: Any) -> None:
        line = asked(world)
        first = line.ask(MetadataRequest())
        line.hear(frame(named(NAMES), 0))
        line.connection.close()
        with pytest.raises(ConnectionError, match="closed here"):
            await first
        assert line.connection.in_flight == 0

    run(scene)


def test_a_long_request_is_encoded_while_the_loop_turns_and_later_ones_come_after_it() -> None:
    async def scene(world: Any) -> None:
        line = asked(world)
        wanted = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in NAMES])
        line.ask(wanted)
        line.ask(HeartbeatRequest(generation_id=8))
        assert not line.wire.sent
        assert await turns_until(lambda: line.wire.sent) > MANY_TURNS
        await turns_until(lambda: len(line.sent()) == 2)
        first, second = line.sent()
        assert [topic.name for topic in first.topics] == NAMES
        assert second.generation_id == 8
        line.ask(ApiVersionsRequest())
        assert len(line.sent()) == 3  # at once again

    run(scene)


def test_a_long_request_that_its_version_cannot_hold_is_refused_to_its_asker_alone() -> None:
    async def scene(world: Any) -> None:
        line = asked(world)
        topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in [*NAMES, "x" * 40_000]]
        refused, fine = line.ask(MetadataRequest(topics=topics)), line.ask(HeartbeatRequest(generation_id=8))
        with pytest.raises(ConnectionError, match="cannot hold it"):
            await refused
        await turns_until(lambda: line.wire.sent)
        assert [request.generation_id for request in line.sent()] == [8]
        line.hear(frame(HeartbeatResponse(), 1))
        await fine

    run(scene)
