"""Memory that was given back is used again: counted in page faults, which no busy machine can blur."""

from __future__ import annotations

import platform
import subprocess
import sys

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
