"""From a scenario to its verdict: run it, heal, read all back, stop, compare what disks hold, and say what it means.

FAIL beats UNKNOWN beats PASS: a run in which a fault had no effect that anybody saw, or in which too little was
acknowledged, never passes. Writes the history, the timeline and the report. Read next: ``command.py``.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from moldau.client.client import Refused, Unreachable
from moldau.cluster.chaos.net import CannotBreak
from moldau.cluster.chaos.stage import PARTITIONS, TOPIC, Fault, Stage
from moldau.cluster.chaos.system import MOLDAU
from moldau.cluster.kills.judging import Verdict, check_disks, verdict_on
from moldau.cluster.kills.killing import Seen, Stuck
from moldau.cluster.kills.load import high_watermarks, read_all
from moldau.cluster.kills.replicas import read_replica
from moldau.history.checks import Anomaly, check
from moldau.history.rows import OK, History, Send, write_lines
from moldau.history.sessions import Session, told_apart
from moldau.history.shown import Shown, went_back

ACKS_MIN = 100
"""Of each partition, below which a run proves nothing."""
_LEAVING = "-delete"
"""How both systems name a folder whose files wait for their end."""


class Outcome(NamedTuple):
    """All that a run gave. ``again``: records that the client itself wrote once more, in a new producer epoch."""

    history: History
    shown: list[Shown]
    timeline: list[Fault]
    anomalies: list[Anomaly]
    doubts: list[str]
    again: int = 0

    @property
    def verdict(self) -> Verdict:
        return verdict_on(self.anomalies, self.doubts)


def play(stage: Stage, act: Callable[[Stage], None]) -> Outcome:
    """A scenario from start to verdict; the cluster is stopped at the end."""
    plan, doubts, found = stage.plan, [], stage.found
    stage.open()
    try:
        act(stage)
    except CannotBreak as refusal:
        doubts.append(str(refusal))
    except (Stuck, OSError, Refused, Unreachable) as problem:
        found.append(Anomaly("late", str(problem)))
    try:
        stage.heal()
        stage.settle()
    except (Stuck, OSError, Unreachable) as problem:
        found.append(Anomaly("late", _words(stage, str(problem))))
    stage.say("healed; reading all back")
    stage.watch.stop()
    stage.load.stop(70)
    servers = stage.rig.bootstrap_servers
    ends, ruler = high_watermarks(servers, plan.load), stage.run.eyes.ruler(stage.nodes)
    final = read_all(servers, plan.load, ends)
    history = History(stage.load.sends(), stage.load.follower.reads, final, ends, [])
    expected = _assigned(stage)
    stage.run.eyes.close()
    stage.run.client.close()
    stage.mourn()
    stage.say("stopping all nodes, comparing their logs")
    stage.rig.stop()
    if stage.rig.wish.kind == MOLDAU:  # one of Apache Kafka's waits for minutes for the quorum that left before it
        found += [Anomaly("no end", f"node {node} did not end when told to") for node in stage.rig.stubborn]
    judged, again = told_apart(history, _sessions(stage))
    found += [Anomaly("late", text) for text in stage.load.broken()] + check(judged)
    found += went_back(stage.watch.rows)
    found += check_disks(stage.rig, plan, Seen(history, [], ruler.high_watermark if ruler is not None else 0))
    for look in stage.at_rest:
        found += look()
    found += strays(expected, {node: _folders(stage.rig.data_dir(node)) for node in stage.nodes})
    return Outcome(history, stage.watch.rows, stage.timeline, found, doubts + vacuous(stage.timeline, history), again)


def vacuous(timeline: Iterable[Fault], history: History) -> list[str]:
    """Why a run without anomalies proves nothing."""
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
    """The longest time in which one partition acknowledged nothing, between its first acknowledgement and its last."""
    times: dict[int, list[int]] = defaultdict(list)
    for send in sends:
        if send.outcome == OK:
            times[send.partition].append(send.complete_ns)
    gaps = [b - a for each in times.values() for a, b in zip(sorted(each), sorted(each)[1:], strict=False)]
    return max(gaps, default=0) / 1e9


def keep(outcome: Outcome, folder: Path, reproduce: str) -> None:
    """Write history, timeline and report into a folder."""
    with (folder / "history.jsonl").open("w") as file:
        write_lines(outcome.history, file)
    _lines(folder / "shown.jsonl", outcome.shown)
    _lines(folder / "timeline.jsonl", outcome.timeline)
    (folder / "report.txt").write_text(report(outcome, reproduce, len(outcome.anomalies)) + "\n")


def report(outcome: Outcome, reproduce: str, shown: int = 8) -> str:
    """The verdict in words, with the first few anomalies."""
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


def _assigned(stage: Stage) -> dict[int, set[str]]:
    """Node -> names of the partitions' folders that it should have."""
    wanted: dict[int, set[str]] = {node: set() for node in stage.nodes}
    for topic in stage.run.client.topics().values():
        for number, partition in topic.partitions.items():
            for node in partition.replicas:
                wanted[node].add(f"{topic.name}-{number}")
    return wanted


def _sessions(stage: Stage) -> dict[tuple[int, int], Session]:
    """Who wrote each record, by the word of the first node's disk; that all say the same is judged elsewhere."""
    node, found = stage.nodes[0], {}
    for partition in range(PARTITIONS):
        for batch in read_replica(node, stage.rig.data_dir(node) / f"{TOPIC}-{partition}").batches:
            for offset in range(batch.base_offset, batch.next_offset):
                found[partition, offset] = (batch.producer_id, batch.producer_epoch)
    return found


def _folders(data: Path) -> set[str]:
    names = {path.name for path in data.iterdir() if path.is_dir() and path.name.rpartition("-")[2].isdecimal()}
    return {name for name in names if not name.endswith(_LEAVING) and not name.startswith("__cluster_metadata")}


def _lines(path: Path, rows: Iterable[Shown] | Iterable[Fault]) -> None:
    path.write_text("".join(json.dumps(row._asdict()) + "\n" for row in rows))


def _words(stage: Stage, problem: str) -> str:
    views = {node: {p: (lead.leader, sorted(lead.isr)) for p, lead in view.items()}
             for node, view in stage.run.eyes.views(stage.nodes).items()}  # fmt: skip
    ends = [f"node {node} ended: {stage.rig.last_words(node)}" for node in stage.nodes if not stage.rig.alive(node)]
    return "\n".join([f"{problem}; nodes say of {TOPIC}: {views}", *ends])
