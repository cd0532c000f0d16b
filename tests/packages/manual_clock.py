"""A clock that stands still until a test moves it."""

from __future__ import annotations


class ManualClock:
    """A clock whose time is ``now_ms``, monotonic and of the wall alike; for ``waited_ms`` of it the thread did not
    run."""

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms
        self.waited_ms = 0

    def monotonic_ms(self) -> int:
        return self.now_ms

    def monotonic_ns(self) -> int:
        return self.now_ms * 1_000_000

    def processor_ns(self) -> int:
        return (self.now_ms - self.waited_ms) * 1_000_000

    def wall_ms(self) -> int:
        return self.now_ms
