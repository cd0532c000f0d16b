"""`moldau consume` and `moldau tail` end at the first Ctrl-C wherever they wait, and commit what was printed."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from moldau.admin.consume import _Reading, _Stop
from moldau.admin.signals import Raised, caught_signals
from moldau.model import TopicPartition
from tests.packages.admin.doubles import Driven, TalkDouble

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
WISH: Any = {"most": None, "output": "text", "columns": ("value",)}


@pytest.mark.parametrize("command", ["consume", "tail"])
def test_the_first_interrupt_ends_a_command_that_waits_for_a_server(command: str) -> None:
    """Two that came at once did nothing for seconds: the server takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        words = [command, "t", "-b", f"127.0.0.1:{server.getsockname()[1]}"]
        waiting = subprocess.Popen([sys.executable, "-m", "moldau", *words], stderr=subprocess.PIPE, text=True)
        there, _ = server.accept()
        with there:
            waiting.send_signal(signal.SIGINT)
            _, said = waiting.communicate(timeout=120)
    assert (waiting.returncode, said) == (0, "0 records.\n")


class Member:
    """A consumer that is interrupted while it polls, when others have read on in a partition that came back to it."""

    def __init__(self) -> None:
        self.positions = {A: 100, B: 7}
        self.on_revoked: Callable[[frozenset[TopicPartition]], object] | None = None

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self.positions)

    async def poll(self, wait_ms: float) -> list[Any]:
        assert self.on_revoked is not None
        self.on_revoked(frozenset({A}))
        self.positions = {A: 170, B: 9}
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("it was interrupted")

    def position(self, partition: TopicPartition) -> int:
        return self.positions[partition]

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.positions[partition] = offset


def test_what_had_come_when_a_poll_was_interrupted_is_not_committed_and_a_group_does_not_go_back() -> None:
    member: Any = Member()
    talk = TalkDouble(Driven())
    with caught_signals(Raised.WHEN_REPEATED) as signals:
        reading = _Reading(talk, member, WISH, lambda record: True, signals)
        with pytest.raises(KeyboardInterrupt), signals.raised(Raised.AT_ONCE):
            reading.run(True, _Stop(signals))
        reading.go_back_to_what_was_written()
    assert member.positions[B] == 7
    assert member.positions[A] < 0, "what others have committed for it stands"


LATE = """
import os
import signal

from moldau.admin.signals import Raised, caught_signals


class Late:
    def __del__(self, kill=os.kill, me=os.getpid(), number=int(signal.SIGINT)):
        kill(me, number)


late = Late()  # let go of when Python has given signals back their default
with caught_signals(Raised.NOT):
    os.kill(os.getpid(), signal.SIGINT)
"""


def test_an_interrupt_while_python_ends_adds_nothing_to_one_before() -> None:
    """A member that had left its group, and had said so, ended by the second of two signals."""
    assert subprocess.run([sys.executable, "-c", LATE], check=False).returncode == 0
