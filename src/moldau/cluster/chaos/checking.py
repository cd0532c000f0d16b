"""From a scenario to its verdict: runs it, heals, reads all back, stops the cluster, compares disks, checks all.

FAIL beats UNKNOWN beats PASS: a run in which a fault had no visible effect, or in which too little was
acknowledged, never passes. Writes the history, the timeline and the report. Read next: ``command.py``.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from moldau.client.client import Refused, Unreachable
from moldau.cluster.chaos.net import CannotBreak
from moldau.cluster.chaos.scenario_context import ACKS_MIN, PARTITIONS, TOPIC, Fault, ScenarioContext
from moldau.cluster.chaos.system import MOLDAU
from moldau.cluster.kills.checking import RunVerdict, check_disks, verdict_on
from moldau.cluster.kills.killing import ScenarioResult, Stuck
from moldau.cluster.kills.load import high_watermarks, read_all
from moldau.cluster.kills.replicas import read_replica, sessions_of
from moldau.history.checks import Anomaly, check
from moldau.history.rows import OK, History, Send, write_lines
from moldau.history.sessions import Session, told_apart
from moldau.history.shown import Shown, went_back

_LEAVING = "-delete"
"""The suffix by which both systems name a folder whose files are about to be deleted."""


class ScenarioOutcome(NamedTuple):
    """The result of a run. ``again``: records that the client itself wrote once more, in a new producer epoch;
    ``epochs``: what producers logged of their epochs."""

    history: History
    shown: list[Shown]
    timeline: list[Fault]
    anomalies: list[Anomaly]
    doubts: list[str]
    again: int = 0
    epochs: Sequence[str] = ()

    @property
    def verdict(self) -> RunVerdict:
        return verdict_on(self.anomalies, self.doubts)


def play(context: ScenarioContext, act: Callable[[ScenarioContext], None]) -> ScenarioOutcome:
    """Run a scenario from start to verdict; the cluster is stopped at the end."""
    plan, doubts, found = context.plan, [], context.found
    context.open()
    try:
        act(context)
    except CannotBreak as refusal:
        doubts.append(str(refusal))
    except (Stuck, OSError, Refused, Unreachable) as problem:
        found.append(Anomaly("late", str(problem)))
    try:
        context.heal()
        context.settle()
    except (Stuck, OSError, Unreachable) as problem:
        found.append(Anomaly("late", _words(context, str(problem))))
    context.say("healed; reading all back")
    context.watch.stop()
    context.load.stop(70)
    servers = context.rig.bootstrap_servers
    ends, active_controller = high_watermarks(servers, plan.load), context.run.poller.active_controller(context.nodes)
    final = read_all(servers, plan.load, ends)
    history = History(context.load.sends(), context.load.follower.reads, final, ends, [])
    expected = _assigned(context)
    context.run.poller.close()
    context.run.client.close()
    context.note_dead_nodes()
    context.say("stopping all nodes, comparing their logs")
    context.rig.stop()
    if context.rig.setup.kind == MOLDAU:
        # A node of Apache Kafka waits for minutes for the quorum that stopped before it.
        found += [Anomaly("no end", f"node {node} did not end when told to") for node in context.rig.stubborn]
    checked, again = told_apart(history, _sessions(context), context.epochs.own_doing)
    found += [Anomaly("late", text) for text in context.load.broken()] + check(checked)
    found += went_back(context.watch.rows)
    found += check_disks(
        context.rig,
        plan,
        ScenarioResult(history, [], active_controller.high_watermark if active_controller is not None else 0),
    )
    for look in context.at_rest:
        found += look()
    found += strays(expected, {node: _folders(context.rig.data_dir(node)) for node in context.nodes})
    return ScenarioOutcome(
        history,
        context.watch.rows,
        context.timeline,
        found,
        doubts + vacuous(context.timeline, history),
        again,
        context.epochs.lines,
    )


def vacuous(timeline: Iterable[Fault], history: History) -> list[str]:
    """Return why a run without anomalies proves nothing."""
    timeline = list(timeline)
    found = [f"{fault.what}: not seen: {fault.effect}" for fault in timeline if fault.is_doubtful]
    if not any(fault.effect_s is not None for fault in timeline):
        found.append("nothing was broken that anybody noticed")
    acked = dict.fromkeys(range(PARTITIONS), 0)
    for send in history.sends:
        if send.outcome == OK:
            acked[send.partition] += 1
    few = {partition: count for partition, count in acked.items() if count < ACKS_MIN}
    return found + ([f"too little was acknowledged: {few}"] if few else [])


def strays(expected: Mapping[int, set[str]], there: Mapping[int, set[str]]) -> Iterator[Anomaly]:
    """C9: each node has the folders of the partitions assigned to it, and no others."""
    for node in sorted(expected):
        for name in sorted(there[node] - expected[node]):
            yield Anomaly("stray", f"node {node} has a folder {name} that is not assigned to it")
        for name in sorted(expected[node] - there[node]):
            yield Anomaly("stray", f"node {node} has no folder {name}, which is assigned to it")


def longest_gap_s(sends: Iterable[Send]) -> float:
    """Return the longest time without an acknowledgement of one partition, between its first and its last one."""
    times: dict[int, list[int]] = defaultdict(list)
    for send in sends:
        if send.outcome == OK:
            times[send.partition].append(send.complete_ns)
    gaps = [b - a for each in times.values() for a, b in zip(sorted(each), sorted(each)[1:], strict=False)]
    return max(gaps, default=0) / 1e9


def keep(outcome: ScenarioOutcome, folder: Path, reproduce: str) -> None:
    """Write history, timeline, what producers logged of their epochs, and the report into a folder."""
    with (folder / "history.jsonl").open("w") as file:
        write_lines(outcome.history, file)
    _lines(folder / "shown.jsonl", outcome.shown)
    _lines(folder / "timeline.jsonl", outcome.timeline)
    (folder / "producers.log").write_text("".join(line + "\n" for line in outcome.epochs))
    (folder / "report.txt").write_text(report(outcome, reproduce, len(outcome.anomalies)) + "\n")


def report(outcome: ScenarioOutcome, reproduce: str, shown: int = 8) -> str:
    """Return the verdict in words, with the first few anomalies."""
    history = outcome.history
    refused = sum(send.outcome != OK for send in history.sends)
    counts = f"{history.acked:,} acknowledged, {refused:,} not, {len(history.final):,} read back"
    lines = [f"{counts}; longest time without an acknowledgement {longest_gap_s(history.sends):.1f} s"]
    if outcome.again:
        lines.append(f"{outcome.again} were written again by the client itself, in a new producer epoch")
    lines += [f"{anomaly.law} {anomaly.kind}: {anomaly.text}" for anomaly in outcome.anomalies[:shown]]
    if len(outcome.anomalies) > shown:
        lines.append(f"and {len(outcome.anomalies) - shown} more")
    lines += [f"doubt: {doubt}" for doubt in outcome.doubts]
    return "\n".join([*lines, f"{outcome.verdict.name}; reproduce: {reproduce}"])


def _assigned(context: ScenarioContext) -> dict[int, set[str]]:
    """Node -> names of the partitions' folders that it should have."""
    wanted: dict[int, set[str]] = {node: set() for node in context.nodes}
    for topic in context.run.client.topics().values():
        for number, partition in topic.partitions.items():
            for node in partition.replicas:
                wanted[node].add(f"{topic.name}-{number}")
    return wanted


def _sessions(context: ScenarioContext) -> dict[tuple[int, int], Session]:
    """Return who wrote each record, by the first node's disk; that all disks agree is checked elsewhere."""
    node, found = context.nodes[0], dict[tuple[int, int], Session]()
    for partition in range(PARTITIONS):
        found |= sessions_of(read_replica(node, context.rig.data_dir(node) / f"{TOPIC}-{partition}"), partition)
    return found


def _folders(data: Path) -> set[str]:
    names = {path.name for path in data.iterdir() if path.is_dir() and path.name.rpartition("-")[2].isdecimal()}
    return {name for name in names if not name.endswith(_LEAVING) and not name.startswith("__cluster_metadata")}


def _lines(path: Path, rows: Iterable[Shown] | Iterable[Fault]) -> None:
    path.write_text("".join(json.dumps(row._asdict()) + "\n" for row in rows))


def _words(context: ScenarioContext, problem: str) -> str:
    views = {node: {p: (lead.leader, sorted(lead.isr)) for p, lead in view.items()}
             for node, view in context.run.poller.views(context.nodes).items()}  # fmt: skip
    ends = [
        f"node {node} ended: {context.rig.last_words(node)}" for node in context.nodes if not context.rig.alive(node)
    ]
    return "\n".join([f"{problem}; nodes say of {TOPIC}: {views}", *ends])
