"""Durations as a pipeline's file writes them: ``500ms``, ``10s``, ``5m``, ``1h``, ``1d``."""

from __future__ import annotations

import re

_DURATION = re.compile(r"(\d{1,9})(ms|s|m|h|d)")
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(duration: str) -> float:
    """How long ``10s`` or ``5m`` is, in seconds; ValueError for other text."""
    if not is_duration(duration):
        raise ValueError(f"{duration!r} is not a duration: 500ms, 10s, 5m, 1h, 1d")
    number, unit = _DURATION.fullmatch(duration).groups()  # type: ignore[union-attr]  # it matches
    return int(number) * _UNIT_S[unit]


def is_duration(text: str) -> bool:
    """Whether the text is a duration, of at most 999,999,999 of its unit."""
    return _DURATION.fullmatch(text) is not None
