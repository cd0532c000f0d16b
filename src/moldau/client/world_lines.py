"""A client's connections and waits on the event loop, over the ports of a world.

A command without a loop never imports this: it uses ``sockets.py``, and asyncio alone would add 60 ms to its start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from moldau.client.connection import connect
from moldau.client.lines import DEFAULTS, ConnectionOptions, Line, connecting_within
from moldau.ports import World


class WorldLines:
    """Lines on the event loop, over the ports of a world."""

    def __init__(self, world: World, options: ConnectionOptions = DEFAULTS) -> None:
        self.world = world
        self.options = options

    async def connect(self, host: str, port: int, limit_ms: int | None = None) -> Line:
        return await connect(self.world, host, port, connecting_within(self.options, limit_ms))

    def now_ms(self) -> int:
        return self.world.clock.monotonic_ms()

    async def pause(self, wait_ms: float) -> None:
        over = asyncio.get_running_loop().create_future()
        timer = self.world.tasks.call_later(wait_ms, partial(_finish, over))
        try:
            await over
        finally:
            timer.cancel()

    async def first(self, answers: Sequence[Any], wait_ms: float) -> list[int]:  # Any: what a line's ask gave
        if wait_ms <= 0:
            await asyncio.sleep(0)  # or a caller that polls without waiting would never let an answer in
        elif not any(answer.done() for answer in answers):
            over = asyncio.get_running_loop().create_future()
            timer = self.world.tasks.call_later(wait_ms, partial(_finish, over))
            try:
                await asyncio.wait([*answers, over], return_when=asyncio.FIRST_COMPLETED)
            finally:
                timer.cancel()
                over.cancel()
        return [i for i, answer in enumerate(answers) if answer.done()]

    def below(self, n: int) -> int:
        return self.world.random.below(n)


def _finish(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)
