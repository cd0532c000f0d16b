"""From a scenario to its verdict: runs it, reads all back, stops the cluster, compares the replicas, checks all.

FAIL beats UNKNOWN beats PASS: a run that proves nothing never passes. Writes the history when there is
something to look into. Read next: ``killing.py`` (what is done), ``moldau.history`` (the rules), ``report.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from moldau.client.admin import METADATA_LOG
from moldau.cluster.kills.cluster_poller import System
from moldau.cluster.kills.killing import KillPlan, KillRun, ScenarioResult
from moldau.cluster.kills.replicas import check_folders, compare, read_replica, read_values, same_values
from moldau.history.checks import Anomaly, check, doubts
from moldau.history.rows import History, write_lines

TROUBLE = "trouble"


class RunVerdict(IntEnum):
    """What a run says; the numbers are exit codes. 2 is a wrong option's."""

    PASS = 0
    FAIL = 1
    UNKNOWN = 3


def verdict_on(anomalies: Sequence[Anomaly], doubts: Sequence[str]) -> RunVerdict:
    """What a run says in which these were found."""
    if anomalies:
        return RunVerdict.FAIL
    return RunVerdict.UNKNOWN if doubts else RunVerdict.PASS


def worst_of(verdicts: Collection[RunVerdict]) -> RunVerdict:
    """What several runs say together."""
    return next((verdict for verdict in (RunVerdict.FAIL, RunVerdict.UNKNOWN) if verdict in verdicts), RunVerdict.PASS)


class CheckedScenario(NamedTuple):
    """A scenario with its verdict."""

    plan: KillPlan
    history: History
    anomalies: list[Anomaly]
    doubts: list[str]

    @property
    def verdict(self) -> RunVerdict:
        return verdict_on(self.anomalies, self.doubts)


def check_scenario(system: System, plan: KillPlan, say: Callable[[str], None]) -> CheckedScenario:
    """Run a scenario on a running cluster, which is stopped at the end, and judge all that is left of it."""
    with KillRun(system, plan, say) as run:
        seen = run.go()
    anomalies = [Anomaly(TROUBLE, text) for text in seen.failures] + check(seen.history)
    say(f"{plan.scenario}: stopping all nodes, comparing their logs")
    system.stop()
    anomalies += check_disks(system, plan, seen)
    return CheckedScenario(plan, seen.history, anomalies, doubts(seen.history, plan.kills))


def check_disks(system: System, plan: KillPlan, seen: ScenarioResult) -> list[Anomaly]:
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
        return found  # in ZooKeeper mode there is no metadata log
    name = f"{METADATA_LOG.topic}-{METADATA_LOG.partition}"
    logs = [read_replica(node, system.data_dir(node) / name) for node in sorted(system.controllers)]
    return found + list(compare(name, logs, seen.metadata_end))


def keep(checked: CheckedScenario, folder: Path) -> Path:
    """Write the history and the anomalies of a scenario into a folder; the history's file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{checked.plan.scenario}.history.jsonl"
    with path.open("w") as file:
        write_lines(checked.history, file)
    lines = [f"{anomaly.kind}: {anomaly.text}" for anomaly in checked.anomalies] + [
        f"doubt: {d}" for d in checked.doubts
    ]
    (folder / f"{checked.plan.scenario}.anomalies.txt").write_text("".join(line + "\n" for line in lines))
    return path
