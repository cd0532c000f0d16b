"""kazoo's client made strict: one thread, one order, one session per client, nothing queued for another time.

kazoo hands answers and watch events to two more threads, keeps calls of a broken connection for the next one, and opens
a new session by itself when the old one is over. Here answers and events come in the connection's own order, a call is
refused unless the session is connected, and a session that is over stays over. What is made of it: ``session``.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from kazoo import exceptions
from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.serialization import Connect
from kazoo.protocol.states import KeeperState

from moldau.ports.zookeeper import (
    BadVersion,
    ConnectionLoss,
    NoAuth,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionExpired,
    Stat,
    ZooKeeperError,
)

log = logging.getLogger(__name__)

ERRORS: dict[type[BaseException], type[ZooKeeperError]] = {
    exceptions.NoNodeError: NoNode,
    exceptions.NodeExistsError: NodeExists,
    exceptions.BadVersionError: BadVersion,
    exceptions.NotEmptyError: NotEmpty,
    exceptions.NoAuthError: NoAuth,
    exceptions.AuthFailedError: NoAuth,
    exceptions.ConnectionLoss: ConnectionLoss,
    exceptions.ConnectionClosedError: ConnectionLoss,
    exceptions.OperationTimeoutError: ConnectionLoss,
    exceptions.SessionExpiredError: SessionExpired,
}
NOT_THE_CAUSE = (exceptions.RolledBackError, exceptions.RuntimeInconsistency)
"""What the operations of a transaction get that failed because of another one."""


def translated(error: BaseException, path: str) -> ZooKeeperError:
    """kazoo's error as one of the port's, about ``path``."""
    for theirs, ours in ERRORS.items():
        if isinstance(error, theirs):
            return ours(path)
    return ZooKeeperError(path, f"{type(error).__name__} {error}".strip())


OWNER_S = 0.05
"""Between two looks whether an owner that stood still goes on."""
LEAVE_S = 1.0
"""How long a server may take to confirm the end of a session."""


class _AtOnce:
    """In place of kazoo's queue of completions: what is put in is done."""

    def put(self, call: Callable[[], object]) -> None:
        call()


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """Callbacks run in the connection's thread, where they only hand over to the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.completion_queue = _AtOnce()

    def start(self) -> None:
        self._running = True

    def stop(self) -> None:
        self._running = False

    def dispatch_callback(self, callback: Any) -> None:
        callback.func(*callback.args)


class ZooKeeperClient(KazooClient):  # type: ignore[misc]
    """A session. ``on_state`` is called in the connection's thread with CONNECTED, SUSPENDED or LOST at a change."""

    def __init__(self, hosts: str, session_timeout_ms: int, on_state: Callable[[str], object]) -> None:
        self._gate = threading.RLock()
        self._broken = False
        self.over = False
        super().__init__(
            hosts=hosts,
            timeout=session_timeout_ms / 1000,
            handler=_Handler(),
            connection_retry={"max_tries": -1, "delay": 0.1, "backoff": 2, "max_delay": 1.0},
            logger=log,
        )
        self.add_listener(on_state)
        self.heard_s: float | None = None
        self.session_timeout_ms = self._asked_ms = session_timeout_ms
        """How long the servers keep the session without a word of ours: what was asked for, until they have said."""
        self._invoke = self._connection._invoke
        self._connection._invoke = self._heard_of_timeout
        self._ping = self._connection._send_ping
        self._connection._send_ping = self._ping_for_the_living

    def report_alive(self) -> None:
        """The owner says that it goes on. From the first time on, a ping goes out only if this was said lately."""
        self.heard_s = time.monotonic()

    def _heard_of_timeout(self, timeout_s: float, request: Any, xid: Any = None) -> Any:  # Any: kazoo's own
        """Ask while a connection is made; the answer to the first question has the session's time-out."""
        answer = self._invoke(timeout_s, request, xid)
        if isinstance(request, Connect) and answer[0].time_out > 0:  # else the session is over
            before, self.session_timeout_ms = self.session_timeout_ms, answer[0].time_out
            if self.session_timeout_ms not in (before, self._asked_ms):
                log.warning(
                    "ZooKeeper's servers keep our session for %d ms without a word, not for the %d of"
                    " zookeeper.session.timeout.ms: that is beyond their minSessionTimeout or maxSessionTimeout",
                    self.session_timeout_ms, self._asked_ms,
                )  # fmt: skip
        return answer

    def _ping_for_the_living(self, timeout_s: float) -> None:
        """Let the session run out when its owner stands still, in a write to a disk that hangs for example.

        This thread would keep it alive for ever, and with it a leader that does nothing any more (a gray failure).
        """
        while self.heard_s is not None and time.monotonic() - self.heard_s > self.session_timeout_ms / 3_000:
            if self._stopped.wait(OWNER_S):
                break
        self._ping(timeout_s)

    def mended(self) -> None:
        """Take calls again, after a break whose watches are about to be looked after."""
        with self._gate:
            self._broken = False

    def _session_callback(self, state: str) -> None:
        with self._gate:
            if state in (KeeperState.EXPIRED_SESSION, KeeperState.AUTH_FAILED, KeeperState.CLOSED):
                self.over = True
                self._stopped.set()  # never open another session in place of this one (law Z6)
            elif state == KeeperState.CONNECTING:
                self._broken = True
            super()._session_callback(state)

    def _call(self, request: Any, async_object: Any) -> Any:
        with self._gate:
            if self.over:
                async_object.set_exception(exceptions.SessionExpiredError())
                return False
            if self._broken or self._state not in (KeeperState.CONNECTED, KeeperState.CONNECTED_RO):
                async_object.set_exception(exceptions.ConnectionLoss())
                return False
            return super()._call(request, async_object)

    def leave(self) -> None:
        """Close the session if it lives, and let go of socket and thread. Blocks: for a thread of its own."""
        impatience = threading.Timer(LEAVE_S, self._hang_up)
        impatience.daemon = True
        impatience.start()
        try:
            if self._stopped.is_set():
                self._connection.stop(10)
            else:
                self.stop()
            self.close()
        except Exception as error:
            log.debug("a session was left untidily: %r", error)
        finally:
            impatience.cancel()

    def _hang_up(self) -> None:
        """A server that does not even confirm the end is not waited for; it will find out by itself."""
        with contextlib.suppress(AttributeError, OSError):
            self._connection._socket.shutdown(socket.SHUT_RDWR)


_HEADER = struct.Struct(">ibi")
"""The header of an operation among many: type, whether it is the end, error."""
_STAT = struct.Struct(">qqqqiiiqiiq")
_LENGTH = struct.Struct(">i")
_GET_DATA, _ERROR = 4, -1


class TooOld(Exception):
    """The server does not know what it was asked."""


class ReadMany:
    """Many znodes' data in one request, for which kazoo has no word. Servers before 3.6 answer UnimplementedError.

    One by one, ten thousand reads keep the interpreter busy for seconds, while a controller becomes active.
    Source: ZooKeeper's jute definitions (MultiHeader, GetDataRequest, GetDataResponse), ZOOKEEPER-1416 (multiRead).
    """

    type = 22
    watcher = None

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def serialize(self) -> bytes:
        parts = []
        for path in self._paths:
            text = path.encode()
            parts += [_HEADER.pack(_GET_DATA, 0, -1), _LENGTH.pack(len(text)), text, b"\0"]
        parts.append(_HEADER.pack(-1, 1, -1))
        return b"".join(parts)

    @staticmethod
    def deserialize(buffer: bytes, offset: int) -> list[tuple[bytes, Stat] | BaseException]:
        """What was read, or the error, for each path."""
        found: list[tuple[bytes, Stat] | BaseException] = []
        while True:
            kind, end, _ = _HEADER.unpack_from(buffer, offset)
            offset += _HEADER.size
            if end:
                return found
            (number,) = _LENGTH.unpack_from(buffer, offset)
            offset += _LENGTH.size
            if kind == _ERROR:
                found.append(exceptions.EXCEPTIONS[number]())
                continue
            data = bytes(buffer[offset : offset + max(number, 0)])
            offset += max(number, 0)
            czxid, mzxid, _, _, version, _, _, owner, _, _, pzxid = _STAT.unpack_from(buffer, offset)
            offset += _STAT.size
            found.append((data, Stat(czxid, mzxid, version, owner, pzxid)))
