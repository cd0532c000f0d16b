"""Standard output and error as Java's PrintStream treats them: what cannot be written is lost, and the tool goes on.

So a tool whose output is cut (``| head -1``) does all that it was asked for, and ends with the status that this has
come to. That a disk is full is remembered, and told when the tool has ended. Read next: run.py.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO, TypeVar

from moldau.admin.signals import Signals
from moldau.admin.whole_records import Portion

PlaceT = TypeVar("PlaceT")


class OutputFailed(Exception):
    """Standard output takes nothing more: nobody reads it, or its disk is full."""


class _Stream(io.TextIOWrapper):
    """A stream whose writing raises nothing: what it has not taken, and all that comes later, goes nowhere.

    Below it everything is C: an exception of a signal's handler leaves no byte to be written twice.
    """

    failure: OSError | None = None

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except OSError as error:
            self.fail(error)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self.fail(error)

    def fail(self, error: OSError) -> None:
        """Remember what was wrong first, and let the rest go nowhere."""
        self.failure = self.failure or error
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


@contextmanager
def that_never_fail() -> Iterator[None]:
    """Within, writing to standard output and error raises nothing. OSError at the end for an output that was there and
    did not take all, a full disk say; that nobody has read to the end is no failure."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = out, _ = _over(sys.stdout), _over(sys.stderr)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        sys.stdout, sys.stderr = before
    if isinstance(out, _Stream) and out.failure is not None and not isinstance(out.failure, BrokenPipeError):
        raise out.failure


def _over(stream: TextIO) -> TextIO:
    """A stream that writes where this one does; itself when it is no file: a text in memory was put in its place."""
    try:
        stream.flush()
        raw = io.FileIO(stream.fileno(), "w", closefd=False)
    except (OSError, ValueError):
        return stream
    lines = raw.isatty() or stream is sys.stderr
    return _Stream(io.BufferedWriter(raw), stream.encoding, stream.errors, line_buffering=lines)


def write_bytes(data: bytes) -> None:
    """Write to standard output and flush; OutputFailed when that cannot be done, which is then nobody else's matter."""
    with _failing_alone():
        sys.stdout.flush()
        out = getattr(sys.stdout, "buffer", None)
        if out is None:  # a stream of text was put in its place
            sys.stdout.write(data.decode("utf-8", "replace"))
            return
        out.write(data)
        out.flush()


def write_records(portion: Portion[PlaceT], signals: Signals, meanwhile: Callable[[], object]) -> None:
    """Write records in the same way; none where what was printed before is lost, as they would be."""
    with _failing_alone():
        sys.stdout.flush()
    with _failing_alone():
        portion.write(sys.stdout, signals, meanwhile)


@contextmanager
def _failing_alone() -> Iterator[None]:
    out = sys.stdout
    try:
        yield
    except OSError as error:
        if isinstance(out, _Stream):
            out.fail(error)
            out.failure = None
        raise OutputFailed(str(error)) from None
    if isinstance(out, _Stream) and out.failure is not None:
        failure, out.failure = out.failure, None
        raise OutputFailed(str(failure))
