"""A whole run by a seed: nodes start, clients write and read, things break, then they heal; laws judge throughout.

Safety while things break: any number of troubles at once, within the atlas. Liveness after they end: of the nodes all,
or in some runs only a core that must suffice, and within bounded (virtual) time everything is led, in sync, answered
and read. A run in which too little happened is ``unknown``, never passed. Read next: plan.py, faults.py, laws/.
"""

from __future__ import annotations

import asyncio
import gc
import warnings
from dataclasses import dataclass, field
from typing import Any

from moldau.broker.controller.topic_creation import OFFSETS
from moldau.client.admin import NewTopic, create_topics
from moldau.client.groups import committed
from moldau.client.reading import LATEST, list_offsets
from moldau.model import Code, TopicPartition
from moldau.simulator.laws import rest
from moldau.simulator.laws.data import DataLaws
from moldau.simulator.load import GROUP, TROUBLE, Actor, Auditor, Member, Reader, Writer
from moldau.simulator.meddling import Administrator
from moldau.simulator.plan import Plan
from moldau.simulator.planes import parts_of, plan_of
from moldau.simulator.scenes import QUORUM, SCENES
from moldau.simulator.timeline import Timeline

__all__ = ["SCENES", "Outcome", "simulate"]

LOOK_S = 0.01
HEALED_LIMIT_S = 150.0
ANSWERED_LIMIT_S = 200.0
ACKED_MIN = 20


@dataclass
class Outcome:
    """What a run came to. ``broken`` names the laws that did not hold, ``doubts`` why the run may prove nothing."""

    seed: int
    digest: str
    acked: int
    story: list[str]
    broken: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    virtual_s: float = 0.0
    steps: int = 0
    troubles: dict[str, int] = field(default_factory=dict)
    plan: str = ""
    timeline: list[str] = field(default_factory=list)
    marks: set[str] = field(default_factory=set)
    rare: dict[str, int] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """``broken`` beats ``unknown`` beats ``passed``."""
        return "broken" if self.broken else "unknown" if self.doubts else "passed"


def simulate(seed: int, scene: str | None = None, plane: str = QUORUM, *, rare: bool = True) -> Outcome:
    """Run one seed; ``scene`` allows one kind of trouble only, ``rare`` rare ways of production code.

    A RuntimeWarning breaks the run: a coroutine that nobody awaits is work that somebody believes to be done (X7).
    """
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", RuntimeWarning)
        outcome = _simulate(plan_of(seed, scene, plane, rare=rare))
        gc.collect()  # only what is collected is warned of
    outcome.broken += sorted({f"X7: {one.message}" for one in warned if one.category is RuntimeWarning})
    return outcome


def _simulate(plan: Plan, *, hasty: bool = False) -> Outcome:
    run = Run(plan, hasty=hasty)
    asyncio.set_event_loop(None)
    try:
        run.cluster.loop.run_until_complete(run.live())
    except Exception as error:
        run.cluster.broken.append(f"the run ended with {error!r}")
    return run.outcome()


def first_broken(seed: int, scene: str | None, plane: str) -> str | None:
    """Run one seed, without rare ways, until a law does not hold; which."""
    broken = _simulate(plan_of(seed, scene, plane, rare=False), hasty=True).broken
    return broken[0] if broken else None


class Enough(Exception):
    """A law does not hold, and nobody wants to know more."""


class Run:
    """One run from start to verdict; ``hasty``: to the first law that does not hold."""

    def __init__(self, plan: Plan, *, hasty: bool = False) -> None:
        self.plan, self._hasty = plan, hasty
        self.cluster, self.eyes, self.chaos, self.control, self.plane, self.marks = parts_of(plan)
        self.data = DataLaws(self.eyes)
        self.admin = Administrator(self.cluster, self.eyes)
        self.writers = {one.name: [Writer(self.cluster, f"{one.name}.{n}", one) for n in (1, 2)] for one in plan.topics}
        self.readers = {one.name: Reader(self.cluster, f"{one.name}.reader", one) for one in plan.topics}
        self.members = [Member(self.cluster, f"member.{n}", plan.topics[0]) for n in range(plan.members)]
        self.auditors = [Auditor(self.cluster, "auditor")] if plan.group_log else []
        self.finals: list[Reader] = []
        self.timeline = Timeline(self.eyes, plan.topics[0].name)
        self._looked_s = -1.0
        self.cluster.loop.after_turn = self._look

    def _look(self) -> None:
        now_s = self.cluster.loop.time()
        if now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            self.data.look()
            self.plane.look()
            self.eyes.note_controller()
            self.timeline.note(now_s)
            if self._hasty and self.cluster.broken:
                raise Enough

    async def live(self) -> None:
        """All phases; a phase that fails ends the run, with the law told."""
        if not await self._begin():
            return
        tasks = [writer.begin(writer.write()) for writers in self.writers.values() for writer in writers]
        reading = [reader.begin(reader.read()) for reader in self.readers.values()]
        reading += [member.begin(member.consume()) for member in self.members]
        reading += [auditor.begin(auditor.audit()) for auditor in self.auditors]
        meddling = self.admin.begin(self.admin.meddle())
        breaking = asyncio.create_task(self.chaos.run())
        await asyncio.sleep(self.plan.span_s)
        self.chaos.going = self.admin.going = False
        await breaking
        self.cluster.tell("troubles are over")
        await self._ended([meddling], "the administrator")
        core = self._core()
        await asyncio.sleep(2)
        if not await self._heals(core, moving=True):
            return
        for writer in (one for writers in self.writers.values() for one in writers):
            writer.going = False
        await self._ended(tasks, "producers")
        # Members go on committing until all is read; what they have written is in sync when they have left.
        if await self._heals(core, moving=False, written=OFFSETS if self.members else None):
            self.cluster.tell("all is healed and in sync")
            ruled = len(self.eyes.controllers)
            if not await self.cluster.until(lambda: not rest.unread(self.members, self.eyes), HEALED_LIMIT_S):
                self.cluster.breaks(f"L9: {rest.unread(self.members, self.eyes)}")
            for reader in (*self.readers.values(), *self.members, *self.auditors):
                reader.going = False
            await self._ended(reading, "readers")
            await self._judge(core)
            if len(self.eyes.controllers) > ruled and not self.plan.weather.storms:
                self.cluster.breaks("L8: the controller changed, and nothing had happened to the last one")

    async def _begin(self) -> bool:
        for id in self.plan.seats:
            self.cluster.start(id)
        if not await self.cluster.until(lambda: self.eyes.unfenced(self.plan.brokers), HEALED_LIMIT_S):
            self.cluster.breaks("L5: not all brokers came up")
            return False
        if self.plan.plane == QUORUM and not await self.admin.begin(self.admin.begin_lower()):
            self.cluster.breaks("C13: levels of features cannot be lowered where there is no partition")
            return False
        new = [
            NewTopic(
                name=one.name, partitions=one.partitions, replication_factor=one.replication_factor, configs=one.configs
            )
            for one in self.plan.topics
        ]
        if self.plan.group_log:
            size = [int(self.plan.settings[f"offsets.topic.{key}"]) for key in ("num.partitions", "replication.factor")]
            groups = self.plan.group_log
            new.append(NewTopic(name=OFFSETS, partitions=size[0], replication_factor=size[1], configs=groups))
        made = await self.admin.begin(create_topics(self.admin.client, new))
        if any(one.code is not Code.NONE for one in made.values()):
            self.cluster.breaks(f"L1: the topics did not come about: {made}")
            return False
        return await self._heals(list(self.plan.seats), moving=False)

    async def _ended(self, tasks: list[asyncio.Task[Any]], who: str) -> None:
        """L2: whoever waits for an answer has it by now."""
        done, late = await asyncio.wait(tasks, timeout=ANSWERED_LIMIT_S) if tasks else (set(), set())
        for task in done:
            error = task.exception()
            if error is not None:
                self.cluster.breaks(f"X7: {who}: {error!r}")
        if late:
            self.cluster.breaks(f"L2: {len(late)} of {who} have no answer after all was healed")

    def _core(self) -> list[int]:
        """The nodes that stay: all, or all but one that the others can do without for ever."""
        everybody = list(self.plan.seats)
        if not self.plan.core_only or any(p.reassigning for _, _, p in self.eyes.partitions()):
            return everybody
        self.chaos.caught_up()
        spare = [
            id
            for id in everybody
            if self.chaos.lossy <= {id}
            and all(set(p.isr) - {id} for _, _, p in self.eyes.partitions())
            and self.chaos.has_majority_without(id)
        ]
        if not spare:
            return everybody
        gone = self.cluster.rng.choice(spare)
        self.cluster.forsake(gone)
        self.cluster.tell(f"n{gone} stays dead: the others must do without it")
        return [id for id in everybody if id != gone]

    async def _heals(self, core: list[int], *, moving: bool, written: str | None = None) -> bool:
        """L1, L3, L5, L7: everything comes about in bounded time."""
        brokers = [id for id in self.plan.brokers if id in core]
        orphaned = [id for id in self.plan.brokers if id not in core]

        def healed() -> bool:
            for _, _, partition in self.eyes.partitions():
                may_lead = partition.isr or partition.elr
                if may_lead and set(may_lead) <= set(orphaned) and partition.leader < 0:
                    # It shrank the ISR to itself just before it died, or all others have lost their tails.
                    last = may_lead[0]
                    self.cluster.tell(f"n{last} is the last that may lead a partition, and returns")
                    self.cluster.start(last)
                    core.append(last)
                    brokers.append(last)
                    orphaned.clear()
            return self.eyes.unfenced(brokers) and not self.eyes.in_sync(brokers, moving=moving, written=written)

        if await self.cluster.until(healed, HEALED_LIMIT_S):
            return True
        why = self.eyes.in_sync(brokers, moving=moving, written=written) or f"not all of {brokers} are up"
        self.cluster.breaks(f"L3: {HEALED_LIMIT_S:.0f} s after all was healed: {why}")
        return False

    async def _judge(self, core: list[int]) -> None:
        # Members commit as they leave, and a storm may hold a fetch up for longer than replicas may lag.
        if not await self._heals(core, moving=False):
            return
        await self.cluster.until(lambda: self.control.is_at_rest() and not self.chaos.undone(), HEALED_LIMIT_S)
        await self.cluster.until(lambda: not rest.nobody_waits(self.eyes), HEALED_LIMIT_S)
        self._look()
        for law in (*self.data.at_rest(), *self.control.at_rest(), *rest.folders(self.eyes)):
            self.cluster.breaks(law)
        for law in (*rest.administration(self.admin, self.eyes), *rest.nobody_waits(self.eyes), *self.chaos.undone()):
            self.cluster.breaks(law)
        for topic in self.plan.topics:
            await self._read_back(topic.name)
        if self.members:
            await self._judge_group()

    async def _read_back(self, name: str) -> None:
        reader = Reader(self.cluster, f"{name}.final", self.readers[name].topic)
        self.finals.append(reader)
        targets = {TopicPartition(name, n): LATEST for n in range(reader.topic.partitions)}
        answer = await reader.begin(list_offsets(reader.client, targets))
        ends = {p.partition: offset.offset for p, offset in answer.items()}
        await self._ended([reader.begin(reader.read(ends))], "the last reader")
        unclean = {one.partition for one in self.cluster.unclean if one.topic == name}
        history = rest.history_of(self.writers[name], self.readers[name], reader, ends)
        for law in rest.histories(history, reader.topic, unclean):
            self.cluster.breaks(law)

    async def _judge_group(self) -> None:
        asker = Actor(self.cluster, "asker")
        try:
            code, found = await asker.begin(committed(asker.client, GROUP))
        except TROUBLE as error:
            self.cluster.breaks(f"L9: the group's positions cannot be read: {error!r}")
            return
        if code is not Code.NONE:
            self.cluster.breaks(f"L9: the group's positions cannot be read: {code.name}")
        stand = {p: one.offset for p, one in found.items()}
        told = [one for auditor in self.auditors for one in auditor.told]
        for law in (*rest.groups(self.members, stand), *rest.positions(self.members, told)):
            self.cluster.breaks(law)

    # ---- the verdict

    def outcome(self) -> Outcome:
        """What it came to; the cluster is gone after this."""
        cluster = self.cluster
        cluster.trace(f"last draws {[cluster.rng.random(), self.chaos.rng.random()]}")
        outcome = Outcome(
            seed=self.plan.seed,
            digest=cluster.digest,
            acked=sum(send.outcome == "ok" for one in self.writers.values() for w in one for send in w.sends),
            story=cluster.story,
            broken=[*cluster.broken, *cluster.loop.failures],
            doubts=self._doubts(),
            virtual_s=cluster.loop.time(),
            steps=cluster.loop.steps,
            troubles=self.chaos.done,
            plan=self.plan.text() + ("" if cluster.rare is None else cluster.rare.text()),
            timeline=self.timeline.lines(),
            marks=self.marks()
            | self.data.compaction.marks
            | self.chaos.marks
            | (set() if cluster.rare is None else cluster.rare.marks),
            rare={} if cluster.rare is None else cluster.rare.taken,
        )
        cluster.loop.after_turn = None
        cluster.close()
        return outcome

    def _doubts(self) -> list[str]:
        """Why a run without a broken law proves little."""
        found = []
        for name, writers in self.writers.items():
            acked = sum(send.outcome == "ok" for writer in writers for send in writer.sends)
            if acked < ACKED_MIN:
                found.append(f"only {acked} records of {name} were acknowledged")
        if not self.chaos.done:
            found.append("nothing broke")
        if not self.finals:
            found.append("nothing was read back")
        if self.members and not any(member.commits for member in self.members):
            found.append("the group committed nothing")
        return found
