"""``ScenarioContext``: one run, in which a cluster starts, a load runs, a scenario injects faults, and all is healed.

A scenario acts through it: each fault is recorded with its time and with the reaction that the cluster showed; a fault
without a visible effect makes the run UNKNOWN, not passed. One seed draws all random numbers. Checks nothing:
``checking.py`` does. Read next: ``scenarios/``.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from moldau.client.client import Unreachable
from moldau.cluster.chaos.end_offset_watch import EndOffsetWatch
from moldau.cluster.chaos.net import CannotBreak
from moldau.cluster.chaos.proxy_net import ProxyNet
from moldau.cluster.chaos.system import KAFKA, MOLDAU, Rig
from moldau.cluster.kills.cluster_poller import PartitionLeader
from moldau.cluster.kills.killing import KillPlan, KillRun, Stuck
from moldau.cluster.kills.load import LoadPlan, ProducerLoad
from moldau.cluster.kills.resent import TIMED_OUT, NextEpochs
from moldau.history.checks import Anomaly
from moldau.history.rows import OK

TOPIC = "chaos"
PARTITIONS = 3
ACKS_MIN = 100
"""How many acknowledgements of each partition a run needs, below which a run proves nothing."""
PATIENCE_S = 120.0
EFFECT_S = 45.0
_LOOK_S = 0.01

SAFE, ONE_ACK, UNCLEAN = "safe", "acks=1", "unclean"
_PATIENCE = {"message.timeout.ms": 60_000, "request.timeout.ms": 4_000, "socket.timeout.ms": 5_000}
"""A request in flight to a paused node blocks the rest of its partition: for a minute, by default."""
_LOADS: Mapping[str, Mapping[str, object]] = {
    SAFE: {},
    ONE_ACK: {"enable.idempotence": False, "acks": "1"},
    UNCLEAN: {},
}
_TOPICS = {
    SAFE: {"min.insync.replicas": "2"},
    ONE_ACK: {"min.insync.replicas": "2"},
    UNCLEAN: {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"},
}
PROFILES = tuple(_LOADS)
"""What producers and the topic ask for. Only the first promises that nothing is lost."""


class ScenarioOptions(NamedTuple):
    """The options of a run. ``rounds`` and ``seconds`` are of those scenarios that repeat or last."""

    seed: int
    profile: str = SAFE
    rounds: int = 5
    seconds: float = 60.0
    rate_per_s: float = 150.0


class Fault(NamedTuple):
    """Something that was done, ``at_s`` seconds into the run; ``effect_s`` later it was seen (None: never)."""

    at_s: float
    what: str
    effect: str = ""
    effect_s: float | None = None

    @property
    def is_doubtful(self) -> bool:
        """Whether an effect was waited for and did not come."""
        return bool(self.effect) and self.effect_s is None


class ScenarioContext:
    """The cluster, the load and the faults, as a scenario uses them."""

    def __init__(self, rig: Rig, options: ScenarioOptions, say: Callable[[str], None]) -> None:
        self.epochs = NextEpochs(lambda broker: rig.setup.kind, {KAFKA, TIMED_OUT})
        """Why producers began their next epochs, as they tell it."""
        more = {**_PATIENCE, **_LOADS[options.profile], **self.epochs.settings()}
        load = LoadPlan(TOPIC, PARTITIONS, producers=2, rate_per_s=options.rate_per_s, more=more)
        self.rig, self.options = rig, options
        self.rng = random.Random(options.seed)
        self.nodes = sorted(rig.brokers)
        self.timeline: list[Fault] = []
        self.found: list[Anomaly] = []
        """What a scenario itself found wrong."""
        self.at_rest: list[Callable[[], Iterable[Anomaly]]] = []
        """Checks of a scenario's own, run on the disks when all nodes have stopped."""
        self.paused: set[int] = set()
        self.down: set[int] = set()
        self.begin_ns = time.monotonic_ns()
        self._say = say
        self.plan = KillPlan("chaos", load, patience_s=PATIENCE_S, configs=_TOPICS[options.profile])

    # ---- beginning and end

    def open(self) -> None:
        """Start the cluster, its topic, the load and the watch; Stuck when it does not come up."""
        self.rig.start()
        self.run = KillRun(self.rig, self.plan, self._say)
        self.wait(lambda: set(self.run.client.brokers()) == set(self.nodes), "all nodes serve")
        self.run.make_topic()
        self.load = ProducerLoad(self.rig.bootstrap_servers, self.plan.load)
        self.watch = EndOffsetWatch(self.rig.bootstrap_servers, TOPIC, PARTITIONS)
        start_ns = time.monotonic_ns()
        self.load.start()
        self.watch.start()
        self.wait(lambda: self.load.acked_since(start_ns), "every partition acknowledges")
        self.say("the cluster is up and is written to")

    def heal(self) -> None:
        """Undo every fault, and start every node that does not run."""
        self.note_dead_nodes()
        self.rig.net.heal()
        for node in self.nodes:
            self.rig.setup.volume.thaw(self.rig.data_dir(node))
            self.rig.setup.volume.empty(self.rig.data_dir(node))
        for node in sorted(self.paused):
            self.resume(node)
        for node in self.nodes:
            if not self.rig.alive(node):
                self.restart(node)

    def settle(self) -> None:
        """Wait until all is in sync and acknowledges; raise Stuck (law L3) when that takes too long."""
        self.wait(lambda: self.run.poller.in_sync(self.nodes), "all replicas are in sync after the healing")
        if self.options.profile != SAFE:
            return  # a leader that lost records may refuse for good the sequence numbers that come after them
        healed_ns = time.monotonic_ns()
        self.wait(lambda: self.load.acked_since(healed_ns), "every partition acknowledges after the healing")
        # On a busy machine a short scenario is over before there is enough to judge by.
        self.wait(lambda: self.load.acks_min() >= ACKS_MIN, f"every partition has {ACKS_MIN} acknowledged records")

    def note_dead_nodes(self) -> None:
        """Note nodes that ended by themselves (law X7), before they are killed or started: that would hide it."""
        for node in self.nodes:
            if node not in self.down and not self.rig.alive(node):
                self.down.add(node)
                if self.rig.setup.kind == MOLDAU:
                    self.found.append(Anomaly("ended", f"node {node} ended by itself: {self.rig.last_words(node)}"))

    # ---- faults

    def do(
        self, what: str, act: Callable[[], object], effect: str = "", seen: Callable[[], bool] | None = None
    ) -> None:
        """Do something, record it, and wait until its effect is seen; a missing effect is recorded too."""
        begin = time.monotonic()
        row = Fault(self._now_s(), what, effect)
        act()
        if seen is not None:
            while row.effect_s is None and time.monotonic() < begin + EFFECT_S:
                if self.holds(seen):
                    row = row._replace(effect_s=time.monotonic() - begin)
                else:
                    time.sleep(_LOOK_S)
        self.timeline.append(row)
        after = f" after {row.effect_s:.2f} s" if row.effect_s is not None else " NOT SEEN"
        self.say(what + (f" -> {effect}{after}" if effect else ""), row.at_s)

    def kill(self, node: int, effect: str = "", seen: Callable[[], bool] | None = None) -> None:
        self.note_dead_nodes()
        self.down.add(node)
        self.do(f"kill -9 node {node}", lambda: self.rig.kill(node), effect, seen)

    def terminate(self, node: int, effect: str = "", seen: Callable[[], bool] | None = None) -> None:
        """SIGTERM, and wait until it has ended by itself (law L12)."""
        self.note_dead_nodes()
        self.down.add(node)

        def act() -> None:
            self.rig.send(node, signal.SIGTERM)
            if not self.rig.gone(node, PATIENCE_S):
                self.found.append(Anomaly("no end", f"node {node} was told to stop and did not in {PATIENCE_S:g} s"))
                self.rig.kill(node)

        self.do(f"SIGTERM to node {node}", act, effect, seen)

    def pause(self, node: int, effect: str = "", seen: Callable[[], bool] | None = None) -> None:
        self.paused.add(node)
        self.do(f"SIGSTOP to node {node}", lambda: self.rig.send(node, signal.SIGSTOP), effect, seen)

    def resume(self, node: int) -> None:
        self.paused.discard(node)
        self.do(f"SIGCONT to node {node}", lambda: self.rig.send(node, signal.SIGCONT))

    def restart(self, node: int) -> None:
        self.do(f"start node {node}", lambda: self.rig.restart(node))
        self.down.discard(node)

    def cut(self, pairs: Collection[tuple[int, int]], ports: Collection[int]) -> Callable[[], None]:
        """Return an act for ``do`` that drops all packets of these directed pairs (or those of some ports)."""

        def act() -> None:
            for source, target in pairs:
                self.rig.net.cut(source, target, ports)

        return act

    @property
    def proxy(self) -> ProxyNet:
        """Return the proxy, which slows links and resets connections; CannotBreak on another net."""
        if not isinstance(self.rig.net, ProxyNet):
            raise CannotBreak("links are slowed and reset by the proxy only: --network proxy")
        return self.rig.net

    def heal_net(self) -> None:
        self.do("all links are whole", self.rig.net.heal)

    # ---- observation

    @property
    def up(self) -> list[int]:
        """Return the nodes that run and are not paused."""
        return [node for node in self.nodes if node not in self.down and node not in self.paused]

    def leads(self, among: Collection[int] | None = None) -> dict[int, PartitionLeader]:
        """Return each partition's leader, by the newest answer of the running nodes (or of some)."""
        return self.run.poller.newest(self.up if among is None else among)

    def leader(self, partition: int = 0) -> int:
        """Wait for a partition's leader, and return it."""
        self.wait(lambda: self.leads()[partition].leader in self.up, f"partition {partition} has a leader that runs")
        return self.leads()[partition].leader

    def controller(self) -> int:
        """Wait for the active controller, and return it."""
        self.wait(lambda: self.run.poller.active_controller(self.up) is not None, "there is a controller")
        active_controller = self.run.poller.active_controller(self.up)
        return active_controller.node if active_controller is not None else self.controller()

    def others(self, node: int) -> list[int]:
        return [other for other in self.nodes if other != node]

    def move_leaders_to(self, node: int) -> None:
        """Move the leadership of every partition to one node, all in sync."""
        wanted = {partition: [node, *self.others(node)] for partition in range(PARTITIONS)}
        self.wait(lambda: self.run.poller.in_sync(self.nodes) and self.run.move(wanted), f"node {node} leads all")

    def moved(self, node: int, witnesses: Collection[int] | None = None) -> Callable[[], bool]:
        """Return whether others say that this node leads none of the partitions any more that it leads now."""
        led = [partition for partition, lead in self.leads().items() if lead.leader == node]
        asked = [other for other in self.up if other != node] if witnesses is None else witnesses

        def seen() -> bool:
            leads = self.leads(asked)
            return bool(led) and all(leads[p].leader in self.nodes and leads[p].leader != node for p in led)

        return seen

    def changed(self) -> Callable[[], bool]:
        """Whether any leader, epoch or ISR is another one than now, by any node's answer (if cut off, it sees none)."""
        before = list(self.leads().values())
        return lambda: any(list(view.values()) != before for view in self.run.poller.views(self.up).values())

    def without(self, nodes: Collection[int], partition: int = 0) -> Callable[[], bool]:
        """Return whether these are out of a partition's ISR, by any node's answer."""
        views = self.run.poller.views
        return lambda: any(not view[partition].isr & set(nodes) for view in views(self.up).values())

    def acks(self) -> Callable[[], bool]:
        """Whether every partition has acknowledged something that is sent from now on."""
        now_ns = time.monotonic_ns()
        return lambda: self.load.acked_since(now_ns)

    def slow_acks(self, seconds: float) -> Callable[[], bool]:
        """Whether something that is sent from now on was acknowledged so long after, and no sooner."""
        now_ns = time.monotonic_ns()

        def seen() -> bool:
            acked = (send for send in self.load.sends() if send.invoke_ns > now_ns and send.outcome == OK)
            return any(send.complete_ns - send.invoke_ns >= seconds * 1e9 for send in acked)

        return seen

    def met(self, ways: Collection[tuple[int, int]]) -> Callable[[], bool]:
        """Whether there is a new connection on any of these ways."""
        before = sum(self.proxy.made(*way) for way in ways)
        return lambda: sum(self.proxy.made(*way) for way in ways) > before

    # ---- time

    def sleep(self, low_s: float, high_s: float | None = None) -> None:
        """Let time pass: this long, or drawn between two bounds."""
        time.sleep(low_s if high_s is None else self.rng.uniform(low_s, high_s))

    def holds(self, condition: Callable[[], bool]) -> bool:
        """Return whether it holds now; False while no node answers."""
        try:
            return condition()
        except (OSError, LookupError, Unreachable):
            return False

    def wait(self, condition: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
        """Ask until it holds; Stuck names what did not happen in time."""
        until = time.monotonic() + timeout_s
        while not self.holds(condition):
            if time.monotonic() > until:
                raise Stuck(f"not within {timeout_s:g} s: {what}")
            time.sleep(_LOOK_S)

    def say(self, text: str, at_s: float | None = None) -> None:
        self._say(f"{self._now_s() if at_s is None else at_s:7.1f} s  {text}")

    def _now_s(self) -> float:
        return (time.monotonic_ns() - self.begin_ns) / 1e9
