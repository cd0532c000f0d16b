"""The state of a shard, and what its rules may do with it: answer, write records, set deadlines.

The rules are functions over it: rebalance.py, staying.py, offsets.py, admin.py. Which of them takes a request
or an event is decided in shard.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum

from moldau.groups.config import GroupsConfig
from moldau.groups.facts import (
    Append,
    AppendInTransaction,
    Effect,
    Now,
    Reply,
    Schedule,
    ShardReply,
    Timer,
    TimerKey,
    Token,
    TransactionalWriter,
    refuse,
)
from moldau.groups.group import INT32_MAX, Group, MemberBytes, State
from moldau.groups.pending import Pending, SettledOffsets
from moldau.groups.records import Record
from moldau.model import Code


class Phase(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    UNLOADED = "unloaded"


class ShardState:
    """The groups of one partition, the changes that wait for a commit, and the deadlines."""

    __slots__ = (
        "_armed",
        "_effects",
        "_seq",
        "config",
        "deadlines",
        "groups",
        "held",
        "held_bytes",
        "now",
        "others",
        "pending",
        "phase",
        "record_bytes_max",
        "sweep",
    )

    def __init__(self, config: GroupsConfig, held_bytes: MemberBytes | None = None) -> None:
        self.config = config
        self.held_bytes = MemberBytes() if held_bytes is None else held_bytes
        """The bytes of members in all shards of the broker."""
        self.record_bytes_max = INT32_MAX
        """What the log takes of one record: max.message.bytes of the offsets topic."""
        self.phase = Phase.LOADING
        self.groups: dict[str, Group] = {}
        self.pending: dict[int, Pending] = {}
        self.held: dict[int, list[tuple[int, SettledOffsets]]] = {}
        """Offsets in open transactions, by producer id, each with the number of its append."""
        self.others: dict[str, dict[bytes, bool]] = {}
        """What there is of groups of another protocol, by group and key, and whether it stands for a member."""
        self.deadlines: dict[TimerKey, int] = {}
        self.sweep: list[str] = []
        self.now = Now(0, 0)
        self._armed: dict[TimerKey, int] = {}
        self._effects: list[Effect] = []
        self._seq = 0

    def make_group(self, group_id: str, since_ms: int = -1) -> Group:
        """A group that was not there, or was forgotten while transactions were open that hold offsets of it: these are
        on their way as they were."""
        group = self.groups[group_id] = Group(group_id, since_ms=since_ms, held=self.held_bytes)
        for held in self.held.values():
            for _, change in held:
                if change.group_id == group_id:
                    group.begin(where for where, _ in change.offsets)
        return group

    def forget_unused(self, group: Group) -> None:
        """Forget a group that has neither members nor offsets, expects none, and of which the log knows nothing."""
        expects = group.members or group.pending_joins or group.in_flight
        if group.state is State.EMPTY and not (expects or group.is_stored or group.offsets):
            self.groups.pop(group.group_id, None)

    def has_other_members(self, group_id: str) -> bool:
        """Whether the group has members of a protocol that only Apache Kafka coordinates."""
        return any(self.others.get(group_id, {}).values())

    def begin(self, now: Now) -> None:
        """Begin a step at this time."""
        assert not self._effects
        self.now = now

    def end(self) -> list[Effect]:
        """The effects of the step, in order."""
        effects, self._effects = self._effects, []
        return effects

    def reply(self, token: Token, answer: ShardReply) -> None:
        self._effects.append(Reply(token, answer))

    def next_seq(self) -> int:
        """A number for what is written next, or was, of all that is loaded."""
        self._seq += 1
        return self._seq

    def append(
        self, records: Iterable[Record], pending: Callable[[int], Pending], producer: TransactionalWriter | None = None
    ) -> int:
        """Write records, if need be in a transaction; ``pending`` makes the change that waits for them, under a
        deadline."""
        self._seq += 1
        self.pending[self._seq] = pending(self._seq)
        written = tuple(records)
        self._effects.append(
            Append(self._seq, written) if producer is None else AppendInTransaction(self._seq, written, producer)
        )
        self.schedule(TimerKey(Timer.APPEND, seq=self._seq), self.config.offset_commit_timeout_ms)
        return self._seq

    def schedule(self, key: TimerKey, delay_ms: int) -> None:
        """Set or move a deadline. Later than one already armed costs nothing: the armed one re-arms when it fires."""
        deadline = self.now.monotonic_ms + delay_ms
        self.deadlines[key] = deadline
        armed = self._armed.get(key)
        if armed is None or deadline < armed:
            self._armed[key] = deadline
            self._effects.append(Schedule(deadline, key))

    def cancel(self, key: TimerKey) -> None:
        self.deadlines.pop(key, None)

    def session(self, group: Group, member_id: str) -> TimerKey:
        return TimerKey(Timer.SESSION, group.group_id, member_id)

    def answer_pending(self, pending: Pending, code: Code) -> None:
        """Answer whoever waits for an append: its own value when ``code`` is NONE, else a refusal. At most once."""
        waiting, pending.waiting = pending.waiting, None
        if waiting is not None:
            token, request, answer = waiting
            self.reply(token, answer if code is Code.NONE else refuse(request, code))
