"""The port ``moldau.ports.zookeeper`` on a real ensemble, through kazoo. All that happens, happens on the loop.

The connection's thread only hands over; its order is kept, so that a watch fires before any later read shows the
change. When a connection breaks and the session lives on, what every watch waits for is looked at again before anybody
else's call goes out. A call without an answer is ConnectionLoss and never repeated here: only the caller knows whether
it may be. Read next: link.py (the client), connect.py.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from kazoo import exceptions

from moldau.ports.zookeeper import (
    CheckVersion,
    ConnectionLoss,
    Create,
    Delete,
    Ensemble,
    Happened,
    Link,
    NoAuth,
    NodeExists,
    NoNode,
    Op,
    SessionExpired,
    Set,
    Stat,
    Watch,
    ZooKeeperError,
)
from moldau.zookeeper.connect import parse_connect
from moldau.zookeeper.link import NOT_THE_CAUSE, ReadMany, TooOld, ZooKeeperClient, translated

log = logging.getLogger(__name__)

PIPELINE = 500
"""Reads in one request, or under way at once: below the thousand at which a server begins to throttle."""

REPORTS = 12
"""How often in a session's time the loop says that it goes on."""

_HAPPENED = {
    "CREATED": Happened.CREATED,
    "DELETED": Happened.DELETED,
    "CHANGED": Happened.CHANGED,
    "CHILD": Happened.CHILDREN,
}


class _Armed:
    """A watch that waits. ``seen``: what the read that left it saw, None for a znode that was not there.

    ``landed``: whether that read's answer was told; ``early``: what happened before it was.
    """

    __slots__ = ("children", "early", "landed", "path", "seen", "watch")

    def __init__(self, path: str, watch: Watch, *, children: bool) -> None:
        self.path = path
        self.watch = watch
        self.children = children
        self.seen: int | None = None
        self.landed = False
        self.early: Happened | None = None


class Session:
    """A session with an ensemble; see the port for what each call promises."""

    def __init__(self, ensemble: Ensemble) -> None:
        connect = parse_connect(ensemble.connect)
        self._chroot = connect.chroot
        self._hosts = ",".join(f"[{h}]:{p}" if ":" in h else f"{h}:{p}" for h, p in connect.hosts)
        self._ensemble = ensemble
        self._listeners: list[Callable[[Link], object]] = []
        self._client: ZooKeeperClient | None = None
        self._link = Link.LOST
        self._armed: dict[_Armed, None] = {}
        self._waiting: dict[asyncio.Future[Any], str] = {}
        self._first: asyncio.Future[None] | None = None
        self._old_servers = False

    # ---- the session

    @property
    def session_id(self) -> int:
        return 0 if self._client is None or self._client._session_id is None else self._client._session_id

    @property
    def session_timeout_ms(self) -> int:
        return self._ensemble.session_timeout_ms if self._client is None else self._client.session_timeout_ms

    @property
    def password(self) -> bytes:
        """With the id, what makes another connection part of this session."""
        return b"" if self._client is None else self._client._session_passwd

    def on_link(self, listener: Callable[[Link], object]) -> None:
        self._listeners.append(listener)

    async def start(self) -> None:
        assert self._client is None, "a session is started once, and reopened when it was lost"
        await self._open()

    async def reopen(self) -> None:
        self._forget()
        await self._open()

    async def stop(self) -> None:
        client = self._detached()
        if client is not None:
            await asyncio.get_running_loop().run_in_executor(None, client.leave)

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        timeout_ms = self._ensemble.connection_timeout_ms
        first = self._first = loop.create_future()

        def told(state: str) -> None:
            _hand_over(loop, self._told, client, state)

        client = self._client = ZooKeeperClient(self._hosts, self._ensemble.session_timeout_ms, told)
        self._report_alive(loop, client)
        client.start_async()
        try:
            await asyncio.wait_for(first, timeout_ms / 1000)
            await self._enter_chroot(client)
        except TimeoutError:
            self._forget()
            why = f"no server of {self._ensemble.connect} answered in {timeout_ms} ms (zookeeper.connection.timeout.ms)"
            raise ConnectionLoss("/", why) from None
        except BaseException:
            self._forget()
            raise
        finally:
            self._first = None
        self._say(Link.CONNECTED)

    def _report_alive(self, loop: asyncio.AbstractEventLoop, client: ZooKeeperClient) -> None:
        """Say on the loop that the loop goes on: the session is kept alive for us, not for the connection's thread."""
        if client is self._client:
            client.report_alive()
            loop.call_later(client.session_timeout_ms / 1000 / REPORTS, self._report_alive, loop, client)

    async def _enter_chroot(self, client: ZooKeeperClient) -> None:
        """Create the chroot if nobody has, as Kafka does."""
        path = ""
        for part in self._chroot.split("/")[1:]:
            path += f"/{part}"
            if await self._ask(path, client.exists_async(path)) is None:
                log.info("creating %s, the chroot of zookeeper.connect", path)
                try:
                    await self._ask(path, client.create_async(path, b""))
                except NodeExists:
                    pass
                except NoAuth as error:
                    raise NoAuth(path, "the chroot of zookeeper.connect may not be created by us") from error
        client.chroot = self._chroot

    def _forget(self) -> None:
        """Have nothing to do with the present client any more; it leaves in its own time."""
        client = self._detached()
        if client is not None:
            threading.Thread(target=client.leave, name="zookeeper leave", daemon=True).start()

    def _detached(self) -> ZooKeeperClient | None:
        client, self._client = self._client, None
        self._link = Link.LOST
        self._armed.clear()
        for answer, path in list(self._waiting.items()):
            if not answer.done():
                answer.set_exception(SessionExpired(path, "the session is over"))
        self._waiting.clear()
        return client

    # ---- the link

    def _told(self, client: ZooKeeperClient, state: str) -> None:
        if client is not self._client:
            return
        if state == "LOST":
            if self._first is not None and not self._first.done():
                self._first.set_exception(NoAuth("/", "the servers refuse us"))
                return
            self._forget()
            self._say(Link.LOST)
        elif state == "SUSPENDED":
            self._link = Link.SUSPENDED
            self._say(Link.SUSPENDED)
        elif self._first is not None:
            client.mended()
            if not self._first.done():
                self._first.set_result(None)
        else:
            self._mend(client)

    def _mend(self, client: ZooKeeperClient) -> None:
        """The session lives on, on another connection, which knows of no watch: look at what each of them waits for.

        These reads are first in line, so that whoever reads a change now has been told of it before.
        """
        client.mended()
        looks = [self._look_again(client, each) for each in self._armed]

        def looked(_: object) -> None:
            if client is self._client and not client.over and self._link is Link.SUSPENDED:
                self._say(Link.CONNECTED)

        asyncio.gather(*looks, return_exceptions=True).add_done_callback(looked) if looks else looked(None)

    def _look_again(self, client: ZooKeeperClient, armed: _Armed) -> asyncio.Future[Any]:  # Any: an answer of ZooKeeper
        """Read again what a watch waits for, and leave it. When this connection breaks too, it is still waited for."""
        watcher = self._watcher(client, armed)

        def landed(found: Any) -> None:
            now = _seen(found, children=armed.children)
            if now == armed.seen:
                return
            if armed.seen is None:
                self._fire(client, armed, Happened.CREATED)
            elif now is None:
                self._fire(client, armed, Happened.DELETED)
            else:
                self._fire(client, armed, Happened.CHILDREN if armed.children else Happened.CHANGED)

        def failed(answer: asyncio.Future[Any]) -> None:
            error = None if answer.cancelled() else answer.exception()
            if isinstance(error, NoNode):
                landed(None)
            elif error is not None and not isinstance(error, ConnectionLoss | SessionExpired):
                self._fire(client, armed, Happened.CHANGED)  # no watch was left: who reads now meets the error

        if armed.children:
            asked = client.get_children_async(armed.path, watcher, include_data=True)
        else:
            asked = client.exists_async(armed.path, watcher)
        answer = self._ask(armed.path, asked, landed)
        answer.add_done_callback(failed)
        return answer

    def _say(self, link: Link) -> None:
        self._link = link
        for listener in self._listeners:
            listener(link)

    # ---- calls

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        client = self._live(path)
        armed, watcher = self._arm(client, path, watch, children=False)
        data, stat = await self._ask(path, client.get_async(path, watcher), armed)
        return data or b"", _stat(stat)

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        client = self._live(path)
        armed, watcher = self._arm(client, path, watch, children=False)
        stat = await self._ask(path, client.exists_async(path, watcher), armed)
        return None if stat is None else _stat(stat)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        client = self._live(path)
        armed, watcher = self._arm(client, path, watch, children=True)
        names, _ = await self._ask(path, client.get_children_async(path, watcher, include_data=True), armed)
        return sorted(names)

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        found: list[tuple[bytes, Stat] | None] = []
        for at in range(0, len(paths), PIPELINE):
            some = paths[at : at + PIPELINE]
            for path, answer in zip(some, await self._read_some(some), strict=True):
                if not isinstance(answer, BaseException):
                    found.append(answer)
                elif isinstance(answer, NoNode | exceptions.NoNodeError):
                    found.append(None)
                else:
                    raise answer if isinstance(answer, ZooKeeperError) else translated(answer, path)
        return found

    async def _read_some(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | BaseException]:
        client = self._live(paths[0])
        if not self._old_servers:
            asked = client.handler.async_result()
            client._call(ReadMany([self._chroot + path for path in paths]), asked)
            try:
                answers: list[tuple[bytes, Stat] | BaseException] = await self._ask(paths[0], asked)
                return answers
            except TooOld:
                log.info("the servers of %s are older than 3.6: they are read znode by znode", self._ensemble.connect)
                self._old_servers = True
        return await asyncio.gather(*(self.get(path) for path in paths), return_exceptions=True)

    async def create(
        self, path: str, data: bytes | None = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        client = self._live(path)
        asked = client.create_async(path, data, ephemeral=ephemeral, sequence=sequential)
        return str(await self._ask(path, asked))

    async def set(self, path: str, data: bytes, version: int = -1) -> Stat:
        client = self._live(path)
        return _stat(await self._ask(path, client.set_async(path, data, version)))

    async def delete(self, path: str, version: int = -1) -> None:
        client = self._live(path)
        await self._ask(path, client.delete_async(path, version))

    async def multi(self, ops: Sequence[Op]) -> list[str | Stat | None]:
        if not ops:
            return []
        client = self._live(ops[0].path)
        transaction = client.transaction()
        for op in ops:
            match op:
                case Create():
                    transaction.create(op.path, op.data, ephemeral=op.ephemeral, sequence=op.sequential)
                case Set():
                    transaction.set_data(op.path, op.data, op.version)
                case Delete():
                    transaction.delete(op.path, op.version)
                case CheckVersion():
                    transaction.check(op.path, op.version)
        results = await self._ask(ops[0].path, transaction.commit_async())
        failed = [
            (op, each)
            for op, each in zip(ops, results, strict=True)
            if isinstance(each, Exception) and not isinstance(each, NOT_THE_CAUSE)
        ]
        if failed:
            op, error = failed[0]
            raise translated(error, op.path)
        if any(isinstance(each, Exception) for each in results):
            raise ZooKeeperError(ops[0].path, f"the transaction failed: {results}")
        return [_result(op, each) for op, each in zip(ops, results, strict=True)]

    async def sync(self, path: str = "/") -> None:
        client = self._live(path)
        await self._ask(path, client.sync_async(path))

    # ---- between the threads

    def _live(self, path: str) -> ZooKeeperClient:
        if self._client is None:
            raise SessionExpired(path, "no session is open")
        return self._client

    def _ask(self, path: str, result: Any, landed: Callable[[Any], object] | None = None) -> asyncio.Future[Any]:
        """The answer to a call of kazoo's. ``landed`` is told of a good one on the loop, before anything later is."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        self._waiting[answer] = path
        answer.add_done_callback(lambda a: self._waiting.pop(a, None))

        def land() -> None:
            if answer.done():
                return
            error = result.exception
            if isinstance(error, exceptions.UnimplementedError):
                answer.set_exception(TooOld(path))
                return
            if error is not None:
                answer.set_exception(translated(error, path))
                return
            if landed is not None:
                landed(result.value)
            answer.set_result(result.value)

        result.rawlink(lambda _: _hand_over(loop, land))
        return answer

    def _arm(
        self, client: ZooKeeperClient, path: str, watch: Watch | None, *, children: bool
    ) -> tuple[Callable[[Any], object] | None, Callable[[Any], object] | None]:
        """What to do with the answer, and kazoo's watcher, for a read that leaves a watch."""
        if watch is None:
            return None, None
        armed = _Armed(path, watch, children=children)

        def landed(found: Any) -> None:
            armed.seen = _seen(found, children=children)
            armed.landed = True
            self._armed[armed] = None
            if armed.early is not None:
                self._fire(client, armed, armed.early)

        return landed, self._watcher(client, armed)

    def _watcher(self, client: ZooKeeperClient, armed: _Armed) -> Callable[[Any], object]:  # Any: an event of ZooKeeper
        loop = asyncio.get_running_loop()

        def heard(event: Any) -> None:
            happened = _HAPPENED.get(event.type)
            if happened is not None:  # else: the connection broke, which is told otherwise
                _hand_over(loop, self._fire, client, armed, happened)

        return heard

    def _fire(self, client: ZooKeeperClient, armed: _Armed, happened: Happened) -> None:
        """Tell a watch what it waited for, once. An event may be handed over before its own read's answer: the answer
        came, and the event after it, before anybody had asked kazoo to be told of the answer."""
        if client is not self._client:
            return
        if not armed.landed:
            armed.early = happened
        elif armed in self._armed:
            del self._armed[armed]
            armed.watch(happened, armed.path)


def _hand_over(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *args: object) -> None:
    """From the connection's thread to the loop."""
    try:
        loop.call_soon_threadsafe(call, *args)
    except RuntimeError:
        assert loop.is_closed()  # the node has stopped, and nobody waits any more


def _seen(found: Any, *, children: bool) -> int | None:
    """What tells one state of a znode, or of its list of children, from another: a transaction id."""
    stat = found[1] if isinstance(found, tuple) and len(found) == 2 else found
    if stat is None:
        return None
    return int(stat.pzxid if children else stat.mzxid)


def _stat(stat: Any) -> Stat:
    return Stat(stat.czxid, stat.mzxid, stat.version, stat.ephemeralOwner, stat.pzxid)


def _result(op: Op, result: Any) -> str | Stat | None:
    match op:
        case Create():
            return str(result)
        case Set():
            return _stat(result)
        case _:
            return None
