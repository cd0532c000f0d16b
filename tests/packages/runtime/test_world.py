"""What the real world gives a node: here, ids, and worker threads."""

from __future__ import annotations

import asyncio
import errno
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine
from threading import Event, Thread, current_thread, get_ident

import pytest

from moldau.model.ids import uuid_text
from moldau.ports import Pool
from moldau.runtime.world import RealNet, RealRandom, RealTasks, new_loop


def test_no_id_is_drawn_that_a_command_line_would_take_for_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    class Drawn:
        """The module ``os``, as far as ids are drawn from it."""

        drawn = iter([b"\xf8" + bytes(15), b"\xfb" + bytes(15), b"\xfc" + bytes(15)])

        def urandom(self, size: int) -> bytes:
            return next(self.drawn)

    monkeypatch.setattr("moldau.runtime.world.os", Drawn())
    assert uuid_text(RealRandom().uuid())[0] == "_"


def in_tasks(test: Callable[[RealTasks], Coroutine[None, None, None]]) -> None:
    """Run a test with the tasks of a loop of its own; a task that fails fails it."""
    failures: list[BaseException] = []

    async def run() -> None:
        tasks = RealTasks(asyncio.get_running_loop(), lambda name, error: failures.append(error))
        await asyncio.wait_for(test(tasks), 120)

    asyncio.run(run())
    assert not failures


def test_work_of_one_pool_goes_on_while_another_hangs() -> None:
    async def test(tasks: RealTasks) -> None:
        answers = Event()
        hanging = [tasks.off_loop(answers.wait, Pool("hangs")) for _ in range(20)]
        try:
            assert await tasks.off_loop(lambda: current_thread().name, Pool("works")) == "works_0"
        finally:
            answers.set()
        assert await asyncio.gather(*hanging) == [True] * 20

    in_tasks(test)


def test_a_pool_of_one_thread_keeps_the_order_of_its_calls() -> None:
    async def test(tasks: RealTasks) -> None:
        seen: list[int] = []
        await asyncio.gather(*(tasks.off_loop(lambda n=n: seen.append(n), Pool("one")) for n in range(100)))
        assert seen == list(range(100))

    in_tasks(test)


class Nothing(asyncio.BufferedProtocol):
    """Receives and says nothing."""

    def get_buffer(self, sizehint: int) -> bytearray:
        return bytearray(64)


def test_every_address_of_both_families_is_bound_by_two_colons() -> None:
    """As Java binds it; asyncio's own binding leaves IPv4 out."""

    async def connected() -> list[str]:
        loop = asyncio.get_running_loop()
        listener = await RealNet(loop).listen("::", 0, Nothing, opened=False)
        try:
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", listener.port)
            await listener.open()
            reached = []
            for host in ("127.0.0.1", "::1"):
                _, writer = await asyncio.open_connection(host, listener.port)
                reached.append(host)
                writer.close()
            return reached
        finally:
            listener.close()

    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    assert asyncio.run(connected()) == ["127.0.0.1", "::1"]


@pytest.mark.parametrize("new", [asyncio.new_event_loop, new_loop], ids=["asyncio", "as nodes"])
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_client_has_the_address_that_it_knows_itself_by_where_every_address_is_bound(
    new: Callable[[], asyncio.AbstractEventLoop], host: str
) -> None:
    """One of IPv4 was ::ffff:127.0.0.1, to which no limit and no quota of its address applied."""

    async def peers() -> list[object]:
        loop = asyncio.get_running_loop()
        came: asyncio.Future[object] = loop.create_future()

        class Heard(Nothing):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                came.set_result(transport.get_extra_info("peername"))

        net = RealNet(loop)
        listener = await net.listen("::", 0, Heard)
        try:
            transport = await net.connect(host, listener.port, Nothing())
            ours = transport.get_extra_info("sockname")
            found = await came
            transport.abort()
            return [ours, found]
        finally:
            listener.close()

    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with asyncio.Runner(loop_factory=new) as runner:
        ours, found = runner.run(peers())
    assert found == ours


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_an_address_or_a_name_is_bound_and_refused_when_somebody_else_has_it(host: str) -> None:
    async def taken() -> int | None:
        net = RealNet(asyncio.get_running_loop())
        first = await net.listen(host, 0, Nothing)
        try:
            with pytest.raises(OSError) as refused:
                await net.listen(host, first.port, Nothing)
            return refused.value.errno
        finally:
            first.close()

    assert asyncio.run(taken()) == errno.EADDRINUSE


START = """
import asyncio, sys
from moldau.runtime.world import RealNet, new_loop
loop = new_loop()
loop.run_until_complete(RealNet(loop).listen("127.0.0.1", 0, lambda: None, opened=False))
print("encodings.idna" in sys.modules)
"""


def test_an_address_is_bound_without_what_encodes_names() -> None:
    """Of a start it took five million instructions, one in a hundred."""
    said = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, check=True).stdout
    assert said == "False\n"


@pytest.mark.parametrize("there", [0, 1])
def test_calls_wait_for_threads_where_the_system_starts_no_more(monkeypatch: pytest.MonkeyPatch, there: int) -> None:
    """A limit of processes or of memory ended the node: "can't start new thread"."""
    start, asked = Thread.start, 0

    def started(thread: Thread) -> None:
        nonlocal asked
        asked += 1
        if there < asked < there + 4:
            raise RuntimeError("can't start new thread")
        start(thread)

    async def test(tasks: RealTasks) -> None:
        calls = [tasks.off_loop(lambda n=n: n, Pool("scarce", 3)) for n in range(20)]
        assert await asyncio.gather(*calls) == list(range(20))
        tasks.join()

    monkeypatch.setattr("moldau.runtime.world.THREAD_AGAIN_S", 0.01)
    monkeypatch.setattr(Thread, "start", started)
    in_tasks(test)


def test_the_loop_makes_calls_for_which_the_system_starts_no_thread_but_long_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A node that was told to end went on for ever: the close of its logs waited for a thread."""

    def refused(thread: Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def test(tasks: RealTasks) -> None:
        long = tasks.off_loop(get_ident, Pool("long", is_long=True))
        calls = [tasks.off_loop(get_ident, Pool("scarce", 3)) for _ in range(20)]
        assert set(await asyncio.gather(*calls)) == {get_ident()}
        assert await tasks.off_loop(get_ident, Pool("scarce", 3)) == get_ident(), "and those that come later"
        assert not asyncio.ensure_future(long).done()
        monkeypatch.setattr(Thread, "start", start)
        assert await long != get_ident()
        assert await tasks.off_loop(get_ident, Pool("scarce", 3)) != get_ident(), "as soon as there is a thread"
        tasks.join()

    start = Thread.start
    monkeypatch.setattr("moldau.runtime.world.THREAD_AGAIN_S", 0.01)
    monkeypatch.setattr(Thread, "start", refused)
    in_tasks(test)
