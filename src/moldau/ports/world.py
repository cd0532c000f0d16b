"""All ports in one value, handed to a node by the entry point that built them."""

from __future__ import annotations

from moldau.ports.disk import Disk
from moldau.ports.net import Net
from moldau.ports.time import Clock, Random, Tasks
from moldau.ports.zookeeper import OpenZooKeeper
from moldau.terms.value import value


@value(kw_only=True)
class World:
    """Clock, chance, disk, net and tasks: everything outside the process, real or simulated."""

    clock: Clock
    random: Random
    disk: Disk
    net: Net
    tasks: Tasks
    zookeeper: OpenZooKeeper | None = None
    """Makes a session's port, not yet started; None where there is no ZooKeeper to be had."""
