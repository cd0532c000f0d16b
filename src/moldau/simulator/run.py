"""Runs one seed: nodes start, clients write and read, faults begin and end, the cluster heals; laws run throughout.

Safety during faults: any number of them at once, within the fault model. Liveness after they end: of all nodes, or in
some runs only of a core that must suffice, every partition is led, in sync, answered and read within bounded (virtual)
time. A run in which too little happened is ``unknown``, never passed. Read next: plan.py, faults.py, laws/.
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
from moldau.simulator.administrator import Administrator
from moldau.simulator.deleter import Deleter
from moldau.simulator.laws import rest
from moldau.simulator.laws.data import DataLaws
from moldau.simulator.laws.deletions import DeletionLaws
from moldau.simulator.laws.reads import ReadLaws
from moldau.simulator.load import (
    EXPECTED_ERRORS,
    GROUP,
    Actor,
    Auditor,
    SimulatedMember,
    SimulatedProducer,
    SimulatedReader,
    TopicWriter,
)
from moldau.simulator.pipelined_producer import PipelinedProducer
from moldau.simulator.plan import Plan
from moldau.simulator.planes import parts_of, plan_of
from moldau.simulator.scenes import PIPELINED, QUORUM, SCENES, TRANSACTIONS
from moldau.simulator.timeline import Timeline
from moldau.simulator.transactional import TransactionalLoad

__all__ = ["SCENES", "RunOutcome", "simulate"]

LOOK_S = 0.01
HEALED_LIMIT_S = 150.0
ANSWERED_LIMIT_S = 200.0
ACKED_MIN = 20


@dataclass
class RunOutcome:
    """What a run came to. ``broken`` names the laws that did not hold, ``doubts`` why it may prove nothing."""

    seed: int
    digest: str
    acked: int
    trace: list[str]
    broken: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    virtual_s: float = 0.0
    steps: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    plan: str = ""
    timeline: list[str] = field(default_factory=list)
    coverage: set[str] = field(default_factory=set)
    buggify: dict[str, int] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """``broken`` beats ``unknown`` beats ``passed``."""
        return "broken" if self.broken else "unknown" if self.doubts else "passed"


def simulate(seed: int, scene: str | None = None, plane: str = QUORUM, *, buggify: bool = True) -> RunOutcome:
    """Run one seed; ``scene`` allows one kind of fault only, ``buggify`` allows buggify points of production code.

    A RuntimeWarning breaks the run: a coroutine that is never awaited is work that its caller believes to be done (X7).
    """
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", RuntimeWarning)
        outcome = _simulate(plan_of(seed, scene, plane, buggify=buggify))
        gc.collect()  # only what is collected is warned of
    outcome.broken += sorted({f"X7: {one.message}" for one in warned if one.category is RuntimeWarning})
    return outcome


def _simulate(plan: Plan, *, fail_fast: bool = False) -> RunOutcome:
    run = SimulatedRun(plan, fail_fast=fail_fast)
    asyncio.set_event_loop(None)
    try:
        run.cluster.loop.run_until_complete(run.live())
    except Exception as error:
        run.cluster.broken.append(f"the run ended with {error!r}")
    return run.outcome()


def first_broken(seed: int, scene: str | None, plane: str) -> str | None:
    """Run one seed until a law does not hold; return which. Without buggify points, but for a pipelined producer:
    few other faults refuse one batch and take the next. So for transactions, whose markers are lost with answers.
    """
    broken = _simulate(plan_of(seed, scene, plane, buggify=scene in (PIPELINED, TRANSACTIONS)), fail_fast=True).broken
    return broken[0] if broken else None


class Enough(Exception):
    """A law does not hold, and the run may stop."""


class SimulatedRun:
    """One run from start to verdict; ``fail_fast``: to the first law that does not hold."""

    def __init__(self, plan: Plan, *, fail_fast: bool = False) -> None:
        self.plan, self._fail_fast = plan, fail_fast
        self.cluster, self.observer, self.injector, self.control, self.plane, self.coverage = parts_of(plan)
        self.data = DataLaws(self.observer)
        self.admin = Administrator(self.cluster, self.observer)
        self.writers: dict[str, list[TopicWriter]] = {
            one.name: [SimulatedProducer(self.cluster, f"{one.name}.{n}", one) for n in (1, 2)] for one in plan.topics
        }
        first = plan.topics[0]
        if plan.pipelined:
            self.writers[first.name].append(PipelinedProducer(self.cluster, f"{first.name}.pipelined", first))
        self.reads = ReadLaws(self.observer, self.data)
        self.readers = {
            one.name: [SimulatedReader(self.cluster, f"{one.name}.reader", one, self.reads)] for one in plan.topics
        }
        self.near = [
            SimulatedReader(self.cluster, f"{first.name}.reader.{rack}", first, self.reads, rack=rack)
            for rack in plan.rack_names
        ]
        self.readers[first.name] += self.near
        self.members = [SimulatedMember(self.cluster, f"member.{n}", plan.topics[0]) for n in range(plan.members)]
        self.auditors = [Auditor(self.cluster, "auditor")] if plan.group_log else []
        self.finals: list[SimulatedReader] = []
        self.deleter: Deleter | None = None
        if plan.deletions is not None:
            laws = DeletionLaws(self.observer, plan.deletions, expires=plan.expires_ms > 0)
            self.deleter = Deleter(self.cluster, plan.deletions, laws)
        self.transactional: TransactionalLoad | None = None
        if plan.transactions is not None:
            self.transactional = TransactionalLoad(self.cluster, self.observer, plan.transactions, self.reads)
        self.timeline = Timeline(self.observer, plan.topics[0].name)
        self._looked_s = -1.0
        self.cluster.loop.after_turn = self._look

    def _look(self) -> None:
        now_s = self.cluster.loop.time()
        if now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            self.data.look()
            self.plane.look()
            if self.deleter is not None:
                self.deleter.laws.look()
            if self.transactional is not None:
                self.transactional.laws.look()
            self.observer.note_controller()
            self.timeline.note(now_s)
            if self._fail_fast and self.cluster.broken:
                raise Enough

    async def live(self) -> None:
        """Run all phases; a phase that fails ends the run, with the law recorded."""
        if not await self._begin():
            return
        tasks = [writer.begin(writer.write()) for writers in self.writers.values() for writer in writers]
        reading = [reader.begin(reader.read()) for readers in self.readers.values() for reader in readers]
        reading += [member.begin(member.consume()) for member in self.members]
        reading += [auditor.begin(auditor.audit()) for auditor in self.auditors]
        deleter = self.deleter
        if deleter is not None:
            tasks += [deleter.begin(deleter.delete()), deleter.writer.begin(deleter.writer.write())]
        transactional = self.transactional
        if transactional is not None:
            tasks += transactional.write()
            reading += [reader.begin(reader.read()) for reader in transactional.readers]
        administrator = self.admin.begin(self.admin.administrate())
        breaking = asyncio.create_task(self.injector.run())
        await asyncio.sleep(self.plan.span_s)
        self.injector.going = self.admin.going = False
        await breaking
        self.cluster.record_event("troubles are over")
        await self._ended([administrator], "the administrator")
        core = self._core()
        await asyncio.sleep(2)
        if not await self._heals(core, moving=True):
            return
        self._end_writing()
        await self._ended(tasks, "producers")
        # Members go on committing until all is read; what they have written is in sync when they have left.
        if await self._heals(core, moving=False, written=OFFSETS if self.members else None):
            self.cluster.record_event("all is healed and in sync")
            ruled = len(self.observer.controllers)
            if not await self.cluster.until(lambda: not rest.unread(self.members, self.observer), HEALED_LIMIT_S):
                self.cluster.violated(f"L9: {rest.unread(self.members, self.observer)}")
            if not await self.cluster.until(lambda: not rest.behind(self.near, self.observer), HEALED_LIMIT_S):
                self.cluster.violated(f"L3: {rest.behind(self.near, self.observer)}")
            self._end_reading()
            await self._ended(reading, "readers")
            if deleter is not None:
                await self._ended([deleter.begin(deleter.end())], "the deleter")
            await self._check_laws(core)
            if len(self.observer.controllers) > ruled and not self.plan.network.spikes:
                self.cluster.violated("L8: the controller changed, and nothing had happened to the last one")

    def _end_writing(self) -> None:
        for writer in (one for writers in self.writers.values() for one in writers):
            writer.going = False
        if self.deleter is not None:
            self.deleter.going = self.deleter.writer.going = False
        if self.transactional is not None:
            self.transactional.end()

    def _end_reading(self) -> None:
        of_topics = (reader for readers in self.readers.values() for reader in readers)
        committed_only = () if self.transactional is None else self.transactional.readers
        for reader in (*of_topics, *self.members, *self.auditors, *committed_only):
            reader.going = False

    async def _begin(self) -> bool:
        for id in self.plan.hosts:
            self.cluster.start(id)
        if not await self.cluster.until(lambda: self.observer.unfenced(self.plan.brokers), HEALED_LIMIT_S):
            self.cluster.violated("L5: not all brokers came up")
            return False
        if self.plan.plane == QUORUM and not await self.admin.begin(self.admin.begin_lower()):
            self.cluster.violated("C13: levels of features cannot be lowered where there is no partition")
            return False
        others = (self.plan.deletions, self.plan.transactions)
        topics = (*self.plan.topics, *(one for one in others if one is not None))
        new = [
            NewTopic(
                name=one.name, partitions=one.partitions, replication_factor=one.replication_factor, configs=one.configs
            )
            for one in topics
        ]
        if self.plan.group_log:
            size = [int(self.plan.settings[f"offsets.topic.{key}"]) for key in ("num.partitions", "replication.factor")]
            groups = self.plan.group_log
            new.append(NewTopic(name=OFFSETS, partitions=size[0], replication_factor=size[1], configs=groups))
        made = await self.admin.begin(create_topics(self.admin.client, new))
        if any(one.code is not Code.NONE for one in made.values()):
            self.cluster.violated(f"L1: the topics did not come about: {made}")
            return False
        return await self._heals(list(self.plan.hosts), moving=False)

    async def _ended(self, tasks: list[asyncio.Task[Any]], who: str) -> None:
        """L2: every request has been answered by now."""
        done, late = await asyncio.wait(tasks, timeout=ANSWERED_LIMIT_S) if tasks else (set(), set())
        for task in done:
            error = task.exception()
            if error is not None:
                self.cluster.violated(f"X7: {who}: {error!r}")
        if late:
            self.cluster.violated(f"L2: {len(late)} of {who} have no answer after all was healed")

    def _core(self) -> list[int]:
        """The nodes that stay: all, or all but one that the others can do without for ever."""
        everyone = list(self.plan.hosts)
        if not self.plan.core_only or any(p.reassigning for _, _, p in self.observer.partitions()):
            return everyone
        self.injector.caught_up()
        spare = [
            id
            for id in everyone
            if self.injector.lossy <= {id}
            and all(set(p.isr) - {id} for _, _, p in self.observer.partitions())
            and self.injector.has_majority_without(id)
        ]
        if not spare:
            return everyone
        gone = self.cluster.rng.choice(spare)
        self.cluster.kill_for_good(gone)
        self.cluster.record_event(f"n{gone} stays dead: the others must do without it")
        return [id for id in everyone if id != gone]

    async def _heals(self, core: list[int], *, moving: bool, written: str | None = None) -> bool:
        """L1, L3, L5, L7: everything comes about in bounded time."""
        brokers = [id for id in self.plan.brokers if id in core]
        orphaned = [id for id in self.plan.brokers if id not in core]

        def healed() -> bool:
            for _, _, partition in self.observer.partitions():
                may_lead = partition.isr or partition.elr
                if may_lead and set(may_lead) <= set(orphaned) and partition.leader < 0:
                    # It shrank the ISR to itself just before it died, or all others have lost their tails.
                    last = may_lead[0]
                    self.cluster.record_event(f"n{last} is the last that may lead a partition, and returns")
                    self.cluster.start(last)
                    core.append(last)
                    brokers.append(last)
                    orphaned.clear()
            return self.observer.unfenced(brokers) and not self.observer.in_sync(
                brokers, moving=moving, written=written
            )

        if await self.cluster.until(healed, HEALED_LIMIT_S):
            return True
        why = self.observer.in_sync(brokers, moving=moving, written=written) or f"not all of {brokers} are up"
        self.cluster.violated(f"L3: {HEALED_LIMIT_S:.0f} s after all was healed: {why}")
        return False

    async def _check_laws(self, core: list[int]) -> None:
        # Members commit as they leave, and a slow link may delay a fetch for longer than replicas may lag.
        if not await self._heals(core, moving=False):
            return
        # All of it at one moment: a leader's proposal that ZooKeeper was away for may come while another is waited for.
        await self.cluster.until(
            lambda: not rest.nobody_waits(self.observer) and not self.injector.undone() and self.control.is_at_rest(),
            HEALED_LIMIT_S,
        )
        self._look()
        for law in (*self.data.at_rest(), *self.control.at_rest(), *rest.folders(self.observer)):
            self.cluster.violated(law)
        for law in (
            *rest.administration(self.admin, self.observer),
            *rest.nobody_waits(self.observer),
            *rest.coordinated(self.observer),
            *self.injector.undone(),
        ):
            self.cluster.violated(law)
        if self.deleter is not None:
            for law in self.deleter.laws.at_rest(self.deleter.writer.sends):
                self.cluster.violated(law)
        if self.transactional is not None:
            await self._read_committed(self.transactional)
        for topic in self.plan.topics:
            await self._read_back(topic.name)
        if self.members:
            await self._check_group()

    async def _read_back(self, name: str) -> None:
        topic = next(one for one in self.plan.topics if one.name == name)
        reader = SimulatedReader(self.cluster, f"{name}.final", topic, self.reads)
        self.finals.append(reader)
        targets = {TopicPartition(name, n): LATEST for n in range(reader.topic.partitions)}
        answer = await reader.begin(list_offsets(reader.client, targets))
        ends = {p.partition: offset.offset for p, offset in answer.items()}
        await self._ended([reader.begin(reader.read(ends))], "the last reader")
        unclean = {one.partition for one in self.cluster.unclean if one.topic == name}
        history = rest.history_of(self.writers[name], self.readers[name], reader, ends)
        for law in rest.histories(history, reader.topic, unclean):
            self.cluster.violated(law)

    async def _read_committed(self, load: TransactionalLoad) -> None:
        reading = asyncio.create_task(load.last_reader())
        await self._ended([reading], "the last reader of committed records")
        if reading.done() and not reading.exception():
            views = [*(reader.view() for reader in load.readers), reading.result().view()]
            for law in load.laws.at_rest(views, load.plain.sends):
                self.cluster.violated(law)

    async def _check_group(self) -> None:
        asker = Actor(self.cluster, "asker")
        try:
            code, found = await asker.begin(committed(asker.client, GROUP))
        except EXPECTED_ERRORS as error:
            self.cluster.violated(f"L9: the group's positions cannot be read: {error!r}")
            return
        if code is not Code.NONE:
            self.cluster.violated(f"L9: the group's positions cannot be read: {code.name}")
        stand = {p: one.offset for p, one in found.items()}
        told = [one for auditor in self.auditors for one in auditor.told]
        for law in (*rest.groups(self.members, stand), *rest.positions(self.members, told)):
            self.cluster.violated(law)

    # ---- the verdict

    def outcome(self) -> RunOutcome:
        """What it came to; the cluster is gone after this."""
        cluster = self.cluster
        cluster.hash_event(f"last draws {[cluster.rng.random(), self.injector.rng.random()]}")
        outcome = RunOutcome(
            seed=self.plan.seed,
            digest=cluster.digest,
            acked=sum(send.outcome == "ok" for one in self.writers.values() for w in one for send in w.sends),
            trace=cluster.trace,
            broken=[*cluster.broken, *cluster.loop.failures],
            doubts=self._doubts(),
            virtual_s=cluster.loop.time(),
            steps=cluster.loop.steps,
            faults=self.injector.done,
            plan=self.plan.text() + ("" if cluster.buggify is None else cluster.buggify.text()),
            timeline=self.timeline.lines(),
            coverage=self.coverage()
            | self.data.compaction.coverage
            | self.injector.coverage
            | self.reads.coverage
            | (set() if self.deleter is None else self.deleter.laws.coverage)
            | (set() if self.transactional is None else self.transactional.laws.coverage)
            | (set() if cluster.buggify is None else cluster.buggify.coverage),
            buggify={} if cluster.buggify is None else cluster.buggify.taken,
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
        if not self.injector.done:
            found.append("nothing broke")
        if not self.finals:
            found.append("nothing was read back")
        if self.members and not any(member.commits for member in self.members):
            found.append("the group committed nothing")
        if self.deleter is not None and not self.deleter.answered:
            found.append("no records were deleted")
        if self.transactional is not None and not all(self.transactional.decided):
            found.append("no transaction with records was committed, or none was aborted")
        return found
