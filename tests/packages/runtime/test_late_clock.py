"""The wall clock of a machine that shows a year in which Python's own functions raise."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest

from moldau.runtime.late_clock import log_record, wall_ms
from moldau.runtime.logs import start_logs, stop_logs
from moldau.runtime.world import RealClock

YEAR_2300_S = 10_435_883_787.042


class LateTime:
    """The module ``time`` in the year 2300."""

    CLOCK_REALTIME = time.CLOCK_REALTIME
    localtime, strftime, monotonic_ns = time.localtime, time.strftime, time.monotonic_ns

    def time(self) -> float:
        raise OverflowError("timestamp too large to convert to C _PyTime_t")

    def time_ns(self) -> int:
        raise OverflowError("timestamp too large to convert to C _PyTime_t")

    def clock_gettime(self, clock: int) -> float:
        return YEAR_2300_S


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("logging", "moldau.runtime.late_clock"):
        monkeypatch.setattr(f"{module}.time", LateTime())


def test_the_wall_clock_shows_the_year_2300(late: None) -> None:
    """It ended the node: what a task raises is a broken assertion of our own."""
    assert wall_ms() == RealClock().wall_ms() == 10_435_883_787_042


def test_lines_are_logged_in_the_year_2300_as_before(late: None, tmp_path: Path) -> None:
    start_logs(str(tmp_path), {})
    try:
        try:
            raise OSError("no space")
        except OSError:
            logging.getLogger("moldau.some").warning("%s of %d", "one", 2, exc_info=True)
    finally:
        stop_logs()
    text = (tmp_path / "server.log").read_text()
    assert text.startswith("[2300-09-13 ")
    assert ",042] WARN one of 2 (moldau.some)\nTraceback (most recent call last):" in text


def test_a_record_has_what_others_read_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ("moldau.some", logging.INFO, "/a/b.py", 7, "%s", ("x",), None, "f", None)
    usual = log_record(*asked)
    monkeypatch.setattr("logging.time", LateTime())
    late = log_record(*asked)
    assert late.__dict__.keys() >= usual.__dict__.keys()
    differ = {name for name in usual.__dict__ if getattr(usual, name) != getattr(late, name)}
    assert differ <= {"created", "msecs", "relativeCreated", "thread", "threadName", "processName"}
    assert late.getMessage() == "x"
