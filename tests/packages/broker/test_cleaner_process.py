"""A large log is compacted in a process of its own: the same result, the same limits, and its end is not the node's."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.replicas import cleaner as cleaning
from tests.packages.broker.data_cluster import run, until
from tests.packages.broker.test_dynamic import PARTITION, Cleaner

SLOW: dict[str, Any] = {"log_cleaner_io_max_bytes_per_second": "2000"}


@pytest.fixture(autouse=True)
def every_log_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "SMALL_BYTES", 0)


def children() -> list[int]:
    """The processes that this one has started and that run a cleaner."""
    found = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    ids = [int(id) for file in found for id in file.read_text().split()]
    return [id for id in ids if b"moldau.admin.cleaner" in command_line(id)]


def command_line(id: int) -> bytes:
    """Empty for a process that has ended meanwhile."""
    try:
        return Path(f"/proc/{id}/cmdline").read_bytes()
    except OSError:
        return b""


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.glob("*.log")}


def test_it_makes_what_a_thread_would_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        apart = Cleaner(tmp_path / "a")
        saved = await apart.cleaning.clean()
        monkeypatch.setattr(cleaning, "SMALL_BYTES", 1 << 30)
        here = Cleaner(tmp_path / "b")
        assert saved == await here.cleaning.clean() > 0
        assert apart.log.cleaned_to == here.log.cleaned_to > 0
        assert contents(tmp_path / "a" / "data" / "kept-0") == contents(tmp_path / "b" / "data" / "kept-0")
        assert not children()

    run(work)


def test_a_process_that_is_killed_costs_its_log_only(tmp_path: Path) -> None:
    async def work() -> None:
        scene = Cleaner(tmp_path, **SLOW)
        cleaned = asyncio.ensure_future(scene.cleaning.clean())
        folder = tmp_path / "data" / "kept-0"
        await until(lambda: list(folder.glob("*.cleaned")), "it writes")
        (child,) = children()
        assert os.getpriority(os.PRIO_PROCESS, child) == 19
        os.kill(child, signal.SIGKILL)
        assert await cleaned == 0
        uncleanable = scene.dirs.compactions.uncleanable[PARTITION]
        assert "was ended by SIGKILL" in uncleanable.reason
        assert uncleanable.pause_ms > 0, "somebody's kill, or want of memory: it is tried again"
        assert not list(folder.glob("*.cleaned"))
        assert not scene.failures
        assert scene.dirs.offline == []

    run(work)


def test_a_stop_ends_it(tmp_path: Path) -> None:
    async def work() -> None:
        scene = Cleaner(tmp_path, log_cleaner_io_max_bytes_per_second="1")
        cleaned = asyncio.ensure_future(scene.cleaning.clean())
        await until(lambda: children(), "it runs")
        scene.cleaning.stop()
        await asyncio.wait_for(cleaned, 60)
        await until(lambda: not children(), "it has ended")

    run(work)


def test_a_speed_limit_that_is_lifted_is_lifted_for_a_run_under_way(tmp_path: Path) -> None:
    async def work() -> None:
        scene = Cleaner(tmp_path, log_cleaner_io_max_bytes_per_second="100")  # all of it would take two minutes
        cleaned = asyncio.ensure_future(scene.cleaning.clean())
        await until(lambda: children(), "it runs")
        scene.config.adopt({})
        assert await asyncio.wait_for(cleaned, 60) > 0

    run(work)
