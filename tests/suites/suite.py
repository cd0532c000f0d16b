"""What a suite of another project is to the one who runs it. Read next: plain_go.py, sarama.py, librdkafka.py."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from tests.suites.known import Known
from tests.suites.systems import System


class CannotBuild(Exception):
    """The sources do not build; the text says why."""


class Outcome(NamedTuple):
    """One test: "passed", "failed" or "skipped", the innermost tests that failed, and what it printed."""

    test: str
    verdict: str
    failed: tuple[str, ...]
    seconds: float
    output: str
    why: str = ""
    """Why the suite skipped it, in its own words."""


class Suite(Protocol):
    """A suite that can be run from a checkout of its project."""

    @property
    def name(self) -> str:
        """What ``--only`` calls it."""

    @property
    def known(self) -> tuple[Known, ...]:
        """What may fail."""

    def absent(self, sources: Path) -> str | None:
        """Why it cannot be run here, if it cannot."""

    def run(self, sources: Path, only: str, system: System) -> Iterator[Outcome]:
        """Build it, run those of its tests whose names match ``only`` against clusters of a system, tell of each."""


def taken(ports: Iterable[int]) -> int | None:
    """The first of these ports of this machine on which somebody listens."""
    for port in ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return port
    return None
