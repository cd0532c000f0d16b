"""The proxy: who is calling, silence in one direction, late bytes, resets, and a dead node's refusal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from moldau.cluster.chaos.net import INSIDE, CannotBreak, Flat
from moldau.cluster.chaos.nets import NAMESPACES, PROXY, Links, open_net
from moldau.cluster.chaos.proxy import sources
from moldau.cluster.chaos.proxy.fronts import Around, Front
from moldau.cluster.chaos.proxy.links import LinkConditions, Pipe, ProxyLink, StreamEnd
from moldau.cluster.chaos.proxy.sources import CLIENTS, MARK, Sources, inode_of
from moldau.cluster.chaos.proxy_net import ProxyNet
from moldau.cluster.nodes import HOST, free_ports

PATIENCE_S = 60.0
SERVER = 1
ECHO = """
import socketserver, sys

class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(100):
            self.request.sendall(data)

socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(("127.0.0.1", int(sys.argv[1])), Echo).serve_forever()
"""
CALLER = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as line:
    line.sendall(b"hello")
    print(line.recv(5).decode(), flush=True)
    sys.stdin.read()
"""

pytestmark = pytest.mark.skipif(not sources.TABLES[0].exists(), reason="callers are told apart by Linux's /proc")


@pytest.fixture
def proxy() -> Iterator[ProxyNet]:
    proxied = ProxyNet()
    yield proxied
    proxied.close()


@contextlib.contextmanager
def echo(port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process that says what it hears."""
    process = subprocess.Popen([sys.executable, "-c", ECHO, str(port)])
    try:
        until(lambda: not refused((HOST, port)))
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def front(proxy: ProxyNet) -> Iterator[tuple[str, int]]:
    """The front of an echo at place 1."""
    (port,) = free_ports(1)
    with echo(port):
        place = proxy.front(SERVER, (HOST, port))
        until(lambda: not refused(place))
        call(place).close()
        yield place


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def refused(place: tuple[str, int]) -> bool:
    try:
        with socket.create_connection(place, PATIENCE_S):
            return False
    except ConnectionRefusedError:
        return True


def call(front: tuple[str, int]) -> socket.socket:
    line = socket.create_connection(front, PATIENCE_S)
    line.sendall(b"hello")
    assert line.recv(5) == b"hello"
    return line


def is_silent(line: socket.socket, seconds: float = 0.3) -> bool:
    line.settimeout(seconds)
    try:
        line.recv(5)
    except TimeoutError:
        return True
    finally:
        line.settimeout(PATIENCE_S)
    return False


@pytest.mark.parametrize("way", [(CLIENTS, SERVER), (SERVER, CLIENTS)])
def test_what_a_cut_holds_up_in_either_direction_comes_when_it_is_healed(
    proxy: ProxyNet, front: tuple[str, int], way: tuple[int, int]
) -> None:
    with call(front) as line:
        proxy.cut(*way, {front[1]})
        line.sendall(b"there")
        assert is_silent(line)
        proxy.heal()
        assert line.recv(5) == b"there"


@pytest.mark.parametrize("way", [(CLIENTS, SERVER), (SERVER, CLIENTS)])
def test_a_connection_made_under_a_cut_is_silent_until_it_is_healed(
    proxy: ProxyNet, front: tuple[str, int], way: tuple[int, int]
) -> None:
    proxy.cut(*way)
    before = proxy.made(CLIENTS, SERVER)
    with socket.create_connection(front, PATIENCE_S) as line:
        line.sendall(b"hello")
        assert is_silent(line)
        assert proxy.made(CLIENTS, SERVER) == before
        proxy.heal()
        assert line.recv(5) == b"hello"


def test_a_cut_of_other_ports_or_other_places_holds_up_nothing(proxy: ProxyNet, front: tuple[str, int]) -> None:
    proxy.cut(CLIENTS, SERVER, {front[1] + 1})
    proxy.cut(2, SERVER)
    call(front).close()


def test_callers_are_told_apart_by_the_process_that_calls(proxy: ProxyNet, front: tuple[str, int]) -> None:
    proxy.cut(2, SERVER)
    command = [sys.executable, "-c", CALLER, str(front[1])]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    cut = subprocess.Popen(proxy.command(2, command), **pipes)  # type: ignore[call-overload]
    whole = subprocess.Popen(proxy.command(3, command), **pipes)  # type: ignore[call-overload]
    assert whole.stdout.readline() == "hello\n"
    assert (proxy.made(2, SERVER), proxy.made(3, SERVER)) == (0, 1)
    proxy.heal()
    assert cut.stdout.readline() == "hello\n"
    assert (proxy.made(2, SERVER), proxy.made(3, SERVER)) == (1, 1)
    for process in (cut, whole):
        process.communicate()


def test_a_delay_makes_bytes_late(proxy: ProxyNet, front: tuple[str, int]) -> None:
    with call(front) as line:
        proxy.delay(SERVER, CLIENTS, 0.3)
        began = time.monotonic()
        line.sendall(b"12345")
        assert line.recv(5) == b"12345"
        assert time.monotonic() - began >= 0.3


def test_bytes_stay_in_order_when_a_delay_shrinks_and_an_end_comes_last() -> None:
    took: list[object] = []
    over = asyncio.Event()

    class Far:
        def is_closing(self) -> bool:
            return False

        def write(self, data: bytes) -> None:
            took.append(data)

        def close(self) -> None:
            took.append("closed")
            over.set()

    async def run() -> None:
        link = ProxyLink(LinkConditions(), (1, 2), 9092, lambda: None)
        link.is_whole = True
        pipe = Pipe(link, link.way)
        pipe.target.transport = Far()
        link.conditions.delays_s[1, 2] = 0.1
        pipe.push(b"first")
        link.conditions.clear()
        pipe.push(b"second")
        pipe.push(StreamEnd.CLOSED)
        assert took == []
        await asyncio.wait_for(over.wait(), PATIENCE_S)

    asyncio.run(run())
    assert took == [b"first", b"second", "closed"]


def test_a_reset_breaks_connections_with_what_is_under_way(proxy: ProxyNet, front: tuple[str, int]) -> None:
    with call(front) as line:
        proxy.cut(SERVER, CLIENTS)
        line.sendall(b"there")
        proxy.reset(CLIENTS, SERVER)
        proxy.heal()
        with pytest.raises(ConnectionResetError):
            line.recv(5)
    call(front).close()


def test_whoever_hangs_up_under_a_cut_is_not_heard_before_it_is_healed(proxy: ProxyNet) -> None:
    (port,) = free_ports(1)
    with socket.create_server((HOST, port)) as server:
        front = proxy.front(SERVER, (HOST, port))
        until(lambda: not refused(front))
        line = socket.create_connection(front, PATIENCE_S)
        line.sendall(b"mine!")
        there = _that_says(server, b"mine!")
        proxy.cut(CLIENTS, SERVER)
        line.close()
        assert is_silent(there)
        proxy.heal()
        assert there.recv(1) == b""
        there.close()


def _that_says(server: socket.socket, words: bytes) -> socket.socket:
    """The accepted connection on which these words come; others are probes, which say nothing or hang up."""
    deadline = time.monotonic() + PATIENCE_S
    with contextlib.ExitStack() as probes, selectors.DefaultSelector() as ready:
        ready.register(server, selectors.EVENT_READ)
        while time.monotonic() < deadline:
            for key, _ in ready.select(1.0):
                if key.fileobj is server:
                    there, _ = server.accept()
                    there.settimeout(PATIENCE_S)
                    ready.register(probes.enter_context(there), selectors.EVENT_READ)
                    continue
                line = cast("socket.socket", key.fileobj)
                ready.unregister(line)
                with contextlib.suppress(ConnectionResetError):
                    if line.recv(len(words)) == words:
                        return line.dup()
    raise AssertionError(f"nobody said {words!r}")


def test_a_dead_nodes_front_refuses_and_listens_when_it_is_back(proxy: ProxyNet) -> None:
    (port,) = free_ports(1)
    place = proxy.front(SERVER, (HOST, port))
    with echo(port) as process:
        until(lambda: not refused(place))
        with call(place) as line:
            process.kill()
            with contextlib.suppress(ConnectionResetError):
                assert line.recv(5) == b""
            # A killed process closes its connections before its listeners: a look between the two finds it alive.
            until(lambda: refused(place))
    with echo(port):
        until(lambda: not refused(place))


@contextlib.asynccontextmanager
async def _listening(there: tuple[str, int]) -> AsyncIterator[asyncio.Server]:
    """A listener whose connections stay open until the other end or this one ends."""
    held: set[asyncio.BaseTransport] = set()
    ended = asyncio.Event()

    class Held(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = transport
            held.add(transport)

        def connection_lost(self, error: Exception | None) -> None:
            held.discard(self.transport)
            ended.set()

    server = await asyncio.get_running_loop().create_server(Held, *there)
    yield server
    server.close()
    for transport in held:
        cast("asyncio.Transport", transport).abort()
    while held:
        await ended.wait()
        ended.clear()


def test_a_front_refuses_as_soon_as_a_link_has_broken_at_a_dead_nodes_end() -> None:
    async def run() -> None:
        here, there = ((HOST, port) for port in free_ports(2))
        async with _listening(there) as server:
            front = Front(SERVER, here, there, Around(Sources("nobody")))
            watch = asyncio.create_task(front.watch())
            async with asyncio.timeout(PATIENCE_S):
                while await asyncio.to_thread(refused, here):
                    pass
                front.looked()
                assert not refused(here)
            for _ in range(5):  # a listener that closes forgets a connection that it has half accepted
                await asyncio.sleep(0)
            server.close()
            front.looked()
            assert refused(here)
            watch.cancel()
            await asyncio.wait([watch])

    asyncio.run(run())


def test_a_front_whose_port_is_taken_meanwhile_listens_as_soon_as_it_can() -> None:
    """Nobody promises the port to a front that is closed: whoever looks for a free one may hold it for a moment."""

    async def run() -> None:
        here, there = ((HOST, port) for port in free_ports(2))
        front = Front(SERVER, here, there, Around(Sources("nobody")))
        async with _listening(there):
            with socket.create_server(here):
                watch = asyncio.create_task(front.watch())
                await asyncio.wait([watch], timeout=0.2)
                assert not watch.done()
            async with asyncio.timeout(PATIENCE_S):
                while await asyncio.to_thread(refused, here):
                    pass
            watch.cancel()
            await asyncio.wait([watch])

    asyncio.run(run())


def test_a_death_is_not_told_to_whoever_is_cut_off(proxy: ProxyNet) -> None:
    (port,) = free_ports(1)
    place = proxy.front(SERVER, (HOST, port))
    with echo(port) as process:
        until(lambda: not refused(place))
        with call(place) as line:
            proxy.cut(SERVER, CLIENTS)
            process.kill()
            process.wait()
            assert is_silent(line)
            with socket.create_connection(place, PATIENCE_S) as another:
                assert is_silent(another)
        proxy.heal()
        until(lambda: refused(place))


def test_the_weather_knows_cuts_by_direction_and_port() -> None:
    conditions = LinkConditions()
    conditions.cuts |= {(1, 2, 0), (2, 3, 9092)}
    assert conditions.is_cut((1, 2), 1)
    assert not conditions.is_cut((2, 1), 1)
    assert not conditions.is_fair((2, 1), 1)
    assert (conditions.is_cut((2, 3), 9092), conditions.is_cut((2, 3), 9093)) == (True, False)
    assert (conditions.touches(3, 9092), conditions.touches(3, 9093), conditions.touches(4, 9092)) == (
        True,
        False,
        False,
    )


def test_the_holder_of_a_connection_is_found_for_ipv4_and_for_sockets_that_speak_both() -> None:
    for family, host in ((socket.AF_INET, HOST), (socket.AF_INET6, f"::ffff:{HOST}")):
        with socket.create_server((HOST, 0)) as server, socket.socket(family, socket.SOCK_STREAM) as line:
            line.connect((host, server.getsockname()[1]))
            accepted, caller = server.accept()
            with accepted:
                assert inode_of(caller[:2], server.getsockname()) == os.fstat(line.fileno()).st_ino
                assert Sources("nobody").place(caller[:2], server.getsockname()) == CLIENTS
                line.close()
                assert Sources("nobody").place(caller[:2], server.getsockname()) is None


def test_marks_of_another_run_and_ends_of_processes_do_not_confuse(tmp_path: Path) -> None:
    for pid, mark in ((7, f"{MARK}=mine:3"), (8, f"{MARK}=other:2")):
        (tmp_path / str(pid) / "fd").mkdir(parents=True)
        (tmp_path / str(pid) / "environ").write_bytes(f"HOME=/\0{mark}\0".encode())
    (tmp_path / "9").mkdir()
    with socket.create_server((HOST, 0)) as server, socket.create_connection(server.getsockname()) as line:
        caller = line.getsockname()
        found = Sources("mine", tmp_path)
        assert found.place(caller, server.getsockname()) == CLIENTS
        (tmp_path / "8" / "fd" / "0").symlink_to(f"socket:[{os.fstat(line.fileno()).st_ino}]")
        assert found.place(caller, server.getsockname()) == CLIENTS
        (tmp_path / "7" / "fd" / "0").symlink_to(f"socket:[{os.fstat(line.fileno()).st_ino}]")
        assert found.place(caller, server.getsockname()) == 3


def test_links_are_left_to_the_proxy_where_namespaces_are_not_permitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(INSIDE, "namespaces are not permitted (no)")
    for links, asked, kind in (
        (Links.NOTHING, None, Flat),
        (Links.CUT, None, ProxyNet),
        (Links.SLOW, None, ProxyNet),
        (Links.NOTHING, PROXY, ProxyNet),
    ):
        net = open_net(links, asked)
        assert type(net) is kind
        net.close()
    with pytest.raises(CannotBreak, match="namespaces are not permitted"):
        open_net(Links.CUT, NAMESPACES)


def test_where_callers_cannot_be_told_apart_that_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("moldau.cluster.chaos.proxy_net.TABLES", (tmp_path / "none",))
    with pytest.raises(CannotBreak, match="/proc/net/tcp"):
        ProxyNet()
    with pytest.raises(CannotBreak, match="not cut"):
        Flat().cut(1, 2)
