"""What does not fit into one znode is refused before it is decided: ZooKeeper would close the connection on it.

A transaction of several operations can be sent in pieces, and one operation cannot. Decides from below how large the
JSON of a resource's settings, or of a topic's assignments, would be; there is no bound where no ZooKeeper is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from moldau.controller.facts import Problem, Settings
from moldau.image.partition import Partition
from moldau.model import Code

MOVED = 3
"""How often a replica is named at most: while all of a topic's replicas move, the old and the new ones stand among its
replicas, and again among those that come or go."""


def settings_too_large(settings: Settings, values: Mapping[str, str]) -> Problem | None:
    """Why a resource cannot have all these settings, if it cannot."""
    if settings.znode_bytes is None or sum(map(len, values.values())) <= settings.znode_bytes // 6:
        return None
    size = len(json.dumps(dict(values), ensure_ascii=False).encode())
    if size <= settings.znode_bytes:
        return None
    why = f"The settings would take {size} bytes together, and ZooKeeper holds {settings.znode_bytes} in one place."
    return Problem(Code.INVALID_CONFIG, why)


def topic_too_large(settings: Settings, partitions: Iterable[Partition]) -> Problem | None:
    """Why a topic cannot have all these partitions, if it cannot."""
    if settings.znode_bytes is None:
        return None
    size = sum(12 + MOVED * sum(len(str(id)) + 1 for id in partition.replicas) for partition in partitions)
    if size <= settings.znode_bytes:
        return None
    why = f"The topic's replicas would take {size} bytes, and ZooKeeper holds {settings.znode_bytes} in one place."
    return Problem(Code.POLICY_VIOLATION, why)
