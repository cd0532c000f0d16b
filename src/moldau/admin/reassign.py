"""``moldau reassign``: move replicas between brokers - make a plan, carry it out, watch it, call it off.

The counterpart of Kafka's kafka-reassign-partitions, with its plan files; standard requests only (KIP-455), so that it
works on any Kafka cluster. Plans are made in ``plans.py``; what a move is, docs/controller.md tells.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from moldau.admin import directories, plans
from moldau.admin.asking import IN_PROGRESS, MISMATCH, OUTPUT, SERVERS, Talk, note, show
from moldau.admin.completing import broker_lists as complete_brokers
from moldau.admin.completing import topics as complete_topics
from moldau.admin.files import write_whole
from moldau.admin.main import fail
from moldau.admin.options import DRY_RUN, SECONDS, WATCH, YES, confirm
from moldau.admin.output import TABLES, say, watch
from moldau.admin.plans import Directories, Plan
from moldau.admin.progress import ProgressBar
from moldau.admin.reassignment import apply_command, plan_command, status_command
from moldau.admin.reassignment.apply_command import PLAN, TIMEOUT
from moldau.admin.reassignment.cluster import (
    current,
    demand_cluster,
    ids,
    listed,
    origins,
    read,
    targets,
    tell_refusals,
    under_way,
)
from moldau.admin.reassignment.recorded import save_throttles, take_away, throttles_of
from moldau.admin.reassignment.waits import WaitReporter, not_alive
from moldau.admin.reassignment.waves import ObservedPartition
from moldau.admin.throttles import brokers_named, throttle, throttled_brokers
from moldau.admin.waiting import Looks
from moldau.client import admin
from moldau.client.view import Outcome
from moldau.model import Code, TopicPartition
from moldau.model.counted import counted

COLUMNS = ("topic", "partition", "status", "replicas", "wanted")
FIRST_S = 0.3
"""The first pause between two looks at moves."""
DIRECTORIES_S = 10.0
"""How long brokers are asked to put replicas into log directories that have not reached them yet."""
LOOKS_AFTER = 6
"""The controller knows of a move's end a moment before the broker that is asked what the replicas are."""


@click.group()
def reassign() -> None:
    """Move replicas between brokers.

    \b
    moldau reassign plan --drain 3 --out plan.json
    moldau reassign apply --plan plan.json --throttle 50MB
    moldau reassign status --plan plan.json
    moldau reassign rollback --plan plan.json --yes

    \b
    moldau reassign generate --topic orders --brokers 1,2 > plan.json
    moldau reassign execute --plan plan.json --rollback before.json --throttle 50000000 --wait
    moldau reassign verify --plan plan.json

    Plan files are those of Kafka's kafka-reassign-partitions. `apply` begins a few moves at once and stays; `execute`
    begins all of them, as Kafka's tool does. A move that went wrong is called off with `cancel`; `rollback`, or the
    rollback file, takes a plan back.
    """


for _one in (
    plan_command.plan,
    apply_command.apply,
    status_command.status,
    apply_command.pause,
    apply_command.resume,
    apply_command.rollback,
):
    reassign.add_command(_one)


@reassign.command()
@SERVERS
@click.option(
    "--topic", "names", multiple=True, shell_complete=complete_topics, help="A topic to spread; may be given again."
)
@click.option("--topics-file", type=click.Path(exists=True, path_type=Path), help='{"topics": [{"topic": NAME}, ...]}')
@click.option(
    "--brokers", required=True, shell_complete=complete_brokers,
    help="Who is to hold the replicas: ids with commas between.",
)  # fmt: skip
def generate(bootstrap: str, names: tuple[str, ...], topics_file: Path | None, brokers: str) -> None:
    """Print a plan that spreads topics evenly over brokers with as few moves as that takes, racks respected."""
    wanted = ids("--brokers", brokers)
    topics = [*names, *(read(topics_file, plans.topics_in) if topics_file is not None else [])]
    if not topics:
        fail("which topics? Name them with --topic or --topics-file", 2)
    with Talk(bootstrap) as talk:
        known = talk.cluster.brokers()
        missing = [id for id in wanted if id not in known]
        if missing:
            fail(f"brokers {missing} are not there; alive are {sorted(known)}")
        now, cluster = current(talk, topics), talk.cluster.cluster_id()
        before = targets(now, listed(talk))
    try:
        plan = plans.spread(before, {id: known[id].rack for id in wanted})
    except ValueError as error:
        fail(str(error))
        return
    moved = sum(len(set(plan[p]) - set(before[p])) for p in plan)
    note(f"{counted(len(plan), 'partition')}, {counted(moved, 'replica')} to move. Today: {plans.text_of(now)}")
    say(plans.text_of(plan, cluster))


@reassign.command()
@SERVERS
@PLAN
@click.option("--throttle", type=click.IntRange(min=1), help="Bytes a second that each broker may spend on the moves.")
@click.option("--rollback", type=click.Path(path_type=Path), help="Write today's assignment here first, as a plan.")
@click.option("--additional", is_flag=True, help="Begin although other moves are under way.")
@click.option("--wait", is_flag=True, help="Stay until it is done; then take the throttles away again.")
@click.option(
    "--timeout", type=SECONDS, default=600.0, show_default=True,
    help="How long --wait waits, in seconds.",
)  # fmt: skip
@DRY_RUN
@OUTPUT
def execute(path: Path, bootstrap: str, output: str, **options: Any) -> None:
    """Begin the moves of a plan. Refused moves are named, and harm no others."""
    plan, placed = read(path, plans.parse), read(path, plans.directories_in)
    with Talk(bootstrap) as talk:
        demand_cluster(talk, path)
        before = current(talk, {p.topic for p in plan}, plan)
        if options["dry_run"]:
            dead = _to_the_dead(talk, plan, before)
            would = {p: "would move" if plan[p] != before[p] else "as it is" for p in plan}
            would |= dict.fromkeys(dead, "would be refused")
            show([_row(p, would[p], before[p], plan[p]) for p in plan], output, COLUMNS)
            tell_refusals(Outcome(Code.NONE), dead)
            raise SystemExit(1 if dead else 0)
        moving = under_way(talk, None)
        if moving and not options["additional"]:
            are = counted(len(moving), "move is", "moves are")
            fail(f"{are} under way (`moldau reassign list`); --additional begins these as well")
        if options["rollback"] is not None:
            back = origins(before, moving)
            text = plans.text_of(back, talk.cluster.cluster_id(), directories.current(talk, back))
            _write_rollback(options["rollback"], text + "\n")
        if options["throttle"] is not None:
            record = partial(save_throttles, path)
            now = origins(before, moving)
            away = throttle(talk, plan, now, rate=options["throttle"], recorded=throttles_of(path), save=record)
            if away:
                note(f"{not_alive(away)}: no rate is set there.")
        whole, outcomes = _ask(talk, plan, before)
        refused = tell_refusals(whole, outcomes)
        begun = len(plan) - refused
        note(f"{begun} of {counted(len(plan), 'move')} begun.")
        if output not in TABLES:
            told = {p: "refused" if not outcomes.get(p, whole).ok else "begun" for p in plan}
            show([_row(p, told[p], before[p], plan[p]) for p in plan], output, COLUMNS)
        taken = {(p, broker): folder for (p, broker), folder in placed.items() if outcomes.get(p, whole).ok}
        refused += directories.place(talk, taken, options["timeout"] if options["wait"] else DIRECTORIES_S)
        if options["wait"] and begun:
            code = _stay(talk, {p: plan[p] for p in plan if outcomes.get(p, whole).ok}, taken, options["timeout"])
            if code != IN_PROGRESS:
                take_away(talk, path)
            elif throttles_of(path):
                named = shlex.quote(str(path))
                note(f"its throttles stand: `moldau reassign verify --plan {named}` takes them away when all is done.")
            raise SystemExit(1 if refused else code)
    raise SystemExit(1 if refused else 0)


@reassign.command()
@SERVERS
@PLAN
@click.option("--preserve-throttles", is_flag=True, help="Leave throttles as they are when all is done.")
@OUTPUT
def verify(path: Path, bootstrap: str, preserve_throttles: bool, output: str) -> None:
    """How far a plan is. Exit 0: all as planned; 3: moves are under way; 4: something is otherwise.

    A replica that is not in the log directory of its plan is named, with where it is, and why as far as its broker
    tells: what is free in the directory, or that it is offline or not there.

    When nothing is under way any more, the throttles that `execute` has set are taken away, and no others.
    """
    plan, placed = read(path, plans.parse), read(path, plans.directories_in)
    with Talk(bootstrap) as talk:
        demand_cluster(talk, path)
        rows = _look(talk, plan, placed, listed(talk, list(plan)))
        show(rows, output, COLUMNS)
        _tell_misplaced(rows)
        states = {row["status"] for row in rows}
        if "moving" in states:
            raise SystemExit(IN_PROGRESS)
        if not preserve_throttles:
            take_away(talk, path, plan)
    raise SystemExit(MISMATCH if states != {"done"} else 0)


@reassign.command("list")
@SERVERS
@WATCH
@OUTPUT
def list_(bootstrap: str, every_s: float | None, output: str) -> None:
    """The moves under way."""

    def show_once() -> None:
        with Talk(bootstrap) as talk:
            rows = [
                {"topic": p.topic, "partition": p.partition, **one._asdict()} for p, one in sorted(listed(talk).items())
            ]
        if rows or output not in TABLES:
            show(rows, output, ("topic", "partition", "replicas", "adding", "removing"))
        else:
            note("no moves are under way.")

    watch(show_once, every_s)


@reassign.command()
@SERVERS
@click.option("--plan", "path", type=click.Path(exists=True, path_type=Path), help="Call off these; all without.")
@click.option("--preserve-throttles", is_flag=True, help="Leave throttles as they are.")
@TIMEOUT
@DRY_RUN
@YES
def cancel(
    bootstrap: str, path: Path | None, preserve_throttles: bool, timeout: float | None, dry_run: bool, yes: bool
) -> None:
    """Call moves off: each partition goes back to the replicas that it had. Without a plan: all that are under way.

    A plan that is being applied ends with that; what it has moved stays (`rollback` takes it back).
    """
    if path is not None and apply_command.is_applied(path):
        apply_command.cancel_plan(path, bootstrap, timeout, dry_run)
        return
    plan = None if path is None else read(path, plans.parse)
    with Talk(bootstrap) as talk:
        if path is not None:
            demand_cluster(talk, path)
        moving = under_way(talk, None if plan is None else list(plan))
        if not moving:
            note("nothing is under way.")
        if dry_run:
            for partition in sorted(moving):
                say(f"the move of {partition} would be called off")
            return
        if moving and plan is None:
            confirm(f"Call off all that is under way, {counted(len(moving), 'move')}?", yes)
        refused = 0
        if moving:
            refused = tell_refusals(*talk.ask(admin.reassign, dict.fromkeys(moving)))
            note(f"{len(moving) - refused} of {counted(len(moving), 'move')} called off.")
        if not preserve_throttles and path is not None:
            take_away(talk, path, plan or ())
        elif not preserve_throttles and (held := throttled_brokers(talk)):
            note(f"rates of throttles stand at {brokers_named(held)}: `moldau reassign verify --plan PLAN` takes away")
            note("what was set for a plan; `moldau doctor` tells how to end those that are nobody's.")
    raise SystemExit(1 if refused else 0)


# ---- what the cluster says


def _write_rollback(path: Path, text: str) -> None:
    """Write the way back; ends the command when there is one already that says otherwise: it may be an earlier one."""
    if path.is_file() and path.read_text(encoding="utf-8", errors="replace") != text:
        fail(f"{path} is there and says otherwise, maybe what was before an earlier run; name another file", 2)
    write_whole(path, text)


def _ask(talk: Talk, plan: Plan, before: Plan) -> tuple[Outcome, dict[TopicPartition, Outcome]]:
    """Ask for the moves, but for those to brokers that are not alive, which would wait for them for ever."""
    refused = _to_the_dead(talk, plan, before)
    asked = {p: wanted for p, wanted in plan.items() if p not in refused}
    whole, outcomes = talk.ask(admin.reassign, asked) if asked else (Outcome(Code.NONE), {})
    return whole, outcomes | refused


def _to_the_dead(talk: Talk, plan: Plan, before: Plan) -> dict[TopicPartition, Outcome]:
    """The moves to brokers that are not alive, with what is said of each."""
    alive = talk.cluster.brokers()
    to = {p: [r for r in wanted if r not in before[p] and r not in alive] for p, wanted in plan.items()}
    return {p: Outcome(Code.INVALID_REPLICA_ASSIGNMENT, not_alive(dead)) for p, dead in to.items() if dead}


def _look(talk: Talk, plan: Plan, placed: Directories, moving: Collection[TopicPartition]) -> list[dict[str, Any]]:
    """A row for each partition of the plan: moving, done, otherwise, or gone; by brokers, then by log directories."""
    topics = talk.topics({p.topic for p in plan})
    rows = []
    for partition, wanted in sorted(plan.items()):
        topic = topics.get(partition.topic)
        part = None if topic is None else topic.partitions.get(partition.partition)
        if part is None:
            rows.append(_row(partition, "gone", None, wanted))
        elif partition in moving:
            rows.append(_row(partition, "moving", part.replicas, wanted))
        else:
            rows.append(_row(partition, "done" if part.replicas == wanted else "otherwise", part.replicas, wanted))
    there = {TopicPartition(row["topic"], row["partition"]) for row in rows if row["status"] == "done"}
    misplaced = directories.misplaced(talk, {key: path for key, path in placed.items() if key[0] in there})
    for row in rows:
        found = row["misplaced"] = misplaced.get(TopicPartition(row["topic"], row["partition"]), [])
        if found:
            row["status"] = directories.state_of(found)
    return rows


def _tell_misplaced(rows: Iterable[dict[str, Any]]) -> None:
    directories.tell({TopicPartition(row["topic"], row["partition"]): row["misplaced"] for row in rows})


def _row(partition: TopicPartition, status: str, replicas: list[int] | None, wanted: list[int]) -> dict[str, Any]:
    return {
        "topic": partition.topic, "partition": partition.partition, "status": status, "replicas": replicas,
        "wanted": wanted,
    }  # fmt: skip


def _stay(talk: Talk, plan: Plan, placed: Directories, timeout_s: float) -> int:
    """Watch until nothing moves; the exit code. Tells how many are done."""
    settling = LOOKS_AFTER
    looks = Looks(timeout_s, first_s=FIRST_S)
    reporter = WaitReporter(talk)
    with ProgressBar("", len(plan)) as progress:
        for _ in looks:
            moving = under_way(talk, list(plan))
            rows = _look(talk, plan, placed, moving)
            _tell_waits(talk, reporter, moving)
            left = sum(row["status"] == "moving" for row in rows)
            odd = sum(row["status"] != "done" for row in rows)
            if not odd:
                note("all moves are done.")
                return 0
            if not left:
                settling -= 1
                looks.soon()
                if not settling:
                    note(f"{counted(odd, 'partition')} ended otherwise than planned.")
                    _tell_misplaced(rows)
                    return MISMATCH
            of = counted(len(plan), "move is", "moves are")
            progress.at(len(plan) - odd, f"{left} of {of} under way ...")
    return IN_PROGRESS


def _tell_waits(talk: Talk, reporter: WaitReporter, moving: Mapping[TopicPartition, admin.Reassignment]) -> None:
    """Note whom the moves wait for, where that is worth telling."""
    shown = (
        {
            TopicPartition(name, number): ObservedPartition(part.replicas, part.leader, part.isr, part.offline)
            for name, topic in talk.cluster.topics({p.topic for p in moving}).items()
            for number, part in topic.partitions.items()
        }
        if moving
        else {}
    )
    reporter.tell(shown, moving, talk.cluster.brokers())
