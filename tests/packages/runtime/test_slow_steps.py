"""A step that holds the loop is named in the log, with the place where it stands."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from moldau.runtime.slow_steps import SlowSteps


def test_a_step_that_holds_the_loop_is_logged_with_its_stack(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "moldau.runtime.slow_steps")

    def hold_the_loop() -> None:
        while "more than" not in caplog.text:  # the watcher says so while the step goes on
            time.sleep(0.001)

    watchers: list[SlowSteps] = []

    async def live() -> None:
        watchers.append(SlowSteps(asyncio.get_running_loop(), 20))
        watchers[0].start()
        await asyncio.sleep(0)
        hold_the_loop()
        while "took about" not in caplog.text:  # noqa: ASYNC110  # a thread logs it; there is no event to wait for
            await asyncio.sleep(0.001)

    asyncio.run(live())
    assert "hold_the_loop" in str(vars(caplog.records[0])["lines"])
    watchers[0]._thread.join(60)
    assert not watchers[0]._thread.is_alive(), "it ends with its loop, and says nothing in other tests"
