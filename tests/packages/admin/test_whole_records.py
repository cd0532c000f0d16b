"""Records that are written to a pipe: what is known to have left, whoever reads it, and when a signal is handled."""

from __future__ import annotations

import fcntl
import itertools
import os
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

import pytest

from moldau.admin.classic.streams import OutputFailed, that_never_fail, write_records
from moldau.admin.signals import Raised, Signals, Terminated, caught_signals
from moldau.admin.whole_records import ENOUGH, MOST, Portion

PAGE = 4096
F_SETPIPE_SZ = 1031


def portion_of(*records: bytes) -> Portion[int]:
    made: Portion[int] = Portion()
    for number, record in enumerate(records):
        made.add(number, record)
    return made


@contextmanager
def pipe() -> Iterator[tuple[int, TextIO]]:
    """A pipe that holds a page, and the stream that writes to it."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, F_SETPIPE_SZ, PAGE)
    with open(writing, "w") as stream:
        yield reading, stream


def full(reading: int) -> bool:
    return int.from_bytes(fcntl.ioctl(reading, termios.FIONREAD, bytes(4)), sys.byteorder) == PAGE


@contextmanager
def beside(work: Callable[[], object]) -> Iterator[None]:
    """Somebody else's work, done meanwhile; it is over at the end."""
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        os.sched_yield()


def test_a_portion_is_large_enough_by_its_bytes() -> None:
    made: Portion[int] = Portion()
    assert not made.add(0, bytes(ENOUGH - 1))
    assert not made.add(1, b"")
    assert made.add(2, b"x")


def test_a_portion_is_large_enough_by_its_records_where_they_are_shown_as_nothing() -> None:
    """A whole fetch of records that --grep leaves out was one, and a group heard nothing until its end."""
    made: Portion[int] = Portion()
    assert not any(made.add(number, b"") for number in range(MOST - 1))
    assert made.add(MOST - 1, b"")


def test_all_is_written_although_the_pipe_is_small_and_records_that_are_shown_as_nothing_count() -> None:
    made, got = portion_of(b"", b"a" * 10_000, b"", b"b" * 10_000, b""), bytearray()
    with pipe() as (reading, stream):

        def read() -> None:
            while len(got) < 20_000:
                got.extend(os.read(reading, 1000))

        with beside(read):
            made.write(stream, Signals())
        os.close(reading)
    assert bytes(got) == b"a" * 10_000 + b"b" * 10_000
    assert made.written == [0, 1, 2, 3, 4]


def test_where_the_reader_goes_what_it_could_have_read_counts() -> None:
    made = portion_of(*[b"x" * 1000] * 10)
    with pipe() as (reading, stream):

        def leave() -> None:
            until(lambda: full(reading))
            os.close(reading)

        with beside(leave), pytest.raises(BrokenPipeError):
            made.write(stream, Signals())
    assert made.written == [0, 1, 2, 3]


def test_a_signal_ends_it_behind_the_record_that_was_begun() -> None:
    made, got = portion_of(*[b"x" * 3000] * 10), bytearray()
    with pipe() as (reading, stream), caught_signals() as signals:

        def interrupt() -> None:
            until(lambda: full(reading))
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
            until(lambda: signals.asked is not None)
            while len(got) < 6000:
                got.extend(os.read(reading, PAGE))

        with beside(interrupt), pytest.raises(Terminated):
            made.write(stream, signals)
        os.close(reading)
    assert bytes(got) == b"x" * 6000
    assert made.written == [0, 1]


def test_a_signal_ends_it_at_once_where_a_record_is_at_its_end() -> None:
    made = portion_of(b"x" * PAGE, b"y")
    with pipe() as (reading, stream), caught_signals() as signals:

        def interrupt() -> None:
            until(lambda: full(reading))
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)

        with beside(interrupt), pytest.raises(Terminated):
            made.write(stream, signals)
        os.close(reading)
    assert made.written == [0]


def test_a_signal_that_comes_again_ends_it_in_the_middle_of_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    made = portion_of(b"x" * 3000, b"y" * 3000)
    monkeypatch.setattr("moldau.admin.signals.AGAIN_S", 0)
    with pipe() as (reading, stream), caught_signals() as signals:

        def interrupt() -> None:
            until(lambda: full(reading))
            main = threading.main_thread().ident or 0
            signal.pthread_kill(main, signal.SIGTERM)
            until(lambda: signals.asked is not None)
            signal.pthread_kill(main, signal.SIGTERM)

        with beside(interrupt), pytest.raises(Terminated):
            made.write(stream, signals)
        os.close(reading)
    assert made.written == [0]


def test_a_group_hears_of_who_waits_for_its_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moldau.admin.whole_records.WAIT_MS", 1)
    made, calls = portion_of(b"x" * PAGE, b"y"), [0]
    with pipe() as (reading, stream):

        def read() -> None:
            until(lambda: calls[0] > 3)
            os.read(reading, PAGE)

        def meanwhile() -> None:
            calls[0] += 1

        with beside(read):
            made.write(stream, Signals(), meanwhile)
        os.close(reading)
    assert made.written == [0, 1]


def test_a_group_hears_of_who_is_read_slowly_and_steadily(monkeypatch: pytest.MonkeyPatch) -> None:
    """There was always room again before the wait for it was over, so a member with a large record was put out."""
    made, got, calls = portion_of(bytes(4 * ENOUGH)), [0], [0]
    with pipe() as (reading, stream):
        monkeypatch.setattr("moldau.admin.whole_records.WAIT_MS", 60_000)  # no wait for room is over

        def read() -> None:
            while got[0] < 4 * ENOUGH:
                got[0] += len(os.read(reading, PAGE))

        def meanwhile() -> None:
            calls[0] += 1

        now_s = itertools.count()
        monkeypatch.setattr(time, "monotonic", lambda: 30.0 * next(now_s))
        with beside(read):
            made.write(stream, Signals(), meanwhile)
        os.close(reading)
    assert calls[0] > 3


@pytest.mark.parametrize("is_there", [False, True], ids=["nobody reads", "the disk is full"])
def test_nothing_is_written_behind_text_that_could_not_be(is_there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """`kafka-console-consumer.sh --group g --property print.key=true > full-disk` committed what nobody got: the note
    about --property was lost, and then the records went nowhere, as written."""
    reading, writing = os.pipe()
    os.close(reading)
    if is_there:
        os.close(writing)
        writing = os.open("/dev/full", os.O_WRONLY)
    made = portion_of(b"x\n", b"y\n")
    with open(writing, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        with that_never_fail():
            print("a note that waits in the buffer")
            with pytest.raises(OutputFailed):
                write_records(made, Signals(), lambda: None)
    assert made.written == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_same_signal_right_after_another_does_not_end_what_is_being_finished(number: signal.Signals) -> None:
    """`timeout` sends its signal to its child and to the group of it."""
    done: list[str] = []

    def work() -> None:
        with caught_signals() as signals:
            try:
                signal.raise_signal(number)
            finally:
                with signals.raised(Raised.WHEN_REPEATED):
                    signal.raise_signal(number)
                    done.append("finished")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["finished"]


def test_a_signal_that_comes_later_ends_what_is_being_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    with caught_signals(Raised.WHEN_REPEATED) as signals:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)  # it has just been
        monkeypatch.setattr("moldau.admin.signals.AGAIN_S", 0)
        with pytest.raises(Terminated):
            signal.raise_signal(signal.SIGINT)
        monkeypatch.undo()
        with signals.raised(Raised.WHEN_REPEATED):
            signal.raise_signal(signal.SIGINT)  # it has just been


def test_a_signal_that_came_where_none_is_raised_is_raised_where_one_is() -> None:
    with caught_signals(Raised.NOT) as signals:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt), signals.raised(Raised.AT_ONCE):
            raise AssertionError("it is not begun")


def test_the_same_signal_a_moment_later_does_not_end_a_command_that_has_finished_by_the_signal() -> None:
    """It was sent twice on a busy machine: all was done and said, and the exit status was that of a killed process."""
    with caught_signals(Raised.WHEN_REPEATED):
        signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_the_handlers_are_those_from_before_at_the_end_and_an_ignored_signal_stays_so(number: signal.Signals) -> None:
    """SIGINT is ignored in the background, SIGHUP under nohup."""
    before = signal.signal(number, signal.SIG_IGN), signal.getsignal(signal.SIGTERM)
    try:
        with caught_signals():
            signal.raise_signal(number)
        assert signal.getsignal(signal.SIGTERM) is before[1]
    finally:
        signal.signal(number, before[0])
