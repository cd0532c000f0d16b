"""``python -m moldau.cluster.chaos.proxy.process TOKEN``: the proxy's process, commanded by lines of JSON.

Each line on standard input is an order, each is answered by a line when it is in force; the process ends with it.
A process of its own, so that links are carried while the suite's threads are busy. Orders: ``front``, ``cut``,
``delay``, ``reset``, ``made``, ``heal``. ``chaos/proxy_net.py`` sends them.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from moldau.cluster.chaos.proxy.fronts import Around, Front
from moldau.cluster.chaos.proxy.sources import Sources
from moldau.cluster.nodes import HOST, free_ports

Answer = dict[str, Any]


class Proxy:
    """All fronts, and what is done to the links between them."""

    def __init__(self, token: str) -> None:
        self._around = Around(Sources(token))
        self._fronts: list[Front] = []
        self._watches: list[asyncio.Task[None]] = []

    async def obey(self, order: dict[str, Any]) -> Answer:
        """Carry an order out; the answer says what came of it."""
        known: dict[str, Callable[..., Coroutine[Any, Any, Answer]]] = {
            "front": self._front,
            "cut": self._cut,
            "delay": self._delay,
            "reset": self._reset,
            "made": self._made,
            "heal": self._heal,
        }
        return await known[order.pop("do")](**order)

    async def _front(self, place: int, host: str, port: int) -> Answer:
        """Put a front before a listener; the port is the proxy's."""
        here = (HOST, free_ports(1)[0])
        front = Front(place, here, (host, port), self._around)
        self._fronts.append(front)
        self._watches.append(asyncio.get_running_loop().create_task(front.watch()))
        return {"host": here[0], "port": here[1]}

    async def _cut(self, source: int, target: int, ports: list[int]) -> Answer:
        self._around.conditions.cuts |= {(source, target, port) for port in ports or [0]}
        await self._turn()
        return {}

    async def _delay(self, source: int, target: int, seconds: float) -> Answer:
        self._around.conditions.delays_s[source, target] = seconds
        return {}

    async def _reset(self, one: int, other: int) -> Answer:
        """Break all connections between two places, made by either."""
        links = [link for front in self._fronts for link in front.links if set(link.way) == {one, other}]
        for link in links:
            link.reset()
        return {"count": sum(not link.is_over for link in links)}

    async def _made(self, source: int, target: int) -> Answer:
        """How many connections went through from a place to another so far."""
        return {"count": sum(front.made.get(source, 0) for front in self._fronts if front.place == target)}

    async def _heal(self) -> Answer:
        self._around.conditions.clear()
        await self._turn()
        return {}

    async def _turn(self) -> None:
        self._around.change()
        for front in self._fronts:
            await front.turn()


async def serve(token: str) -> None:
    """Obey until the input ends."""
    orders = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    proxy = Proxy(token)
    while line := await orders.readline():
        print(json.dumps(await proxy.obey(json.loads(line))), flush=True)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
