"""Which net a run is given: namespaces where permitted, the proxy else, bare loopback where links are left alone.

Decides by what the scenario does to links and what was asked for. Read next: ``net.py``, ``proxied.py``.
"""

from __future__ import annotations

import os
from enum import IntEnum

from moldau.cluster.chaos.net import INSIDE, CannotBreak, Flat, Namespaces, Net, wake_loopback
from moldau.cluster.chaos.proxied import Proxied

NAMESPACES, PROXY = "namespaces", "proxy"
NETWORKS = (NAMESPACES, PROXY)


class Links(IntEnum):
    """What a scenario does to links."""

    NOTHING = 0
    CUT = 1
    SLOW = 2
    """Slows and resets them, those of clients too."""


def open_net(links: Links, asked: str | None = None) -> Net:
    """The net for a run; CannotBreak says why what was asked for cannot be had."""
    inside = os.environ.get(INSIDE) == "yes"
    if inside:
        wake_loopback()
    if asked == NAMESPACES and not inside:
        raise CannotBreak(os.environ.get(INSIDE, "") or "the command does not run in namespaces of its own")
    if asked == PROXY or (asked is None and links is Links.SLOW):
        return Proxied()
    if inside:
        return Namespaces()
    return Proxied() if links is Links.CUT else Flat()
