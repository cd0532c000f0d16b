"""What is unpacked elsewhere: an error that ends it keeps nothing of what was unpacked until then."""

from __future__ import annotations

import gc
import tracemalloc
import zlib
from typing import Any
from weakref import ref

import pytest

from moldau.storage.slow import Slow, run_to_end, unpacked
from moldau.wire.compression import BatchError, Codec, UnpacksToTooMuch


class Large:
    """Stands for what was unpacked."""


@pytest.fixture
def without_collector() -> Any:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_who_forgets_the_error_has_forgotten_what_was_unpacked(without_collector: Any) -> None:
    kept: list[ref[Large]] = []

    def compute() -> bytes:
        out = Large()
        kept.append(ref(out))
        raise BatchError("broken")

    def ask(slow: Slow) -> None:
        here = Large()
        kept.append(ref(here))
        slow.result()

    for called_before in (True, False):
        slow = Slow(compute)
        if called_before:
            slow()
        with pytest.raises(BatchError, match="broken"):
            ask(slow)
    assert [one() for one in kept] == [None] * 4


def test_bombs_that_are_refused_leave_no_memory_behind(without_collector: Any) -> None:
    """Each left all that it may unpack to, for a collector that seldom comes that far: 43 of them took 1.1 GB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = packer.compress(bytes(8 << 20)) + packer.flush()
    tracemalloc.start()
    try:
        for _ in range(5):
            with pytest.raises(UnpacksToTooMuch):
                run_to_end(unpacked(Codec.GZIP, memoryview(bomb), 4 << 20))
        now, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert now < 1 << 20
