"""Members, time, a slow log and failovers in any order: every law holds after every step, and nobody waits for ever."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from moldau.groups import Phase, laws
from moldau.groups.facts import DeleteOffsets, FetchOffsets, Leaver, ListGroups, Protocol
from moldau.terms import Code, TopicPartition
from tests.rooms.groups.world import RANGE, World

NAMES = st.sampled_from("abcd")
STICKY = (*RANGE, Protocol("sticky", b"1"))
OTHER = (Protocol("sticky", b"2"),)
REFUSALS = st.sampled_from([Code.NOT_ENOUGH_REPLICAS, Code.NOT_LEADER_OR_FOLLOWER, Code.MESSAGE_TOO_LARGE])


class Members(RuleBasedStateMachine):
    """Clients "a" and "b" are dynamic, "c" and "d" static; each knows only what it was last told."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(auto_commit=False, initial_rebalance_delay_ms=1_000, max_size=3)
        self.known: dict[str, Any] = {}

    def learn(self) -> None:
        for name in "abcd":
            reply = self.world.answers.get(name)
            if reply is not None and reply.code in (Code.NONE, Code.MEMBER_ID_REQUIRED):
                self.known[name] = reply

    @rule(name=NAMES, protocols=st.sampled_from([RANGE, STICKY, OTHER]), anew=st.booleans(), old=st.booleans())
    def join(self, name: str, protocols: tuple[Protocol, ...], anew: bool, old: bool) -> None:
        self.learn()
        if name in self.world.audit.waiting:
            return
        member_id = self.known[name].member_id if name in self.known and not anew else ""
        self.world.join(
            name,
            member_id,
            instance_id=name if name in "cd" else None,
            protocols=protocols,
            known_member_id_required=not old,
            skip_assignment_understood=not old,
            rebalance_timeout_ms=20_000,
        )
        self.learn()

    @rule(name=NAMES, drift=st.sampled_from([0, 0, 0, -1, 1]))
    def sync(self, name: str, drift: int) -> None:
        self.learn()
        if name in self.known and f"sync {name}" not in self.world.audit.waiting:
            reply = self.known[name]
            given = {member.member_id: f"{reply.generation} {member.member_id}".encode() for member in reply.members}
            instance_id = name if name in "cd" else None
            self.world.sync(f"sync {name}", reply, given, generation=reply.generation + drift, instance_id=instance_id)

    @rule(name=NAMES, drift=st.sampled_from([0, 0, -1, 1]), stranger=st.booleans())
    def commit_offset(self, name: str, drift: int, stranger: bool) -> None:
        self.learn()
        reply = self.known.get(name)
        if reply is None or stranger:
            self.world.commit_offset(self.world.count)
        else:
            self.world.commit_offset(self.world.count, reply.member_id, reply.generation + drift)

    @rule(name=NAMES)
    def heartbeat(self, name: str) -> None:
        self.learn()
        if name in self.known:
            self.world.heartbeat(self.known[name].member_id, self.known[name].generation)

    @rule(name=NAMES, by_instance=st.booleans())
    def leave(self, name: str, by_instance: bool) -> None:
        self.learn()
        if by_instance and name in "cd":
            self.world.leave(Leaver("", name))
        elif name in self.known:
            self.world.leave(self.known.pop(name).member_id)

    @rule()
    def look(self) -> None:
        self.world.ask(FetchOffsets("g", None))
        self.world.ask(ListGroups())
        self.world.describe()

    @rule()
    def delete_group(self) -> None:
        self.world.delete()

    @rule()
    def delete_offset(self) -> None:
        self.world.ask(DeleteOffsets("g", (TopicPartition("t", 0),)))

    @rule()
    def delete_topic(self) -> None:
        self.world.topics_deleted("t")

    @rule(ms=st.sampled_from([1, 900, 4_000, 11_000, 21_000, 8 * 24 * 3_600_000]))
    def wait(self, ms: int) -> None:
        self.world.wait(ms)

    @rule(count=st.sampled_from([1, 2, None]))
    def log_catches_up(self, count: int | None) -> None:
        self.world.commit(count)

    @rule(code=REFUSALS)
    def next_append_is_refused(self, code: Code) -> None:
        self.world.refuse_next = code

    @rule(survive=st.integers(0, 3))
    def another_broker_takes_over(self, survive: int) -> None:
        old = self.world
        old.commit(survive)
        stable = old.shard if not old.uncommitted else None
        new = World(log=old.log, at_ms=old.at_ms, auto_commit=False, initial_rebalance_delay_ms=1_000, max_size=3)
        if stable is not None:
            laws.same_committed_state(stable, new.shard)
        old._carry_out(old.shard.unload())
        assert old.audit.waiting == set(), "an unloaded shard keeps nobody waiting"
        assert old.shard.phase is Phase.UNLOADED
        self.learn()
        new.count = old.count
        self.world = new

    def teardown(self) -> None:
        self.world.refuse_next = None
        self.world.wait(400_000)
        self.world.commit()
        self.world.wait(400_000)
        assert self.world.audit.waiting == set(), "L2: nobody waits for ever"


Members.TestCase.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
TestInterleavings = Members.TestCase
