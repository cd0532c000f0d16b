"""The simulator's ZooKeeper on a real event loop, for nodes in one process: sessions that a test breaks or ends.

What real servers do is held by the contract suite, which this very model passes too.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

from moldau.ports.zookeeper import ConnectionLoss, Create, Delete, Ensemble, NoAuth, Op, Set, Stat, Watch
from moldau.simulator.zookeeper import SimZooKeeper
from moldau.simulator.zookeeper_servers import SimEnsemble, Znode, parent

CONFIG = Ensemble(connect="model:2181", session_timeout_ms=18_000, connection_timeout_ms=18_000)


class Server:
    """The ensemble, without chroots. ``log`` has every transaction that was made: (session, operations)."""

    def __init__(self) -> None:
        self.log: list[tuple[int, list[Op]]] = []
        self.cut: set[str] = set()
        self.opened: list[Session] = []
        self.acls: dict[str, str] = {}
        """What sessions may do with a znode: create or delete in it, read, write (cdrw); everything where none is."""
        self.largest = 1 << 20
        """Bytes of data above which an operation is not answered: the server hangs up (jute.maxbuffer)."""
        self._ensemble: SimEnsemble | None = None

    @property
    def ensemble(self) -> SimEnsemble:
        if self._ensemble is None:
            self._ensemble = SimEnsemble(asyncio.get_running_loop(), random.Random(1))
            self._ensemble.refuses = lambda one, other: one in self.cut or other in self.cut
            self._ensemble.witnesses.append(lambda session, ops, _: self.log.append((session, list(ops))))
        return self._ensemble

    @property
    def znodes(self) -> dict[str, Znode]:
        return {} if self._ensemble is None else self._ensemble.tree.znodes

    def open(self, config: Ensemble = CONFIG) -> Session:
        self.opened.append(Session(self, f"client-{len(self.opened)}"))
        return self.opened[-1]

    def apply(self, session_id: int, ops: Sequence[Op]) -> list[Any]:
        """Make a transaction at once, whoever asks."""
        return self.ensemble.commit(session_id, ops)

    def allow(self, path: str, letter: str, about: str = "") -> None:
        """NoAuth, about a znode below it or itself, unless its ACL has the letter."""
        if letter not in self.acls.get(path, "cdrw"):
            raise NoAuth(about or path)

    def expire(self, session_id: int) -> None:
        """The session is over: its ephemerals vanish; its client hears of it soon."""
        for session in self.opened:
            if session.session_id == session_id:
                self.cut.discard(session.host)
        self.ensemble.expire(session_id)


class Session(SimZooKeeper):
    """One client. ``lose_answer``: the next transaction is made, and its answer lost."""

    def __init__(self, server: Server, host: str) -> None:
        super().__init__(server.ensemble, CONFIG, host)
        self.lose_answer = False
        self._server = server

    def suspend(self) -> None:
        """Its connection breaks, and no server is reached."""
        self._server.cut.add(self.host)
        self.broken()

    def heal(self) -> None:
        self._server.cut.discard(self.host)

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        self._server.allow(path, "r")
        return await super().get(path, watch)

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        if path in self._server.znodes:  # ZooKeeper 3.9 asks for the right to read here too (ZOOKEEPER-2590)
            self._server.allow(path, "r")
        return await super().exists(path, watch)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        self._server.allow(path, "r")
        return await super().children(path, watch)

    async def multi(self, ops: Sequence[Op]) -> list[str | Stat | None]:
        for op in ops:
            match op:
                case Create():
                    self._server.allow(parent(op.path), "c", op.path)
                case Delete():
                    self._server.allow(parent(op.path), "d", op.path)
                case Set():
                    self._server.allow(op.path, "w")
        if any(len(getattr(op, "data", b"")) > self._server.largest for op in ops):
            raise ConnectionLoss(ops[0].path)
        results = await super().multi(ops)
        if self.lose_answer:
            self.lose_answer = False
            raise ConnectionLoss(ops[0].path)
        return results
