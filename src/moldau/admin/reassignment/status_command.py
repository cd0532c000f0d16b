"""``moldau reassign status``: how far a plan is, in partitions and bytes, and when it will be done."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

import click

from moldau.admin import directories, plans
from moldau.admin.asking import IN_PROGRESS, MISMATCH, OUTPUT, SERVERS, Talk, show
from moldau.admin.directories import Misplaced
from moldau.admin.options import PAUSE, WATCH
from moldau.admin.output import DONE, say, show_one, watch
from moldau.admin.plans import Directories
from moldau.admin.rate import bytes_text, time_text
from moldau.admin.reassignment import journal as journals
from moldau.admin.reassignment import waves
from moldau.admin.reassignment.apply_command import PLAN, VERBS, known, placed_by
from moldau.admin.reassignment.cluster import demand_cluster, listed, read
from moldau.admin.reassignment.journal import CANCELLING, ENDED, ROLLING_BACK, RUNNING, Journal
from moldau.admin.reassignment.waits import (
    Answering,
    Downs,
    Sizes,
    Wait,
    WaitFacts,
    dead_of,
    not_alive,
    sizes_of,
    text_of,
    waits_of,
)  # fmt: skip
from moldau.admin.reassignment.waves import ObservedPartition
from moldau.client.admin import Reassignment
from moldau.model import TopicPartition
from moldau.model.counted import counted

COLUMNS = ("topic", "partition", "status", "replicas", "wanted", "percent", "bytes", "bytes_copied", "waits_for")
WIDE = ("leader", "adding", "removing")
UNDER_WAY = (RUNNING, CANCELLING, ROLLING_BACK)
"""States in which a process is to carry the plan out."""


class PartitionProgress(TypedDict):
    """How far a partition is."""

    topic: str
    partition: int
    status: str
    replicas: list[int] | None
    wanted: list[int]
    percent: float | None
    bytes: int | None
    bytes_copied: int | None
    leader: int | None
    adding: list[int]
    removing: list[int]
    waits_for: list[Wait]
    """The brokers that hold the move up."""
    misplaced: list[Misplaced]
    """The replicas that are not in the log directories of the plan, where it names any."""


class Report(TypedDict):
    """How far a plan is, as ``-o json`` prints it."""

    state: str | None
    applied: bool
    """Whether a process carries it out now."""
    rate: int | None
    throttled: bool
    counts: dict[str, int]
    missing_brokers: list[int]
    bytes_per_second: int | None
    partitions: list[PartitionProgress]


@click.command()
@SERVERS
@PLAN
@click.option("--all", "everything", is_flag=True, help="Show partitions that are done, too.")
@WATCH
@click.option("--interval", type=PAUSE, help="Seconds between looks of --watch.")
@OUTPUT
def status(
    path: Path, bootstrap: str, everything: bool, every_s: float | None, interval: float | None, output: str
) -> None:
    """How far a plan is: what is done, moves and waits, bytes, and when it will be done. Changes nothing.

    \b
    moldau reassign status --plan plan.json
    moldau reassign status --plan plan.json --watch

    Exit 0: all as planned; 3: something moves or waits; 4: something is otherwise than planned.
    """
    plan = read(path, plans.parse)
    watched = _Watched()

    def show_once() -> object:
        is_applied = journals.is_held(path)  # before the journal is read: who has just ended has written it
        with Talk(bootstrap) as talk:
            demand_cluster(talk, path)
            journal = known(path, talk, plan)
            if journal is not None and journal.plan != plan:  # of an earlier plan in the same file, which has ended
                journal = None
            goal = plan if journal is None else journal.goal
            watched.update(watched.ask(talk, (goal, placed_by(path, journal)), journal, is_applied))
        _print(watched.report, everything, output, path)
        return None if watched.left else DONE

    watch(show_once, interval if every_s is not None and interval is not None else every_s)
    if watched.left:
        raise SystemExit(IN_PROGRESS)
    report = watched.report
    raise SystemExit(0 if report["counts"][waves.FINISHED] == len(report["partitions"]) else MISMATCH)


class _Watched:
    """The last report, with the speed since the one before."""

    report: Report

    def __init__(self) -> None:
        self._before: tuple[float, Sequence[PartitionProgress]] | None = None
        self._downs, self._answering = Downs(), Answering()

    def ask(
        self, talk: Talk, goal: tuple[waves.Plan, Directories], journal: Journal | None, is_applied: bool
    ) -> Report:
        """The next report."""
        return _look(talk, goal, (journal, is_applied), (self._downs, self._answering))

    def update(self, report: Report) -> None:
        """Take the next one."""
        now = time.monotonic()
        if self._before is not None:
            report["bytes_per_second"] = _speed(self._before[1], report["partitions"], now - self._before[0])
        self.report, self._before = report, (now, report["partitions"])

    @property
    def left(self) -> int:
        """How many partitions move or wait; of a plan that has ended none waits, as nobody would move it."""
        has_ended, counts = self.report["state"] in ENDED, self.report["counts"]
        under_way = counts[waves.MOVING] + counts.get(waves.CHANGING_DIRECTORY, 0)
        return under_way + (0 if has_ended else counts[waves.WAITING])


def _look(
    talk: Talk, wanted: tuple[waves.Plan, Directories], by: tuple[Journal | None, bool], kept: tuple[Downs, Answering]
) -> Report:
    """Everything that is known."""
    (goal, placed), (journal, is_applied), (downs, answering) = wanted, by, kept
    moving = listed(talk, list(goal))
    topics = talk.cluster.topics({p.topic for p in goal})
    shown = {
        TopicPartition(name, number): ObservedPartition(part.replicas, part.leader, part.isr, part.offline)
        for name, topic in topics.items()
        for number, part in topic.partitions.items()
    }
    origin = goal if journal is None else journal.origin
    states = waves.stand(goal, origin, shown, moving)
    there = {p for p, state in states.items() if state == waves.FINISHED}
    placed = {key: path for key, path in placed.items() if key[0] in there}
    misplaced = directories.misplaced(talk, placed)
    not_there = {p: directories.state_of(found) for p, found in misplaced.items()}
    states = waves.with_directories(states, not_there, has_ended=journal is not None and journal.state in ENDED)
    under_way = {p: one for p, one in moving.items() if p in shown}
    alive: set[int] = set(talk.cluster.brokers())
    waits = {p: waits_of(p, shown[p], one, WaitFacts(alive)) for p, one in under_way.items()}
    alive = answering.still_alive(talk, waits, alive)
    waits = {p: waits_of(p, shown[p], one, WaitFacts(alive)) for p, one in under_way.items()}
    since = downs.poll(talk, dead_of(waits), alive)
    waited = {wait["broker"] for some in waits.values() for wait in some}
    brokers = ({b for p, one in under_way.items() for b in (*one.adding, shown[p].leader)} | waited) & alive
    sizes = sizes_of(talk, brokers) if brokers else Sizes()
    waits = {p: waits_of(p, shown[p], one, WaitFacts(alive, sizes, since)) for p, one in under_way.items()}
    rows = [_row(p, (state, shown.get(p)), goal[p], moving.get(p), sizes) for p, state in sorted(states.items())]
    for row in rows:
        p = TopicPartition(row["topic"], row["partition"])
        row["waits_for"] = waits.get(p, [])
        row["misplaced"] = misplaced.get(p, [])
    return {
        "state": None if journal is None else journal.state,
        "applied": is_applied,
        "rate": None if journal is None else journal.rate,
        "throttled": bool(journal is not None and journal.throttles),
        "counts": {**dict.fromkeys((waves.FINISHED, waves.MOVING, waves.WAITING), 0), **Counter(states.values())},
        "missing_brokers": dead_of(waits),
        "bytes_per_second": None,
        "partitions": rows,
    }


def _row(
    p: TopicPartition,
    state: tuple[str, ObservedPartition | None],
    wanted: Sequence[int],
    moving: Reassignment | None,
    sizes: Sizes,
) -> PartitionProgress:
    how_far, shown = state
    row: PartitionProgress = {
        "topic": p.topic, "partition": p.partition, "status": how_far,
        "replicas": None if shown is None else list(shown.replicas), "wanted": list(wanted),
        "percent": None, "bytes": None, "bytes_copied": None, "leader": None if shown is None else shown.leader,
        "adding": [] if moving is None else moving.adding, "removing": [] if moving is None else moving.removing,
        "waits_for": [], "misplaced": [],
    }  # fmt: skip
    if moving is not None and shown is not None and (p, shown.leader) in sizes.of:
        whole = row["bytes"] = sizes.of[p, shown.leader] * len(moving.adding)
        parts = [None if r in shown.offline else sizes.copied(p, r) for r in moving.adding]
        known = [part for part in parts if part is not None]
        if len(known) == len(parts):  # of who does not answer it is not known that it has nothing
            copied = row["bytes_copied"] = min(whole, sum(known))
            row["percent"] = round(100 * copied / whole, 1) if whole else 100.0
    return row


def _speed(before: Sequence[PartitionProgress], after: Sequence[PartitionProgress], seconds: float) -> int | None:
    """Bytes a second that were copied between two looks, of the partitions of which both know it; one that has ended
    meanwhile got the rest. None when of none."""
    now = {(row["topic"], row["partition"]): row for row in after}
    copied = []
    for row in before:
        then, later = row["bytes_copied"], now.get((row["topic"], row["partition"]))
        if then is None or later is None:
            continue
        end = row["bytes"] if later["status"] == waves.FINISHED else later["bytes_copied"]
        if end is not None:
            copied.append(max(0, end - then))
    return round(sum(copied) / seconds) if copied and seconds > 0 else None


def _print(report: Report, everything: bool, output: str, path: Path) -> None:
    if show_one(report, output):
        return
    rows = [row for row in report["partitions"] if everything or row["status"] not in (waves.FINISHED, waves.WAITING)]
    if rows or output == "tsv":
        show([{**row, **_told(row), "waits_for": text_of(row["waits_for"])} for row in rows], output, COLUMNS, WIDE)
    if output != "tsv":
        say(_words(report, path))
    directories.tell({TopicPartition(row["topic"], row["partition"]): row["misplaced"] for row in report["partitions"]})


def _told(row: PartitionProgress) -> dict[str, str]:
    """Words for what a move has, and nobody tells: "-" says that there is nothing of the kind."""
    if row["status"] != waves.MOVING:
        return {}
    numbers = {"percent": row["percent"], "bytes": row["bytes"], "bytes_copied": row["bytes_copied"]}
    return {name: "unknown" for name, number in numbers.items() if number is None}


def _words(report: Report, path: Path) -> str:
    counts = report["counts"]
    words = [", ".join(f"{count} {state}" for state, count in counts.items())]
    moving = [row for row in report["partitions"] if row["status"] == waves.MOVING]
    to_copy = sum(
        row["bytes"] - row["bytes_copied"] for row in moving if row["bytes"] and row["bytes_copied"] is not None
    )
    unknown = sum(row["bytes_copied"] is None for row in moving)
    rate = report["bytes_per_second"]
    if len(moving) > unknown:
        words.append(f"{bytes_text(to_copy)} left of what moves")
        if rate:
            words.append(f"{bytes_text(rate)}/s, about {time_text(to_copy / rate)} for that")
    if unknown:
        words.append(f"of {counted(unknown, 'move')} it is not known how far {'it is' if unknown == 1 else 'they are'}")
    if report["missing_brokers"]:
        dead = report["missing_brokers"]
        words.append(f"{not_alive(dead)}, and moves wait for {'it' if len(dead) == 1 else 'them'}")
    if report["throttled"]:
        words.append("throttled")
    if report["state"]:
        words.append(f"the plan is {report['state']}")
        if report["state"] in ENDED and counts[waves.WAITING]:
            words.append("what waits is where it was before, and nobody moves it")
    left = waves.OTHERWISE in counts or counts[waves.WAITING]
    if not report["applied"] and (report["state"] in UNDER_WAY or (not report["state"] and left)):
        verb = VERBS[report["state"] or RUNNING]
        words.append(f"nobody carries it out: `moldau reassign {verb} --plan {path}` does")
    return "; ".join(words)
