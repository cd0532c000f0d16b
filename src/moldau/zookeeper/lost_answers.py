"""Whether a transaction was made whose answer was lost: told by the znodes that it writes. Decides nothing.

Whoever sends it again gets a refusal if it was made (the znode exists, the version has gone on), and the same refusal
if somebody else changed the znodes. What tells the two apart: one transaction leaves one transaction id in all that it
writes. Read next: ``moldau.broker.zookeeper.writer``.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.model.named import NamedTuple
from moldau.ports.zookeeper import Create, Delete, Op, Set, ZooKeeper


class Left(NamedTuple):
    """What a transaction leaves of a znode. ``version`` None: a set that names none leaves any."""

    data: bytes
    version: int | None


async def was_made(zk: ZooKeeper, ops: Sequence[Op]) -> bool:
    """Whether every znode is as ``ops`` leave it, and all that are there were written by one transaction.

    False also when somebody has changed one of them since, or when nothing that is written can be told (a sequential
    znode gets a name that its creator does not know). Raises what reading does: ConnectionLoss, SessionExpired, NoAuth.
    """
    wanted = _left(ops)
    if not wanted:
        return False
    found = await zk.get_many(list(wanted))
    writers: set[int] = set()
    for left, stands in zip(wanted.values(), found, strict=True):
        if left is None and stands is None:
            continue
        if left is None or stands is None:
            return False
        data, stat = stands
        if data != left.data or left.version not in (None, stat.version):
            return False
        writers.add(stat.mzxid)
    return len(writers) <= 1


def _left(ops: Sequence[Op]) -> dict[str, Left | None]:
    """What each znode is after the transaction; None for one that is gone."""
    wanted: dict[str, Left | None] = {}
    for op in ops:
        match op:
            case Create(sequential=False):
                wanted[op.path] = Left(op.data, 0)
            case Set():
                wanted[op.path] = Left(op.data, None if op.version < 0 else op.version + 1)
            case Delete():
                wanted[op.path] = None
            case _:
                pass  # a check leaves nothing, and who creates a sequential znode does not know its name
    return wanted
