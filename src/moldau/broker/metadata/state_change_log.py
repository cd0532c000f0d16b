"""state-change.log and its JSON twin: one line for every change of a broker, partition or replica.

The active controller writes what it decided and why; a broker writes what became of its own replicas, and what it was
asked in ZooKeeper mode. The words of the controller's lines are ``moldau.controller.state_change``'s, those of
requests are ``moldau.broker.zookeeper.request_lines``'s, those of replicas are Apache Kafka 4.3's. Lines go to a log
joined, and a few hundred in a turn of the loop: a broker may die with ten thousand partitions.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from operator import attrgetter
from typing import TYPE_CHECKING

from moldau.controller.replica_states import ReplicaStep, replica_changes
from moldau.controller.state_change import Author, StateChange, state_changes
from moldau.image import NO_LEADER, Delta, Image, Partition
from moldau.model import uuid_text
from moldau.model.named import NamedTuple
from moldau.model.protocol import Protocol
from moldau.ports import World
from moldau.runtime.levels import LEVELS

if TYPE_CHECKING:
    from moldau.broker.config.node_config import NodeConfig

TEXT = logging.getLogger("state.change.logger")
TWIN = logging.getLogger("state.change.json")
TRACE = LEVELS["TRACE"]

_JSON = json.JSONEncoder(separators=(",", ":"))

AT_ONCE = 150
"""Events that are put into words in one turn of the loop; ten thousand would hold up everything else."""

LOOKED_AT_ONCE = 1_000
"""Changes that are looked through in one turn for those that concern this broker."""

Changed = tuple[str, Partition | None, Partition]
Line = tuple[int, str]
"""The level of a line, and what it says."""


class _Entry(NamedTuple):
    """What is to be written: a line, and the fields of its twin if it has one."""

    level: int
    text: str
    facts: dict[str, object] | None = None


class DecidingController(Protocol):
    """This node's part as controller."""

    @property
    def active(self) -> bool: ...

    @property
    def epoch(self) -> int: ...


class OffsetsOfLog(Protocol):
    """A log: where it ends."""

    @property
    def log_end_offset(self) -> int: ...


class OffsetsOfReplica(Protocol):
    """What replication knows of a replica: where its leader's epoch begins, and what is committed."""

    @property
    def epoch_start(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...


class LoggedReplica(Protocol):
    """A replica of this broker, as its lines show it."""

    @property
    def log(self) -> OffsetsOfLog: ...

    @property
    def machine(self) -> OffsetsOfReplica: ...


class LoggedReplicas(Protocol):
    """The replicas of this broker, by topic id and partition."""

    @property
    def by_key(self) -> Mapping[tuple[bytes, int], LoggedReplica]: ...


class StateChangeHost(Protocol):
    """What the log needs of its node."""

    config: NodeConfig
    world: World

    @property
    def controller(self) -> DecidingController: ...

    @property
    def replicas(self) -> LoggedReplicas: ...

    def failed(self, task: str, error: BaseException) -> None: ...


class StateChangeLog:
    """Watches one node's committed metadata."""

    def __init__(self, node: StateChangeHost) -> None:
        self._node = node
        self._me: int = node.config.node_id
        self._unwritten: deque[tuple[int, Iterator[_Entry]]] = deque()

    def decided(self, image: Image, delta: Delta) -> None:
        """A committed batch; written by the active controller, which decided it."""
        if not self._node.config.is_controller:
            return
        controller = self._node.controller
        if not controller.active or not (_is_kept(TEXT) or _is_kept(TWIN)):
            return
        zookeeper_mode = self._node.config.on_zookeeper
        changes = state_changes(delta, image, Author(self._me, controller.epoch), zookeeper_mode=zookeeper_mode)
        self._write(_Entry(_level(change, logging.INFO), change.text, change.facts) for change in changes)

    @property
    def is_traced(self) -> bool:
        """Whether lines of level TRACE are kept: replicas' steps, and the partitions of requests."""
        return TEXT.isEnabledFor(TRACE)

    def stepped(self, steps: Iterable[ReplicaStep], author: Author) -> None:
        """Steps of replicas, at TRACE as Kafka's controller writes them; not put into words when nobody keeps them.
        Refused ones are errors."""
        if not self.is_traced:
            steps = [step for step in steps if step.refused is not None]
            if not steps:
                return
        changes = replica_changes(steps, author)
        self._write(_Entry(_level(change, TRACE), change.text, change.facts) for change in changes)

    def say(self, lines: Callable[..., Iterator[Line]], *about: object) -> None:
        """Write lines that have no twin, after those that wait. They are made by ``lines(*about, traced=...)`` a few in
        a turn, or not at all when nobody keeps them; ``traced`` is whether lines of level TRACE are kept."""
        if _is_kept(TEXT):
            made = lines(*about, traced=self.is_traced)
            self._write(_Entry(level, text) for level, text in made)

    def _write(self, entries: Iterator[_Entry]) -> None:
        self._unwritten.append((self._node.world.clock.wall_ms(), entries))
        if len(self._unwritten) == 1:
            self._write_some()

    def _write_some(self) -> None:
        """What is unwritten, up to so many events; the rest in the next turns of the loop, in order."""
        left = AT_ONCE
        while self._unwritten and left:
            now_ms, entries = self._unwritten[0]
            some = list(islice(entries, left))
            left -= len(some)
            if left:
                self._unwritten.popleft()
            for level, same in groupby(some, attrgetter("level")):
                _write(TEXT, [entry.text for entry in same], level)
            twins = [entry.facts for entry in some if entry.facts is not None]
            _write(TWIN, [_JSON.encode({"time_ms": now_ms, "node": self._me, **facts}) for facts in twins])
        if self._unwritten:
            self._node.world.tasks.call_soon(self._write_more)

    def _write_more(self) -> None:
        """Write more in a later step of the loop. An error stops the node: nobody else would hear of it (law X7)."""
        try:
            self._write_some()
        except Exception as error:
            self._unwritten.clear()
            self._node.failed("state-change log", error)

    def carried_out_in_slices(self, image: Image, delta: Delta) -> Iterator[None]:
        """What a batch made of this broker's replicas; pauses where the loop should turn."""
        if not (_is_kept(TEXT) or _is_kept(TWIN)):
            return
        led: list[Changed] = []
        followed: list[Changed] = []
        for looked, (topic, _, before, after) in enumerate(delta.changes(image), 1):
            if not looked % LOOKED_AT_ONCE:
                yield
            if after is None or self._me not in after.replicas:
                continue
            if before is not None and before.leader_epoch == after.leader_epoch:
                continue
            (led if after.leader == self._me else followed).append((topic, before, after))
        now_ms = self._node.world.clock.wall_ms()
        for role, changed in (("leader", led), ("follower", followed)):
            for begin in range(0, len(changed), AT_ONCE):
                lines: list[str] = []
                twins: list[str] = []
                if begin:
                    yield
                else:
                    lines.append(f"[Broker id={self._me}] Transitioning {len(changed)} partition(s) to local {role}s.")
                for one in changed[begin : begin + AT_ONCE]:
                    end, high = self._log_of(one[2])
                    if _is_new(one, self._me):
                        lines.append(f"[Broker id={self._me}] {_created(one)}")
                    lines.append(f"[Broker id={self._me}] {_SAY[role](one, end, high)}")
                    twins.append(_JSON.encode({"time_ms": now_ms, "node": self._me, **_facts(role, one, end, high)}))
                _write(TEXT, lines)
                _write(TWIN, twins)
            if role == "follower" and changed:
                about = f"fetchers as part of become-follower for {len(changed)} partitions"
                _write(TEXT, [f"[Broker id={self._me}] {what} {about}" for what in ("Stopped", "Started")])

    def _log_of(self, partition: Partition) -> tuple[int, int]:
        """Where this broker's log of it ends, or its epoch begins if it leads, and its high watermark; -1: no log."""
        replica = self._node.replicas.by_key.get(partition.key)
        if replica is None:
            return -1, -1
        machine = replica.machine
        return (
            machine.epoch_start if partition.leader == self._me else replica.log.log_end_offset
        ), machine.high_watermark


def _leader(changed: Changed, start: int, high: int) -> str:
    topic, before, after = changed
    return (
        f"Leader {topic}-{after.id} with topic id Some({uuid_text(after.topic_id)}) starts at leader epoch"
        f" {after.leader_epoch} from offset {start} with partition epoch {after.partition_epoch},"
        f" high watermark {high}, ISR {_ids(after.isr)}, adding replicas {_ids(after.adding)}"
        f" and removing replicas {_ids(after.removing)} . {_previous(before)}"
    )


def _follower(changed: Changed, end: int, high: int) -> str:
    topic, before, after = changed
    return (
        f"Follower {topic}-{after.id} starts at leader epoch {after.leader_epoch} from offset {end}"
        f" with partition epoch {after.partition_epoch} and high watermark {high}."
        f" Current leader is {after.leader}. {_previous(before)}"
    )


def _is_new(changed: Changed, broker: int) -> bool:
    _, before, _ = changed
    return before is None or broker not in before.replicas


def _created(changed: Changed) -> str:
    topic, _, after = changed
    return f"Creating new partition {topic}-{after.id} with topic id {uuid_text(after.topic_id)}."


_SAY = {"leader": _leader, "follower": _follower}


def _previous(before: Partition | None) -> str:
    leader, epoch = ("None", -1) if before is None else (f"Some({before.leader})", before.leader_epoch)
    return f"Previous leader {leader} and previous leader epoch was {epoch}."


def _ids(brokers: Sequence[int]) -> str:
    return f"[{','.join(map(str, brokers))}]"


def _facts(role: str, changed: Changed, offset: int, high: int) -> dict[str, object]:
    """A replica's change as fields of a JSON line."""
    topic, before, after = changed
    return {
        "event": "replica", "role": role, "topic": topic, "topicId": uuid_text(after.topic_id), "partition": after.id,
        "leader": after.leader, "leaderEpoch": after.leader_epoch, "partitionEpoch": after.partition_epoch,
        "isr": list(after.isr), "offset": offset, "highWatermark": high,
        "previousLeader": NO_LEADER if before is None else before.leader,
        "previousLeaderEpoch": -1 if before is None else before.leader_epoch,
    }  # fmt: skip


def _level(change: StateChange, usual: int) -> int:
    return logging.ERROR if change.is_refusal else usual


def _is_kept(log: logging.Logger) -> bool:
    """Whether anybody keeps what is logged: without a folder for logs, ten thousand lines are not put into words."""
    return log.isEnabledFor(logging.INFO)


def _write(log: logging.Logger, lines: list[str], level: int = logging.INFO) -> None:
    if lines:
        log.log(level, "%s", "\n".join(lines))
