"""What commands that end by a signal leave behind in this process, which goes on, is taken back."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def handlers_as_before() -> Iterator[None]:
    """A command that was asked to end keeps its handlers until its process is gone."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
