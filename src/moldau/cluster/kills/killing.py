"""One scenario of kills: a topic, a load, N times kill -9 of the chosen node under load, and all observations.

Before each kill all replicas are in sync and leaders are placed so that the scenarios differ: ``leader`` kills a node
that leads and is no controller, ``controller`` the active controller while it leads nothing, ``both`` the active
controller while it leads every partition. With three combined nodes a majority of the quorum and the minimum ISR of two
survive each kill. Choices and pauses come from the seed. ``moldau.history`` and ``replicas.py`` check.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

from moldau.client import sync
from moldau.client.admin import ElectionType, NewTopic, create_topics, elect_leaders, reassign
from moldau.cluster.kills.cluster_poller import ClusterPoller, ControllerView, PartitionLeader, System
from moldau.cluster.kills.load import LoadPlan, ProducerLoad, high_watermarks, read_all
from moldau.history.rows import History, Kill
from moldau.model import Code, TopicPartition

LEADER, CONTROLLER, BOTH = "leader", "controller", "both"
SCENARIOS = (LEADER, CONTROLLER, BOTH)
_LOOK_S = 0.005


class Stuck(Exception):
    """Something that must happen did not, in time; the message says what."""


class KillPlan(NamedTuple):
    """What to do. Pauses in s are drawn between their bounds before each kill and before each restart.

    configs: of the topic.
    """

    scenario: str
    load: LoadPlan
    kills: int = 20
    seed: int = 0
    pause_s: tuple[float, float] = (0.3, 1.5)
    patience_s: float = 120.0
    configs: Mapping[str, str] = {"min.insync.replicas": "2"}


class ScenarioResult(NamedTuple):
    """The result: the history, what was stuck or broken, and the metadata log's high watermark at the end."""

    history: History
    failures: list[str]
    metadata_end: int


class KillRun:
    """A running scenario. Used as a context manager it closes its connections with the block."""

    def __init__(self, system: System, plan: KillPlan, say: Callable[[str], None]) -> None:
        self.system = system
        self.plan = plan
        self.nodes = sorted(system.brokers)
        self.rng = random.Random(f"{plan.seed}/{plan.scenario}")
        self.poller = ClusterPoller(system, plan.load.topic)
        self.client = sync.Cluster(system.bootstrap_servers)
        self.kills: list[Kill] = []
        self._say = say

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.poller.close()
        self.client.close()

    def go(self) -> ScenarioResult:
        """Run all of it; what gets stuck ends the kills, and what was seen until then is still read and returned."""
        plan, failures = self.plan, []
        self.make_topic()
        load = ProducerLoad(self.system.bootstrap_servers, plan.load)
        start_ns = time.monotonic_ns()
        load.start()
        try:
            self.wait(lambda: load.acked_since(start_ns), "every partition acknowledges")
            for number in range(1, plan.kills + 1):
                self.kill_once(number, load)
        except (Stuck, OSError) as problem:
            failures.append(str(problem))
        load.stop()
        ends, active_controller = (
            high_watermarks(self.system.bootstrap_servers, plan.load),
            self.poller.active_controller(self.nodes),
        )
        final = read_all(self.system.bootstrap_servers, plan.load, ends)
        history = History(load.sends(), load.follower.reads, final, ends, self.kills)
        return ScenarioResult(
            history, failures + load.broken(), active_controller.high_watermark if active_controller is not None else 0
        )

    def make_topic(self) -> None:
        """Create the topic of this scenario: as many replicas as nodes, two of which must have a record."""
        plan = self.plan.load
        new = NewTopic(
            name=plan.topic,
            partitions=plan.partitions,
            replication_factor=len(self.nodes),
            configs=dict(self.plan.configs),
        )
        outcome = self.client.run(create_topics(self.client.client, [new]))[plan.topic]
        if not outcome.ok:
            raise Stuck(f"topic {plan.topic} was not created: {outcome.code.name} {outcome.message or ''}")
        self.wait(lambda: self.poller.in_sync(self.nodes), "the new topic is in sync")

    def kill_once(self, number: int, load: ProducerLoad) -> None:
        """Place leaders, kill, poll until all has moved on, restart, wait until all is in sync."""
        active_controller = self.place()
        pause_before, pause_after = (self.rng.uniform(*self.plan.pause_s) for _ in range(2))
        tie = self.rng.random()
        time.sleep(pause_before)
        before = self.poller.newest(self.nodes)
        victim = self.victim(active_controller, before, tie)
        led = [partition for partition, lead in before.items() if lead.leader == victim]
        kill = Kill(self.plan.scenario, number, victim, len(led), victim == active_controller.node, time.monotonic_ns())
        self.kills.append(kill)
        self.system.kill(victim)
        try:
            self.watch(led, load)
            time.sleep(pause_after)
            restart_ns = time.monotonic_ns()
            self.system.restart(victim)
            self.wait(lambda: self.poller.in_sync(self.nodes), f"node {victim} is back in sync after kill {number}")
            self._note(in_sync_ms=(time.monotonic_ns() - restart_ns) / 1e6)
        finally:
            self._note(until_ns=time.monotonic_ns())
        self._say(_line(self.kills[-1], self.plan.kills))

    def watch(self, led: list[int], load: ProducerLoad) -> None:
        """Note when each thing has moved on after the last kill, until all have; Stuck when one does not."""
        first = self.kills[-1]
        survivors = [node for node in self.nodes if node != first.node]
        until = time.monotonic() + self.plan.patience_s
        while not ((kill := self.kills[-1]).had_effect and kill.acks_ms >= 0):
            if kill.was_controller and kill.controller_ms < 0 and self.poller.active_controller(survivors) is not None:
                self._note(controller_ms=_since(kill))
            if led and kill.leader_ms < 0:
                leads = self.poller.newest(survivors)
                if leads and all(leads[partition].leader in survivors for partition in led):
                    self._note(leader_ms=_since(kill))
            if kill.acks_ms < 0 and load.acked_since(kill.kill_ns):
                self._note(acks_ms=_since(kill))
            if time.monotonic() > until:
                waiting = "acknowledgements" if kill.had_effect else "leaders and a controller"
                raise Stuck(f"no {waiting} within {self.plan.patience_s:g} s of kill {kill.number} of node {kill.node}")
            time.sleep(_LOOK_S)

    def _note(self, **seen: Any) -> None:
        self.kills[-1] = self.kills[-1]._replace(**seen)

    def victim(self, active_controller: ControllerView, leads: dict[int, PartitionLeader], tie: float) -> int:
        """Return the node to kill: the controller, or the one that leads most and is not the controller."""
        if self.plan.scenario != LEADER:
            return active_controller.node
        counts = Counter(lead.leader for lead in leads.values() if lead.leader != active_controller.node)
        most = max(counts.values(), default=0)
        candidates = sorted(node for node, count in counts.items() if count == most)
        if not candidates:
            raise Stuck(f"only the controller {active_controller.node} leads: {leads}")
        return candidates[int(tie * len(candidates))]

    def place(self) -> ControllerView:
        """Put leaders where the scenario wants them, around the present controller; return it."""
        for _ in range(10):
            self.wait(lambda: self.poller.in_sync(self.nodes), "all is in sync before a kill")
            active_controller = self.active_controller()
            wanted = placement(self.plan.scenario, self.nodes, active_controller.node, self.plan.load.partitions)
            if self.move(wanted) and self.active_controller().node == active_controller.node:
                return active_controller
        raise Stuck("leaders do not stay where they are put")

    def active_controller(self) -> ControllerView:
        """Wait for the active controller, and return it."""
        found: list[ControllerView] = []

        def known() -> bool:
            active_controller = self.poller.active_controller(self.nodes)
            found[:] = [active_controller] if active_controller is not None else []
            return bool(found)

        self.wait(known, "there is a controller")
        return found[0]

    def move(self, wanted: dict[int, list[int]]) -> bool:
        """Whether every partition is led by the first of its wanted replicas, all in sync, after asking for it."""
        topic, client = self.plan.load.topic, self.client.client
        now = self.poller.newest(self.nodes)
        orders = {TopicPartition(topic, p): order for p, order in wanted.items() if now[p].replicas != tuple(order)}
        if orders:
            self.client.run(reassign(client, orders))
        waiting = [TopicPartition(topic, p) for p, order in wanted.items() if now[p].leader != order[0]]
        if waiting:
            code, outcomes = self.client.run(elect_leaders(client, waiting, ElectionType.PREFERRED))
            refused = {p: o for p, o in outcomes.items() if o.code not in (Code.NONE, Code.ELECTION_NOT_NEEDED)}
            if code or refused:
                self._say(f"preferred election: {code.name} {refused}")
        until = time.monotonic() + 5
        while not self._led(wanted):
            if time.monotonic() > until:
                return False
            time.sleep(_LOOK_S)
        return True

    def _led(self, wanted: dict[int, list[int]]) -> bool:
        now = self.poller.newest(self.nodes)
        leaders_right = all(p in now and now[p].leader == order[0] for p, order in wanted.items())
        return leaders_right and self.poller.in_sync(self.nodes)

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Ask until it holds; Stuck names what did not happen in time."""
        until = time.monotonic() + self.plan.patience_s
        while not condition():
            if time.monotonic() > until:
                raise Stuck(f"not within {self.plan.patience_s:g} s: {what}")
            time.sleep(_LOOK_S)


def placement(scenario: str, nodes: list[int], controller: int, partitions: int) -> dict[int, list[int]]:
    """Replicas of each partition in the wanted order; the first is to lead."""
    others = [node for node in nodes if node != controller]
    wanted = {}
    for partition in range(partitions):
        turn = partition % len(others)
        turned = others[turn:] + others[:turn]
        if scenario == LEADER:
            shift = partition % len(nodes)
            wanted[partition] = nodes[shift:] + nodes[:shift]
        elif scenario == CONTROLLER:
            wanted[partition] = [*turned, controller]
        else:
            wanted[partition] = [controller, *turned]
    return wanted


def _since(kill: Kill) -> float:
    return (time.monotonic_ns() - kill.kill_ns) / 1e6


def _line(kill: Kill, of: int) -> str:
    def ms(value: float) -> str:
        return f"{value:.0f} ms" if value >= 0 else "-"

    roles = " and ".join([f"leader of {kill.led}"] * bool(kill.led) + ["controller"] * kill.was_controller)
    after = {
        "leaders": kill.leader_ms,
        "controller": kill.controller_ms,
        "acks": kill.acks_ms,
        "in sync": kill.in_sync_ms,
    }
    times = ", ".join(f"{what} after {ms(value)}" for what, value in after.items())
    return f"{kill.scenario} {kill.number}/{of}: node {kill.node} ({roles}); {times}"
