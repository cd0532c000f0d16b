"""Random runs of a group coordinator: members that know only their last answer, a slow log, failovers; by the seed.

Clients "a" and "b" are dynamic, "c" and "d" static (KIP-345). In the end every client behaves: no request waits for
ever (L2), and the group becomes stable with all of them in it (L9). Read next: groups_world.py.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from moldau.groups import Phase, laws
from moldau.groups.facts import DeleteOffsets, FetchOffsets, Leaver, ListGroups, Protocol
from moldau.groups.group import State
from moldau.model import Code, TopicPartition
from moldau.simulator.machines.groups_world import RANGE, GroupSimulation
from moldau.simulator.machines.record import Broken, RunRecord

COVERAGE_POINTS = frozenset(
    {
        "CompletingRebalance",
        "Dead",
        "Empty",
        "PreparingRebalance",
        "Stable",
        "a commit was refused: FENCED_INSTANCE_ID",
        "a commit was refused: ILLEGAL_GENERATION",
        "a commit was refused: REBALANCE_IN_PROGRESS",
        "a commit was refused: UNKNOWN_MEMBER_ID",
        "a rebalance among members",
        "another coordinator",
        "the log refused",
    }
)
NAMES = "abcd"
STICKY = (*RANGE, Protocol("sticky", b"1"))
OTHER = (Protocol("sticky", b"2"),)


def play(seed: int, record: RunRecord) -> None:
    """One run. Raises ``Broken``, or whatever the coordinator raised."""
    members = Members(Random(f"groups {seed}"), record)
    members.fault_phase()
    members.come_to_rest()


class Members:
    """Four clients and what happens to them. All that is random comes from ``rng``."""

    def __init__(self, rng: Random, record: RunRecord) -> None:
        self.rng = rng
        self.record = record
        self.config: dict[str, Any] = {
            "initial_rebalance_delay_ms": rng.choice([0, 1_000, 1_000, 3_000]),
            "max_size": rng.choice([2, 3, 4, 100]),
        }
        self.world = GroupSimulation(auto_commit=False, record=record, **self.config)
        self.known: dict[str, Any] = {}
        self.tokens = {name: name for name in NAMES}
        actions: list[tuple[float, Callable[[], str | None]]] = [
            (4, self.join), (4, self.sync), (3, self.commit_offset), (3, self.heartbeat), (2, self.leave),
            (1, self.look), (1, self.something_rare), (4, self.wait), (4, self.do_their_part), (3, self.log_catches_up),
            (1, self.next_append_is_refused), (1, self.another_coordinator), (1, self.keep_sending_heartbeats),
        ]  # fmt: skip
        self.actions = [action for _, action in actions]
        self.weights = [weight * rng.choice([0.2, 1, 1, 3]) for weight, _ in actions]

    def fault_phase(self) -> None:
        for _ in range(self.rng.choice([30, 60, 120])):
            what = self.rng.choices(self.actions, self.weights)[0]()
            self.note(what or "nothing")

    def note(self, what: str) -> None:
        group = self.world.shard.groups.get("g")
        shown = "no group" if group is None else f"{group.state.value} {group.generation} {list(group.members)}"
        if group is not None:
            self.record.coverage.add(group.state.value)
            if group.state is State.PREPARING_REBALANCE and group.initial is None:
                self.record.coverage.add("a rebalance among members")
        self.record.check(a_generation_is_assigned_in_time, self.world)
        self.record.event(self.world.at_ms, f"{what} -> {shown}, {len(self.world.log)} records")

    def some(self) -> str:
        return self.rng.choice(NAMES)

    def learn(self) -> None:
        for name, token in self.tokens.items():
            reply = self.world.answers.get(token)
            if reply is not None and reply.code in (Code.NONE, Code.MEMBER_ID_REQUIRED):
                self.known[name] = reply

    # ---- clients

    def join(self) -> str | None:
        rng = self.rng
        protocols = rng.choice([RANGE, RANGE, STICKY, OTHER])
        return self.join_as(
            self.some(), protocols, anew=rng.random() < 0.3, old=rng.random() < 0.3, impatient=rng.random() < 0.3
        )

    def join_as(
        self, name: str, protocols: tuple[Protocol, ...] = RANGE, *, anew: bool = False, old: bool = False,
        impatient: bool = False,
    ) -> str | None:  # fmt: skip
        """``anew``: forgets who it was. ``old``: an old protocol version. ``impatient``: waits for no answer."""
        self.learn()
        if self.tokens[name] in self.world.audit.waiting:
            if not impatient:
                return None
            # over a new connection: the old answer is not read any more
            self.tokens[name] = f"{name}{self.world.count}"
        member_id = self.known[name].member_id if name in self.known and not anew else ""
        self.world.join(
            self.tokens[name],
            member_id,
            instance_id=name if name in "cd" else None,
            protocols=protocols,
            known_member_id_required=not old,
            skip_assignment_understood=not old,
            rebalance_timeout_ms=20_000,
        )
        self.learn()
        return f"{name} joins"

    def sync(self) -> str | None:
        return self.sync_as(self.some(), self.rng.choice([0, 0, 0, -1, 1]))

    def sync_as(self, name: str, drift: int = 0) -> str | None:
        self.learn()
        if name not in self.known or f"sync {name}" in self.world.audit.waiting:
            return None
        reply = self.known[name]
        given = {member.member_id: f"{reply.generation} {member.member_id}".encode() for member in reply.members}
        instance_id = name if name in "cd" else None
        self.world.sync(f"sync {name}", reply, given, generation=reply.generation + drift, instance_id=instance_id)
        return f"{name} syncs"

    def commit_offset(self) -> str:
        self.learn()
        name = self.some()
        reply = self.known.get(name)
        if reply is None or self.rng.random() < 0.2:
            code = self.world.commit_offset(self.world.count)
        else:
            drift = self.rng.choice([0, 0, 0, -1, 1])
            instance_id = name if name in "cd" and self.rng.random() < 0.8 else None
            code = self.world.commit_offset(
                self.world.count, reply.member_id, reply.generation + drift, instance_id=instance_id
            )
        if code is not None and code is not Code.NONE:
            self.record.coverage.add(f"a commit was refused: {code.name}")
        return f"{name} commits"

    def heartbeat(self) -> str | None:
        self.learn()
        name = self.some()
        if name not in self.known:
            return None
        self.world.heartbeat(self.known[name].member_id, self.known[name].generation)
        return f"{name} sends a heartbeat"

    def keep_sending_heartbeats(self) -> str:
        """All that were let in send heartbeats for half a minute, and do nothing else: not even sync (KAFKA-12890)."""
        for _ in range(10):
            self.learn()
            for reply in self.known.values():
                self.world.heartbeat(reply.member_id, reply.generation)
            self.world.commit()
            self.world.wait(3_000)
        return "all send heartbeats, and do nothing else"

    def leave(self) -> str | None:
        self.learn()
        name = self.some()
        if self.rng.random() < 0.4 and name in "cd":
            self.world.leave(Leaver("", name))
        elif name in self.known:
            self.world.leave(self.known.pop(name).member_id)
        else:
            return None
        return f"{name} leaves"

    def look(self) -> str:
        self.world.submit(FetchOffsets("g", None))
        self.world.submit(ListGroups())
        self.world.describe()
        return "somebody looks"

    def do_their_part(self) -> str:
        """Do what well-behaved clients do in a rebalance: without it, random draws never lead to a stable group."""
        names = [name for name in NAMES if self.rng.random() < 0.6] or [self.some()]
        self.gather(names, self.rng.choice([1_000, 4_000]))
        everybody = self.rng.random() < 0.7
        for name in names:
            if everybody or name in "ac":
                self.sync_as(name)
        self.world.commit()
        return f"{names} gather"

    def gather(self, names: list[str], wait_ms: int) -> None:
        for _ in range(2):
            for name in names:
                self.join_as(name)
            self.world.commit()
        self.world.wait(wait_ms)
        self.learn()

    # ---- time, log and failover

    def something_rare(self) -> str:
        world = self.world
        what = self.rng.choice(["topic", "offset", "group", "refused", "week"])
        match what:
            case "topic":
                world.topics_deleted("t")
            case "offset":
                world.submit(DeleteOffsets("g", (TopicPartition("t", 0),)))
            case "group":
                world.delete()
            case "refused":
                world.commit_offset(world.count)
                world.commit()
                world.refuse_next = Code.NOT_ENOUGH_REPLICAS
                world.delete()
            case _:
                world.wait(8 * 24 * 3_600_000)
        return f"rare: {what}"

    def wait(self) -> str:
        ms = self.rng.choice([1, 900, 2_000, 4_000, 6_000, 11_000, 21_000])
        self.world.wait(ms)
        return f"{ms} ms pass"

    def log_catches_up(self) -> str:
        self.world.commit(self.rng.choice([1, 2, None]))
        return "the log catches up"

    def next_append_is_refused(self) -> None:
        self.record.coverage.add("the log refused")
        refusals = [Code.NOT_ENOUGH_REPLICAS, Code.NOT_LEADER_OR_FOLLOWER, Code.MESSAGE_TOO_LARGE]
        self.world.refuse_next = self.rng.choice(refusals)

    def another_coordinator(self) -> str:
        """Another broker takes over with what of the log survived."""
        old = self.world
        old.commit(self.rng.randrange(4))
        whole = old.shard if not old.uncommitted else None
        new = GroupSimulation(log=old.log, at_ms=old.at_ms, auto_commit=False, record=self.record, **self.config)
        if whole is not None:
            self.record.check(laws.same_committed_state, whole, new.shard)
        old._carry_out(old.shard.unload())
        self.record.check(nobody_waits, old)
        assert old.shard.phase is Phase.UNLOADED
        self.learn()
        new.count = old.count
        self.world = new
        self.record.coverage.add("another coordinator")
        return "another coordinator takes over"

    # ---- the end

    def come_to_rest(self) -> None:
        """End the faults. No request waits for ever; then as many members as may join do, and stay."""
        world = self.world
        world.refuse_next = None
        for _ in range(2):
            world.wait(400_000)
            world.commit()
        self.record.check(nobody_waits, world)
        world.auto_commit = True
        world.commit()
        names = list(NAMES[: min(4, self.config["max_size"])])
        self.known.clear()
        for name in NAMES:
            world.leave(Leaver("", name))
        phases = dict.fromkeys(names, "out")
        for _ in range(60):
            for name in names:
                phases[name] = self.behave(name, phases[name])
            world.wait(1_000)
        self.note("all behave")
        group = world.shard.groups.get("g")
        if group is None or group.state is not State.STABLE or len(group.members) != len(names):
            raise Broken("L9", f"{names} behave, and do not come to rest: {group}")
        self.record.check(nobody_waits, world)

    def behave(self, name: str, phase: str) -> str:
        """Do a right client's work of a second: join, sync, send heartbeats, rejoin when told to. Return its phase."""
        world = self.world
        joined, synced = world.answers.get(name), world.answers.get(f"sync {name}")
        if phase == "out":
            self.tokens[name] = name
            self.join_as(name, impatient=True)
            return "joining"
        if phase == "joining":
            if joined is None:
                return phase
            if joined.code is not Code.NONE:
                return self.out(name, joined.code)
            self.known[name] = joined
            self.sync_as(name)
            return "syncing"
        if phase == "syncing":
            if synced is None:
                return phase
            return "in" if synced.code is Code.NONE else self.out(name, synced.code)
        known = self.known[name]
        code = world.heartbeat(known.member_id, known.generation, name if name in "cd" else None)
        return "in" if code is Code.NONE else self.out(name, code)

    def out(self, name: str, code: Code) -> str:
        if code not in (Code.REBALANCE_IN_PROGRESS, Code.MEMBER_ID_REQUIRED):
            self.known.pop(name, None)
        return "out"


def a_generation_is_assigned_in_time(world: GroupSimulation) -> None:
    """L9: a member that joins and never syncs is removed when the rebalance timeout is over (KAFKA-12890)."""
    for group in world.shard.groups.values():
        if group.state is State.COMPLETING_REBALANCE:
            since_ms = world.now.wall_ms - group.since_ms
            limit_ms = group.rebalance_timeout_ms + world.config.offset_commit_timeout_ms
            assert since_ms <= limit_ms, f"{group.group_id} has waited for its assignment for {since_ms} ms"


def nobody_waits(world: GroupSimulation) -> None:
    """L2: every request is answered in the end."""
    assert not world.audit.waiting, f"{sorted(map(str, world.audit.waiting))} wait for ever"
