"""One classic group: its members, its generation, its state. Pure bookkeeping, no replies and no deadlines.

Members are frozen values; the group is their one mutator and keeps the counts that make protocol selection cheap.
What a state may become is MOVES; who is parked lives in ``joins`` and ``syncs`` (member id -> token). Read next:
rebalance.py (what drives the states), laws.py (what must hold after every step).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from moldau.groups.codec import subscribed_topics
from moldau.groups.facts import Protocol, Token
from moldau.groups.records import StoredGroup, StoredMember, StoredOffset
from moldau.model import Code, TopicPartition
from moldau.model.named import NamedTuple
from moldau.model.value import field, replace, value

CONSUMER = "consumer"
"""The protocol type of consumers, the only one whose metadata the coordinator looks into."""


INT32_MAX = 2**31 - 1
MEMBER_BYTES = 500
"""What a member takes beside its names and its protocols' data."""
GROUP_BYTES = 1_500
"""What a group takes that has members, or hands out ids for them, beside these and its own name."""


class State(Enum):
    """The name of a state is what DescribeGroups and ListGroups show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


MOVES: dict[State, frozenset[State]] = {
    State.EMPTY: frozenset({State.PREPARING_REBALANCE, State.DEAD}),
    State.PREPARING_REBALANCE: frozenset({State.COMPLETING_REBALANCE, State.EMPTY}),
    State.COMPLETING_REBALANCE: frozenset({State.STABLE, State.PREPARING_REBALANCE}),
    State.STABLE: frozenset({State.PREPARING_REBALANCE}),
    State.DEAD: frozenset({State.EMPTY}),
}
"""From -> to. Dead is a group whose tombstones are on their way; it returns to Empty only when they were refused."""


@value
class Member:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""
    is_new: bool = False

    def metadata(self, protocol_name: str | None) -> bytes:
        """The member's data for a protocol; KeyError when it does not offer it."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        raise KeyError(protocol_name)


@value(frozen=False)
class MemberBytes:
    """About how many bytes members take, of all groups that share it."""

    total: int = 0


class InitialDelay(NamedTuple):
    """A first rebalance waits for company: ``delay_ms`` now, ``remaining_ms`` more while members keep coming."""

    delay_ms: int
    remaining_ms: int


@value(frozen=False)
class Group:
    """Mutable, and only through the machine of its shard."""

    group_id: str
    state: State = State.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str | None = None
    since_ms: int = -1
    members: dict[str, Member] = field(default_factory=dict)
    statics: dict[str, str] = field(default_factory=dict)
    offered: dict[str, int] = field(default_factory=dict)
    pending_joins: set[str] = field(default_factory=set)
    pending_syncs: set[str] = field(default_factory=set)
    joins: dict[str, Token] = field(default_factory=dict)
    syncs: dict[str, Token] = field(default_factory=dict)
    initial: InitialDelay | None = None
    new_member_added: bool = False
    storing: int | None = None
    """The generation whose assignment is being appended, while it is."""
    subscribed: frozenset[str] | None = None
    is_stored: bool = False
    """Whether a replay of the log might make this group, so that forgetting it takes a tombstone."""
    offsets: dict[TopicPartition, StoredOffset] = field(default_factory=dict)
    written: dict[TopicPartition, int] = field(default_factory=dict)
    """The number of the append that each offset came with, or came with last while more are under way; none of those
    that were loaded."""
    in_flight: dict[TopicPartition, int] = field(default_factory=dict)
    """How many appends are under way for an offset."""
    size_bytes: int = 0
    """About how many its members take, and the ids of who is to join; and it has itself as long as there are any."""
    held: MemberBytes = field(default_factory=MemberBytes)

    # --- states

    def move(self, state: State, wall_ms: int) -> None:
        assert state in MOVES[self.state], f"group {self.group_id}: {self.state.value} -> {state.value} is not a move"
        self.state = state
        self.since_ms = wall_ms

    @property
    def can_rebalance(self) -> bool:
        return State.PREPARING_REBALANCE in MOVES[self.state]

    @property
    def all_joined(self) -> bool:
        return len(self.joins) == len(self.members) and not self.pending_joins

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # --- members

    def add(self, member: Member, protocol_type: str) -> None:
        """A member that was not there; the first one names the protocol type, and leads."""
        assert member.member_id not in self.members
        assert member.instance_id not in self.statics
        if not self.members:
            self.protocol_type = protocol_type
        assert self.protocol_type == protocol_type
        if member.instance_id is not None:
            self.statics[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self._count_itself(+1)
        self.members[member.member_id] = member
        self._count(member, +1)
        self._forget_pending(member.member_id)

    def remove(self, member_id: str) -> None:
        """Forget a member, pending or real; another leads if it led. Its parked tokens must have been answered."""
        assert member_id not in self.joins
        assert member_id not in self.syncs
        was_known = member_id in self.pending_joins or member_id in self.members
        self._forget_pending(member_id)
        self.pending_syncs.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member, -1)
            if member.instance_id is not None:
                del self.statics[member.instance_id]
        if was_known:
            self._count_itself(-1)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)

    def expect(self, member_id: str) -> None:
        """A member has got this id, and is to join with it."""
        if member_id not in self.pending_joins:
            self._count_itself(+1)
            self.pending_joins.add(member_id)
            self._hold(MEMBER_BYTES + len(member_id))

    def _forget_pending(self, member_id: str) -> None:
        if member_id in self.pending_joins:
            self.pending_joins.remove(member_id)
            self._hold(-MEMBER_BYTES - len(member_id))

    def _count_itself(self, by: int) -> None:
        """Before the first one is here, or is to come, and when the last has gone."""
        if not self.members and not self.pending_joins:
            self._hold(by * self.own_bytes)

    @property
    def own_bytes(self) -> int:
        """About how many it takes itself."""
        return GROUP_BYTES + len(self.group_id)

    def _hold(self, size: int) -> None:
        self.size_bytes += size
        self.held.total += size

    def let_go(self) -> None:
        """The group is forgotten: its members' bytes count no more."""
        self._hold(-self.size_bytes)

    def put(self, member: Member) -> None:
        """A new value for a member that is there."""
        old = self.members[member.member_id]
        assert old.instance_id == member.instance_id
        self.members[member.member_id] = member
        if old.protocols is not member.protocols:
            self._count(old, -1)
            self._count(member, +1)

    def rename(self, old_id: str, new_id: str) -> Member:
        """A static member came back under another member id (KIP-345); its place, lead and assignment stay its own."""
        member = replace(self.members.pop(old_id), member_id=new_id)
        assert member.instance_id is not None
        assert new_id not in self.members
        self.members[new_id] = member
        self.statics[member.instance_id] = new_id
        if self.leader_id == old_id:
            self.leader_id = new_id
        if old_id in self.pending_syncs:
            self.pending_syncs.remove(old_id)
            self.pending_syncs.add(new_id)
        return member

    def check_member(self, member_id: str, instance_id: str | None) -> Code:
        """Code.NONE for a member speaking for itself (KIP-345: an instance id fences its older member ids)."""
        if instance_id is not None:
            owner = self.statics.get(instance_id)
            if owner is None:
                return Code.UNKNOWN_MEMBER_ID
            if owner != member_id:
                return Code.FENCED_INSTANCE_ID
        return Code.NONE if member_id in self.members else Code.UNKNOWN_MEMBER_ID

    def _count(self, member: Member, by: int) -> None:
        self._hold(by * member_bytes(member.client_id, member.instance_id, member.protocols))
        for name in {protocol.name for protocol in member.protocols}:
            count = self.offered.get(name, 0) + by
            if count:
                self.offered[name] = count
            else:
                del self.offered[name]

    # --- protocols and generations

    def supports(self, protocol_type: str, protocols: tuple[Protocol, ...]) -> bool:
        """Whether a joiner has something in common with everybody who is here."""
        if self.state is State.EMPTY:
            return bool(protocol_type) and bool(protocols)
        everybody = len(self.members)
        return protocol_type == self.protocol_type and any(
            self.offered.get(protocol.name, 0) == everybody for protocol in protocols
        )

    def select_protocol(self) -> str:
        """The protocol that everybody offers and most prefer; ties go to the leader's order (open in Kafka)."""
        assert self.leader_id is not None
        everybody = len(self.members)
        candidates = [p.name for p in self.members[self.leader_id].protocols if self.offered[p.name] == everybody]
        assert candidates, f"group {self.group_id}: no protocol is offered by every member"
        if len(candidates) == 1:
            return candidates[0]
        votes = dict.fromkeys(candidates, 0)
        for member in self.members.values():
            votes[next(p.name for p in member.protocols if p.name in votes)] += 1
        return max(candidates, key=votes.__getitem__)

    def next_generation(self, wall_ms: int) -> None:
        self.generation = self.generation % INT32_MAX + 1  # an int32 in records and answers
        if self.members:
            self.protocol_name = self.select_protocol()
            self.move(State.COMPLETING_REBALANCE, wall_ms)
        else:
            self.protocol_name = None
            self.move(State.EMPTY, wall_ms)
        self.subscribed = self._subscribed()
        self.pending_syncs.clear()
        self.initial = None
        self.new_member_added = False

    def elect_joined_leader(self) -> bool:
        """Make sure that somebody who is here leads; False when nobody is (only absent static members, or none)."""
        if self.leader_id in self.joins:
            return True
        for member_id in self.members:
            if member_id in self.joins:
                self.leader_id = member_id
                return True
        return False

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member reads the topic; consumers whose data cannot be read count as reading everything."""
        if self.subscribed is None:
            return self.protocol_type == CONSUMER
        return topic in self.subscribed

    def _subscribed(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER:
            return None
        topics: set[str] = set()
        for metadata in {member.metadata(self.protocol_name) for member in self.members.values()}:
            read = subscribed_topics(metadata)
            if read is None:
                return None
            topics.update(read)
        return frozenset(topics)

    # --- offsets

    def begin(self, offsets: Iterable[TopicPartition]) -> None:
        """These offsets are on their way."""
        for where in offsets:
            self.in_flight[where] = self.in_flight.get(where, 0) + 1

    # --- storing and loading

    def stored(self, assignments: dict[str, bytes]) -> StoredGroup:
        """This generation as a record; a member without an assignment stores an empty one."""
        members = tuple(
            StoredMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata(self.protocol_name),
                assignments.get(member.member_id, b""),
            )
            for member in self.members.values()
        )
        return StoredGroup(
            self.protocol_type or "", self.generation, self.protocol_name, self.leader_id, self.since_ms, members
        )

    def load(self, stored: StoredGroup) -> None:
        """Become what a record says; offsets stay."""
        self.protocol_type = None
        self.leader_id = None
        self.members, self.statics, self.offered = {}, {}, {}
        self.let_go()
        for member in stored.members:
            name = stored.protocol_name or ""
            self.add(
                Member(
                    member.member_id,
                    member.instance_id,
                    member.client_id,
                    member.client_host,
                    member.session_timeout_ms if member.rebalance_timeout_ms < 0 else member.rebalance_timeout_ms,
                    member.session_timeout_ms,
                    (Protocol(name, member.subscription),),
                    member.assignment,
                ),
                stored.protocol_type,
            )
        self.state = State.STABLE if self.members else State.EMPTY
        self.generation = stored.generation
        self.protocol_type = stored.protocol_type or None
        self.protocol_name = stored.protocol_name
        if self.members and stored.leader_id in self.members:
            self.leader_id = stored.leader_id
        self.since_ms = stored.since_ms
        self.is_stored = True
        self.subscribed = self._subscribed()


def member_bytes(client_id: str, instance_id: str | None, protocols: tuple[Protocol, ...]) -> int:
    """About how many bytes a member takes: its id has its name or its instance's, and so has it itself."""
    names = len(client_id) + max(len(client_id), 2 * len(instance_id or ""))
    return MEMBER_BYTES + names + sum(len(name) + len(metadata) for name, metadata in protocols)
