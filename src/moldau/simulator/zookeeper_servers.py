"""The simulated ZooKeeper, the servers' side: one order of transactions, servers that apply it late, sessions.

Writes are linear: the truth is one tree, changed all or nothing. Each server applies the same changes in the same
order after a drawn delay; reads are answered from its own tree, so they may lag, and a watch fires when its server
applies the change. A session ends when no server hears from it for its time-out, or by ``expire``; its ephemerals then
vanish, at once or a while later (ZOOKEEPER-1740). The client's side: zookeeper.py.
Source: ZooKeeper Programmer's Guide and Internals.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from moldau.model.named import NamedTuple
from moldau.ports.zookeeper import (
    BadVersion,
    CheckVersion,
    Create,
    Delete,
    Happened,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    SessionExpired,
    Set,
    Stat,
    ZooKeeperError,
)
from moldau.simulator.loop import OWNER, Owner


class ZnodeChange(NamedTuple):
    """What a transaction did to one znode. ``data`` None: it is gone. ``owner``: the session of an ephemeral one."""

    path: str
    data: bytes | None
    owner: int = 0
    new: bool = False


class Znode:
    """One znode of one server's tree."""

    __slots__ = ("born", "children", "created", "data", "mzxid", "owner", "pzxid", "version")

    def __init__(self, data: bytes, zxid: int, owner: int) -> None:
        self.data, self.owner = data, owner
        self.born = self.mzxid = self.pzxid = zxid
        self.version = self.created = 0
        self.children: set[str] = set()

    @property
    def stat(self) -> Stat:
        return Stat(self.born, self.mzxid, self.version, self.owner, self.pzxid)


class ZnodeTree:
    """Znodes by path."""

    def __init__(self) -> None:
        self.znodes: dict[str, Znode] = {"/": Znode(b"", 0, 0)}

    def at(self, path: str) -> Znode:
        znode = self.znodes.get(path)
        if znode is None:
            raise NoNode(path)
        return znode

    def apply(self, zxid: int, change: ZnodeChange) -> list[tuple[Happened, str]]:
        """Make a change that was found valid; return which watches fire."""
        path, above = change.path, parent(change.path)
        if change.data is None:
            del self.znodes[path]
            self.znodes[above].children.discard(path)
        elif change.new:
            self.znodes[path] = Znode(change.data, zxid, change.owner)
            self.znodes[above].children.add(path)
            self.znodes[above].created += 1
        else:
            znode = self.znodes[path]
            znode.data, znode.mzxid, znode.version = change.data, zxid, znode.version + 1
            return [(Happened.CHANGED, path)]
        self.znodes[above].pzxid = zxid
        return [(Happened.CREATED if change.new else Happened.DELETED, path), (Happened.CHILDREN, above)]


def parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


Watcher = Callable[[Happened, str], object]


class EnsembleServer:
    """One server: its tree, how far it is, and the watches that were left with it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tree = ZnodeTree()
        self.applied = 0
        self.lag_s = 0.002
        self.due_s = 0.0
        self.coming: deque[tuple[int, Sequence[ZnodeChange]]] = deque()
        """Transactions that were made and are not applied here yet, oldest first."""
        self.waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.watches: dict[tuple[bool, str], dict[Watcher, None]] = {}

    def watch(self, path: str, watcher: Watcher, *, children: bool) -> None:
        self.watches.setdefault((children, path), {})[watcher] = None

    def unwatch(self, watchers: set[Watcher]) -> None:
        """A connection is gone, and its watches with it."""
        for place in list(self.watches):
            self.watches[place] = {each: None for each in self.watches[place] if each not in watchers}
            if not self.watches[place]:
                del self.watches[place]

    def apply_next(self) -> None:
        """Apply the oldest one. A real loop rounds its timers: of two that are due in one millisecond either may fire
        first, and what they apply has to keep its order."""
        self.apply(*self.coming.popleft())

    def apply(self, zxid: int, changes: Sequence[ZnodeChange]) -> None:
        self.applied = zxid
        for change in changes:
            for happened, path in self.tree.apply(zxid, change):
                self._fire(happened, path)
        while self.waiting and self.waiting[0][0] <= zxid:
            _, caller = self.waiting.popleft()
            if not caller.done():
                caller.set_result(None)

    def reached(self, zxid: int) -> asyncio.Future[None]:
        """Done when this server has applied a transaction."""
        future = asyncio.get_running_loop().create_future()
        if zxid <= self.applied:
            future.set_result(None)
        else:
            self.waiting.append((zxid, future))
        return future

    def _fire(self, happened: Happened, path: str) -> None:
        hit = dict(self.watches.pop((happened is Happened.CHILDREN, path), {}))
        if happened is Happened.DELETED:
            hit |= self.watches.pop((True, path), {})
        for watcher in hit:
            watcher(happened, path)


ELECTION_S = (0.2, 0.2, 1.0, 3.0)
"""How long servers may take to agree on a leader."""


class ServerSession:
    """What the ensemble knows of a session."""

    def __init__(self, id: int, timeout_s: float, now_s: float) -> None:
        self.id, self.timeout_s, self.heard_s = id, timeout_s, now_s
        self.owner = OWNER.get()
        """The process that opened it."""
        self.hang_up: Callable[[], object] = lambda: None


Witness = Callable[[int, Sequence[Op], Sequence[ZnodeChange]], object]
"""(session, or 0 for the servers themselves; what was asked; what changed)."""


class SimEnsemble:
    """All servers. ``witnesses`` are called with every transaction as it is made.

    ``flaky``: the share of transactions whose answer is lost, and with it the connection; as many are lost before they
    are made.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, rng: random.Random, servers: int = 3) -> None:
        self.loop, self.rng = loop, rng
        self.owner = Owner("zookeeper")
        self.servers = [EnsembleServer(f"zookeeper-{n}") for n in range(1, servers + 1)]
        self.tree = ZnodeTree()
        self.zxid = 0
        self.sessions: dict[int, ServerSession] = {}
        self.opened: dict[int, ServerSession] = {}
        """All sessions that ever were."""
        self.witnesses: list[Witness] = []
        self.flaky = 0.0
        self.linger_s = 0.0
        """How long ephemeral znodes outlive a session that ran out."""
        self.timeouts_s = (0.0, float("inf"))
        """The shortest and the longest time-out that a session gets (minSessionTimeout, maxSessionTimeout)."""
        self.refuses: Callable[[str, str], bool] = lambda client, server: False
        """Whether nothing gets from one host to another now."""
        self._next_session = 1
        self._leads: EnsembleServer | None = self.servers[0]
        self._elected_s = 0.0

    def delay_s(self) -> float:
        return 0.0002 + 0.001 * self.rng.random()

    def loses(self) -> bool:
        """Whether a connection ends at this very moment."""
        return self.flaky > 0 and self.rng.random() < self.flaky

    # ---- who leads the servers

    def serves(self, server: EnsembleServer) -> bool:
        """Whether a server has a leader, and a majority behind it."""
        leader = self._leader()
        return leader is not None and self._reach(server, leader)

    def lose_leader(self, for_s: float) -> None:
        """No server serves for a while; then another leads. Session time-outs begin anew under the new leader."""
        self._leads = None
        self._elected_s = max(self._elected_s, self.loop.time() + for_s)

    def _leader(self) -> EnsembleServer | None:
        now_s = self.loop.time()
        if self._leads is not None and not self._has_majority(self._leads):
            self.lose_leader(self.rng.choice(ELECTION_S))
        if now_s < self._elected_s:
            return None
        if self._leads is None:
            able = [server for server in self.servers if self._has_majority(server)]
            if not able:
                self._elected_s = now_s + ELECTION_S[0]
                return None
            self._leads = self.rng.choice(able)
        return self._leads

    def _reach(self, one: EnsembleServer, other: EnsembleServer) -> bool:
        return one is other or not (self.refuses(one.name, other.name) or self.refuses(other.name, one.name))

    def _has_majority(self, server: EnsembleServer) -> bool:
        return 2 * sum(self._reach(server, other) for other in self.servers) > len(self.servers)

    # ---- sessions

    def open(self, timeout_s: float) -> ServerSession:
        shortest, longest = self.timeouts_s
        timeout_s = min(max(timeout_s, shortest), longest)
        session = ServerSession(0x1000_0000_0000 + self._next_session, timeout_s, self.loop.time())
        self._next_session += 1
        self.sessions[session.id] = self.opened[session.id] = session
        self._watch_over(session)
        return session

    def _watch_over(self, session: ServerSession) -> None:
        if session.id not in self.sessions:
            return
        if self._leader() is None:  # no leader counts time-outs; the next one starts from the beginning
            session.heard_s = self.loop.time()
        left_s = max(session.heard_s, self._elected_s) + session.timeout_s - self.loop.time()
        if left_s <= 0:
            self.expire(session.id, self.linger_s)
        else:
            self.loop.call_later(left_s, self._watch_over, session, context=self.owner.context)

    def expire(self, session_id: int, linger_s: float = 0.0) -> None:
        """End a session. Its ephemeral znodes stay for ``linger_s`` more."""
        session = self.sessions.pop(session_id, None)
        if session is None:
            return
        session.hang_up()
        if linger_s:
            self.loop.call_later(linger_s, self._clear, session_id, context=self.owner.context)
        else:
            self._clear(session_id)

    def _clear(self, session_id: int) -> None:
        mine = [path for path, znode in self.tree.znodes.items() if znode.owner == session_id]
        if mine:
            self.commit(0, [Delete(path=path) for path in mine])

    # ---- transactions

    def commit(self, session_id: int, ops: Sequence[Op]) -> list[Any]:
        """Make a transaction, all or nothing; the results, or the error of the first operation that fails.

        A path per Create, a Stat per Set, None for others. The leader makes none for a session that has ended, however
        long before that the request came.
        """
        if session_id and session_id not in self.sessions:
            raise SessionExpired(ops[0].path)
        changes: list[ZnodeChange] = []
        trial = _Trial(self.tree)
        results: list[Any] = [self._one(op, session_id, trial, changes) for op in ops]
        self.zxid += 1
        for change in changes:
            self.tree.apply(self.zxid, change)
        for witness in self.witnesses:
            witness(session_id, ops, changes)
        for server in self.servers:
            due_s = max(self.loop.time() + self.rng.random() * server.lag_s, server.due_s + 1e-7)
            server.due_s = due_s
            server.coming.append((self.zxid, changes))
            self.loop.call_at(due_s, server.apply_next, context=self.owner.context)
        return results

    def _one(self, op: Op, session_id: int, trial: _Trial, changes: list[ZnodeChange]) -> Any:
        if isinstance(op, Create):
            path = op.path
            if op.sequential:
                path += f"{trial.number(parent(path)):010d}"
            if path in trial:
                raise NodeExists(path)
            if parent(path) not in trial:
                raise NoNode(path)
            if trial.owner(parent(path)):
                raise ZooKeeperError(path, "an ephemeral znode has no children")
            owner = session_id if op.ephemeral else 0
            trial.create(path, owner)
            changes.append(ZnodeChange(path, op.data, owner, new=True))
            return path
        if op.path not in trial:
            raise NoNode(op.path)
        if op.version not in (-1, trial.version(op.path)):
            raise BadVersion(op.path)
        match op:
            case Set():
                trial.set(op.path)
                changes.append(ZnodeChange(op.path, op.data))
                return trial.stat(op.path, self.zxid + 1)
            case Delete():
                if trial.children(op.path):
                    raise NotEmpty(op.path)
                changes.append(ZnodeChange(op.path, None, trial.owner(op.path)))
                trial.delete(op.path)
            case CheckVersion():
                pass
        return None


class _Trial:
    """A tree as it would be in the middle of a transaction."""

    def __init__(self, tree: ZnodeTree) -> None:
        self._tree = tree
        self._there: dict[str, bool] = {}
        self._versions: dict[str, int] = {}
        self._owners: dict[str, int] = {}
        self._made: dict[str, int] = {}

    def __contains__(self, path: str) -> bool:
        return self._there.get(path, path in self._tree.znodes)

    def number(self, path: str) -> int:
        """The number that the next sequential child of a znode gets."""
        znode = self._tree.znodes.get(path)
        return (0 if znode is None else znode.created) + self._made.get(path, 0)

    def owner(self, path: str) -> int:
        return self._owners[path] if path in self._owners else self._tree.znodes[path].owner

    def version(self, path: str) -> int:
        return self._versions[path] if path in self._versions else self._tree.znodes[path].version

    def stat(self, path: str, zxid: int) -> Stat:
        """What is said of a znode that this transaction has set."""
        znode = None if path in self._owners else self._tree.znodes[path]
        return Stat(zxid if znode is None else znode.born, zxid, self.version(path), self.owner(path))

    def children(self, path: str) -> bool:
        known = self._tree.znodes.get(path)
        if known is not None and any(child in self for child in known.children):
            return True
        return any(there and parent(each) == path for each, there in self._there.items())

    def create(self, path: str, owner: int) -> None:
        self._there[path], self._versions[path], self._owners[path] = True, 0, owner
        self._made[parent(path)] = self._made.get(parent(path), 0) + 1

    def set(self, path: str) -> None:
        self._versions[path] = self.version(path) + 1

    def delete(self, path: str) -> None:
        self._there[path] = False
        self._versions.pop(path, None)
