"""Unpacking in two places: what is small here and now, what may be large on whichever thread the caller has.

A generator that yields a ``Slow`` asks for it to be called, anywhere, before the generator goes on. Decides how much is
unpacked at once on the event loop. Read next: ``log_validator.py`` and ``timestamps.py``, which pause in this way.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

from moldau.wire.compression import BatchError, Codec, UnpacksToTooMuch, decompress

PACKED_HERE_MAX = 1 << 18
"""A payload of more bytes is unpacked as something slow,"""
UNPACKED_HERE_MAX = 1 << 20
"""...and so is one that unpacks to more than this."""

T = TypeVar("T")


class Slow:
    """A computation that may be called on any thread, and its outcome once it was."""

    def __init__(self, compute: Callable[[], bytes]) -> None:
        self._compute = compute
        self._value: bytes | None = None
        self._error: BatchError | None = None

    def __call__(self) -> None:
        try:
            self._value = self._compute()
        except BatchError as error:
            self._error = error.with_traceback(None)  # which knows all that was unpacked up to there

    def result(self) -> bytes:
        """What was computed, now if that was not done yet; BatchError as it was raised, once.

        Whoever hears of the error may forget it, and all that stands in the frames it went through is free then.
        """
        if self._value is None and self._error is None:
            self()
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error
        assert self._value is not None
        return self._value


Pauses = Generator[Slow | None, None, T]
"""Work that pauses where the loop may turn, and yields what is slow; it returns T."""


def unpacked(codec: int, packed: memoryview, most: int) -> Pauses[bytes]:
    """A batch's payload, at most ``most`` bytes of it; BatchError when it is broken, UnpacksToTooMuch beyond that."""
    if codec == Codec.NONE:
        return bytes(packed)
    if len(packed) <= PACKED_HERE_MAX:
        try:
            return decompress(codec, packed, min(UNPACKED_HERE_MAX, most))
        except UnpacksToTooMuch:
            if most <= UNPACKED_HERE_MAX:
                raise
    slow = Slow(lambda: decompress(codec, packed, most))
    yield slow
    return slow.result()


def run_to_end(work: Pauses[T]) -> T:
    """What ``work`` returns, all of it done here."""
    try:
        while True:
            slow = next(work)
            if slow is not None:
                slow()
    except StopIteration as end:
        result: T = end.value
        return result
