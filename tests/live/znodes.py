"""The znodes behind a live cluster, as tools and tests look at them and meddle with them: a session of one's own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from moldau.ports.zookeeper import Ensemble, NoNode
from moldau.zookeeper.session import Session


def in_zookeeper(connect: str, work: Callable[[Session], Awaitable[Any]]) -> Any:
    """Something done to the znodes, as a tool does it. ``connect``: as zookeeper.connect has it."""

    async def session() -> Any:
        zk = Session(Ensemble(connect=connect, session_timeout_ms=6_000, connection_timeout_ms=10_000))
        await zk.start()
        try:
            return await work(zk)
        finally:
            await zk.stop()

    return asyncio.run(session())


def znode(connect: str, path: str) -> Any:
    """The JSON in a znode; None when it is not there."""

    async def read(zk: Session) -> Any:
        try:
            return json.loads((await zk.get(path))[0])
        except NoNode:
            return None

    return in_zookeeper(connect, read)
