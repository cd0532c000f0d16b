"""The simulated loop, disk and net keep their rules; without them a run would prove nothing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import closing

import pytest

from moldau.simulator.disk import SimDisk
from moldau.simulator.loop import Deadlock, Escaped, Owner, SimLoop
from moldau.simulator.net import SimNet, Wires


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    with closing(SimLoop(random.Random(1))) as loop:
        yield loop


def test_time_jumps_to_the_next_timer(loop: SimLoop) -> None:
    loop.run_until_complete(asyncio.sleep(3600))
    assert loop.time() == 3600


def test_waiting_for_what_never_comes_is_an_error(loop: SimLoop) -> None:
    with pytest.raises(Deadlock):
        loop.run_until_complete(loop.create_future())


def test_threads_are_refused(loop: SimLoop) -> None:
    with pytest.raises(Escaped):
        loop.run_in_executor(None, print)


def order(seed: int) -> list[str]:
    seen: list[str] = []
    with closing(SimLoop(random.Random(seed))) as loop:
        for owner in (Owner("a"), Owner("b"), Owner("c")):
            for number in range(3):
                loop.call_soon(seen.append, f"{owner.name}{number}", context=owner.context)
        loop.run_until_complete(asyncio.sleep(0.01))
    return seen


def test_owners_interleave_by_seed_and_each_keeps_its_own_order() -> None:
    assert len({tuple(order(seed)) for seed in range(20)}) > 10
    assert order(7) == order(7)
    for seed in range(20):
        for name in "abc":
            assert [one for one in order(seed) if one[0] == name] == [f"{name}{n}" for n in range(3)]


def test_the_dead_do_not_run_and_the_paused_run_later(loop: SimLoop) -> None:
    seen: list[str] = []
    dead, paused = Owner("dead"), Owner("paused")
    dead.alive, paused.paused = False, True
    for owner in (dead, paused):
        loop.call_soon(seen.append, owner.name, context=owner.context)
    loop.run_until_complete(asyncio.sleep(1))
    assert seen == []
    loop.resume(paused)
    loop.run_until_complete(asyncio.sleep(1))
    assert seen == ["paused"]


def test_a_kill_keeps_the_page_cache_and_a_power_cut_keeps_only_what_was_synced_for_sure() -> None:
    outcomes = set()
    for seed in range(30):
        disk = SimDisk(lambda: 0)
        disk.make_dirs("/d")
        disk.sync_dir("/")
        file = disk.open("/d/f", create=True)
        file.pwrite([b"safe"], 0)
        file.sync()
        disk.sync_dir("/d")
        file.pwrite([b"later"], 4)
        disk.open("/d/unsynced", create=True)
        disk.kill()
        assert disk.read("/d/f") == b"safelater"
        disk.power_cut(random.Random(seed))
        assert b"safelater".startswith(disk.read("/d/f"))
        assert disk.read("/d/f").startswith(b"safe")
        outcomes.add((disk.read("/d/f"), disk.exists("/d/unsynced")))
    assert len(outcomes) > 4


class RecordingListener(asyncio.BufferedProtocol):
    def __init__(self) -> None:
        self.heard = bytearray()
        self.lost = asyncio.Event()
        self.buffer = bytearray(7)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.heard += self.buffer[:nbytes]

    def connection_lost(self, exc: Exception | None) -> None:
        self.error = exc
        self.lost.set()


@pytest.mark.parametrize("seed", range(5))
def test_bytes_arrive_whole_and_in_order_and_a_death_resets(seed: int) -> None:
    rng = random.Random(seed)
    loop = SimLoop(rng)
    wires = Wires(loop, rng, lambda text: None)
    a, b, server = Owner("a"), Owner("b"), RecordingListener()

    async def play() -> None:
        with pytest.raises(ConnectionRefusedError):
            await SimNet(wires, "a", a).connect("b", 1, RecordingListener())
        await SimNet(wires, "b", b).listen("", 1, lambda: server)
        client = RecordingListener()
        line = await SimNet(wires, "a", a).connect("b", 1, client)
        wires.cut.add(("a", "b"))
        for number in range(100):
            line.write(b"%d," % number)
        await asyncio.sleep(5)
        assert not server.heard
        wires.cut.clear()
        await asyncio.sleep(5)
        assert server.heard == b"".join(b"%d," % number for number in range(100))
        b.alive = False
        wires.died(b)
        await client.lost.wait()
        assert isinstance(client.error, ConnectionResetError)

    with closing(loop):
        loop.run_until_complete(play())


def test_a_bit_that_turned_stays_turned() -> None:
    disk = SimDisk(lambda: 0)
    disk.make_dirs("/d")
    file = disk.open("/d/f", create=True)
    file.pwrite([b"synced"], 0)
    file.sync()
    for folder in ("/", "/d"):
        disk.sync_dir(folder)
    disk.corrupt("/d/f", 1)
    turned = b"s" + bytes((ord("y") ^ 0x10,)) + b"nced"
    assert disk.read("/d/f") == turned
    file.pwrite([b"later"], 6)
    disk.corrupt("/d/f", 7)
    disk.power_cut(random.Random(1))
    assert disk.read("/d/f")[:6] == turned


def test_a_write_that_stalls_holds_up_its_process_and_no_other(loop: SimLoop) -> None:
    seen: list[str] = []
    disk, writes, other = SimDisk(lambda: 0), Owner("writes"), Owner("other")
    disk.make_dirs("/d")
    disk.stalls = []

    def write() -> None:
        disk.open("/d/f", create=True).pwrite([b"x"], 0)
        asyncio.get_running_loop().call_soon(seen.append, "after the write")

    loop.call_soon(write, context=writes.context)
    loop.call_later(1, seen.append, "the other", context=other.context)
    loop.run_until_complete(asyncio.sleep(2))
    assert seen == ["the other"]
    assert disk.stalls == [writes]
    loop.resume(writes)
    loop.run_until_complete(asyncio.sleep(1))
    assert seen == ["the other", "after the write"]
