"""The record of one run: its trace (hash and last lines), counts of events and laws, coverage points, the law it broke.

The same seed leaves the same record in any process: nothing here depends on time, addresses or hash seeds. Read next:
seeds.py.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

TRACE_LINES = 60
_ID = re.compile(r"\b([SCRZLX]\d+)\b")
_OWN = "X7"
"""A machine that objects to its own state, or raises, has stopped for its bug: the law of the unhandled exception."""


class Broken(AssertionError):
    """A law does not hold. ``law`` is its id."""

    def __init__(self, law: str, text: str) -> None:
        super().__init__(f"{law}: {text.removeprefix(f'{law}: ')}")
        self.law = law


def law_id(law: Callable[..., Any]) -> str:
    """The first invariant id that a law's docstring names."""
    found = _ID.search(law.__doc__ or "")
    assert found is not None, f"law {law.__name__} does not say which one it is"
    return found.group(1)


def verdict(error: BaseException) -> Broken:
    """An exception that ended a run, as the law that it broke."""
    if isinstance(error, Broken):
        return error
    text = f"{type(error).__name__}: {error}" if not isinstance(error, AssertionError) else str(error)
    found = re.match(r"([SCRZLX]\d+):", text) if isinstance(error, AssertionError) else None
    return Broken(found.group(1) if found else _OWN, text)


class RunRecord:
    """The record of one run, filled by its simulation."""

    __slots__ = ("_hash", "checks", "coverage", "events", "trace", "virtual_ms")

    def __init__(self) -> None:
        self.events = 0
        self.checks = 0
        self.virtual_ms = 0
        self.coverage: set[str] = set()
        self.trace: deque[str] = deque(maxlen=TRACE_LINES)
        self._hash = blake2b(digest_size=8)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def event(self, now_ms: int, text: str) -> None:
        """Something happened."""
        self.events += 1
        self.virtual_ms = max(self.virtual_ms, now_ms)
        line = f"{now_ms:>8} {text}"
        self._hash.update(line.encode())
        self.trace.append(line)

    def check(self, law: Callable[..., Any], *facts: Any) -> None:  # Any: laws of all kinds
        """Run a law, which raises AssertionError, or returns the sentence (or sentences) that says how it is broken."""
        self.checks += 1
        try:
            wrong = law(*facts)
        except AssertionError as error:
            raise Broken(law_id(law), str(error)) from error
        if wrong:
            raise Broken(law_id(law), wrong if isinstance(wrong, str) else "; ".join(wrong))

    def check_all(self, laws: tuple[Callable[..., Any], ...], *facts: Any) -> None:  # Any: laws of all kinds
        for law in laws:
            self.check(law, *facts)
