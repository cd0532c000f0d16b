"""All ports in one value, handed to a node by the entry point that built them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.model.value import value
from moldau.ports.apart import Apart
from moldau.ports.buggify import Buggify
from moldau.ports.disk import Disk
from moldau.ports.net import Net
from moldau.ports.time import Clock, Random, Tasks

if TYPE_CHECKING:
    from moldau.ports.zookeeper import OpenZooKeeper


@value(kw_only=True)
class World:
    """Clock, chance, disk, net, tasks, and how long a step may be: what is outside the process, real or simulated."""

    clock: Clock
    random: Random
    disk: Disk
    net: Net
    tasks: Tasks
    zookeeper: OpenZooKeeper | None = None
    """Makes a session's port, not yet started; None where there is no ZooKeeper to be had."""
    apart: Apart | None = None
    """Runs long computations in a process of their own; None where all stays in this one."""
    buggify: Buggify | None = None
    """Returns True now and then: take this buggify point. None in production: never."""
    step: int = 100
    """How many partitions, or records of the metadata log, one step of the loop should hold: under 5 ms of work."""
