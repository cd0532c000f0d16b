"""Which net a run is given: namespaces where permitted, the proxy else, bare loopback where links are left alone.

Decides by what the scenario does to links and what was asked for. Read next: ``net.py``, ``proxy_net.py``.
"""

from __future__ import annotations

import os
from enum import IntEnum

from moldau.cluster.chaos.net import INSIDE, CannotBreak, ClusterNet, Flat, Namespaces, wake_loopback
from moldau.cluster.chaos.proxy_net import ProxyNet

NAMESPACES, PROXY = "namespaces", "proxy"
NETWORKS = (NAMESPACES, PROXY)


class Links(IntEnum):
    """What a scenario does to links."""

    NOTHING = 0
    CUT = 1
    SLOW = 2
    """Slows and resets them, those of clients too."""


def open_net(links: Links, asked: str | None = None) -> ClusterNet:
    """Return the net for a run; CannotBreak says why the wanted one is not available."""
    inside = os.environ.get(INSIDE) == "yes"
    if inside:
        wake_loopback()
    if asked == NAMESPACES and not inside:
        raise CannotBreak(os.environ.get(INSIDE, "") or "the command does not run in namespaces of its own")
    if asked == PROXY or (asked is None and links is Links.SLOW):
        return ProxyNet()
    if inside:
        return Namespaces()
    return ProxyNet() if links is Links.CUT else Flat()
