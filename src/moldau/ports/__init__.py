"""What Moldau asks of the world: Clock, Random, Disk, Net, Tasks, ControlPlane. Protocols only; nothing here acts.

Production gives the ports of ``moldau.runtime``; the simulator gives its own. Only entry points build them; packages
that read, write or wait are given them. Two clocks on purpose: deadlines are counted on ``monotonic_ms``, records are
stamped with ``wall_ms``.
"""

from moldau.ports.control import ControlPlane, PlaneEvents
from moldau.ports.disk import Disk, File
from moldau.ports.net import Listener, Net, Receiver, Transport
from moldau.ports.pools import Pool
from moldau.ports.time import Clock, Handle, Random, Tasks
from moldau.ports.world import World

__all__ = [
    "Clock",
    "ControlPlane",
    "Disk",
    "File",
    "Handle",
    "Listener",
    "Net",
    "PlaneEvents",
    "Pool",
    "Random",
    "Receiver",
    "Tasks",
    "Transport",
    "World",
]
