"""Progress is redrawn on a terminal, a line now and then elsewhere; waiting pauses, and ends when time is up."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import sys
import termios

import pytest

from moldau.admin import output
from moldau.admin.main import fail
from moldau.admin.progress import ProgressBar
from moldau.admin.waiting import Looks, came_about


class Clock:
    """Seconds that pass when somebody sleeps."""

    def __init__(self) -> None:
        self.now, self.slept = 0.0, list[float]()

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise OSError("no file")


def test_without_a_terminal_a_line_is_written_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with ProgressBar("records", 100, clock=clock) as progress:
        for done in range(100):
            progress.at(done)
            clock.now += 0.125
    assert capsys.readouterr() == ("", "records: 40 of 100\nrecords: 80 of 100\nrecords: 99 of 100\n")


def test_quick_work_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar("records", 100, clock=Clock()) as progress:
        progress.at(100)
    assert capsys.readouterr() == ("", "")


def test_words_are_told_at_once_and_the_last_ones_too(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar("", 3, clock=Clock()) as progress:
        for done in range(3):
            progress.at(done, f"{done} done")
            progress.at(done, f"{done} done")
    assert capsys.readouterr() == ("", "0 done\n2 done\n")


def test_on_a_terminal_one_line_is_redrawn_and_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, clock = Terminal(), Clock()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with ProgressBar("copy", 4, clock=clock) as progress:
        progress.at(0)
        clock.now = 10
        progress.at(1)
        output.note("something else")
        progress.at(1)
        clock.now = 20
        progress.at(2)
    drawn = screen.getvalue().split("\r")
    assert drawn == [
        "",
        "copy [....................]   0%  0 of 4\x1b[K",
        "copy [#####...............]  25%  1 of 4, about 30 s left\x1b[K",
        "\x1b[Ksomething else\n",
        "copy [##########..........]  50%  2 of 4, about 20 s left\x1b[K",
        "\x1b[K",
    ]


def test_what_ends_a_command_takes_the_bar_away_first(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    progress = ProgressBar("copy", 4, clock=Clock())
    progress.at(1)
    with pytest.raises(SystemExit), progress:
        fail("no more")
    assert screen.getvalue().endswith("\r\x1b[Kmoldau: no more\n")


def test_a_line_is_no_longer_than_the_terminal_is_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as screen, os.fdopen(theirs, "w") as file:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 30, 0, 0))
        monkeypatch.setattr(sys, "stderr", file)
        monkeypatch.setenv("TERM", "xterm")
        with ProgressBar("a long word for it", 4, clock=Clock()) as progress:
            progress.at(1)
        wanted = b"\ra long word for it [#####....\x1b[K\r\x1b[K"
        seen = b""
        while len(seen) < len(wanted):  # a terminal gives what there is
            seen += screen.read(100)
        assert seen == wanted


def test_pauses_grow_and_the_last_look_is_when_time_is_up() -> None:
    clock = Clock()
    seen = [clock.now for _ in Looks(5, first_s=1, longest_s=2, clock=clock, sleep=clock.sleep)]
    assert seen == [0, 1, 2.5, 4.5, 5]
    assert clock.slept == [1, 1.5, 2, 0.5]


def test_there_is_one_look_at_least_and_without_a_limit_there_is_no_end() -> None:
    clock = Clock()
    assert len(list(Looks(0, clock=clock, sleep=clock.sleep))) == 1
    endless = Looks(None, first_s=1, longest_s=2, clock=clock, sleep=clock.sleep)
    for _ in range(4):
        next(endless)
    endless.soon()
    next(endless)
    assert clock.slept == [1, 1.5, 2, 1]


def test_what_holds_is_waited_for_no_longer() -> None:
    assert came_about(lambda: True, 0)
    assert not came_about(lambda: False, 0)
