"""The simulated ZooKeeper, the client's side: the port ``moldau.ports.zookeeper`` for one process, by a seed.

A connection carries calls and answers in order, each after a drawn delay. When it breaks, calls in flight have happened
or not, as the rng says, and their callers get ConnectionLoss; the session goes on with another server, which tells what
its watches missed, or learns that it is over. A dead process says nothing more, and its session runs out.
The servers: zookeeper_servers.py. The contract suite holds this to the real one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from moldau.ports.zookeeper import (
    CheckVersion,
    ConnectionLoss,
    Create,
    Delete,
    Ensemble,
    Happened,
    Link,
    NodeExists,
    NoNode,
    Op,
    SessionExpired,
    Set,
    Stat,
    Watch,
    ZooKeeperError,
)
from moldau.simulator.loop import OWNER
from moldau.simulator.zookeeper_servers import EnsembleServer, ServerSession, SimEnsemble

RETRY_S = 0.05
STALL_S = 0.05
"""How often a connection that carries nothing tries again."""


class _Armed:
    """A watch that waits; ``seen`` is the state in which it was left, to tell a later one from it."""

    def __init__(self, path: str, watch: Watch, *, children: bool) -> None:
        self.path, self.watch, self.children = path, watch, children
        self.seen: int | None = None


class ConnectionEnded(Exception):
    """The server ends the connection instead of answering."""


class _Wire:
    """One connection: what is sent arrives in order, later when the link carries nothing, never once it is cut."""

    def __init__(self, client: SimZooKeeper, server: EnsembleServer, session: ServerSession) -> None:
        self.client, self.server, self.session = client, server, session
        self.alive = True
        self.watchers: set[Callable[[Happened, str], object]] = set()
        self.requests: asyncio.Queue[Callable[[], Any]] = asyncio.Queue()
        self._due_s = {True: 0.0, False: 0.0}
        self._under_way: dict[bool, deque[Callable[[], object]]] = {True: deque(), False: deque()}
        ensemble = client.ensemble
        self.task = ensemble.loop.create_task(self._serve(), context=ensemble.owner.context.copy())

    def up(self, request: Callable[[], Any]) -> None:
        """Client to server."""
        self._carry(True, lambda: self.requests.put_nowait(request))

    def down(self, call: Callable[[], object]) -> None:
        """Server to client."""
        zxid = self.server.applied

        def arrive() -> None:
            if self.alive:
                self.client.zxid = max(self.client.zxid, zxid)
                call()

        self._carry(False, arrive)

    def _carry(self, up: bool, call: Callable[[], object]) -> None:
        ensemble = self.client.ensemble
        self._under_way[up].append(call)
        due_s = max(ensemble.loop.time() + ensemble.delay_s(), self._due_s[up] + 1e-7)
        self._due_s[up] = due_s
        ensemble.loop.call_at(due_s, self._arrive, up, context=ensemble.owner.context if up else self.client.context)

    def _arrive(self, up: bool) -> None:
        """Deliver the first message in flight, unless the link is cut in this direction: then it waits."""
        ensemble = self.client.ensemble
        ends = (self.client.host, self.server.name) if up else (self.server.name, self.client.host)
        if self.alive and ensemble.refuses(*ends):
            context = ensemble.owner.context if up else self.client.context
            ensemble.loop.call_later(STALL_S, self._arrive, up, context=context)
            return
        self._under_way[up].popleft()()

    async def _serve(self) -> None:
        """The server's end: requests one after the other, each answered before the next is looked at."""
        ensemble = self.client.ensemble
        while True:
            request = await self.requests.get()
            if not ensemble.serves(self.server):
                self.hang_up()
                return
            self.session.heard_s = ensemble.loop.time()
            if self.session.id in ensemble.sessions:
                try:
                    await request()
                except ConnectionEnded:
                    self.hang_up()
                    return

    def hang_up(self) -> None:
        """The server's end is gone; the client finds out as soon as anything gets to it."""
        self.server.unwatch(self.watchers)
        self.down(lambda: self.client.broken() if self.client.wire is self else None)

    def cut(self) -> None:
        """The connection is gone. What was on its way up may still arrive, as the rng says; nothing comes down."""
        if not self.alive:
            return
        self.alive = False
        self.server.unwatch(self.watchers)
        ensemble = self.client.ensemble
        ensemble.loop.call_later(
            0 if ensemble.rng.random() < 0.5 else 0.01, self.task.cancel, context=ensemble.owner.context
        )


class SimZooKeeper:
    """A session of the process whose context this is made in. ``host``: its name, for links that are cut."""

    def __init__(self, ensemble: SimEnsemble, config: Ensemble, host: str = "client") -> None:
        self.ensemble, self.host = ensemble, host
        self.zxid = 0
        owner = OWNER.get()
        self.context = None if owner is None else owner.context
        self._config = config
        self._root = "/" + config.connect.partition("/")[2].strip("/")
        self._listeners: list[Callable[[Link], object]] = []
        self._link = Link.LOST
        self._session: ServerSession | None = None
        self.wire: _Wire | None = None
        self._armed: dict[_Armed, None] = {}
        self._waiting: dict[asyncio.Future[Any], str] = {}
        self._heard_s = 0.0

    # ---- the session

    @property
    def session_id(self) -> int:
        return 0 if self._session is None else self._session.id

    @property
    def session_timeout_ms(self) -> int:
        return self._config.session_timeout_ms if self._session is None else round(self._session.timeout_s * 1000)

    def on_link(self, listener: Callable[[Link], object]) -> None:
        self._listeners.append(listener)

    async def start(self) -> None:
        await self._open()

    async def reopen(self) -> None:
        self._end()
        await self._open()

    async def stop(self) -> None:
        session, wire = self._session, self.wire
        self._end()
        if session is not None and wire is not None and not self.ensemble.refuses(self.host, wire.server.name):
            await asyncio.sleep(self.ensemble.delay_s())
            self.ensemble.expire(session.id)

    async def _open(self) -> None:
        loop = self.ensemble.loop
        deadline_s = loop.time() + self._config.connection_timeout_ms / 1000
        while (server := self._reachable()) is None:
            if loop.time() >= deadline_s:
                raise ConnectionLoss("/", f"no server of {self._config.connect} answered")
            await asyncio.sleep(RETRY_S)
        await asyncio.sleep(self.ensemble.delay_s())
        session = self._session = self.ensemble.open(self._config.session_timeout_ms / 1000)
        self._connect(server, session)
        await self._enter_root()
        if self.wire is not None:  # else it broke while the last answer was on its way, and comes back by itself
            self._say(Link.CONNECTED)
        self._ping(session)

    async def _enter_root(self) -> None:
        root, self._root = self._root, "/"
        path = ""
        try:
            for part in root.split("/")[1:]:
                path += f"/{part}"
                if part and await self.exists(path) is None:
                    with contextlib.suppress(NodeExists):
                        await self.create(path)
        finally:  # the connection may break meanwhile, and this session is opened again
            self._root = root

    def _connect(self, server: EnsembleServer, session: ServerSession) -> None:
        wire = self.wire = _Wire(self, server, session)
        session.heard_s = self._heard_s = self.ensemble.loop.time()
        session.hang_up = wire.hang_up
        self._link = Link.CONNECTED

    def _reachable(self) -> EnsembleServer | None:
        servers = [
            server
            for server in self.ensemble.servers
            if server.applied >= self.zxid
            and self.ensemble.serves(server)
            and not self.ensemble.refuses(self.host, server.name)
            and not self.ensemble.refuses(server.name, self.host)
        ]
        return self.ensemble.rng.choice(servers) if servers else None

    def _ping(self, session: ServerSession) -> None:
        """Ping six times in a time-out. Silence of the server for two thirds of it is a broken connection."""
        if self._session is not session:
            return
        wire, timeout_s = self.wire, session.timeout_s
        if wire is not None and self._link is Link.CONNECTED:
            wire.up(self._pong(wire))
            if self.ensemble.loop.time() - self._heard_s > timeout_s * 2 / 3:
                self.broken()
        self.ensemble.loop.call_later(timeout_s / 6, self._ping, session, context=self.context)

    def _pong(self, wire: _Wire) -> Callable[[], Any]:
        def heard() -> None:
            self._heard_s = self.ensemble.loop.time()

        async def answer() -> None:
            wire.down(heard)

        return answer

    def broken(self) -> None:
        """The connection breaks now."""
        wire, session = self.wire, self._session
        if wire is None or session is None:
            return
        wire.cut()
        self.wire = None
        self._fail(ConnectionLoss)
        self._say(Link.SUSPENDED)
        self.ensemble.loop.call_later(RETRY_S, self._again, session, context=self.context)

    def _again(self, session: ServerSession) -> None:
        if self._session is not session or self._link is not Link.SUSPENDED:
            return
        server = self._reachable()
        if server is None:
            self.ensemble.loop.call_later(RETRY_S, self._again, session, context=self.context)
        elif session.id not in self.ensemble.sessions:
            self._end()
            self._say(Link.LOST)
        else:
            self._connect(server, session)
            armed, self._armed = self._armed, {}
            for each in armed:
                self._look_again(each)
            self._say(Link.CONNECTED)

    def _look_again(self, armed: _Armed) -> None:
        """A watch on the new server, and what it missed."""
        wire = self.wire
        assert wire is not None

        async def look() -> None:
            now = self._seen(wire.server, armed)
            if now == armed.seen:
                self._leave(wire, armed)
                wire.down(lambda: self._armed.setdefault(armed))
            elif armed.seen is None:
                wire.down(lambda: armed.watch(Happened.CREATED, armed.path))
            elif now is None:
                wire.down(lambda: armed.watch(Happened.DELETED, armed.path))
            else:
                happened = Happened.CHILDREN if armed.children else Happened.CHANGED
                wire.down(lambda: armed.watch(happened, armed.path))

        wire.up(look)

    def _end(self) -> None:
        if self.wire is not None:
            self.wire.cut()
        self.wire = self._session = None
        self._link = Link.LOST
        self._armed.clear()
        self._fail(SessionExpired)

    def _fail(self, error: type[ZooKeeperError]) -> None:
        waiting, self._waiting = self._waiting, {}
        for answer, path in waiting.items():
            if not answer.done():
                answer.set_exception(error(path))

    def _say(self, link: Link) -> None:
        self._link = link
        for listener in self._listeners:
            listener(link)

    # ---- calls

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        def read(server: EnsembleServer) -> tuple[bytes, Stat]:
            znode = server.tree.at(self._full(path))
            return znode.data, znode.stat

        found: tuple[bytes, Stat] = await self._read(path, read, watch)
        return found

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        def read(server: EnsembleServer) -> Stat | None:
            znode = server.tree.znodes.get(self._full(path))
            return None if znode is None else znode.stat

        found: Stat | None = await self._read(path, read, watch)
        return found

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        def read(server: EnsembleServer) -> list[str]:
            return sorted(child.rpartition("/")[2] for child in server.tree.at(self._full(path)).children)

        found: list[str] = await self._read(path, read, watch, children=True)
        return found

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        answers = await asyncio.gather(*(self.get(path) for path in paths), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, NoNode):
                raise answer
        return [None if isinstance(answer, BaseException) else answer for answer in answers]

    async def create(
        self, path: str, data: bytes | None = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        (made,) = await self.multi([Create(path=path, data=data or b"", ephemeral=ephemeral, sequential=sequential)])
        return str(made)

    async def set(self, path: str, data: bytes, version: int = -1) -> Stat:
        (stat,) = await self.multi([Set(path=path, data=data, version=version)])
        assert isinstance(stat, Stat)
        return stat

    async def delete(self, path: str, version: int = -1) -> None:
        await self.multi([Delete(path=path, version=version)])

    async def multi(self, ops: Sequence[Op]) -> list[str | Stat | None]:
        if not ops:
            return []
        full = [self._rooted(op) for op in ops]

        async def write(wire: _Wire) -> list[str | Stat | None]:
            ensemble = self.ensemble
            await asyncio.sleep(ensemble.delay_s())
            if not ensemble.serves(wire.server) or ensemble.loses():
                raise ConnectionEnded
            results = ensemble.commit(wire.session.id, full)
            zxid = ensemble.zxid
            if ensemble.loses():
                raise ConnectionEnded
            await wire.server.reached(zxid)
            return [self._relative(result) for result in results]

        found: list[str | Stat | None] = await self._ask(ops[0].path, write)
        return found

    async def sync(self, path: str = "/") -> None:
        async def catch_up(wire: _Wire) -> None:
            await asyncio.sleep(self.ensemble.delay_s())
            await wire.server.reached(self.ensemble.zxid)

        await self._ask(path, catch_up)

    async def _read(
        self, path: str, read: Callable[[EnsembleServer], Any], watch: Watch | None, *, children: bool = False
    ) -> Any:
        armed = None if watch is None else _Armed(path, watch, children=children)

        async def look(wire: _Wire) -> Any:
            found = read(wire.server)
            if armed is not None:
                armed.seen = self._seen(wire.server, armed)
                self._leave(wire, armed)
            return found

        return await self._ask(path, look, armed)

    def _leave(self, wire: _Wire, armed: _Armed) -> None:
        """At the server: leave a watch."""

        def fire(happened: Happened) -> None:
            if armed in self._armed:
                del self._armed[armed]
                armed.watch(happened, armed.path)

        def heard(happened: Happened, _: str) -> None:
            wire.watchers.discard(heard)
            wire.down(lambda: fire(happened))

        if wire.alive:
            wire.watchers.add(heard)
            wire.server.watch(self._full(armed.path), heard, children=armed.children)

    def _seen(self, server: EnsembleServer, armed: _Armed) -> int | None:
        znode = server.tree.znodes.get(self._full(armed.path))
        if znode is None:
            return None
        return znode.pzxid if armed.children else znode.mzxid

    def _ask(self, path: str, request: Callable[[_Wire], Any], armed: _Armed | None = None) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = self.ensemble.loop.create_future()
        wire = self.wire
        if self._session is None:
            answer.set_exception(SessionExpired(path, "no session is open"))
            return answer
        if wire is None:
            answer.set_exception(ConnectionLoss(path))
            return answer
        self._waiting[answer] = path
        answer.add_done_callback(lambda a: self._waiting.pop(a, None))

        def land(error: ZooKeeperError | None, value: Any) -> None:
            self._heard_s = self.ensemble.loop.time()
            if answer.done():
                return
            if error is not None:
                answer.set_exception(type(error)(self._relative(error.path)))
                return
            if armed is not None:
                self._armed[armed] = None
            answer.set_result(value)

        async def handle() -> None:
            try:
                value = await request(wire)
            except ZooKeeperError as error:
                failed = error
                wire.down(lambda: land(failed, None))
            else:
                wire.down(lambda: land(None, value))

        wire.up(handle)
        return answer

    def _full(self, path: str) -> str:
        return path if self._root == "/" else (self._root + path).rstrip("/")

    def _relative(self, path: Any) -> Any:
        return path.removeprefix(self._root) if isinstance(path, str) and self._root != "/" else path

    def _rooted(self, op: Op) -> Op:
        path = self._full(op.path)
        match op:
            case Create():
                return Create(path=path, data=op.data, ephemeral=op.ephemeral, sequential=op.sequential)
            case Set():
                return Set(path=path, data=op.data, version=op.version)
            case Delete():
                return Delete(path=path, version=op.version)
            case CheckVersion():
                return CheckVersion(path=path, version=op.version)
