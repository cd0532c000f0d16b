"""Child processes for long computations: both ends of the pipes between a node and one of them.

The node writes the order, then a rate whenever it changes; the child answers once and ends. It ends as well as soon as
the node's end of the pipe closes, however the node has ended: nobody writes into a dead node's folders. Decides nothing
about what is computed: a child's module calls ``answer``. Port: ``moldau.ports.apart``.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import IO

from moldau.ports.apart import ChildEnded

LOOK_S = 0.1
"""Between two looks whether the rate has changed, or the node stops."""
_LENGTH, _RATE = struct.Struct(">Q"), struct.Struct(">d")
_LOWEST = 19


def run_apart(module: str, order: bytes, rate: Callable[[], float], stopped: Callable[[], bool]) -> bytes:
    """The ``Apart`` port of a real world."""
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert child.stdin is not None
    assert child.stdout is not None
    with child, child.stdin, child.stdout:
        try:
            with suppress(BrokenPipeError):  # it has ended: below is said how
                child.stdin.write(_LENGTH.pack(len(order)) + order)
                child.stdin.flush()
            found = _follow(child.stdin, child.stdout, rate, stopped)
        finally:
            child.kill()
            with suppress(OSError):
                child.stdin.close()
        code = child.wait()
    if len(found) < _LENGTH.size or len(found) - _LENGTH.size != _LENGTH.unpack_from(found)[0]:
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        raise ChildEnded(f"the process of {module} {how}")
    return found[_LENGTH.size :]


def _follow(told: IO[bytes], answers: IO[bytes], rate: Callable[[], float], stopped: Callable[[], bool]) -> bytes:
    """All that a child answers before it closes its end, or the node stops."""
    found, last = b"", None
    ready = select.poll()  # select() knows no descriptor above 1,023, and a broker has thousands
    ready.register(answers, select.POLLIN)
    while not stopped():
        now = rate()
        if now != last:
            last = now
            with suppress(BrokenPipeError):
                told.write(_RATE.pack(now))
                told.flush()
        if ready.poll(LOOK_S * 1000):
            more = os.read(answers.fileno(), 1 << 16)
            if not more:
                break
            found += more
    return found


def answer(work: Callable[[bytes, Callable[[], float]], bytes]) -> None:
    """The child's side: read the order, do ``work(order, rate)`` at the lowest priority, answer, and end."""
    os.setpriority(os.PRIO_PROCESS, 0, _LOWEST)
    orders, answers = sys.stdin.buffer, sys.stdout.buffer
    (size,) = _LENGTH.unpack(orders.read(_LENGTH.size))
    order = orders.read(size)
    rates = [_RATE.unpack(orders.read(_RATE.size))[0]]

    def listen() -> None:
        while len(data := orders.read(_RATE.size)) == _RATE.size:
            rates[0] = _RATE.unpack(data)[0]
        os._exit(1)  # the node has ended, or has stopped waiting

    Thread(target=listen, daemon=True).start()
    found = work(order, lambda: rates[0])
    answers.write(_LENGTH.pack(len(found)) + found)
    answers.flush()
    os._exit(0)
