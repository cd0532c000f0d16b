"""Memory that was given back is used again: counted in page faults, which no busy machine can blur."""

from __future__ import annotations

import gc
import platform
import subprocess
import sys

from moldau.runtime.memory import COLLECT_AFTER, collect_seldom

MEASURE = """
import resource, sys
from moldau.runtime.memory import keep_freed_buffers
told = sys.argv[1] == "keep" and keep_freed_buffers()
def answers():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(100):
        b"x" * (1 << 20), b"y" * (1 << 20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
answers()
print(int(told), answers())
"""


def faults(wish: str) -> tuple[bool, int]:
    """Whether the C library was told to keep, and the page faults of 200 buffers of a megabyte."""
    said = subprocess.run([sys.executable, "-c", MEASURE, wish], capture_output=True, text=True, check=True).stdout
    told, count = said.split()
    return bool(int(told)), int(count)


def test_freed_buffers_are_used_again_without_new_pages() -> None:
    told, count = faults("keep")
    assert told == (platform.libc_ver()[0] == "glibc")
    assert not told or count < 1000  # 51,200 pages went through these buffers


def test_without_being_told_the_library_gives_them_back() -> None:
    _, count = faults("as usual")
    assert platform.libc_ver()[0] != "glibc" or count > 10_000  # else runtime/memory.py has no reason to be


def whole_walks(thresholds: tuple[int, int, int]) -> int:
    """How often the collector walks everything while a batch of metadata comes in (300,000 containers that stay)."""
    walks = 0

    def count(phase: str, what: dict[str, int]) -> None:
        nonlocal walks
        walks += phase == "start" and what["generation"] == 2

    before = gc.get_threshold()
    gc.collect()
    gc.freeze()  # what earlier tests keep: a walk waits until a quarter of all is new
    gc.collect()
    gc.set_threshold(*thresholds)
    gc.callbacks.append(count)
    try:
        kept = [[number] for number in range(300_000)]
        assert len(kept) == 300_000
    finally:
        gc.callbacks.remove(count)
        gc.set_threshold(*before)
        gc.unfreeze()
    return walks


def test_metadata_that_stays_brings_on_no_walk_through_everything() -> None:
    assert whole_walks(COLLECT_AFTER) == 0
    assert whole_walks((700, 10, 1)) > 0, "else this counts nothing"


def test_no_walk_but_that_of_everything_is_long() -> None:
    """A walk is part of a step of the loop: one of 40,000 containers took 16 ms, of 10,000 3 ms."""
    most = 0

    def count(phase: str, what: dict[str, int]) -> None:
        nonlocal most
        if phase == "start" and what["generation"] == 1:
            most = max(most, len(gc.get_objects(generation=0)) + len(gc.get_objects(generation=1)))

    before = gc.get_threshold()
    gc.collect()
    gc.set_threshold(*COLLECT_AFTER)
    gc.callbacks.append(count)
    try:
        kept = [[number] for number in range(100_000)]
        assert len(kept) == 100_000
    finally:
        gc.callbacks.remove(count)
        gc.set_threshold(*before)
    assert 0 < most < 2_500


def test_a_node_collects_seldom() -> None:
    before = gc.get_threshold()
    try:
        collect_seldom()
        assert gc.get_threshold() == COLLECT_AFTER
    finally:
        gc.set_threshold(*before)
