"""The surroundings of one group coordinator: a clock, a log that commits when told to, and one-line calls for members.

Every step runs the laws (moldau.groups.laws), so that a run fails where the machine went wrong, not where it showed.
Tests write their examples in it; groups_swarm.py lets members and failovers loose in it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from copy import deepcopy
from typing import Any

from moldau.groups import GroupsConfig, Shard, laws
from moldau.groups.facts import (
    Append,
    AppendCommitted,
    AppendRefused,
    CommitItem,
    DeleteGroup,
    Describe,
    Effect,
    Event,
    Expired,
    FetchOffsets,
    Heartbeat,
    Join,
    Leave,
    Leaver,
    Now,
    OffsetCommit,
    Protocol,
    Reply,
    Schedule,
    ShardRequest,
    SyncGroup,
    TimerKey,
    TopicsDeleted,
)
from moldau.groups.records import Record, ReplayedRecord
from moldau.model import Code, TopicPartition
from moldau.simulator.machines.record import RunRecord

EPOCH_MS = 1_700_000_000_000
RANGE = (Protocol("range", b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff"),)
"""One protocol whose metadata subscribes to the topic "t"."""


class GroupSimulation:
    """``answers`` holds every reply by token; ``commit`` and ``refuse_next`` say what becomes of appends."""

    def __init__(
        self,
        *,
        auto_commit: bool = True,
        log: Iterable[ReplayedRecord] = (),
        at_ms: int = 1_000,
        record: RunRecord | None = None,
        **config: Any,
    ) -> None:
        self.record = record or RunRecord()
        self.config = GroupsConfig(**config)
        self.shard = Shard(self.config)
        self.audit = laws.Audit()
        self.at_ms = at_ms
        self.timers: list[tuple[int, int, TimerKey]] = []
        self.answers: dict[str, Any] = {}
        self.auto_commit = auto_commit
        self.refuse_next: Code | None = None
        self.uncommitted: list[tuple[int, tuple[Record, ...]]] = []
        self.log = list(log)
        self.count = 0
        for stored in log:
            self.shard.apply(stored)
        self.audit.loaded(log)
        self._carry_out(self.shard.loaded(self.now))

    @property
    def now(self) -> Now:
        return Now(self.at_ms, EPOCH_MS + self.at_ms)

    # --- driving

    def submit(self, request: ShardRequest, name: str | None = None) -> Any:  # Any: the reply's own kind
        """Make a request; return the answer when it came at once, else None (see ``answers[name]`` later)."""
        self.count += 1
        token = name if name is not None else f"#{self.count}"
        self.answers.pop(token, None)
        self.audit.asked(token)
        before = deepcopy(self.shard.groups.get(request.group_id)) if isinstance(request, OffsetCommit) else None
        effects = self.shard.step(request, self.now, token)
        if isinstance(request, OffsetCommit):
            self.record.check(self.audit.may_commit, before, request, effects)
        self._carry_out(effects)
        return self.answers.get(token)

    def event(self, event: Event) -> None:
        self._carry_out(self.shard.step(event, self.now))

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        effects = list(effects)
        self.record.check(self.audit.saw, effects)
        appends = []
        for effect in effects:
            match effect:
                case Reply(token, value):
                    self.answers[str(token)] = value
                case Schedule(deadline_ms, key):
                    self.count += 1
                    heapq.heappush(self.timers, (deadline_ms, self.count, key))
                case Append(seq, records):
                    appends.append((seq, records))
        laws.check(self.shard, self.record.check)
        for seq, records in appends:
            if self.refuse_next is not None:
                code, self.refuse_next = self.refuse_next, None
                self.audit.refused(seq)
                self.event(AppendRefused(seq, code))
            else:
                self.uncommitted.append((seq, records))
        if self.auto_commit:
            self.commit()
        audit = self.audit
        for law in (
            audit.offsets_are_the_logs,
            audit.what_is_stable_is_in_the_log,
            audit.one_assignment_per_generation,
        ):
            self.record.check(law, self.shard)

    def commit(self, count: int | None = None) -> None:
        """The high watermark passes the next ``count`` appends (all)."""
        taken, self.uncommitted = self.uncommitted[:count], self.uncommitted[len(self.uncommitted[:count]) :]
        if taken:
            for _, records in taken:
                self.log.extend(records)
            self.audit.committed(taken[-1][0])
            self.event(AppendCommitted(tuple(seq for seq, _ in taken)))

    def wait(self, ms: int) -> None:
        """Let time pass, firing timers when they are due."""
        until = self.at_ms + ms
        while self.timers and self.timers[0][0] <= until:
            due, _, key = heapq.heappop(self.timers)
            self.at_ms = max(self.at_ms, due)
            self.event(Expired(key))
        self.at_ms = until

    def replayed(self, **config: Any) -> GroupSimulation:  # Any: each field's own type
        """Return the coordinator that takes over, with the committed log of this one."""
        return GroupSimulation(log=self.log, at_ms=self.at_ms, **config)

    # --- members in one line

    def join(self, name: str, member_id: str = "", **facts: Any) -> Any:
        """Join group "g" (or ``group_id``), answered under ``name``."""
        self.count += 1
        request = Join(
            facts.pop("group_id", "g"),
            member_id,
            facts.pop("instance_id", None),
            facts.pop("protocol_type", "consumer"),
            facts.pop("protocols", RANGE),
            facts.pop("session_timeout_ms", 10_000),
            facts.pop("rebalance_timeout_ms", 60_000),
            facts.pop("client_id", name),
            "/127.0.0.1",
            f"u{self.count}",
            **facts,
        )
        return self.submit(request, name)

    def sync(self, name: str, joined: Any, assignments: dict[str, bytes] | None = None, **facts: Any) -> Any:
        request = SyncGroup(
            "g",
            joined.member_id,
            facts.get("instance_id"),
            facts.get("generation", joined.generation),
            facts.get("protocol_type"),
            facts.get("protocol_name"),
            tuple((assignments or {}).items()),
        )
        return self.submit(request, name)

    def heartbeat(self, member_id: str, generation: int, instance_id: str | None = None) -> Code:
        code = self.submit(Heartbeat("g", member_id, instance_id, generation)).code
        assert isinstance(code, Code)
        return code

    def leave(self, *leavers: str | Leaver) -> Any:
        return self.submit(Leave("g", tuple(v if isinstance(v, Leaver) else Leaver(v) for v in leavers)))

    def commit_offset(self, offset: int, member_id: str = "", generation: int = -1, **facts: Any) -> Any:
        """Commit t-0 (or ``topic``, ``partition``); the code, or None while it is not committed."""
        item = CommitItem(facts.pop("topic", "t"), facts.pop("partition", 0), offset, -1, facts.pop("metadata", ""))
        group_id, instance_id = facts.pop("group_id", "g"), facts.pop("instance_id", None)
        reply = self.submit(OffsetCommit(group_id, member_id, instance_id, generation, (item,), **facts))
        return None if reply is None else reply.codes[0]

    def offset(self, topic: str = "t", partition: int = 0, group_id: str = "g") -> int | None:
        """The committed offset, or None."""
        item = self.submit(FetchOffsets(group_id, (TopicPartition(topic, partition),))).items[0]
        return None if item.stored is None else item.stored.offset

    def describe(self, group_id: str = "g") -> Any:
        return self.submit(Describe(group_id))

    def delete(self, group_id: str = "g") -> Any:
        reply = self.submit(DeleteGroup(group_id))
        return None if reply is None else reply.code

    def topics_deleted(self, *topics: str) -> None:
        self.event(TopicsDeleted(frozenset(topics)))

    def stable_group(self, *names: str, **facts: Any) -> dict[str, Any]:
        """A stable group of dynamic members; their JoinGroup answers by name. The first leads."""
        for name in names:
            self.join(name, known_member_id_required=False, **facts)
        self.wait(self.config.initial_rebalance_delay_ms * (len(names) + 1))
        joined = {name: self.answers[name] for name in names}
        self.assign(joined)
        return joined

    def assign(self, joined: dict[str, Any]) -> None:
        """Let every member sync; each member's assignment is its name."""
        leader = next(name for name, reply in joined.items() if reply.leader_id == reply.member_id)
        given = {reply.member_id: name.encode() for name, reply in joined.items()}
        for name, reply in joined.items():
            self.sync(f"sync {name}", reply, given if name == leader else None)
