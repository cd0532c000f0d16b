"""The process in which a broker has one log compacted: ``python -m moldau.admin.cleaner``, never started by hand.

An entry point, because it builds the real disk. It works at the lowest priority, no faster than the node says, and ends
with it. What is done: ``moldau.storage.compaction``; who asks: ``moldau.broker.replicas.cleaner``.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable

from moldau.runtime.apart import answer
from moldau.runtime.disk import RealDisk
from moldau.storage.compaction import CompactionOrder, compact
from moldau.storage.pace import paced


def work(order: bytes, rate: Callable[[], float]) -> bytes:
    """The outcome of an order; both as the broker pickles them."""
    wanted = pickle.loads(order)
    assert isinstance(wanted, CompactionOrder)
    return pickle.dumps(compact(wanted, RealDisk(), paced(rate, time.sleep)))


if __name__ == "__main__":
    answer(work)
