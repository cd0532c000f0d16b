"""The real world in one value, and the way to run a coroutine in it.

``run`` chooses uvloop where it is installed and plain asyncio elsewhere; both give the same ports.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import Empty
from typing import TYPE_CHECKING, Any, TypeVar

from moldau.ports import Handle, Listener, Pool, Receiver, Transport, World
from moldau.runtime import late_clock
from moldau.runtime.apart import run_apart
from moldau.runtime.disk import RealDisk
from moldau.runtime.sending import SendfileProtocol

if TYPE_CHECKING:
    from moldau.ports.zookeeper import OpenZooKeeper

log = logging.getLogger(__name__)

T = TypeVar("T")

BACKLOG = 512
THREAD_AGAIN_S = 1.0
REFUSALS_MAX = 5
"""How often the system may refuse the first thread of a pool before the loop makes the calls itself."""
"""Until a thread that the system refused is asked for again."""
SWITCH_S = 0.0005
"""A worker thread that computes holds the interpreter's lock no longer when the loop wakes up; Python's own is 5 ms."""


class RealClock:
    """This machine's clocks, in milliseconds."""

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def processor_ns(self) -> int:
        return time.thread_time_ns()

    def wall_ms(self) -> int:
        return late_clock.wall_ms()


class RealRandom:
    """The operating system's chance."""

    def below(self, n: int) -> int:
        # 64 bits more than n has: the bias is beyond notice. The module ``random`` would be fair to the last bit, and
        # its import would cost more than that is ever worth to jitter.
        return int.from_bytes(os.urandom(8 + (n.bit_length() + 7) // 8)) % n

    def uuid(self) -> bytes:
        # Version 4 bits as Java's UUID.randomUUID sets them; never a text that starts with a dash (KIP-516), which
        # command lines would take for an option.
        while True:
            id = bytearray(os.urandom(16))
            id[6] = (id[6] & 0x0F) | 0x40
            id[8] = (id[8] & 0x3F) | 0x80
            if id[0] >> 2 != 62:  # '-' in base64url
                return bytes(id)


class _Threads(ThreadPoolExecutor):
    """Goes on with the threads that it has where the system starts no more of them (a limit of processes or memory).
    Without any, calls wait until it does: an error of the call would end the node. Where it goes on refusing, the loop
    makes them itself, one a turn: a node that cannot sync must end when it is told to, at the least."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pool: Pool) -> None:
        super().__init__(max_workers=pool.threads, thread_name_prefix=pool.name)
        self._loop = loop
        self._pool = pool
        self._asking = self._told = False
        self._refusals = 0

    def _adjust_thread_count(self) -> None:
        """Called once a call is in the queue, and where that is not taken at once."""
        try:
            super()._adjust_thread_count()
        except RuntimeError as error:
            if not self._told:
                log.warning(
                    "%s: %s; it goes on with %d, and more are asked for", self._pool.name, error, len(self._threads)
                )
                self._told = True
            if not self._asking:
                self._asking = True
                self._loop.call_later(0 if self._is_alone else THREAD_AGAIN_S, self._ask_again)
        else:
            self._told = False
            self._refusals = 0

    @property
    def _is_alone(self) -> bool:
        return self._refusals >= REFUSALS_MAX and not self._threads and not self._pool.is_long

    def _ask_again(self) -> None:
        self._asking = False
        if self._work_queue.empty():
            return
        self._refusals += 1
        if self._is_alone:
            if self._refusals == REFUSALS_MAX:
                log.warning("%s: no thread is started; the loop makes its calls", self._pool.name)
            with suppress(Empty):
                self._work_queue.get_nowait().run()
        if not self._work_queue.empty():
            self._adjust_thread_count()


class RealTasks:
    """Work for later on the running loop; ``on_failure`` hears of every task that raised (law X7)."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_failure: Callable[[str, BaseException], None]) -> None:
        self._loop = loop
        self._on_failure = on_failure
        self._running: set[asyncio.Task[None]] = set()
        self._executors: dict[Pool, ThreadPoolExecutor] = {}

    def call_soon(self, call: Callable[[], object]) -> Handle:
        return self._loop.call_soon(call)

    def call_later(self, delay_ms: float, call: Callable[[], object]) -> Handle:
        return self._loop.call_later(max(delay_ms, 0) / 1000, call)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> Handle:
        task = self._loop.create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._finished)
        return task  # type: ignore[return-value]  # Task.cancel returns a bool that nobody needs

    def off_loop(self, call: Callable[[], T], pool: Pool) -> Awaitable[T]:
        executor = self._executors.get(pool)
        if executor is None:
            executor = self._executors[pool] = _Threads(self._loop, pool)
        return self._loop.run_in_executor(executor, call)

    def join(self) -> None:
        """Wait until every call off the loop is over; none may follow."""
        for executor in self._executors.values():
            executor.shutdown()

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(task.get_name(), error)


class RealListener:
    """A bound server socket."""

    def __init__(self, server: asyncio.Server) -> None:
        self._server = server

    @property
    def port(self) -> int:
        return int(self._server.sockets[0].getsockname()[1])

    async def open(self) -> None:
        for bound in self._server.sockets:  # by hand first: uvloop would only log that somebody else listens by now
            with socket.fromfd(bound.fileno(), bound.family, bound.type) as same:
                same.listen(BACKLOG)
        await self._server.start_serving()

    def close(self) -> None:
        self._server.close()


class RealNet:
    """TCP by the running loop. Small answers must not wait for more: asyncio and uvloop turn Nagle off themselves."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    async def listen(self, host: str, port: int, accept: Callable[[], Receiver], *, opened: bool = True) -> Listener:
        def receive() -> SendfileProtocol:
            return SendfileProtocol(self._loop, accept())

        family = socket.AF_INET6 if host == "::" else socket.AF_INET if _is_address(host) else None
        if family is not None:
            bound = _bound(family, host, port)
            return RealListener(
                await self._loop.create_server(receive, sock=bound, backlog=BACKLOG, start_serving=opened)
            )
        return RealListener(
            await self._loop.create_server(
                receive, host or None, port, backlog=BACKLOG, reuse_address=True, start_serving=opened
            )
        )

    async def connect(self, host: str, port: int, receiver: Receiver) -> Transport:
        protocol: Any = receiver
        try:
            transport, _ = await self._loop.create_connection(lambda: protocol, host, port)
        except OSError as error:
            # A name with several addresses fails as one unspecific error; fast death needs to know that all refused.
            if not isinstance(error, ConnectionRefusedError) and _all_refused(str(error)):
                raise ConnectionRefusedError(*error.args) from error
            raise
        except (ValueError, OverflowError, RuntimeError) as error:
            # Hosts and ports come from others: a label of 64 letters is a UnicodeError, a NUL a ValueError, port 65536
            # an OverflowError. uvloop says RuntimeError of a handle that ended while it was being made.
            raise ConnectionError(f"{host}:{port} cannot be connected to: {error}") from error
        return transport


def _is_address(host: str) -> bool:
    """Whether it is an address of IPv4, which need not be looked up: uvloop would load what encodes names for that."""
    try:
        socket.inet_pton(socket.AF_INET, host)
    except (OSError, ValueError):  # ValueError: a NUL, or a letter that is not ASCII
        return False
    return True


def _bound(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    """A socket bound to an address; ``::`` is every address of IPv6 and IPv4, as in Java, where asyncio would leave
    IPv4 out."""
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        bound.bind((host, port))
    except BaseException:
        bound.close()
        raise
    return bound


def _all_refused(text: str) -> bool:
    """Whether the summary of several failed addresses names refusals only."""
    failures = text.count("[Errno ")
    return failures > 1 and text.count(f"[Errno {errno.ECONNREFUSED}]") == failures


def real_world(
    loop: asyncio.AbstractEventLoop,
    on_failure: Callable[[str, BaseException], None],
    zookeeper: OpenZooKeeper | None = None,
) -> World:
    """This machine's ports on a loop; ``on_failure(task name, error)`` is told of background failures."""
    return World(
        zookeeper=zookeeper,
        clock=RealClock(),
        random=RealRandom(),
        disk=RealDisk(),
        net=RealNet(loop),
        apart=run_apart,
        tasks=RealTasks(loop, on_failure),
    )


def new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's loop where it builds, asyncio's otherwise; a thread that computes gives way to it sooner than usual."""
    sys.setswitchinterval(SWITCH_S)
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
