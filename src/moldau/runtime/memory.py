"""How the C library treats memory that a broker has given back, and how often Python looks for garbage in cycles.

glibc maps each buffer of more than 128 KiB anew and unmaps it when it is freed, or gives the top of its heap back; the
next fetch answer of a megabyte then faults in 256 fresh pages, which the kernel clears first. That was two thirds of
what a consumer cost the broker. Told to keep what is freed, it serves the next answer from the same pages. Read next:
``moldau/admin/node.py``, which asks for it once the node serves.
"""

from __future__ import annotations

import gc

KEEP_BYTES = 16 << 20
"""Freed memory at the top of the heap that is kept: a few answers of replica.fetch.max.bytes or max.partition.fetch."""
MAP_FROM_BYTES = 4 << 20
"""Buffers from here on are mapped and unmapped one by one: too rare to keep."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # malloc.h


def keep_freed_buffers() -> bool:
    """Have the C library keep freed buffers for the next ones; whether it is one that can (glibc)."""
    import ctypes  # only here, since it is of no use before the node serves: 3 ms of its start

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    return bool(mallopt(_MMAP_THRESHOLD, MAP_FROM_BYTES) and mallopt(_TRIM_THRESHOLD, KEEP_BYTES))


COLLECT_AFTER = (400, 3, 42_000)
"""New containers until the youngest are walked; such walks until the middle ones are; such walks until all are. A walk
is part of a step of the loop, and each container has one among the youngest and one among the middle ones however many
go at a time. Of the middle ones there are 2,000 then, which take 0.6 ms; 10,000 took 3 ms, and two clients that asked
for 10,000 committed offsets without a pause had a walk in each of 50 steps a second."""


def collect_seldom() -> None:
    """Have the cyclic collector walk everything only once in fifty million objects, not after each few thousand.

    A broker's objects are a million that live on (ten thousand partitions) and many that die by reference count. At
    Python's own thresholds each batch of metadata brought on full walks, of 100 ms and more, that found nothing.
    Modules that are loaded already are not walked at all.
    """
    gc.set_threshold(*COLLECT_AFTER)
    gc.freeze()
    gc.enable()
