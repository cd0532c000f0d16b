"""What a node loads after its start, and what becomes of it where it cannot."""

from __future__ import annotations

import asyncio
import errno

from moldau.admin.node import load_one_by_one
from moldau.runtime.world import RealTasks


def test_a_node_that_cannot_load_a_handler_goes_on_and_tries_again() -> None:
    """It ended with `Too many open files` in the second after its start."""
    tried: list[str] = []

    def first() -> None:
        tried.append("first")
        if len(tried) < 4:
            raise OSError(errno.EMFILE, "Too many open files")

    async def work() -> None:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[int] = loop.create_future()
        tasks = RealTasks(loop, lambda name, error: None)
        await load_one_by_one([first, lambda: tried.append("second")], tasks, ended, again_s=0.01)

    asyncio.run(work())
    assert tried == ["first", "second", "first", "first"], "what stands behind it does not wait for it"


def test_a_node_that_ends_waits_for_no_handler() -> None:
    def fails() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    async def work() -> None:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[int] = loop.create_future()
        loading = asyncio.ensure_future(load_one_by_one([fails], RealTasks(loop, lambda name, error: None), ended))
        await asyncio.sleep(0)
        ended.set_result(0)
        await asyncio.wait_for(loading, 60)

    asyncio.run(work())
