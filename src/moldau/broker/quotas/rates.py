"""How fast something happens: Kafka's rate over sampled windows (KIP-13), and its token bucket (KIP-599).

Both are told amounts and times and answer for how long who causes them must wait. They know nothing of whom they count.
"""

from __future__ import annotations

from collections import deque

from moldau.model.named import NamedTuple

WAIT_MAX_MS = (1 << 31) - 1
"""What a response can say. A quota may be so small, or so large, that the time to wait is no finite number."""


class Windows(NamedTuple):
    """Samples of a rate: ``number`` of them are kept, each covers ``size_ms``."""

    number: int
    size_ms: int

    @property
    def all_ms(self) -> int:
        """The time that they cover together."""
        return self.number * self.size_ms


class Rate:
    """Amounts a second, over the newest windows. The windows before the first amount count as empty ones."""

    __slots__ = ("_samples", "_total", "_windows", "last_ms")

    def __init__(self, windows: Windows, now_ms: int) -> None:
        self._windows = windows
        self._samples: deque[list[float]] = deque()  # [when the window began, amount]
        self._total = 0.0
        self.last_ms = now_ms
        """When it was told of something, or asked."""

    def record(self, amount: float, now_ms: int) -> None:
        """So much has happened."""
        self._drop_old(now_ms)
        samples = self._samples
        if not samples or now_ms - samples[-1][0] >= self._windows.size_ms:
            samples.append([now_ms, 0.0])
        samples[-1][1] += amount
        self._total += amount

    def wait_ms(self, limit: float, now_ms: int) -> int:
        """How long nothing may happen for the rate to come down to ``limit`` a second; 0 when it is not above."""
        self._drop_old(now_ms)
        window_ms = self._window_ms(now_ms)
        rate = self._total * 1000 / window_ms
        return _wait_ms((rate - limit) / limit * window_ms) if rate > limit else 0

    def _window_ms(self, now_ms: int) -> int:
        """The time over which the rate is measured: all windows but the last one at least."""
        size_ms, least = self._windows.size_ms, self._windows.number - 1
        elapsed_ms = now_ms - int(self._samples[0][0]) if self._samples else 0
        return max(elapsed_ms + max(least - elapsed_ms // size_ms, 0) * size_ms, 1)

    def _drop_old(self, now_ms: int) -> None:
        self.last_ms = now_ms
        samples, all_ms = self._samples, self._windows.all_ms
        while samples and now_ms - samples[0][0] >= all_ms:
            self._total -= samples.popleft()[1]
        if not samples:
            self._total = 0.0  # no error of sums stays


class TokenBucket:
    """Tokens that come at a rate and are kept up to what all windows bring. More than there are may be taken at once:
    what is owed is waited for."""

    __slots__ = ("_tokens", "_windows", "last_ms")

    def __init__(self, windows: Windows, limit: float, now_ms: int) -> None:
        self._windows = windows
        self._tokens = limit * windows.all_ms / 1000
        self.last_ms = now_ms

    def take(self, count: float, limit: float, now_ms: int) -> None:
        """Take tokens; a negative count gives them back."""
        self._refill(limit, now_ms)
        self._tokens = min(self._tokens - count, limit * self._windows.all_ms / 1000)

    def wait_ms(self, limit: float, now_ms: int) -> int:
        """How long it takes until nothing is owed."""
        self._refill(limit, now_ms)
        return _wait_ms(-self._tokens / limit * 1000)

    def _refill(self, limit: float, now_ms: int) -> None:
        earned = (now_ms - self.last_ms) * limit / 1000
        self._tokens = min(self._tokens + earned, limit * self._windows.all_ms / 1000)
        self.last_ms = now_ms


def _wait_ms(ms: float) -> int:
    return round(min(max(ms, 0.0), WAIT_MAX_MS))
