"""Scenarios about processes: killed, stopped, paused, all of them at once.

Each runs under load on three nodes, and leaves it to ``judging.py`` to heal, read back and judge.
"""

from __future__ import annotations

import time

from moldau.cluster.chaos.stage import Stage

LEADERS_MOVED, ACKS = "its partitions are led by others", "all partitions acknowledge"


def chase_with_kills(stage: Stage) -> None:
    """Kill -9 whoever leads, start it again, kill its successor: five leaders in a row, before all is in sync.

    After KIP-101 and KIP-279: leaders that change faster than followers catch up made logs diverge. Every other time
    the followers stand still for a moment before: what the leader has then, it has alone, and must not acknowledge.
    """
    for turn in range(stage.options.rounds):
        victim = stage.leader()
        moved = stage.moved(victim)
        behind = stage.others(victim) if turn % 2 else []
        for node in behind:
            stage.pause(node)
        stage.sleep(0.1, 0.5)
        stage.kill(victim)
        for node in behind:
            stage.resume(node)
        stage.do("wait", lambda: None, LEADERS_MOVED, moved)
        stage.sleep(0.0, 1.5)
        stage.restart(victim)
        stage.wait(lambda victim=victim: victim in stage.run.eyes.views([victim]), f"node {victim} answers")  # type: ignore[misc]
        stage.sleep(0.0, 2.0)


def chase_with_stops(stage: Stage) -> None:
    """The same with SIGTERM: controlled shutdown after controlled shutdown, five leaders in a row.

    After KAFKA-14296 and the like: a shutdown that waits for a move that nobody makes, or leaves before it was made.
    """
    for _ in range(stage.options.rounds):
        victim = stage.leader()
        stage.terminate(victim, LEADERS_MOVED, stage.moved(victim))
        stage.sleep(0.0, 1.5)
        stage.restart(victim)
        stage.wait(lambda victim=victim: victim in stage.run.eyes.views([victim]), f"node {victim} answers")  # type: ignore[misc]
        stage.sleep(0.0, 2.0)


def zombie_leader(stage: Stage) -> None:
    """The leader of everything stands still for longer than its session, and goes on as if nothing had been.

    After Jepsen's process pauses: who wakes up deposed must acknowledge nothing, cut its log by epoch and follow.
    """
    for _ in range(2):
        victim = stage.leader()
        stage.gather(victim)
        stage.pause(victim, LEADERS_MOVED, stage.moved(victim))
        stage.do("wait", lambda: None, ACKS, stage.acks())
        stage.sleep(0.5, 3.0)
        stage.resume(victim)
        stage.wait(lambda: stage.run.eyes.in_sync(stage.nodes), "all is in sync after the pause")


def pauses_and_kills(stage: Stage) -> None:
    """Pauses and kills of any node at any time for a minute, never of a majority at once.

    After Bufstream's and Redpanda's Jepsen runs: what each fault alone does not show, a random mixture may.
    """
    until = time.monotonic() + stage.options.seconds
    while time.monotonic() < until or not any(fault.effect for fault in stage.timeline):
        victim = stage.rng.choice(stage.nodes)
        if stage.rng.random() < 0.5:
            stage.pause(victim)
            stage.sleep(0.2, 12.0)
            stage.resume(victim)
        else:
            changed = stage.changed()
            if any(victim in lead.isr for lead in stage.leads().values()):
                stage.kill(victim, "leaders or ISRs change", changed)
            else:  # it was paused for long, and nobody counts on it yet
                stage.kill(victim)
            stage.sleep(0.0, 3.0)
            stage.restart(victim)
            stage.wait(lambda victim=victim: victim in stage.run.eyes.views([victim]), f"node {victim} answers")  # type: ignore[misc]
        stage.sleep(0.0, 3.0)


def cold_start(stage: Stage) -> None:
    """All nodes are killed at once and started in any order, some of them late.

    After the cold starts that every operator meets: nobody may lead whose log is behind, and somebody must.
    """
    for _ in range(2):
        for node in stage.nodes:
            stage.kill(node)
        order = stage.rng.sample(stage.nodes, len(stage.nodes))
        stage.timeline[-1] = stage.timeline[-1]._replace(effect="nobody answers", effect_s=0.0)
        for node in order:
            stage.restart(node)
            stage.sleep(0.0, 3.0)
        stage.do(f"all were started in the order {order}", lambda: None, ACKS, stage.acks())
