"""How long to wait before something that failed is tried again: twice as long each time, up to a limit."""

from __future__ import annotations

_DOUBLINGS_MAX = 20
"""More would only make large numbers: limits are far below."""


def longer_ms(wait_ms: float, first_ms: int, max_ms: int) -> int:
    """The wait after a failure before which one waited ``wait_ms``; after the first failure that was 0."""
    return int(min(max(2 * wait_ms, first_ms), max_ms))


def backoff_ms(failures: int, first_ms: int, max_ms: int) -> int:
    """The wait after so many failures in a row, of which 0 was before the first wait."""
    return min(first_ms << min(failures, _DOUBLINGS_MAX), max_ms)
