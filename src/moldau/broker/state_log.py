"""state-change.log and its JSON twin: one line for every change of a broker, partition or replica (SL-1).

The active controller writes what it decided and why; a broker writes what became of its own replicas. The words of the
controller's lines are ``moldau.controller.state_change``'s, those of the brokers are Kafka's (2.x and later). Lines
go to a log joined, and a few hundred in a turn of the loop: a broker may die with ten thousand partitions.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any

from moldau.controller.state_change import Author, StateChange, state_changes
from moldau.image import Delta, Image, Partition

TEXT = logging.getLogger("state.change.logger")
TWIN = logging.getLogger("state.change.json")


_JSON = json.JSONEncoder(separators=(",", ":"))

AT_ONCE = 150
"""Events that are put into words in one turn of the loop; ten thousand would hold up everything else."""

Changed = tuple[str, Partition | None, Partition]


class StateLog:
    """Watches one node's committed metadata."""

    def __init__(self, node: Any) -> None:
        self._node = node
        self._me: int = node.config.node_id
        self._unwritten: deque[tuple[int, Iterator[StateChange]]] = deque()

    def decided(self, image: Image, delta: Delta) -> None:
        """A committed batch; written by the node whose office decided it."""
        office = self._node.office
        if office is None or not office.active:
            return
        now_ms = self._node.world.clock.wall_ms()
        if not (_is_kept(TEXT) or _is_kept(TWIN)):
            return
        self._unwritten.append((now_ms, state_changes(delta, image, Author(self._me, office.epoch))))
        if len(self._unwritten) == 1:
            self._write_some()

    def _write_some(self) -> None:
        """What is unwritten, up to so many events; the rest in the next turns of the loop, in order."""
        left = AT_ONCE
        while self._unwritten and left:
            now_ms, changes = self._unwritten[0]
            some = list(islice(changes, left))
            left -= len(some)
            if left:
                self._unwritten.popleft()
            _write(TEXT, [change.text for change in some])
            _write(TWIN, [_JSON.encode({"time_ms": now_ms, "node": self._me, **change.facts}) for change in some])
        if self._unwritten:
            self._node.world.tasks.call_soon(self._write_more)

    def _write_more(self) -> None:
        """The same in a later turn, where nobody else would hear of a step that must not be (law X7)."""
        try:
            self._write_some()
        except Exception as error:
            self._unwritten.clear()
            self._node.failed("state-change log", error)

    def carried_out(self, image: Image, delta: Delta) -> None:
        """What a batch made of this broker's replicas."""
        if not _is_kept(TEXT):
            return
        leading: list[Changed] = []
        following: list[Changed] = []
        for topic, _, before, after in delta.partition_changes(image):
            if after is None or self._me not in after.replicas:
                continue
            if before is not None and before.leader_epoch == after.leader_epoch:
                continue
            (leading if after.leader == self._me else following).append((topic, before, after))
        lines: list[str] = []
        for role, changed in (("leader", leading), ("follower", following)):
            if changed:
                lines.append(f"[Broker id={self._me}] Transitioning {len(changed)} partition(s) to local {role}s.")
                say = self._leader if role == "leader" else self._follower
                lines += [say(*one) for one in changed]
        _write(TEXT, lines)

    def _leader(self, topic: str, before: Partition | None, after: Partition) -> str:
        replica = self._node.replicas.by_key.get(after.key)
        start = replica.machine.epoch_start if replica is not None else -1
        return (
            f"[Broker id={self._me}] Leader {topic}-{after.id} starts at leader epoch {after.leader_epoch} from offset"
            f" {start} with partition epoch {after.partition_epoch}, ISR {list(after.isr)}, adding replicas"
            f" {list(after.adding)} and removing replicas {list(after.removing)}. {_previous(before)}"
        )

    def _follower(self, topic: str, before: Partition | None, after: Partition) -> str:
        return (
            f"[Broker id={self._me}] Follower {topic}-{after.id} starts at leader epoch {after.leader_epoch} with"
            f" partition epoch {after.partition_epoch}. Current leader is {after.leader}. {_previous(before)}"
        )


def _previous(before: Partition | None) -> str:
    leader, epoch = (None, -1) if before is None else (before.leader, before.leader_epoch)
    return f"Previous leader {leader} and previous leader epoch was {epoch}."


def _is_kept(log: logging.Logger) -> bool:
    """Whether anybody keeps what is logged: without a folder for logs, ten thousand lines are not put into words."""
    return log.isEnabledFor(logging.INFO)


def _write(log: logging.Logger, lines: list[str]) -> None:
    if lines:
        log.info("%s", "\n".join(lines))
