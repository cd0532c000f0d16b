"""Whether a node lives, is ready for clients, and may be stopped without anybody noticing; each with its reasons.

Decides only from what the node knows. Ready is more than running: metadata covers the node's own registration, logs are
recovered (they are before anything else starts). Read next: ``page.py``.
"""

from __future__ import annotations

from typing import Any

from moldau.broker.lifecycle import Stage
from moldau.image import Image
from moldau.image.configs import topic_value

NAMED_MAX = 5


def not_ready(node: Any) -> list[str]:
    """Why clients, or other nodes, cannot use this node now; empty when they can."""
    if not hasattr(node, "plane"):
        return ["the node is starting"]
    reasons = []
    leader, _ = node.plane.leader
    if leader is None:
        reasons.append("no active controller is known")
    if node.lifecycle is not None and node.lifecycle.stage is not Stage.RUNNING:
        reasons.append(f"the broker is {node.lifecycle.stage.value}")
    if not node.healthy():
        reasons.append("a disk does not answer, or every log directory has failed")
    return reasons


def not_safe_to_restart(node: Any) -> list[str]:
    """Which partitions would suffer if this broker went now; empty when none would."""
    if node.lifecycle is None:
        return []
    image: Image = node.metadata.image
    me, static = node.config.node_id, node.config.static_topic_config()
    homeless, short = [], []
    for part in image.partitions_on_broker(me):
        rest = [replica for replica in part.isr if replica != me]
        if me not in part.isr or len(part.replicas) == 1:  # with one replica its owner wanted no better
            continue
        name = image.topics[part.topic_id].name
        if not rest:
            homeless.append(f"{name}-{part.id}")
        elif len(rest) < min(topic_value(image, name, "min.insync.replicas", static), len(part.replicas)):
            short.append(f"{name}-{part.id}")
    reasons = []
    if homeless:
        reasons.append(f"{len(homeless)} partition(s) would have no leader: {_some(homeless)}")
    if short:
        reasons.append(f"{len(short)} partition(s) would refuse acks=all: {_some(short)}")
    return reasons


def _some(names: list[str]) -> str:
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(sorted(names)[:NAMED_MAX]) + more


def report(node: Any) -> dict[str, Any]:
    """Everything about the node's health, for people and scripts."""
    ready, safe = not_ready(node), not_safe_to_restart(node)
    leader, epoch = node.plane.leader if hasattr(node, "plane") else (None, -1)
    return {
        "node": node.config.node_id,
        "roles": sorted(node.config.roles),
        "stage": node.lifecycle.stage.value if node.lifecycle is not None else "controller",
        "ready": not ready,
        "safe_to_restart": not safe,
        "reasons": ready + safe,
        "controller": leader,
        "controller_epoch": epoch,
        "metadata_offset": node.metadata.offset,
        "log_dirs_offline": [dir.path for dir in node.data.log_dirs.offline] if node.data is not None else [],
    }
