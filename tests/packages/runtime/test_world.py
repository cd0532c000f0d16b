"""What the real world gives a node: here, ids, and worker threads."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from threading import Event, current_thread

import pytest

from moldau.model.ids import uuid_text
from moldau.ports import Pool
from moldau.runtime.world import RealRandom, RealTasks


def test_no_id_is_drawn_that_a_command_line_would_take_for_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([b"\xf8" + bytes(15), b"\xfb" + bytes(15), b"\xfc" + bytes(15)])
    monkeypatch.setattr(os, "urandom", lambda n: next(drawn))
    assert uuid_text(RealRandom().uuid())[0] == "_"


def in_tasks(test: Callable[[RealTasks], Coroutine[None, None, None]]) -> None:
    """Run a test with the tasks of a loop of its own; a task that fails fails it."""
    failures: list[BaseException] = []

    async def run() -> None:
        tasks = RealTasks(asyncio.get_running_loop(), lambda name, error: failures.append(error))
        await asyncio.wait_for(test(tasks), 30)

    asyncio.run(run())
    assert not failures


def test_work_of_one_pool_goes_on_while_another_hangs() -> None:
    async def test(tasks: RealTasks) -> None:
        answers = Event()
        hanging = [tasks.off_loop(answers.wait, Pool("hangs")) for _ in range(20)]
        try:
            assert await tasks.off_loop(lambda: current_thread().name, Pool("works")) == "works_0"
        finally:
            answers.set()
        assert await asyncio.gather(*hanging) == [True] * 20

    in_tasks(test)


def test_a_pool_of_one_thread_keeps_the_order_of_its_calls() -> None:
    async def test(tasks: RealTasks) -> None:
        seen: list[int] = []
        await asyncio.gather(*(tasks.off_loop(lambda n=n: seen.append(n), Pool("one")) for n in range(100)))
        assert seen == list(range(100))

    in_tasks(test)
