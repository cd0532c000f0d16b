"""The znodes behind a live cluster, as tools and tests look at them and meddle with them: a session of one's own."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from kazoo.client import KazooClient

from moldau.cluster.serving import ask_zookeeper
from moldau.ports.zookeeper import NoNode
from moldau.zookeeper.session import Session

T = TypeVar("T")


def in_zookeeper(connect: str, work: Callable[[Session], Awaitable[T]]) -> T:
    """Something done to the znodes, as a tool does it. ``connect``: as zookeeper.connect has it."""
    return ask_zookeeper(connect, work, patience_ms=60_000, session_ms=40_000)


def znode(connect: str, path: str) -> Any:
    """The JSON in a znode; None when it is not there."""

    async def read(zk: Session) -> Any:
        try:
            return json.loads((await zk.get(path))[0])
        except NoNode:
            return None

    return in_zookeeper(connect, read)


def end_session(connect: str, path: str) -> int:
    """Have the server end the session that owns an ephemeral znode, whose client learns of it when it is told so.

    Returns the session's id. ZooKeeper makes a session's password from its id (ZooKeeperServer.generatePasswd), so
    whoever knows the id can take the session over, and close it.
    """
    id = _owner(connect, path)
    assert id, f"{path} is nobody's"
    while True:
        thief = KazooClient(connect.partition("/")[0], client_id=(id, _password(id)))
        thief.start()
        assert thief.client_id is not None
        given = thief.client_id[0]
        thief.stop()
        thief.close()
        if _owner(connect, path) != id:
            return id
        assert given == id, "the server gave another session, and this one lives"
        # Its client was back before the thief said that it is to end, which the server takes from one connection alone.


def _owner(connect: str, path: str) -> int:
    """The session that owns an ephemeral znode; 0 where there is none."""
    stat = in_zookeeper(connect, lambda zk: zk.exists(path))
    return 0 if stat is None else int(stat.ephemeral_owner)


def _password(session_id: int) -> bytes:
    """16 bytes of java.util.Random, seeded with the id and ZooKeeper's constant."""
    mask = (1 << 48) - 1
    state = ((session_id ^ 0xB3415C00) ^ 0x5DEECE66D) & mask
    found = b""
    for _ in range(4):
        state = (state * 0x5DEECE66D + 0xB) & mask
        found += (state >> 16).to_bytes(4, "little")
    return found
