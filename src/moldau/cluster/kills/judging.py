"""A scenario from start to verdict: run it, read it, stop the cluster, compare the replicas, and say what it means.

FAIL beats UNKNOWN beats PASS: a run that proves nothing never passes. Writes the history when there is
something to look into. Read next: ``killing.py`` (what is done), ``moldau.history`` (the rules), ``report.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from moldau.client.admin import METADATA_LOG
from moldau.cluster.kills.killing import KillPlan, Run, Seen
from moldau.cluster.kills.looking import System
from moldau.cluster.kills.replicas import check_folders, compare, read_replica, read_values, same_values
from moldau.history.checks import Anomaly, check, doubts
from moldau.history.rows import History, write_lines

TROUBLE = "trouble"


class Verdict(IntEnum):
    """What a run says; the numbers are exit codes. 2 is a wrong option's."""

    PASS = 0
    FAIL = 1
    UNKNOWN = 3


def verdict_on(anomalies: Sequence[Anomaly], doubts: Sequence[str]) -> Verdict:
    """What a run says in which these were found."""
    if anomalies:
        return Verdict.FAIL
    return Verdict.UNKNOWN if doubts else Verdict.PASS


def worst_of(verdicts: Collection[Verdict]) -> Verdict:
    """What several runs say together."""
    return next((verdict for verdict in (Verdict.FAIL, Verdict.UNKNOWN) if verdict in verdicts), Verdict.PASS)


class Judged(NamedTuple):
    """A scenario with its verdict."""

    plan: KillPlan
    history: History
    anomalies: list[Anomaly]
    doubts: list[str]

    @property
    def verdict(self) -> Verdict:
        return verdict_on(self.anomalies, self.doubts)


def judge(system: System, plan: KillPlan, say: Callable[[str], None]) -> Judged:
    """Run a scenario on a running cluster, which is stopped at the end, and judge all that is left of it."""
    seen = Run(system, plan, say).go()
    anomalies = [Anomaly(TROUBLE, text) for text in seen.troubles] + check(seen.history)
    say(f"{plan.scenario}: stopping all nodes, comparing their logs")
    system.stop()
    anomalies += check_disks(system, plan, seen)
    return Judged(plan, seen.history, anomalies, doubts(seen.history, plan.kills))


def check_disks(system: System, plan: KillPlan, seen: Seen) -> list[Anomaly]:
    """Compare the replicas of every partition, the metadata log, and what was read with what is on disk."""
    found: list[Anomaly] = []
    nodes = sorted(system.brokers)
    for partition, end in sorted(seen.history.ends.items()):
        name = f"{plan.load.topic}-{partition}"
        found += check_folders(name, {node: system.data_dir(node) / name for node in nodes}, end)
        stored = read_values(system.data_dir(nodes[0]) / name, partition, end)
        stored = [row._replace(value=row.value.partition(" ")[0]) for row in stored]
        found += same_values(name, stored, [row for row in seen.history.final if row.partition == partition])
    if not system.controllers:
        return found  # on the ZooKeeper plane there is no metadata log
    name = f"{METADATA_LOG.topic}-{METADATA_LOG.partition}"
    logs = [read_replica(node, system.data_dir(node) / name) for node in sorted(system.controllers)]
    return found + list(compare(name, logs, seen.metadata_end))


def keep(judged: Judged, folder: Path) -> Path:
    """Write the history and the anomalies of a scenario into a folder; the history's file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{judged.plan.scenario}.history.jsonl"
    with path.open("w") as file:
        write_lines(judged.history, file)
    lines = [f"{anomaly.kind}: {anomaly.text}" for anomaly in judged.anomalies] + [f"doubt: {d}" for d in judged.doubts]
    (folder / f"{judged.plan.scenario}.anomalies.txt").write_text("".join(line + "\n" for line in lines))
    return path
