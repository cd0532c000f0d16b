"""Decisions into znodes: what the controller proposed, in order, in transactions that a deposed controller cannot make.

Every transaction checks the version of /controller_epoch (laws Z1, Z4); a proposal is whole in one, and small
ones share one. An answer that never came is asked for again: a transaction that had been made then fails, which its
znodes tell; whoever cannot tell becomes active anew, which reads the truth. What a record is in znodes:
``moldau.zookeeper.writing``.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from moldau.broker.host import Host
from moldau.broker.zookeeper.folders import make_again
from moldau.broker.zookeeper.parts import WriterPlane
from moldau.image import Image
from moldau.model import Code
from moldau.model.named import NamedTuple
from moldau.ports import Handle
from moldau.ports.zookeeper import (
    BadVersion,
    CheckVersion,
    ConnectionLoss,
    Delete,
    NoAuth,
    NoNode,
    NotEmpty,
    Op,
    SessionExpired,
    ZooKeeperError,
)
from moldau.wire.schema import Message
from moldau.zookeeper import paths
from moldau.zookeeper.known_znodes import KnownZnodes
from moldau.zookeeper.lost_answers import was_made
from moldau.zookeeper.payload import ZNODE_MAX
from moldau.zookeeper.writing import operations

log = logging.getLogger(__name__)

OPS_MAX = 1_000
BYTES_MAX = ZNODE_MAX
OP_BYTES = 60
LOSSES_MAX = 8
"""How often one large transaction is lost, with a connection after each, until it is given up."""
EMPTIED_MAX = 100
"""How often what another client keeps putting below a znode that is to go is removed first."""
LARGE_BYTES = 1 << 13
"""No server's jute.maxbuffer is smaller: what has fewer bytes was lost by the net, and is written again for ever."""


Seal = Callable[[int], Sequence[Op]]


class ProposedWrite(NamedTuple):
    """What was proposed: records, the offset of the last, operations."""

    records: Sequence[Message]
    offset: int
    ops: Sequence[Op]


class Writer:
    """Writes what the active controller decides; closed while this node is not. ``plane`` is told how it went."""

    def __init__(self, node: Host, plane: WriterPlane, seal: Seal | None = None) -> None:
        """``seal``: operations that end each transaction which writes anything, given the offset that it reaches; the
        records are agreed elsewhere already, then."""
        self._node = node
        self._plane = plane
        self._seal = seal
        self._queue: deque[ProposedWrite] = deque()
        self._epoch = -1
        self._version = -1
        self._image = Image()
        self._task: Handle | None = None
        self._news = asyncio.Event()
        self.known_znodes = KnownZnodes()
        """The znodes as they will be when all that was proposed is written."""

    def open(self, epoch: int, epoch_version: int, known_znodes: KnownZnodes) -> None:
        """Begin to write under an epoch, from the committed image as it is now and what stands in ZooKeeper."""
        self.close()
        self._epoch, self._version, self.known_znodes = epoch, epoch_version, known_znodes
        self._image = self._node.metadata.image.copy()
        self._task = self._node.world.tasks.spawn(self._write(), "znode writer")

    def close(self) -> None:
        """Write nothing more; what is queued never happened."""
        self._queue.clear()
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def propose(self, records: Sequence[Message], offset: int) -> None:
        """Queue a decision; what it means in znodes is worked out now, after all that was proposed before."""
        ops = operations(records, self._image, self.known_znodes, self._epoch, later=self._seal is not None)
        self._image.apply_all(records)
        self.put(ops, offset, records)

    def put(self, ops: Sequence[Op], offset: int, records: Sequence[Message] = ()) -> None:
        """Queue operations that were worked out already."""
        self.known_znodes.applied(ops)
        self._queue.append(ProposedWrite(records, offset, ops))
        self._news.set()

    @property
    def is_open(self) -> bool:
        """Whether decisions are taken for writing."""
        return self._task is not None

    @property
    def guard(self) -> CheckVersion | None:
        """What every transaction of this controller role begins with; None when we hold none."""
        return None if self._task is None else CheckVersion(path=paths.CONTROLLER_EPOCH, version=self._version)

    @property
    def idle(self) -> bool:
        """Whether all that was proposed is committed."""
        return not self._queue

    async def _write(self) -> None:
        while True:
            if not self._queue:
                self._news.clear()
                await self._news.wait()
                continue
            count, ops = self._next()
            if self._seal is not None and ops:
                ops += self._seal(self._queue[count - 1].offset)
            if (ops or self._seal is None) and not await self._commit(ops):
                return
            for _ in range(count):
                done = self._queue[0]
                await self._plane.deliver(done.records, done.offset, self._epoch)
                self._queue.popleft()

    def _next(self) -> tuple[int, list[Op]]:
        """As many proposals as go into one transaction, one at least."""
        ops: list[Op] = []
        size = 0
        count = 0
        for proposal in self._queue:
            size += sum(map(_size, proposal.ops))
            if count and (size > BYTES_MAX or len(ops) + len(proposal.ops) > OPS_MAX):
                break
            ops += proposal.ops
            count += 1
        return count, ops

    async def _commit(self, ops: Sequence[Op]) -> bool:
        """Make the transaction, in pieces only if it is too large for one; False when this controller role is over."""
        for piece in _pieces(ops):
            lost = emptied = mended = 0
            full: str | None = None
            while True:
                try:
                    if mended == 1:  # once a piece
                        mended = 2
                        await make_again(self._plane.zk)
                    if full is not None:
                        await self._empty(full, piece)
                        full = None
                    await self._plane.zk.multi(
                        [CheckVersion(path=paths.CONTROLLER_EPOCH, version=self._version), *piece]
                    )
                    break
                except ConnectionLoss:
                    lost += 1
                    if not await self._plane.connected():
                        return False
                    # A bad network loses small ones as well, and those may go on.
                    large = sum(map(_size, piece)) > LARGE_BYTES
                    if large and lost >= LOSSES_MAX and not await self._was_made(piece):
                        self._hopeless(piece)
                        return False
                except SessionExpired:
                    return False  # the plane hears of it by the link
                except ZooKeeperError as error:
                    if isinstance(error, BadVersion) and error.path == paths.CONTROLLER_EPOCH:
                        self._plane.deposed("another controller has been elected since")
                    elif lost and await self._was_made(piece):
                        break
                    elif isinstance(error, NotEmpty) and emptied < EMPTIED_MAX:
                        full, emptied = error.path, emptied + 1
                        continue
                    elif isinstance(error, NoNode) and not mended:
                        mended = 1  # perhaps somebody removed the folder that it is to lie in
                        continue
                    elif isinstance(error, NoAuth):
                        self._denied(error)
                    else:
                        self._plane.deposed(f"the znodes are not what they were: {error}")
                    return False
        return True

    async def _empty(self, path: str, piece: Sequence[Op]) -> None:
        """Remove what another client has put below a znode that goes: it goes with it, as in Kafka. The next controller
        would find it there too, and give the controller role up over it as this one."""
        own = {op.path for op in piece if isinstance(op, Delete)}
        foreign = [one for one in await self._below(path) if one not in own]
        log.warning("%s goes, and what another client put below it: %s", path, ", ".join(foreign[:3]))
        guard = CheckVersion(path=paths.CONTROLLER_EPOCH, version=self._version)
        for at in range(0, len(foreign), OPS_MAX):
            await self._plane.zk.multi([guard, *(Delete(path=one) for one in foreign[at : at + OPS_MAX])])

    async def _below(self, path: str) -> list[str]:
        """All znodes below one, each after its own children."""
        found: list[str] = []
        left = [path]
        while left:
            at = left.pop()
            with suppress(NoNode):
                names = await self._plane.zk.children(at)
                left += [f"{at}/{name}" for name in names]
                found += [f"{at}/{name}" for name in names]
        return sorted(found, key=lambda one: -one.count("/"))

    async def _was_made(self, ops: Sequence[Op]) -> bool:
        """Whether a transaction whose answer was lost was made after all; False when nobody can tell."""
        while True:
            try:
                return await was_made(self._plane.zk, ops)
            except ConnectionLoss:
                if not await self._plane.connected():
                    return False
            except ZooKeeperError:
                return False

    def _hopeless(self, piece: Sequence[Op]) -> None:
        """Servers hang up on this transaction again and again, and answer others: it is larger than they take. Whoever
        asked for it is not told that it failed: one of the lost ones may yet have been made."""
        largest = max(piece, key=_size)
        found = (p.offset for p in self._queue if any(op.path == largest.path for op in p.ops))
        why = (
            f"ZooKeeper hangs up on a write of {sum(map(_size, piece))} bytes, {_size(largest)} of them {largest.path}"
        )
        self._plane.denied(next(found, -1), f"{why}: is that more than its jute.maxbuffer?", Code.REQUEST_TIMED_OUT)

    def _denied(self, error: NoAuth) -> None:
        """An ACL is in the way: say which decision it is about."""
        found = (p.offset for p in self._queue if any(op.path == error.path for op in p.ops))
        self._plane.denied(next(found, -1), f"ZooKeeper refuses a write: {error}")


def _pieces(ops: Sequence[Op]) -> list[list[Op]]:
    pieces: list[list[Op]] = [[]]
    size = 0
    for op in ops:
        size += _size(op)
        if size > BYTES_MAX:
            pieces.append([])
            size = _size(op)
        pieces[-1].append(op)
    return pieces


def _size(op: Op) -> int:
    return OP_BYTES + len(op.path) + len(getattr(op, "data", b""))
