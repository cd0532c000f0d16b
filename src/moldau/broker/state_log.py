"""state-change.log and its JSON twin: one line for every change of a broker, partition or replica (SL-1).

The active controller writes what it decided and why; a broker writes what became of its own replicas. The words of the
controller's lines are ``moldau.controller.state_change``'s, those of the brokers are Kafka's (2.x and later).
"""

from __future__ import annotations

import json
import logging
from typing import Any

from moldau.controller.state_change import Author, state_changes
from moldau.image import Delta, Image, Partition

TEXT = logging.getLogger("state.change.logger")
TWIN = logging.getLogger("state.change.json")


Changed = tuple[str, Partition | None, Partition]


class StateLog:
    """Watches one node's committed metadata."""

    def __init__(self, node: Any) -> None:
        self._node = node
        self._me: int = node.config.node_id

    def decided(self, image: Image, delta: Delta) -> None:
        """A committed batch; written by the node whose office decided it."""
        office = self._node.office
        if office is None or not office.active:
            return
        now_ms = self._node.world.clock.wall_ms()
        for change in state_changes(delta, image, Author(self._me, office.epoch)):
            TEXT.info("%s", change.text)
            TWIN.info("%s", json.dumps({"time_ms": now_ms, "node": self._me, **change.facts}, separators=(",", ":")))

    def carried_out(self, image: Image, delta: Delta) -> None:
        """What a batch made of this broker's replicas."""
        leading: list[Changed] = []
        following: list[Changed] = []
        for topic, _, before, after in delta.partition_changes(image):
            if after is None or self._me not in after.replicas:
                continue
            if before is not None and before.leader_epoch == after.leader_epoch:
                continue
            (leading if after.leader == self._me else following).append((topic, before, after))
        if leading:
            TEXT.info("[Broker id=%d] Transitioning %d partition(s) to local leaders.", self._me, len(leading))
        for topic, before, after in leading:
            self._leader(topic, before, after)
        if following:
            TEXT.info("[Broker id=%d] Transitioning %d partition(s) to local followers.", self._me, len(following))
        for topic, before, after in following:
            self._follower(topic, before, after)

    def _leader(self, topic: str, before: Partition | None, after: Partition) -> None:
        replica = self._node.replicas.by_key.get(after.key)
        start = replica.machine.epoch_start if replica is not None else -1
        TEXT.info(
            "[Broker id=%d] Leader %s-%d starts at leader epoch %d from offset %d with partition epoch %d, ISR %s,"
            " adding replicas %s and removing replicas %s. Previous leader %s and previous leader epoch was %d.",
            self._me, topic, after.id, after.leader_epoch, start, after.partition_epoch, list(after.isr),
            list(after.adding), list(after.removing), *_previous(before),
        )  # fmt: skip

    def _follower(self, topic: str, before: Partition | None, after: Partition) -> None:
        TEXT.info(
            "[Broker id=%d] Follower %s-%d starts at leader epoch %d with partition epoch %d. Current leader is %d."
            " Previous leader %s and previous leader epoch was %d.",
            self._me, topic, after.id, after.leader_epoch, after.partition_epoch, after.leader, *_previous(before),
        )  # fmt: skip


def _previous(before: Partition | None) -> tuple[object, int]:
    return (None, -1) if before is None else (before.leader, before.leader_epoch)
