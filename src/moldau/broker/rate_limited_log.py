"""Log lines that anybody can cause: the first few of a period are written, the rest is counted.

Otherwise one client that asks for the impossible a thousand times a second fills the disk. Whoever logs holds one
``RateLimitedLog`` for each line of the kind.
"""

from __future__ import annotations

from moldau.ports import Clock

PERIOD_MS = 10_000
LINES = 5
"""Lines of a kind in one period."""


class RateLimitedLog:
    """Says whether a line may be written now."""

    def __init__(self, clock: Clock, lines: int = LINES) -> None:
        self._clock = clock
        self._most = lines
        self._since_ms = -PERIOD_MS
        self._lines = 0
        self._kept_back = 0

    def more(self) -> str | None:
        """None when the line must be left out; else what to write after it: how many were left out before it."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._since_ms >= PERIOD_MS:
            self._since_ms, self._lines = now_ms, 0
        if self._lines >= self._most:
            self._kept_back += 1
            return None
        self._lines += 1
        kept_back, self._kept_back = self._kept_back, 0
        return f" ({kept_back} more such lines were left out)" if kept_back else ""
