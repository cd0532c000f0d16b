"""Runs many command lines at once, each as a program of its own that is forked from one that has loaded everything.

``Many`` starts that one; starting Python for each of hundreds of commands would take minutes. Run as a program, this
file is it: it reads command lines as JSON from its standard input, and answers with what each said.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn, Self

AT_ONCE = 12
"""So many run at once, of those that work; who waits for an answer does not count."""
LOOK_S = 0.02


class Ended(NamedTuple):
    """What a command line said, and its exit status; None when it was ended because time was up."""

    status: int | None
    shown: str
    said: str


class Many:
    """The program that has loaded everything; used in a ``with``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def run(
        self, lines: Mapping[str, Sequence[str]], *, reader: bool = True, timeout_s: float = 120.0
    ) -> dict[str, Ended]:
        """What each command line says; without ``reader`` nobody reads what they show. Those that have not ended in
        time are killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        wish = {"lines": {name: list(words) for name, words in lines.items()}, "reader": reader, "timeout_s": timeout_s}
        self._process.stdin.write(json.dumps(wish) + "\n")
        self._process.stdin.flush()
        return {name: Ended(*one) for name, one in json.loads(self._process.stdout.readline()).items()}


def _serve() -> None:
    from importlib import import_module

    import click

    from moldau.admin.cli import cli
    from moldau.client import admin, consumer, feeding, group_lags, producer, sync  # noqa: F401

    def load(command: click.Command) -> None:
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                below = command.get_command(context, name)
                if below is not None:
                    load(below)

    load(cli)
    for name in ("cluster_checks", "partition_states", "advice", "reassignment.waves", "replica_check.wire"):
        import_module(f"moldau.admin.{name}")
    for name in ("reading", "lint", "positions", "groups", "running", "resetting", "rehearsal", "trial", "backfill"):
        import_module(f"moldau.pipeline.{name}")
    for line in sys.stdin:
        wish = json.loads(line)
        print(json.dumps(_run_all(wish["lines"], wish["reader"], wish["timeout_s"])), flush=True)


def _run_all(lines: Mapping[str, Sequence[str]], reader: bool, timeout_s: float) -> dict[str, Ended]:
    found: dict[str, Ended] = {}
    left = dict(enumerate(lines.items()))
    waiting = list(left)
    running: dict[int, tuple[int, float]] = {}
    while waiting or running:
        while waiting and len(running) < AT_ONCE * 4:
            number = waiting.pop(0)
            running[_started(number, left[number][1], reader)] = (number, time.monotonic() + timeout_s)
        time.sleep(LOOK_S)
        for pid, (number, until) in list(running.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            code: int | None = os.waitstatus_to_exitcode(status)
            if not ended:
                if time.monotonic() < until:
                    continue
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                code = None
            del running[pid]
            shown, said = (Path(f"{number}.{stream}").read_text(errors="replace") for stream in ("out", "err"))
            found[left[number][0]] = Ended(code, shown, said)
    return found


def _started(number: int, words: Sequence[str], reader: bool) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        _become(number, words, reader)
    finally:
        os._exit(70)  # not reached


def _become(number: int, words: Sequence[str], reader: bool) -> NoReturn:
    """Run one command line in this process, to its end."""
    import traceback

    from moldau.admin.main import main

    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    output, said = (os.open(f"{number}.{stream}", flags, 0o644) for stream in ("out", "err"))
    if not reader:
        read, output = os.pipe()
        os.close(read)
    for source, target in ((os.open(os.devnull, os.O_RDONLY), 0), (output, 1), (said, 2)):
        os.dup2(source, target)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    sys.argv = ["moldau", *words]
    status = 1
    try:
        main()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    _serve()
