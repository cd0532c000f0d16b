"""Frames too large for the shared buffer: whoever holds memory for one and sends little of it holds up nobody for long.

The rules alone, and over real loopback sockets.
"""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress
from typing import Any, cast

import pytest

from moldau.broker.network import arriving
from moldau.broker.network import memory as limits
from moldau.broker.network.arriving import FrameKind, kind_of
from moldau.broker.network.memory import RequestMemory
from moldau.broker.network.requests import ServedApi
from moldau.wire.messages.k03_metadata import MetadataRequest, MetadataResponse
from moldau.wire.messages.k06_update_metadata import UpdateMetadataRequest
from tests.packages.broker.test_network_memory import (
    FRAME_BYTES_MAX,
    AtOnce,
    Scene,
    Silent,
    connections_of,
    frame,
    play,
    read_frame,
)

LARGE, ORDINARY, OF_NODES = FrameKind.LARGE, FrameKind.ORDINARY, FrameKind.OF_NODES
MB = 1 << 20


class Client(Silent):
    """A client of whose frame ``came`` bytes come between two looks."""

    def __init__(self, memory: RequestMemory, came: int = 0) -> None:
        super().__init__(memory)
        self.came = came
        self.buffers: list[bytearray] = []

    def keeps_pace(self, least: int) -> bool:
        return self.came >= least

    def answer_parked(self) -> bool:
        return False  # no fetch of it waits

    def takes(self, size: int, kind: FrameKind) -> bool:
        buffer = self.memory.buffer(self, size, kind)
        if buffer is not None:
            self.buffers.append(buffer)
        return buffer is not None

    def ends(self) -> None:
        while self.buffers:
            self.memory.release(self, self.buffers.pop())

    def give_up(self, why: str) -> None:
        super().give_up(why)
        self.ends()


class Rules:
    """A memory of 48 MB, and looks at it when told."""

    def __init__(self) -> None:
        self.tasks = AtOnce()
        self.memory = RequestMemory(self.tasks)

    def client(self, came: int = 0) -> Client:
        return Client(self.memory, came)

    def look(self) -> None:
        """All looks that are due."""
        for timer in list(self.tasks.timers):
            timer.cancel()
            if timer.delay_ms == arriving.PACE_MS:
                timer()


def test_who_brings_too_little_while_another_waits_is_closed_at_the_next_look_and_the_other_gets_its_memory() -> None:
    rules = Rules()
    slow, other = rules.client(came=1), rules.client()
    assert slow.takes(100 * MB, LARGE)
    assert other.takes(7 * MB, LARGE) is False
    rules.look()
    assert slow.closed
    assert other.woken
    assert other.takes(7 * MB, LARGE)


def test_a_slow_client_is_left_alone_while_nobody_waits_and_one_that_has_a_line_of_a_megabyte_always() -> None:
    rules = Rules()
    slow = rules.client(came=1)
    assert slow.takes(100 * MB, LARGE)
    assert all(timer.delay_ms != arriving.PACE_MS for timer in rules.tasks.timers)
    rules = Rules()
    honest, other = rules.client(came=3 * MB), rules.client()
    assert honest.takes(100 * MB, LARGE)
    assert not other.takes(7 * MB, LARGE)
    for _ in range(20):
        rules.look()
    assert not honest.closed
    honest.ends()
    assert other.takes(7 * MB, LARGE)


def test_nobody_is_closed_for_memory_that_frames_do_not_hold() -> None:
    """Batches that are examined filled it, and each producer on a slow line was closed at each try."""
    rules = Rules()
    rules.memory.hold(48 * MB)
    slow = rules.client(came=1)
    assert slow.takes(MB, ORDINARY)
    while (other := rules.client(came=1)).takes(MB, ORDINARY):
        pass
    rules.look()
    assert not slow.closed
    assert not other.closed


def test_who_began_since_the_last_look_is_not_judged_by_what_came_before_it() -> None:
    rules = Rules()
    first, other = rules.client(came=50 * MB), rules.client()
    assert first.takes(100 * MB, LARGE)
    assert not other.takes(7 * MB, LARGE)
    late = rules.client(came=1)
    assert late.takes(MB, ORDINARY)
    rules.look()
    assert not late.closed
    rules.look()
    assert late.closed


def test_no_more_are_closed_than_have_to_be_and_who_holds_most_is_the_first() -> None:
    rules = Rules()
    slow = [rules.client(came=1) for _ in range(36)]
    assert all(one.takes(MB, ORDINARY) for one in slow[:35])
    assert slow[35].takes(2 * MB, ORDINARY)
    assert not rules.client().takes(MB, ORDINARY)
    rules.look()
    assert slow[35].closed
    left = [one for one in slow if not one.closed]
    assert len(left) == 24


def test_the_more_wait_for_each_who_holds_a_buffer_the_sooner_is_seen_who_is_too_slow() -> None:
    """1,500 clients that sent nearly all of 200 KB held up the next for 36 s: half of 48 MB at a time, each 3 s."""
    rules = Rules()
    lying = [rules.client() for _ in range(360)]
    held = [one for one in lying if one.takes(MB, ORDINARY)]
    assert len(held) < 48
    sound = rules.client(came=MB)
    assert not sound.takes(MB, ORDINARY)
    waited_ms = 0.0
    while not sound.woken or not sound.takes(MB, ORDINARY):
        (timer,) = (one for one in rules.tasks.timers if arriving.PACE_LEAST_MS <= one.delay_ms <= arriving.PACE_MS)
        waited_ms += timer.delay_ms
        timer.cancel()
        timer()
        for one in lying:
            if one.woken and not one.closed and not one.buffers:
                one.woken = False
                one.takes(MB, ORDINARY)
    assert waited_ms <= 12_000


def test_an_ordinary_frame_and_one_of_a_node_wait_for_no_large_one_and_not_for_one_another() -> None:
    rules = Rules()
    assert rules.client().takes(100 * MB, LARGE)
    for kind, kept in ((ORDINARY, 12), (OF_NODES, 6)):
        assert all(rules.client().takes(MB, kind) for _ in range(kept))
        assert not rules.client().takes(MB, kind)


def test_however_they_come_all_kinds_together_hold_no_more_than_the_limit_and_a_buffer_each() -> None:
    for order in ((LARGE, ORDINARY, OF_NODES), (OF_NODES, LARGE, ORDINARY), (ORDINARY, OF_NODES, LARGE)):
        rules = Rules()
        for kind in order:
            while rules.client().takes(MB, kind):
                pass
        assert rules.memory.request_bytes <= limits.REQUEST_BYTES_MAX + 3 * MB


def test_who_goes_on_with_another_frame_comes_behind_those_who_wait() -> None:
    """One that sent large frames without a pause was always the oldest, and alone had memory."""
    rules = Rules()
    always = rules.client()
    assert always.takes(MB, ORDINARY)
    others = [rules.client() for _ in range(60)]
    for one in others:
        one.buffers.append(rules.memory.keep(one, MB))
    assert not others[0].takes(MB, ORDINARY)
    assert always.takes(MB, ORDINARY)
    rules.memory.begin_frame(always, ORDINARY)
    assert not always.takes(MB, ORDINARY)
    assert others[0].takes(MB, ORDINARY)


@pytest.mark.parametrize(
    ("key", "need", "kind"),
    [(0, 70_000, ORDINARY), (0, (2 << 20) + 1, LARGE), (6, 70_000, OF_NODES), (4, 50 << 20, OF_NODES)],
)
def test_of_which_kind_a_frame_is_says_its_beginning(key: int, need: int, kind: FrameKind) -> None:
    assert kind_of(struct.pack(">ihh", need - 4, key, 5), need) is kind
    assert kind_of(struct.pack(">i", need - 4), need) is not OF_NODES


LINE = struct.pack(">ihhi", FRAME_BYTES_MAX, 3, 12, 1) + struct.pack(">h", 1) + b"h\0"


def large_request(id: int, names: int) -> bytes:
    """A request with so many names of 30 KB."""
    topics = [MetadataRequest.MetadataRequestTopic(name="x" * 30_000) for _ in range(names)]
    return frame(MetadataRequest(topics=topics), 12, id)


async def hog(scene: Scene) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A client that holds all the memory there is for a frame of which it sends no more."""
    reader, writer = await scene.connect()
    writer.write(LINE + bytes(5 << 20))
    await scene.until(lambda: scene.memory.request_bytes > 4 << 20)
    return reader, writer


def test_ordinary_requests_and_a_controllers_are_answered_beside_a_large_one_that_does_not_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A batch of 100 KB had no answer in a hundred seconds; brokers did not hear of new topics."""
    monkeypatch.setattr(limits, "STALL_MS", 600_000)
    monkeypatch.setattr(arriving, "PACE_MS", 600_000)

    async def work(scene: Scene) -> None:
        heard: list[int] = []
        scene.listener.answers = dict(scene.listener.answers) | {6: ServedApi(6, 0, 7, 0)}
        scene.listener.handlers[3] = lambda request, context: MetadataResponse()
        scene.listener.handlers[6] = lambda request, context: heard.append(cast("Any", request).controller_id)
        await hog(scene)
        for number in range(5):
            reader, writer = await scene.connect()
            writer.write(large_request(number, 40))
            assert (await read_frame(reader))[:4] == struct.pack(">i", number)
        state = UpdateMetadataRequest.UpdateMetadataTopicState(topic_name="t" * 30_000)
        _, controller = await scene.connect()
        controller.write(frame(UpdateMetadataRequest(controller_id=7, topic_states=[state] * 150), 7, 1))
        await scene.until(lambda: heard == [7])
        assert len(connections_of(scene)) == 7

    play(work, request_bytes_max=4 << 20)


def test_a_large_frame_that_comes_a_byte_at_a_time_is_closed_when_another_waits_and_the_log_names_its_client(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(arriving, "PACE_MS", 100)

    async def work(scene: Scene) -> None:
        scene.listener.handlers[3] = lambda request, context: MetadataResponse()
        slow_reader, slow = await hog(scene)
        name = slow.get_extra_info("sockname")

        async def trickle() -> None:
            while not slow.is_closing():
                slow.write(b"\0")
                await asyncio.sleep(0)

        trickling = asyncio.create_task(trickle())
        reader, writer = await scene.connect()
        writer.write(large_request(3, 150))
        assert (await read_frame(reader))[:4] == struct.pack(">i", 3)
        with suppress(ConnectionResetError):
            await slow_reader.read()
        await trickling
        assert str(name) in caplog.text
        assert "others wait for" in caplog.text

    play(work, request_bytes_max=4 << 20)
