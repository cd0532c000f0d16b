"""Runs command lines beside each other: ``python -m tests.beside 'one --quick' 'two'``; fails when one of them does.

What they say does not mix: the first is heard as it speaks, the second from its beginning when the first has ended, and
so on. All go on when one fails, so that a run tells every failure, and the last words are what failed and how, of
whichever it was. Whoever is asked to stop (Ctrl-C, SIGTERM) stops all. Read next: the Makefile.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO

PAUSE_S = 0.1
PATIENCE_S = 10
# What pytest says of an assertion and of a test, what mypy says of a line; the last of them are repeated.
FAILURE = re.compile(rb"E {3}|FAILED |ERROR |.*: error: ")
REPEATED = 40


def beside(commands: list[str], out: BinaryIO, told: Sequence[int] = ()) -> int:
    """Run each in a shell, hand on what they say, and return the first exit status that is not 0, or 0.

    told: as soon as something is in it they are stopped, and 130 is returned.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="beside-")))
        running = []
        for number, command in enumerate(commands):
            words = folder / str(number)
            running.append((command, _start(command, words), stack.enter_context(words.open("rb"))))
            stack.callback(_stop, running[-1][1])
        for command, process, heard in running:
            out.write(f"{command}\n".encode())
            while _hand_on(heard, out) or process.poll() is None:
                if told:
                    return 130
                time.sleep(PAUSE_S)
            _hand_on(heard, out)  # between the last look and its end
        for command, process, heard in running:
            if process.returncode:
                out.write(f"beside: status {process.returncode} of {command}\n".encode())
                out.writelines(_failures(heard))
    out.flush()
    return next((abs(process.returncode) for _, process, _ in running if process.returncode), 0)


def _start(command: str, words: Path) -> subprocess.Popen[bytes]:
    """A process group of its own, so that what the shell started can be asked to stop with it."""
    with words.open("wb") as said:
        return subprocess.Popen(
            command, shell=True, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
        )


def _stop(process: subprocess.Popen[bytes]) -> None:
    """As Ctrl-C would, which a shell that has just started may not hear; no effect on one that has ended."""
    for how in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, how)
            with suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE_S)


def _hand_on(heard: BinaryIO, out: BinaryIO) -> bool:
    """Whether there was something new."""
    before = heard.tell()
    shutil.copyfileobj(heard, out)
    out.flush()
    return heard.tell() != before


def _failures(heard: BinaryIO) -> list[bytes]:
    heard.seek(0)
    return [line for line in heard if FAILURE.match(line)][-REPEATED:]


def main() -> None:
    told: list[int] = []  # no exception, which could come between a process's start and its being known
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda which, _: told.append(which))
    sys.exit(beside(sys.argv[1:], sys.stdout.buffer, told))


if __name__ == "__main__":
    main()
