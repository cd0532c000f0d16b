"""What a cluster is in: KRaft or ZooKeeper mode, in Kafka's words.

``quorum``, the older word for KRaft mode, is still taken wherever a mode is given.
"""

from __future__ import annotations

KRAFT, ZOOKEEPER = "kraft", "zookeeper"
MODES = (KRAFT, ZOOKEEPER)
QUORUM = "quorum"
PLANES = (QUORUM, ZOOKEEPER)
"""The control planes of the two modes, as simulated runs and chaos name them."""


def plane_of(mode: str) -> str:
    """The control plane of a mode; any other text as it is."""
    return QUORUM if mode == KRAFT else mode


def mode_of(plane: str) -> str:
    """The mode of a control plane, as users see it; any other text as it is."""
    return KRAFT if plane == QUORUM else plane
