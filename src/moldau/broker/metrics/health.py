"""Whether a node lives, is ready for clients, and may be stopped without anybody noticing; each with its reasons.

Decides only from what the node knows. Ready is more than running: metadata covers the node's own registration, logs are
recovered (they are before anything else starts). Read next: ``page.py``; what speaks against a stop:
``moldau.image.leaving``.
"""

from __future__ import annotations

from functools import partial

from moldau.broker.lifecycle import Stage
from moldau.broker.metrics.reported import Reported
from moldau.image import Image
from moldau.image.configs import Static, topic_value
from moldau.image.leaving import reasons_not_to_stop


def not_ready(node: Reported) -> list[str]:
    """Why clients, or other nodes, cannot use this node now; empty when they can."""
    if not node.has_joined:
        return ["the node is starting"]
    reasons = []
    leader, _ = node.plane.leader
    if node.plane.why_no_controller:
        reasons.append(node.plane.why_no_controller)
    elif leader is None:
        reasons.append("no active controller is known")
    if node.lifecycle is not None:
        stage = node.lifecycle.stage
        unregistered = node.plane.unregistered if stage in (Stage.FENCED, Stage.RUNNING) else ""
        if unregistered:
            reasons.append(unregistered)
        elif stage is not Stage.RUNNING:
            reasons.append(f"the broker is {stage.value}")
    if not node.healthy():
        reasons.append("a disk does not answer, or every log directory has failed")
    return reasons


def not_safe_to_restart(node: Reported) -> list[str]:
    """Which partitions would suffer if this broker went now; empty when none would."""
    if node.lifecycle is None:
        return []
    image: Image = node.metadata.image
    me, static = node.config.node_id, node.config.static_topic_config()
    parts = image.partitions_on_broker(me)
    stands = ((image.topics[part.topic_id].name, part.id, part.replicas, part.isr) for part in parts)
    least = partial(_min_isr, image, static)
    return reasons_not_to_stop(me, stands, least, only_copies=False)


def _min_isr(image: Image, static: Static, topic: str) -> int:
    return int(topic_value(image, topic, "min.insync.replicas", static))


def report(node: Reported) -> dict[str, object]:
    """Everything about the node's health, for people and scripts."""
    ready, safe = not_ready(node), not_safe_to_restart(node)
    leader, epoch = node.plane.leader if node.has_joined else (None, -1)
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
        "metadata_log_missing": node.plane.missing_log if node.has_joined else "",
        "log_dirs_offline": [dir.path for dir in node.data.log_dirs.offline] if node.data is not None else [],
    }
