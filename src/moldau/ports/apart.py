"""Long computations in a process of their own: another interpreter lock, another memory, a lower priority.

A thread that computes in Python takes the interpreter's lock from the loop again and again, and what it allocates, or
dies of, is the node's. Read next: ``moldau.runtime.apart`` (the real one).
"""

from __future__ import annotations

from collections.abc import Callable

from moldau.model.protocol import Protocol


class Apart(Protocol):
    """Runs a module of ours in a child process. The call waits: make it off the loop."""

    def __call__(self, module: str, order: bytes, rate: Callable[[], float], stopped: Callable[[], bool]) -> bytes:
        """What the module answers to ``order``. ``rate`` is told to it whenever it changes; once ``stopped``, or when
        this process ends, it is ended. ChildEnded when there is no answer; OSError when it could not be started."""


class ChildEnded(Exception):
    """The child process ended without an answer; the text says how."""
