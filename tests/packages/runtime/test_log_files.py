"""Log files: bounded in size, written beside the loop, told apart from what others move, and complete at the end."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.runtime import log_writer, logs
from moldau.runtime.log_writer import LogFile, LogWriter
from moldau.runtime.repeated import UNLIMITED, WINDOW_S, Repeated
from tests.packages.doubles import TimeModule

PATIENCE_S = 20.0
FATAL = "FATAL the disk is gone"


@pytest.fixture(autouse=True)
def loggers_as_before() -> Iterator[None]:
    names = [
        "",
        "moldau",
        "moldau.broker.kraft",
        "moldau.broker.controller.service",
        logs.STATE_CHANGE,
        logs.STATE_CHANGE_JSON,
    ]
    before = [(name, logging.getLogger(name).level, [*logging.getLogger(name).handlers]) for name in names]
    raise_exceptions = logging.raiseExceptions
    yield
    logs.stop_logs()
    logging.raiseExceptions = raise_exceptions
    for name, level, handlers in before:
        logging.getLogger(name).setLevel(level)
        logging.getLogger(name).handlers[:] = handlers


def text(folder: Path, name: str = "server.log") -> str:
    for writer in logs._writers:
        assert writer.drain(PATIENCE_S)
    return (folder / name).read_text()


def test_a_log_is_bounded_and_its_newest_lines_stay(tmp_path: Path) -> None:
    logs.start_logs(str(tmp_path), max_bytes=2_000, max_files=3)
    for number in range(1_000):
        logging.getLogger("moldau.node").info("line %d of many", number)
    assert "line 999 of many" in text(tmp_path)
    files = sorted(path.name for path in tmp_path.glob("server.log*"))
    assert files == ["server.log", "server.log.1", "server.log.2"]
    assert sum(path.stat().st_size for path in tmp_path.glob("server.log*")) <= 3 * 2_000
    kept = "".join((tmp_path / name).read_text() for name in reversed(files)).splitlines()
    numbers = [int(line.split("line ")[1].split()[0]) for line in kept]
    assert numbers == list(range(numbers[0], 1_000)), "nothing is missing after the oldest that is kept"


@given(sizes=st.lists(st.integers(1, 300), max_size=60), max_bytes=st.integers(50, 500), max_files=st.integers(1, 4))
def test_files_never_hold_more_than_their_bound_or_one_write(
    sizes: list[int], max_bytes: int, max_files: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("log")
    file = LogFile(str(folder / "a.log"), max_bytes=max_bytes, max_files=max_files)
    for size in sizes:
        file.write(b"x" * size)
    file.close()
    found = [path.stat().st_size for path in folder.iterdir()]
    assert len(found) <= max_files
    assert all(size <= max(max_bytes, *sizes) for size in found if sizes)


def test_a_file_that_logrotate_moved_is_made_anew(tmp_path: Path) -> None:
    logs.start_logs(str(tmp_path))
    logging.getLogger("moldau.node").info("before")
    assert "before" in text(tmp_path)
    os.rename(tmp_path / "server.log", tmp_path / "server.log-20261122")
    logging.getLogger("moldau.node").info("after")
    assert "after" in text(tmp_path)
    assert "after" not in (tmp_path / "server.log-20261122").read_text()


def test_reopening_makes_the_files_at_once(tmp_path: Path) -> None:
    logs.start_logs(str(tmp_path))
    (tmp_path / "state-change.log").rename(tmp_path / "old")
    logs.reopen_logs()
    assert text(tmp_path, "state-change.log") == ""


def test_a_file_that_was_truncated_under_us_goes_on(tmp_path: Path) -> None:
    logs.start_logs(str(tmp_path))
    logging.getLogger("moldau.node").info("before")
    assert text(tmp_path)
    os.truncate(tmp_path / "server.log", 0)
    logging.getLogger("moldau.node").info("after")
    assert text(tmp_path).count("\n") == 1


class Slow(LogFile):
    """A file on a disk that takes nothing until it is told to."""

    def __init__(self, path: str, wait: int) -> None:
        super().__init__(path, max_bytes=2**20, max_files=2)
        self._wait = wait

    def write(self, data: bytes) -> None:
        os.read(self._wait, 1)
        super().write(data)


def test_a_disk_that_hangs_costs_lines_and_no_memory_and_says_so_afterwards(tmp_path: Path) -> None:
    go, let = os.pipe()
    writer = LogWriter(dropped=lambda count: f"{count} dropped", pending_bytes_max=1_000)
    file = Slow(str(tmp_path / "a.log"), go)
    for number in range(10_000):
        writer.put(file, f"line {number}")
    assert not writer.drain(0.0)
    writer.put(file, FATAL, must=True)
    os.close(let)
    assert writer.drain(PATIENCE_S)
    writer.put(file, "afterwards")
    writer.stop(PATIENCE_S)
    lines = (tmp_path / "a.log").read_text().splitlines()
    assert FATAL in lines
    dropped = sum(int(line.split()[0]) for line in lines if line.endswith(" dropped"))
    assert dropped > 9_000
    assert dropped + sum(line.startswith("line ") for line in lines) == 10_000
    os.close(go)


class Full(LogFile):
    """A file on a disk that is full until it is told not to be."""

    full = True

    def write(self, data: bytes) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        super().write(data)


def test_a_full_disk_costs_lines_and_not_the_writer(tmp_path: Path) -> None:
    writer = LogWriter(dropped=lambda count: f"{count} dropped")
    file = Full(str(tmp_path / "a.log"), max_bytes=1_000, max_files=2)
    writer.put(file, "one\ntwo")
    assert writer.drain(PATIENCE_S)
    file.full = False
    writer.put(file, "three")
    writer.stop(PATIENCE_S)
    assert (tmp_path / "a.log").read_text() == "2 dropped\nthree\n"


def test_what_was_dropped_is_told_after_a_notice_that_could_not_be_written_either(tmp_path: Path) -> None:
    writer = LogWriter(dropped=lambda count: f"{count} dropped")
    file = Full(str(tmp_path / "a.log"), max_bytes=1_000, max_files=2)
    for line in ("one\ntwo", "three", "four"):
        writer.put(file, line)
        assert writer.drain(PATIENCE_S)
    file.full = False
    writer.put(file, "five")
    writer.stop(PATIENCE_S)
    assert (tmp_path / "a.log").read_text() == "4 dropped\nfive\n"


def test_the_last_words_of_a_node_that_ends_at_once_are_there(tmp_path: Path) -> None:
    script = f"""
        import logging, os
        from moldau.runtime.logs import start_logs
        start_logs({str(tmp_path)!r})
        log = logging.getLogger("moldau.node")
        for number in range(500):
            log.info("line %d", number)
        log.critical("it is over")
        os._exit(1)
    """
    assert subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False).returncode == 1
    lines = (tmp_path / "server.log").read_text().splitlines()
    assert len(lines) == 501
    assert lines[-1].endswith("FATAL it is over (moldau.node)")


def test_levels_are_those_that_were_asked_for(tmp_path: Path) -> None:
    logs.start_logs(str(tmp_path), {"root": "WARN", "moldau.broker.kraft": "DEBUG"})
    logging.getLogger("moldau.node").info("not this")
    logging.getLogger("moldau.broker.kraft").debug("this")
    logging.getLogger("moldau.node").warning("and this")
    said = text(tmp_path)
    assert "not this" not in said
    assert "DEBUG this (moldau.broker.kraft)" in said
    assert "WARN and this" in said
    assert "DEBUG this" in text(tmp_path, "controller.log")


def record(number: int, level: int = logging.WARNING) -> logging.LogRecord:
    return logging.LogRecord("moldau.server", level, "server.py", 7, "bad request %d", (number,), None)


def test_a_flood_of_one_warning_is_cut_and_counted() -> None:
    now = 0.0
    repeated = Repeated(lambda: now, burst=3)
    assert [repeated.passes(record(number)) for number in range(6)] == [True] * 3 + [False] * 3
    assert repeated.passes(record(1, logging.INFO))
    assert repeated.passes(record(1, logging.CRITICAL))
    assert repeated.end(record(1)) == 3
    assert repeated.passes(record(7)), "the window is over"
    now = WINDOW_S + 1
    assert all(repeated.passes(record(number)) for number in range(3)), "and so is that one"


def test_a_window_that_ends_while_its_next_line_comes_does_not_silence_that_line_for_good() -> None:
    """Another thread ends it: the line was counted on in a window whose end nobody was going to tell any more."""
    repeated = Repeated(lambda: 0.0, burst=3)
    for number in range(5):
        repeated.passes(record(number))

    class EndedMeanwhile(dict[tuple[str, int], tuple[float, int]]):
        def get(self, site: Any, default: Any = None) -> Any:  # Any: as dict has it
            found = super().get(site, default)
            ending.start()
            ending.join(0.1)  # of a window that is looked at, the end waits
            return found

    ending, before = threading.Thread(target=repeated.end, args=(record(5),)), repeated._seen
    repeated._seen = EndedMeanwhile(before)
    repeated.passes(record(5))
    ending.join(PATIENCE_S)
    repeated._seen = dict(repeated._seen)
    assert repeated.passes(record(6)), "a new window has begun"


def test_a_line_that_did_not_pass_in_a_window_that_has_ended_is_not_asked_about_in_vain() -> None:
    """The question raised KeyError out of whatever had logged the line."""
    repeated = Repeated(lambda: 0.0, burst=1)
    assert [repeated.passes(record(number)) for number in range(3)] == [True, False, False]
    repeated.end(record(2))
    assert not repeated.begins_to_count(record(2))


def test_a_line_that_cannot_be_formatted_ends_no_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "WINDOW_S", 0.01)
    logs.start_logs(str(tmp_path))
    for _ in range(300):
        logging.getLogger("moldau.server").warning("%d bad requests", "many")
    (writer,) = logs._writers
    called = threading.Event()
    writer.call_later(0.02, called.set)  # behind what tells of those that were left out
    assert called.wait(PATIENCE_S)


def test_findings_of_a_recovery_are_told_one_by_one() -> None:
    one = record(1)
    vars(one).update(UNLIMITED)
    repeated = Repeated(burst=1)
    assert all(repeated.passes(one) for _ in range(10))


def test_a_flood_is_told_with_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "WINDOW_S", 0.5)
    logs.start_logs(str(tmp_path))
    for _ in range(1_000):
        logging.getLogger("moldau.server").warning("bad request")
    written = left_out = 0
    while written + left_out < 1_000:  # in one window, unless the machine is slow
        said = text(tmp_path)
        left_out = sum(map(int, re.findall(r"(\d+) more lines like this one were left out within 0.5 s", said)))
        written = said.count("WARN bad request")
    assert written + left_out == 1_000
    assert left_out


def test_nothing_that_is_to_be_called_later_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever in a round of the thread its time comes: every look at the clock is a millisecond later."""

    class Ticking(TimeModule):
        def monotonic(self) -> float:
            self.now_s += 0.001
            return self.now_s

    for number in range(12):
        monkeypatch.setattr(log_writer, "time", Ticking(-0.001))
        writer = LogWriter(dropped=lambda count: f"{count} dropped")
        called = threading.Event()
        writer.call_later((number + 0.5) / 1_000, called.set)
        assert called.wait(PATIENCE_S), number
        writer.stop(PATIENCE_S)


def test_a_log_begins_anew_when_it_is_old_whoever_began_it(tmp_path: Path) -> None:
    now = [1_000_000_000.0]

    def opened() -> LogFile:
        path = str(tmp_path / "a.log")
        return LogFile(path, max_bytes=2**20, max_files=9, max_age_s=3_600, now=lambda: now[0])

    def line(text: str) -> bytes:
        begin = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now[0]))
        return f"[{begin},000] INFO {text} (a)\n".encode()

    file = opened()
    now[0] += 86_400
    file.write(line("first"))  # an empty file has no age
    now[0] += 3_599
    file.write(line("second"))
    file.close()
    file = opened()  # another process, to which the first line says when the file was begun
    now[0] += 1
    file.write(line("third"))
    now[0] += 3_599
    file.write(line("fourth"))
    now[0] += 1
    file.write(line("fifth"))
    file.close()
    kept = {path.name: path.read_text().split() for path in tmp_path.iterdir()}
    assert {name: [w for w in words if w.endswith(("st", "d", "th"))] for name, words in kept.items()} == {
        "a.log.2": ["first", "second"],
        "a.log.1": ["third", "fourth"],
        "a.log": ["fifth"],
    }


@pytest.mark.parametrize("folder", [True, False])
def test_state_changes_go_to_standard_output_too_when_told(tmp_path: Path, folder: bool) -> None:
    program = f"""
        import logging
        from moldau.runtime.logs import start_logs, stop_logs
        start_logs({str(tmp_path) if folder else None!r}, state_change_stdout=True)
        logging.getLogger("state.change.logger").info("%s", "one of two\\ntwo of two")
        stop_logs()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True, timeout=240
    )
    said = [line.partition("] ")[2] for line in done.stdout.splitlines()]
    assert said == ["INFO one of two (state.change.logger)", "INFO two of two (state.change.logger)"]
    assert not folder or (tmp_path / "state-change.log").read_text() == done.stdout
