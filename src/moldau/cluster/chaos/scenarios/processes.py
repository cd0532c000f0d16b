"""Scenarios about processes: killed, stopped, paused, all of them at once.

Each runs under load on three nodes, and leaves it to ``checking.py`` to heal, read back and judge.
"""

from __future__ import annotations

import time

from moldau.cluster.chaos.scenario_context import ScenarioContext

LEADERS_MOVED, ACKS = "its partitions are led by others", "all partitions acknowledge"


def chase_with_kills(context: ScenarioContext) -> None:
    """Kill -9 whoever leads, start it again, kill its successor: five leaders in a row, before all is in sync.

    After KIP-101 and KIP-279: leaders that change faster than followers catch up made logs diverge. Every other time
    the followers stand still for a moment before: what the leader has then, it has alone, and must not acknowledge.
    """
    for turn in range(context.options.rounds):
        victim = context.leader()
        moved = context.moved(victim)
        behind = context.others(victim) if turn % 2 else []
        for node in behind:
            context.pause(node)
        context.sleep(0.1, 0.5)
        context.kill(victim)
        for node in behind:
            context.resume(node)
        context.do("wait", lambda: None, LEADERS_MOVED, moved)
        context.sleep(0.0, 1.5)
        context.restart(victim)
        context.wait(lambda victim=victim: victim in context.run.poller.views([victim]), f"node {victim} answers")  # type: ignore[misc]
        context.sleep(0.0, 2.0)


def chase_with_stops(context: ScenarioContext) -> None:
    """SIGTERM to five leaders in a row: controlled shutdown after controlled shutdown.

    After KAFKA-14296 and the like: a shutdown that waits for a move that nobody makes, or leaves before it was made.
    """
    for _ in range(context.options.rounds):
        victim = context.leader()
        context.terminate(victim, LEADERS_MOVED, context.moved(victim))
        context.sleep(0.0, 1.5)
        context.restart(victim)
        context.wait(lambda victim=victim: victim in context.run.poller.views([victim]), f"node {victim} answers")  # type: ignore[misc]
        context.sleep(0.0, 2.0)


def zombie_leader(context: ScenarioContext) -> None:
    """The leader of everything stands still for longer than its session, and goes on as if nothing had been.

    After Jepsen's process pauses: who wakes up deposed must acknowledge nothing, cut its log by epoch and follow.
    """
    for _ in range(2):
        victim = context.leader()
        context.move_leaders_to(victim)
        context.pause(victim, LEADERS_MOVED, context.moved(victim))
        context.do("wait", lambda: None, ACKS, context.acks())
        context.sleep(0.5, 3.0)
        context.resume(victim)
        context.wait(lambda: context.run.poller.in_sync(context.nodes), "all is in sync after the pause")


def pauses_and_kills(context: ScenarioContext) -> None:
    """Pauses and kills of any node at any time for a minute, never of a majority at once.

    After Bufstream's and Redpanda's Jepsen runs: what each fault alone does not show, a random mixture may.
    """
    until = time.monotonic() + context.options.seconds
    while time.monotonic() < until or not any(fault.effect for fault in context.timeline):
        victim = context.rng.choice(context.nodes)
        if context.rng.random() < 0.5:
            context.pause(victim)
            context.sleep(0.2, 12.0)
            context.resume(victim)
        else:
            changed = context.changed()
            if any(victim in lead.isr for lead in context.leads().values()):
                context.kill(victim, "leaders or ISRs change", changed)
            else:  # it was paused for long, and nobody counts on it yet
                context.kill(victim)
            context.sleep(0.0, 3.0)
            context.restart(victim)
            context.wait(lambda victim=victim: victim in context.run.poller.views([victim]), f"node {victim} answers")  # type: ignore[misc]
        context.sleep(0.0, 3.0)


def cold_start(context: ScenarioContext) -> None:
    """All nodes are killed at once and started in any order, some of them late.

    After the cold starts that every operator meets: nobody may lead whose log is behind, and somebody must.
    """
    for _ in range(2):
        for node in context.nodes:
            context.kill(node)
        order = context.rng.sample(context.nodes, len(context.nodes))
        context.timeline[-1] = context.timeline[-1]._replace(effect="nobody answers", effect_s=0.0)
        for node in order:
            context.restart(node)
            context.sleep(0.0, 3.0)
        context.do(f"all were started in the order {order}", lambda: None, ACKS, context.acks())
