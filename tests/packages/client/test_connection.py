"""One connection against a scripted broker: versions, pipelining, large frames, silence, sudden ends."""

from __future__ import annotations

import asyncio
import socket
import struct

import pytest

from moldau.client.connection import (
    RECEIVE_BYTES,
    ConnectionOptions,
    RequestTimedOut,
    UnsupportedApi,
    connect,
)
from moldau.wire.messages.k00_produce import ProduceRequest, ProduceResponse
from moldau.wire.messages.k01_fetch import FetchRequest, FetchResponse
from moldau.wire.messages.k03_metadata import MetadataRequest, MetadataResponse
from moldau.wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.packages.client.fake_broker import ALL_VERSIONS, HANG_UP, SILENCE, FakeBroker, run, until


def echo(message, header):
    """Gives back what identifies the request."""
    if isinstance(message, HeartbeatRequest):
        return HeartbeatResponse(throttle_time_ms=message.generation_id)
    if isinstance(message, FetchRequest):
        part = FetchResponse.PartitionData(records=bytes([message.session_id % 256]) * message.max_bytes)
        topic = FetchResponse.FetchableTopicResponse(topic="t", topic_id=b"t" * 16, partitions=[part])
        return FetchResponse(session_id=message.session_id, responses=[topic])
    if isinstance(message, MetadataRequest):
        return MetadataResponse(cluster_id="c")
    return SILENCE


@pytest.mark.parametrize("uvloop", [True, False])
def test_pipelined_requests_each_get_their_own_answer(uvloop):
    async def scene(world):
        broker = await FakeBroker(echo).start()
        connection = await connect(world, "127.0.0.1", broker.port)
        asks = [connection.ask(HeartbeatRequest(generation_id=i)) for i in range(2_000)]
        assert connection.in_flight == 2_000
        assert [(await ask).throttle_time_ms for ask in asks] == list(range(2_000))
        assert connection.in_flight == 0
        connection.close()
        await broker.stop()

    run(scene, uvloop=uvloop)


@pytest.mark.parametrize("uvloop", [True, False])
def test_frames_of_every_size_around_the_buffer_arrive_whole_and_stay_the_callers(uvloop):
    sizes = [0, 1, 100, *range(RECEIVE_BYTES - 120, RECEIVE_BYTES + 40, 8), 3 * RECEIVE_BYTES, 5_000_000, 10]

    async def scene(world):
        broker = await FakeBroker(echo).start()
        connection = await connect(world, "127.0.0.1", broker.port)
        asks = [connection.ask(FetchRequest(session_id=i, max_bytes=size)) for i, size in enumerate(sizes)]
        answers = [await ask for ask in asks]  # all are kept, so a reused buffer would show
        for i, (size, answer) in enumerate(zip(sizes, answers, strict=True)):
            assert answer.session_id == i
            records = answer.responses[0].partitions[0].records
            assert bytes(records or b"") == bytes([i % 256]) * size
        connection.close()
        await broker.stop()

    run(scene, uvloop=uvloop)


@pytest.mark.parametrize("uvloop", [True, False])
def test_a_large_payload_is_sent_whole(uvloop):
    payload = bytes(range(256)) * 40_000

    async def scene(world):
        broker = await FakeBroker(lambda m, h: ProduceResponse(throttle_time_ms=9)).start()
        connection = await connect(world, "127.0.0.1", broker.port)
        part = ProduceRequest.PartitionProduceData(index=1, records=payload)
        topic = ProduceRequest.TopicProduceData(name="t", topic_id=b"t" * 16, partition_data=[part])
        answer = await connection.ask(ProduceRequest(acks=-1, topic_data=[topic]))
        assert answer.throttle_time_ms == 9
        (_, heard), *_ = broker.heard
        assert isinstance(heard, ProduceRequest)
        assert bytes(heard.topic_data[0].partition_data[0].records or b"") == payload
        connection.close()
        await broker.stop()

    run(scene, uvloop=uvloop)


def test_the_highest_version_both_sides_know_is_spoken():
    async def scene(world):
        broker = await FakeBroker(echo, ALL_VERSIONS | {3: (0, 5), 12: (0, 99)}).start()
        connection = await connect(world, "127.0.0.1", broker.port)
        await connection.ask(MetadataRequest())
        await connection.ask(HeartbeatRequest())
        await connection.ask(HeartbeatRequest(), version=1)
        assert [header.api_version for header, _ in broker.heard] == [5, HeartbeatRequest.versions[1], 1]
        assert connection.version_for(MetadataRequest, highest=2) == 2
        connection.close()
        await broker.stop()

    run(scene)


def test_a_broker_that_knows_only_an_old_handshake_is_asked_again():
    async def scene(world):
        broker = await FakeBroker(echo, {18: (0, 2), 3: (0, 5)}).start()
        connection = await connect(world, "127.0.0.1", broker.port)
        assert broker.handshakes == [4, 2]
        assert connection.versions == {18: (0, 2), 3: (0, 5)}
        connection.close()
        await broker.stop()

    run(scene)


def test_a_request_the_peer_does_not_serve_is_refused_here():
    async def scene(world):
        broker = await FakeBroker(echo, {18: (0, 4), 3: (14, 20)}).start()
        connection = await connect(world, "127.0.0.1", broker.port)
        with pytest.raises(UnsupportedApi, match="serves MetadataRequest 14 to 20, we speak 0 to"):
            connection.ask(MetadataRequest())
        with pytest.raises(UnsupportedApi, match="does not serve HeartbeatRequest"):
            connection.ask(HeartbeatRequest())
        assert connection.in_flight == 0
        connection.close()
        await broker.stop()

    run(scene)


@pytest.mark.parametrize("uvloop", [True, False])
def test_a_refused_connection_reaches_the_caller_as_such(uvloop):
    with socket.socket() as bound:  # bound and not listening: refuses
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]

        async def scene(world):
            with pytest.raises(ConnectionRefusedError):
                await connect(world, "127.0.0.1", port)

        run(scene, uvloop=uvloop)


def test_silence_ends_the_connection_and_all_who_wait_on_it():
    async def scene(world):
        broker = await FakeBroker(lambda m, h: SILENCE).start()
        ends = []
        connection = await connect(world, "127.0.0.1", broker.port, ConnectionOptions(request_timeout_ms=20_000))
        connection.on_close = ends.append
        patient = connection.ask(MetadataRequest())
        hasty = connection.ask(HeartbeatRequest(), timeout_ms=30)
        with pytest.raises(RequestTimedOut, match="did not answer Heartbeat"):
            await hasty
        with pytest.raises(ConnectionError):
            await patient
        assert connection.closed
        assert len(ends) == 1
        assert isinstance(ends[0], RequestTimedOut)
        with pytest.raises(ConnectionError):
            await connection.ask(MetadataRequest())
        await broker.stop()

    run(scene)


def with_patience(scene):
    """For what is over soon after it was done in time: with more time, and again, until the machine was quick enough
    to do it in time.
    """
    for timeout_ms in (40, 400, 4_000):
        done = []

        async def attempt(world, timeout_ms=timeout_ms, done=done):
            broker = await FakeBroker(echo).start()
            connection = await connect(world, "127.0.0.1", broker.port)
            try:
                await connection.ask(HeartbeatRequest(generation_id=1), timeout_ms=timeout_ms)
            except RequestTimedOut:
                pass
            else:
                await scene(world, broker, connection, timeout_ms)
                done.append(True)
            connection.close()
            await broker.stop()

        run(attempt)
        if done:
            return
    raise AssertionError("4 s were not enough for one request")


def test_an_answered_request_does_not_time_out_later():
    async def scene(world, broker, connection, timeout_ms):
        later = connection.ask(HeartbeatRequest(generation_id=3), timeout_ms=60_000)
        assert (await later).throttle_time_ms == 3
        await asyncio.sleep(2 * timeout_ms / 1000)
        assert not connection.closed
        assert (await connection.ask(HeartbeatRequest(generation_id=4), timeout_ms=60_000)).throttle_time_ms == 4

    with_patience(scene)


def test_a_patient_request_outlives_the_deadline_of_a_hasty_one():
    async def scene(world, broker, connection, timeout_ms):
        gate = asyncio.get_running_loop().create_future()

        async def serve(message, header):
            await gate
            return echo(message, header)

        broker.script = serve
        patient = connection.ask(HeartbeatRequest(generation_id=2), timeout_ms=60_000)
        world.tasks.call_later(2 * timeout_ms, lambda: gate.set_result(None))
        assert (await patient).throttle_time_ms == 2

    with_patience(scene)


@pytest.mark.parametrize("ours", [True, False])
def test_when_a_connection_ends_everything_pending_fails(ours):
    async def scene(world):
        broker = await FakeBroker(lambda m, h: SILENCE).start()
        ends = []
        connection = await connect(world, "127.0.0.1", broker.port)
        connection.on_close = ends.append
        asks = [connection.ask(MetadataRequest()) for _ in range(3)]
        await until(lambda: len(broker.heard) == 3)
        if ours:
            connection.close()
        else:
            broker.hang_up()
        for ask in asks:
            with pytest.raises(ConnectionError):
                await ask
        assert len(ends) == 1
        assert (ends[0] is None) == ours
        with pytest.raises(ConnectionError):
            connection.tell(MetadataRequest())
        await broker.stop()

    run(scene)


@pytest.mark.parametrize(
    "answer",
    [
        b"\x00\x00\x00\x03abc",
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff",
        b"\x00\x00\x00\x08\x00\x00\x00\x63abcd",
        b"\x00\x00\x00\x05\x00\x00\x00\x01\x01",
        b"\x00\x00\x00\x40\x00\x00\x00\x01" + b"\xff" * 60,
    ],
)
def test_a_peer_that_sends_what_cannot_be_read_is_disconnected(answer):
    async def scene(world):
        broker = await FakeBroker(lambda m, h: answer).start()
        connection = await connect(world, "127.0.0.1", broker.port)
        with pytest.raises(ConnectionError, match="cannot be read"):
            await connection.ask(MetadataRequest())
        assert connection.closed
        await broker.stop()

    run(scene)


def test_an_answer_nobody_waits_for_any_more_is_dropped():
    async def scene(world):
        gate = asyncio.get_running_loop().create_future()

        async def slow(message, header):
            await gate
            return echo(message, header)

        broker = await FakeBroker(slow).start()
        connection = await connect(world, "127.0.0.1", broker.port)
        gone = connection.ask(HeartbeatRequest(generation_id=1))
        stays = connection.ask(HeartbeatRequest(generation_id=2))
        gone.cancel()
        gate.set_result(None)
        assert (await stays).throttle_time_ms == 2
        connection.close()
        await broker.stop()

    run(scene)


def test_a_peer_that_never_shakes_hands_is_given_up():
    async def scene(world):
        async def hold(reader, writer):
            await reader.read()
            writer.close()

        server = await asyncio.start_server(hold, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(RequestTimedOut):
            await connect(world, "127.0.0.1", port, ConnectionOptions(connect_timeout_ms=50))
        server.close()

    run(scene)


def test_a_peer_that_hangs_up_during_the_handshake_is_an_error():
    async def scene(world):
        broker = await FakeBroker(lambda m, h: HANG_UP, {}).start()
        broker._answer = lambda frame: asyncio.sleep(0, HANG_UP)
        with pytest.raises(ConnectionError):
            await connect(world, "127.0.0.1", broker.port)
        await broker.stop()

    run(scene)


@pytest.mark.parametrize("uvloop", [True, False])
def test_a_peer_that_dies_while_we_connect_is_a_connection_error(uvloop):
    """Its connection may be over before we say a word: nothing else may come of it, a node would stop (law X7)."""

    async def scene(world):
        with socket.create_server(("127.0.0.1", 0)) as server:
            reset = asyncio.ensure_future(asyncio.to_thread(reset_each, server, 400))
            asks = [connect(world, *server.getsockname()) for _ in range(400)]
            outcomes = await asyncio.gather(*asks, return_exceptions=True)
            await reset
        assert {type(outcome) for outcome in outcomes} <= {ConnectionResetError, ConnectionError, BrokenPipeError}

    def reset_each(server, count):
        for _ in range(count):
            line, _ = server.accept()
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            line.close()

    run(scene, uvloop=uvloop)
