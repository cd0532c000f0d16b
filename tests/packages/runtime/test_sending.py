"""Slices of files on real sockets: in order, whole, as they stood when they were named, on both loops."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import stat
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from moldau.runtime import disk, sending
from moldau.runtime.disk import SLICE_FROM, DiskFileSlice, RealDisk, RealFile
from moldau.runtime.world import RealNet, new_loop
from tests.packages import loops

SIZE = 3 << 20  # more than a socket takes while nobody reads
TEXT = os.urandom(SIZE)


class Server(asyncio.BufferedProtocol):
    """The receiver of one connection: it keeps what happened."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.news = asyncio.Event()
        self.buffer = bytearray(1024)
        self.transport: Any = None
        self.made = asyncio.Event()
        self.lost = asyncio.Event()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.made.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._say("heard")

    def pause_writing(self) -> None:
        self._say("pause")

    def resume_writing(self) -> None:
        self._say("resume")

    def _say(self, what: str) -> None:
        self.said.append(what)
        self.news.set()

    async def says(self, *wanted: str) -> None:
        """Wait until just this has happened."""
        while self.said != list(wanted):
            self.news.clear()
            await self.news.wait()


class Scene:
    """A connection whose client reads only when told, and a file."""

    def __init__(self, server: Server, client: socket.socket, file: RealFile) -> None:
        self.server, self.client, self.file = server, client, file
        self.send = server.transport.writelines

    def slice(self, offset: int = 0, size: int = SIZE) -> DiskFileSlice:
        found = self.file.slice(size, offset)
        assert isinstance(found, DiskFileSlice)
        return found

    async def read(self, size: int | None = None) -> bytes:
        """So many bytes, or all until the end."""
        got = bytearray()
        while size is None or len(got) < size:
            data = await asyncio.get_running_loop().sock_recv(self.client, 1 << 16)
            if not data:
                break
            got += data
        return bytes(got)


@asynccontextmanager
async def connected(path: Path) -> AsyncIterator[Scene]:
    loop = asyncio.get_running_loop()
    server = Server()
    listener = await RealNet(loop).listen("127.0.0.1", 0, lambda: server)
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    client.setblocking(False)
    file = RealDisk().open(str(path / "log"), create=True)
    file.pwrite([TEXT], 0)
    try:
        await loop.sock_connect(client, ("127.0.0.1", listener.port))
        await server.made.wait()
        yield Scene(server, client, file)
    finally:
        client.close()
        listener.close()
        if not server.lost.is_set():
            server.transport.abort()
            await server.lost.wait()
        file.close()


@pytest.fixture(params=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest) -> Callable[[Awaitable[None]], None]:
    """Run a test's coroutine on each loop."""

    def to_end(work: Awaitable[None]) -> None:
        loop = new_loop() if request.param == "uvloop" else asyncio.new_event_loop()
        try:
            loop.run_until_complete(asyncio.wait_for(work, 120))
        finally:
            loops.close(loop)

    return to_end


Run = Callable[[Awaitable[None]], None]


def test_pieces_arrive_in_order_and_whole(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "TURN_BYTES", 1 << 20)  # so that others have their turn in between

    async def scene() -> None:
        async with connected(tmp_path) as at:
            at.send([b"head", at.slice(), b"middle", at.slice(7, SLICE_FROM)])
            at.server.transport.write(b"next")
            at.send([b"a", b"b"])
            at.send([at.slice(1, SIZE - 1)])
            parts = [b"head", TEXT, b"middle", TEXT[7 : 7 + SLICE_FROM], b"next", b"ab", TEXT[1:]]
            wanted = b"".join(parts)
            assert await at.read(len(wanted)) == wanted
            at.server.transport.write(b"after")
            assert await at.read(5) == b"after"
            at.server.said.clear()
            at.client.send(b"!")
            await at.server.says("heard")

    run(scene())


def test_what_the_loop_has_not_sent_yet_is_not_overtaken(run: Run, tmp_path: Path) -> None:
    async def scene() -> None:
        async with connected(tmp_path) as at:
            first = bytes(6 * SIZE)  # the loop keeps most of it
            at.server.transport.write(b"small")
            at.send([b"head", at.slice()])
            assert await at.read(SIZE + 9) == b"smallhead" + TEXT
            at.server.transport.write(first)
            at.send([b"head", at.slice()])
            assert await at.read(7 * SIZE + 4) == first + b"head" + TEXT

    run(scene())


def test_what_is_cut_or_closed_meanwhile_is_sent_as_it_was(run: Run, tmp_path: Path) -> None:
    async def scene() -> None:
        async with connected(tmp_path) as at:
            blocking = RealDisk().open(str(tmp_path / "other"), create=True)
            blocking.pwrite([bytes(8 << 20)], 0)
            at.send([blocking.slice(8 << 20, 0), at.slice(), at.slice(5, SLICE_FROM)])
            assert at.server.said == ["pause"]
            at.file.truncate(10)
            at.file.pwrite([bytes(SIZE)], 10)
            third = at.slice(0, SLICE_FROM)
            at.send([third])
            at.file.close()
            blocking.close()
            wanted = bytes(8 << 20) + TEXT + TEXT[5 : 5 + SLICE_FROM] + TEXT[:10] + bytes(SLICE_FROM - 10)
            assert await at.read(len(wanted)) == wanted

    run(scene())


def test_a_closed_file_is_sent_unread_and_its_handle_goes_with_the_last_reader(run: Run, tmp_path: Path) -> None:
    """Hundreds of clients may wait for parts of a segment that retention takes away."""

    def handles() -> int:
        found = 0
        for fd in os.listdir("/proc/self/fd"):
            with suppress(FileNotFoundError):  # the one that lists them
                found += os.readlink(f"/proc/self/fd/{fd}").startswith(str(tmp_path / "segment"))
        return found

    async def scene() -> None:
        async with connected(tmp_path) as at:
            segment = RealDisk().open(str(tmp_path / "segment"), create=True)
            segment.pwrite([TEXT], 0)
            lent = [segment.slice(SIZE, 0) for _ in range(300)]
            tracemalloc.start()
            try:
                segment.close()
                assert tracemalloc.get_traced_memory()[1] < SLICE_FROM
            finally:
                tracemalloc.stop()
            RealDisk().remove(str(tmp_path / "segment"))
            at.send([lent.pop(), lent.pop()])
            lent.clear()
            assert handles() == 1
            assert await at.read(2 * SIZE) == TEXT + TEXT
            assert handles() == 0

    run(scene())


def test_who_reads_nothing_does_not_hold_a_removed_file_for_ever(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk space of a deleted segment is free when the last handle of it is closed."""
    monkeypatch.setattr(sending, "REMOVED_S", 0.02)

    async def scene() -> None:
        async with connected(tmp_path) as at:
            at.send([at.slice(), at.slice()])
            os.unlink(tmp_path / "log")
            at.file.close()
            await at.server.lost.wait()
            held = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is_link(fd)]
            assert not [path for path in held if path.startswith(str(tmp_path))]

    run(scene())


def _is_link(fd: str) -> bool:
    return os.path.islink(f"/proc/self/fd/{fd}")


def test_who_reads_nothing_of_a_file_that_is_there_keeps_his_connection(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "REMOVED_S", 0.02)
    looks, enough = [0], asyncio.Event()
    look = sending.SendfileProtocol._look_at_files

    def counted(sender: sending.SendfileProtocol) -> None:
        looks[0] += 1
        look(sender)
        if looks[0] > 4:
            enough.set()

    monkeypatch.setattr(sending.SendfileProtocol, "_look_at_files", counted)

    async def scene() -> None:
        async with connected(tmp_path) as at:
            at.send([at.slice(), at.slice()])
            await enough.wait()
            assert await at.read(2 * SIZE) == TEXT + TEXT

    run(scene())


def test_what_a_cut_would_keep_in_memory_is_bounded(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "KEPT_BYTES", SIZE)

    async def scene() -> None:
        async with connected(tmp_path) as at:
            lent = [at.slice() for _ in range(5)]
            at.file.truncate(10)
            kept = []
            for one in lent:
                with suppress(OSError):
                    kept.append(bytes(one))
            assert kept == [TEXT]
            lost = next(one for one in lent if one._data == b"")
            at.send([lost])
            await at.server.lost.wait()

    run(scene())


def test_the_receiver_is_paused_until_all_is_sent(run: Run, tmp_path: Path) -> None:
    async def scene() -> None:
        async with connected(tmp_path) as at:
            at.send([at.slice(), at.slice(), at.slice()])
            assert at.server.said == ["pause"]
            assert at.server.transport.get_write_buffer_size() > 0
            await at.read(3 * SIZE)
            await at.server.says("pause", "resume")
            assert at.server.transport.get_write_buffer_size() == 0

    run(scene())


def test_a_close_comes_after_what_was_written(run: Run, tmp_path: Path) -> None:
    async def scene() -> None:
        async with connected(tmp_path) as at:
            at.send([at.slice(), at.slice(), b"end"])
            at.server.transport.close()
            assert at.server.transport.is_closing()
            at.send([b"too late"])
            assert await at.read() == TEXT + TEXT + b"end"
            await at.server.lost.wait()
            assert at.server.said == ["pause"]

    run(scene())


def test_what_comes_after_a_close_is_not_sent_though_the_loop_is_not_through(run: Run, tmp_path: Path) -> None:
    async def scene() -> None:
        async with connected(tmp_path) as at:
            first = bytes(6 * SIZE)
            at.server.transport.write(first)
            at.server.transport.close()
            at.send([b"head", at.slice()])
            assert await at.read() == first
            await at.server.lost.wait()

    run(scene())


def test_an_abort_ends_the_connection_though_much_is_left(run: Run, tmp_path: Path) -> None:
    async def scene() -> None:
        async with connected(tmp_path) as at:
            at.send([at.slice(), at.slice(), at.slice()])
            at.server.transport.abort()
            await at.server.lost.wait()
            with suppress(ConnectionResetError):
                assert len(await at.read()) < 3 * SIZE

    run(scene())


def test_a_client_that_is_gone_ends_the_connection(run: Run, tmp_path: Path) -> None:
    async def scene() -> None:
        async with connected(tmp_path) as at:
            at.send([at.slice(), at.slice(), at.slice()])
            at.client.close()
            await at.server.lost.wait()
            assert at.server.said == ["pause"]

    run(scene())


def test_a_file_that_has_become_shorter_ends_the_connection(run: Run, tmp_path: Path) -> None:
    async def scene() -> None:
        async with connected(tmp_path) as at:
            one = at.slice()
            os.truncate(tmp_path / "log", SIZE // 2)  # behind the file's back
            at.send([one])
            assert await at.read() == TEXT[: SIZE // 2]
            await at.server.lost.wait()

    run(scene())


def test_a_disk_that_fails_is_read_from_then_on(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads sees the error, and takes the log directory offline; who sends would only lose its client."""

    def broken(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    async def scene() -> None:
        async with connected(tmp_path) as at:
            monkeypatch.setattr(os, "sendfile", broken)
            at.send([b"head", at.slice(), b"tail"])
            assert await at.read(SIZE + 8) == b"head" + TEXT + b"tail"  # by reading, which works here
            assert at.file.slice(SIZE, 0) == TEXT

    run(scene())


def test_few_bytes_or_bytes_that_are_not_there_are_read(tmp_path: Path) -> None:
    file = RealDisk().open(str(tmp_path / "log"), create=True)
    file.pwrite([TEXT], 0)
    assert file.slice(SLICE_FROM - 1, 3) == TEXT[3 : SLICE_FROM + 2]
    assert file.slice(SIZE, 1) == TEXT[1:]
    named = file.slice(SLICE_FROM, 3)
    assert not isinstance(named, bytes)
    assert (len(named), bytes(named)) == (SLICE_FROM, TEXT[3 : 3 + SLICE_FROM])
    file.close()


def sockets_to(client: socket.socket) -> int:
    """How many descriptors of this process are the other end of the client's connection."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the one that lists them, and what has no peer
            if stat.S_ISSOCK(os.stat(int(name)).st_mode):  # a copy of another file would never be closed
                with socket.socket(fileno=os.dup(int(name))) as one:
                    found += one.getpeername() == client.getsockname()
    return found


def test_a_connection_has_one_descriptor_while_its_client_reads_slowly_and_afterwards(run: Run, tmp_path: Path) -> None:
    """Each that was ever sent part of a file kept a second until it ended: 780 consumers took all of 1,024."""

    async def scene() -> None:
        async with connected(tmp_path) as at:
            at.send([b"head", at.slice(), at.slice()])
            assert at.server.said == ["pause"]
            assert sockets_to(at.client) == 1
            got = await at.read(SIZE)
            assert sockets_to(at.client) == 1
            got += await at.read(2 * SIZE + 4 - len(got))
            assert got == b"head" + TEXT + TEXT
            await at.server.says("pause", "resume")
            assert sockets_to(at.client) == 1

    run(scene())


def test_a_process_without_a_free_descriptor_sends_all_of_a_file(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection ended instead."""

    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async def scene() -> None:
        async with connected(tmp_path) as at:
            monkeypatch.setattr(socket, "fromfd", refuse)
            monkeypatch.setattr(socket, "dup", refuse)
            monkeypatch.setattr(os, "dup", refuse)
            at.send([b"head", at.slice(), b"middle", at.slice(), b"tail"])
            got = await at.read(2 * SIZE + 14)
            assert got == b"head" + TEXT + b"middle" + TEXT + b"tail"
            await at.server.says("pause", "resume")

    run(scene())


def test_a_disk_that_fails_while_the_socket_is_full_ends_the_connection(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(one: DiskFileSlice, most: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    async def scene() -> None:
        async with connected(tmp_path) as at:
            monkeypatch.setattr(DiskFileSlice, "take", broken)
            at.send([at.slice(), at.slice(), at.slice()])
            await at.server.lost.wait()

    run(scene())


def test_what_waits_in_the_loops_own_queue_is_not_overtaken_and_no_file_is_read_because_of_it(
    run: Callable[[Awaitable[None]], None], tmp_path: Path
) -> None:
    async def work() -> None:
        async with connected(tmp_path) as scene:
            transport = scene.server.transport
            before = os.urandom(8 << 20)
            transport.write(before)
            while not transport._transport.get_write_buffer_size():  # noqa: ASYNC110  # no event tells
                await asyncio.sleep(0)
            one = scene.slice()
            scene.send([b"head", one, b"tail"])
            assert one._data is None
            got = await scene.read(len(before) + SIZE + 8)
            assert got == before + b"head" + TEXT + b"tail"
            assert one._data is None, "it was sent from the file"
            while "resume" not in scene.server.said[-1]:  # noqa: ASYNC110
                await asyncio.sleep(0)

    run(work())


def test_sending_many_pieces_works_out_no_union_of_flags(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unions: list[object] = []

    def noted(flag: int, other: int) -> int:
        unions.append(other)
        return int(flag) | int(other)

    async def scene() -> None:
        async with connected(tmp_path) as at:
            monkeypatch.setattr(socket.MsgFlag, "__or__", noted)
            at.send([b"head", at.slice(), b"middle", at.slice(), b"end"])
            await at.read(2 * SIZE + len(b"headmiddleend"))
            monkeypatch.undo()
        assert not unions

    run(scene())
