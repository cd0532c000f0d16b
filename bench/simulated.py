"""What many partitions cost three whole brokers in the simulator: real nodes, virtual time, one process.

Disk and network are simulated, so that what is timed is Moldau's own work: the processor time of the nodes' callbacks,
without those of clients, of the simulation's loop and of whoever looks whether a action is done. Deeds and what must be
so after them are ``moldau.simulator.many``'s. Read next: bench/scale.py, which runs this and shows it.
"""

from __future__ import annotations

import os
import time
from asyncio import events
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from bench.systems import resident_bytes
from bench.timed_node import named
from moldau.runtime.memory import collect_seldom
from moldau.simulator.loop import OWNER
from moldau.simulator.many import BROKERS, ManyPartitions


class Deed(NamedTuple):
    """``seconds`` of processor time of all nodes together; ``memory_mib`` is a node's share of the process, in which
    also its disk is, and what its dead predecessors held. ``step`` says what the largest step was.
    """

    action: str
    seconds: float
    largest_step_ms: float
    memory_mib: float
    step: str


class Watch:
    """While it watches, adds up the processor time of the nodes' callbacks, and keeps the longest one."""

    def __init__(self, hosts: set[str]) -> None:
        self._hostnames = hosts
        self._real: Any = events.Handle._run
        self.begin()

    def begin(self) -> None:
        """From zero."""
        self.seconds = self.longest = 0.0
        self.step = ""

    def __enter__(self) -> Watch:
        real = self._real

        def timed(handle: Any) -> None:
            owner = handle._context.get(OWNER)
            if owner is None or owner.name not in self._hostnames:
                real(handle)
                return
            what = named(handle)
            began = time.thread_time()
            real(handle)
            self._note(time.thread_time() - began, f"{owner.name} {what}")

        events.Handle._run = timed  # type: ignore[method-assign,assignment]
        return self

    def __exit__(self, *_: object) -> None:
        events.Handle._run = self._real  # type: ignore[method-assign]

    def _note(self, took: float, what: str) -> None:
        self.seconds += took
        if took > self.longest:
            self.longest, self.step = took, what


def simulated(partitions: int, in_a_topic: int, tell: Callable[[Deed], None]) -> None:
    """Measure in this process, which does nothing else and ends after it."""
    collect_seldom()  # as a node does
    many = ManyPartitions(partitions, in_a_topic)
    with Watch({host.hostname for host in many.cluster.hosts.values()}) as watch:
        for action in measure(many, watch):
            tell(action)


def measure(many: ManyPartitions, watch: Watch) -> Iterator[Deed]:
    """Each action as soon as it is done; AssertionError when another controller had to build anew what it had."""
    many.run(many.start)
    empty = resident_bytes([os.getpid()])

    def timed(act: Callable[[], Any]) -> Any:
        watch.begin()
        return many.run(act)

    def done(action: str) -> Deed:
        memory = (resident_bytes([os.getpid()]) - empty) / len(BROKERS) / 2**20
        return Deed(action, watch.seconds, watch.longest * 1000, memory, watch.step)

    timed(many.create)
    yield done(f"create, {many.in_a_topic:,} partitions a topic: led and followed")
    dead = timed(many.death)
    yield done("a broker dies: all led again")
    timed(partial(many.come_back, dead))
    yield done("a broker comes back: in every ISR")
    many.run(many.spread)
    left = timed(many.shutdown)
    yield done("controlled shutdown")
    many.run(partial(many.come_back, left))
    many.run(many.spread)
    timed(many.failover)
    yield done("the controller dies: a topic is created")
    many.run(many.settle)
    assert not many.rebuilt(), many.rebuilt()
