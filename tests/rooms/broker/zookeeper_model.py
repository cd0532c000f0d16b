"""ZooKeeper in memory, behind the port: znodes, ephemerals, watches, transactions, sessions that break or expire.

For nodes in one process. Every call takes a turn of the loop; a watch fires before the answer of the call that set it
off. What real servers do is held by the contract suite.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from moldau.ports.zookeeper import (
    BadVersion,
    Check,
    ConnectionLoss,
    Create,
    Delete,
    Ensemble,
    Happened,
    Link,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    SessionExpired,
    Set,
    Stat,
    Watch,
)


class Znode:
    def __init__(self, data: bytes, zxid: int, owner: int) -> None:
        self.data = data
        self.stat = Stat(zxid, zxid, 0, owner)


class Server:
    """The ensemble. ``log`` has every transaction that was made: (session, operations)."""

    def __init__(self) -> None:
        self.znodes: dict[str, Znode] = {"/": Znode(b"", 0, 0)}
        self.zxid = 0
        self.sequence = 0
        self.sessions: dict[int, Session] = {}
        self.log: list[tuple[int, list[Op]]] = []
        self.down = False
        self._watches: list[tuple[str, str, Session, Watch]] = []

    def open(self, ensemble: Ensemble) -> Session:
        return Session(self)

    def expire(self, session_id: int) -> None:
        """The session is over: its ephemerals vanish, its client hears of it."""
        session = self.sessions.pop(session_id)
        for path in [path for path, znode in self.znodes.items() if znode.stat.ephemeral_owner == session_id]:
            self.apply(0, [Delete(path=path)])
        self._watches = [each for each in self._watches if each[2] is not session]
        session.session_id = 0
        session.tell(Link.LOST)

    def watch(self, kind: str, path: str, session: Session, watch: Watch | None) -> None:
        if watch is not None:
            self._watches.append((kind, path, session, watch))

    def apply(self, session_id: int, ops: Sequence[Op]) -> list[Any]:
        """All or nothing; the error of the first that fails."""
        before = {path: (znode.data, znode.stat) for path, znode in self.znodes.items()}
        fired: list[tuple[Happened, str]] = []
        results: list[Any] = []
        self.zxid += 1
        try:
            for op in ops:
                results.append(self._one(op, session_id, fired))
        except Exception:
            self.znodes = {}
            for path, (data, stat) in before.items():
                self.znodes[path] = Znode(data, stat.czxid, stat.ephemeral_owner)
                self.znodes[path].stat = stat
            raise
        self.log.append((session_id, list(ops)))
        for happened, path in fired:
            self._fire(happened, path)
        return results

    def _one(self, op: Op, session_id: int, fired: list[tuple[Happened, str]]) -> Any:
        if isinstance(op, Create):
            return self._create(op, session_id, fired)
        znode = self.znodes.get(op.path)
        if znode is None:
            raise NoNode(op.path)
        if op.version not in (-1, znode.stat.version):
            raise BadVersion(op.path)
        if isinstance(op, Set):
            znode.data = op.data
            znode.stat = znode.stat._replace(mzxid=self.zxid, version=znode.stat.version + 1)
            fired.append((Happened.CHANGED, op.path))
            return znode.stat
        if isinstance(op, Delete):
            if any(path.startswith(op.path + "/") for path in self.znodes):
                raise NotEmpty(op.path)
            del self.znodes[op.path]
            fired += [(Happened.DELETED, op.path), (Happened.CHILDREN, op.path.rpartition("/")[0] or "/")]
            return None
        assert isinstance(op, Check)
        return None

    def _create(self, op: Create, session_id: int, fired: list[tuple[Happened, str]]) -> str:
        path = op.path
        if op.sequential:
            self.sequence += 1
            path += f"{self.sequence:010d}"
        parent = path.rpartition("/")[0] or "/"
        if parent not in self.znodes:
            raise NoNode(path)
        if path in self.znodes:
            raise NodeExists(path)
        self.znodes[path] = Znode(op.data, self.zxid, session_id if op.ephemeral else 0)
        fired += [(Happened.CREATED, path), (Happened.CHILDREN, parent)]
        return path

    def _fire(self, happened: Happened, path: str) -> None:
        kinds = {"children"} if happened is Happened.CHILDREN else {"data"}
        if happened is Happened.DELETED:
            kinds.add("children")
        hit = [each for each in self._watches if each[1] == path and each[0] in kinds]
        self._watches = [each for each in self._watches if each not in hit]
        for _, _, session, watch in hit:
            if session.session_id in self.sessions:
                watch(happened, path)

    def children(self, path: str) -> list[str]:
        if path not in self.znodes:
            raise NoNode(path)
        prefix = path.rstrip("/") + "/"
        return sorted(p[len(prefix) :] for p in self.znodes if p.startswith(prefix) and "/" not in p[len(prefix) :])


class Session:
    """One client. ``lose_answer``: the next transaction is made, and its answer lost."""

    ids = 0x1000

    def __init__(self, server: Server) -> None:
        self._server = server
        self._listeners: list[Callable[[Link], object]] = []
        self.session_id = 0
        self.suspended = False
        self.lose_answer = False

    def tell(self, link: Link) -> None:
        for listener in self._listeners:
            listener(link)

    def suspend(self) -> None:
        self.suspended = True
        self.tell(Link.SUSPENDED)

    def heal(self) -> None:
        self.suspended = False
        self.tell(Link.CONNECTED)

    async def start(self) -> None:
        await asyncio.sleep(0)
        if self._server.down:
            raise ConnectionLoss("/")
        Session.ids += 1
        self.session_id = Session.ids
        self._server.sessions[self.session_id] = self

    async def reopen(self) -> None:
        self.suspended = False
        await self.start()

    async def stop(self) -> None:
        self._listeners.clear()
        if self.session_id in self._server.sessions:
            self._server.expire(self.session_id)

    def on_link(self, listener: Callable[[Link], object]) -> None:
        self._listeners.append(listener)

    async def _turn(self, path: str) -> None:
        await asyncio.sleep(0)
        if self.session_id not in self._server.sessions:
            raise SessionExpired(path)
        if self.suspended or self._server.down:
            raise ConnectionLoss(path)

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        await self._turn(path)
        znode = self._server.znodes.get(path)
        if znode is None:
            raise NoNode(path)
        self._server.watch("data", path, self, watch)
        return znode.data, znode.stat

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        await self._turn(path)
        self._server.watch("data", path, self, watch)
        znode = self._server.znodes.get(path)
        return None if znode is None else znode.stat

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        await self._turn(path)
        found = self._server.children(path)
        self._server.watch("children", path, self, watch)
        return found

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        await self._turn(paths[0] if paths else "/")
        found = [self._server.znodes.get(path) for path in paths]
        return [None if znode is None else (znode.data, znode.stat) for znode in found]

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> str:
        op = Create(path=path, data=data, ephemeral=ephemeral, sequential=sequential)
        return str((await self.multi([op]))[0])

    async def set(self, path: str, data: bytes, version: int = -1) -> Stat:
        stat = (await self.multi([Set(path=path, data=data, version=version)]))[0]
        assert isinstance(stat, Stat)
        return stat

    async def delete(self, path: str, version: int = -1) -> None:
        await self.multi([Delete(path=path, version=version)])

    async def multi(self, ops: Sequence[Op]) -> list[str | Stat | None]:
        await self._turn(ops[0].path if ops else "/")
        results = self._server.apply(self.session_id, ops)
        if self.lose_answer:
            self.lose_answer = False
            raise ConnectionLoss(ops[0].path)
        return results

    async def sync(self, path: str = "/") -> None:
        await self._turn(path)
