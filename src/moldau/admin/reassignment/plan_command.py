"""``moldau reassign plan``: a plan for what is wished, what it costs, and how even the cluster is afterwards.

Asks and changes nothing. The plan is made by ``planning.py``, the numbers by ``summary.py``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypedDict, Unpack

import click

from moldau.admin import plans
from moldau.admin.asking import OUTPUT, SERVERS, Talk, note, show
from moldau.admin.completing import broker_lists as complete_brokers
from moldau.admin.completing import topics as complete_topics
from moldau.admin.each_broker import told_directories
from moldau.admin.files import write_whole
from moldau.admin.findings import some
from moldau.admin.main import fail
from moldau.admin.output import say, show_one
from moldau.admin.plans import Plan
from moldau.admin.rate import RateArgument, bytes_text, time_text
from moldau.admin.reassignment import journal as journals
from moldau.admin.reassignment.cluster import current, ids, listed, read, targets
from moldau.admin.reassignment.planning import GOALS, Impossible, PlanBuilder
from moldau.admin.reassignment.summary import Summary, summarize
from moldau.model import TopicPartition
from moldau.model.counted import counted

BROKERS = (
    "broker", "rack", "alive", "replicas", "replicas_after", "leaders", "leaders_after", "bytes", "bytes_after",
    "moves_in", "moves_out",
)  # fmt: skip
SKEW = ("what", "before", "after")
CHANGES = ("topic", "partition", "replicas", "wanted", "adding", "removing", "bytes")


class ReplicaChange(TypedDict):
    """A partition that gets other replicas, or the same in another order."""

    topic: str
    partition: int
    replicas: list[int]
    wanted: list[int]
    adding: list[int]
    removing: list[int]
    bytes: int
    """What is copied."""


class PlanOptions(TypedDict):
    """What is wished, and where the plan goes."""

    drain: str | None
    add: str | None
    replace: str | None
    set_rf: int | None
    balance: str | None
    throttle: float | None
    load: Path | None
    out: Path | None


@click.command()
@SERVERS
@click.option(
    "--drain", metavar="ID[,ID]", shell_complete=complete_brokers, help="Take all replicas off these brokers."
)
@click.option(
    "--add", metavar="ID[,ID]", shell_complete=complete_brokers,
    help="Give these brokers their share; nothing moves between the others.",
)  # fmt: skip
@click.option("--replace", metavar="OLD=NEW", help="Give one broker's replicas to another.")
@click.option("--set-rf", type=click.IntRange(1, 32767), help="Give every partition so many replicas.")
@click.option("--balance", metavar="GOAL[,GOAL]", help=f"Even out {', '.join(GOALS)}: one, or several of them.")
@click.option(
    "--topic", "names", multiple=True, shell_complete=complete_topics, help="Only this topic; may be given again."
)
@click.option("--topics", "pattern", help="Only topics of which this regular expression matches the whole name.")
@click.option(
    "--throttle", type=RateArgument(), help="Tell how long it takes when a broker spends so much a second: 50MB."
)
@click.option(
    "--load", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
    help="Take the partitions' bytes from what `moldau job load -o json` wrote, and not from the brokers.",
)  # fmt: skip
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the plan here; else it is printed.")
@OUTPUT
def plan(
    bootstrap: str, output: str, names: tuple[str, ...], pattern: str | None, **options: Unpack[PlanOptions]
) -> None:
    """Make a plan: drain, add or replace brokers, set the replication factor, balance.

    \b
    moldau reassign plan --drain 3 --out plan.json
    moldau reassign plan --add 4 --throttle 50MB --out plan.json
    moldau reassign plan --replace 2=4 --out plan.json
    moldau reassign plan --set-rf 3 --topic orders --out plan.json
    moldau reassign plan --balance racks,replicas,disk,leaders > plan.json

    No more replicas move than must, none ends in fewer racks than it could keep, and only live brokers get any. The
    plan is Kafka's JSON and holds the partitions that change; `moldau reassign apply` carries it out. Without --out
    the plan goes to standard output, and what it costs to standard error. `-o json` and `-o yaml` print one object of
    both, `-o wide` each partition that changes.
    """
    wishes = [name for name in ("drain", "add", "replace", "set_rf") if options[name] is not None]
    if len(wishes) > 1 or not (wishes or options["balance"]):
        fail("what is wished? One of --drain, --add, --replace and --set-rf, or --balance, or one of them with it", 2)
    goals = _goals(options["balance"])
    with Talk(bootstrap) as talk:
        cluster = talk.cluster.cluster_id()
        if options["out"] is not None:
            _demand_over(options["out"])
        moving = listed(talk)
        everything = targets(current(talk, talk.cluster.topics()), moving)
        racks = {id: broker.rack for id, broker in sorted(talk.cluster.brokers().items())}
        chosen = _chosen(everything, names, pattern)
        before = {p: replicas for p, replicas in everything.items() if p.topic in chosen}
        sizes = _sizes(talk, racks, before, goals) if options["load"] is None else read(options["load"], sizes_in)
        leaders = {TopicPartition(name, n): part.leader for name, topic in talk.cluster.topics().items()
                   for n, part in topic.partitions.items()}  # fmt: skip
    planner = PlanBuilder(before, racks, sizes)
    try:
        _plan(planner, options, goals, {id for held in everything.values() for id in held} | set(racks))
    except Impossible as error:
        fail(str(error))
    rate = None if options["throttle"] is None else int(options["throttle"])
    summary = summarize(
        before, planner.result(), racks, sizes=sizes, leaders=leaders, rate=rate, targets=planner.targets
    )
    changes = planner.changes()
    rows = [_change(p, before[p], wanted, sizes) for p, wanted in changes.items()]
    _give((changes, rows), summary, options["out"], output, cluster)
    if taken := moving.keys() & before.keys():
        are, they = counted(len(taken), "partition is", "partitions are"), "it is" if len(taken) == 1 else "they are"
        note(f"{are} being moved; {they} planned for as {they.split()[0]} will be then: {min(taken)} ...")
    if planner.stuck:
        stay = counted(len(planner.stuck), "partition stays as it is", "partitions stay as they are")
        whose = "it" if len(planner.stuck) == 1 else "theirs"
        note(f"{stay}: no replica of {whose} is alive: {planner.stuck[0]} ...")


def _demand_over(out: Path) -> None:
    """End the command when a plan in this file is being applied, or was and has not ended: without the plan it could
    neither go on nor be paused, called off or taken back."""
    try:
        journal = journals.load(out)
    except journals.BadJournal as error:
        fail(str(error))
    if journal is not None and journal.state not in journals.ENDED:
        fail(
            f"{out} holds a plan that is {journal.state}, as {journals.journal_of(out).name} tells: name another file,"
            f" or end it (`moldau reassign cancel --plan {out}`)"
        )


def _goals(text: str | None) -> list[str]:
    goals = [] if text is None else text.split(",")
    for goal in goals:
        if goal not in GOALS:
            fail(f"--balance {text}: {goal or 'nothing'} cannot be balanced; {', '.join(GOALS)} can", 2)
    return goals


def _plan(planner: PlanBuilder, options: PlanOptions, goals: Collection[str], known: set[int]) -> None:
    if options["drain"] is not None:
        gone = ids("--drain", options["drain"])
        _demand_known(gone, known)
        planner.drain(gone)
    elif options["add"] is not None:
        planner.add(ids("--add", options["add"]))
    elif options["replace"] is not None:
        found = re.fullmatch(r"(\d+)=(\d+)", options["replace"])
        if found is None or found[1] == found[2]:
            fail(f"--replace {options['replace']}: two ids are expected, such as 4=9", 2)
        assert found is not None
        _demand_known([int(found[1])], known)
        planner.replace(int(found[1]), int(found[2]))
    elif options["set_rf"] is not None:
        planner.set_rf(options["set_rf"])
    planner.balance(goals)


def _demand_known(brokers: Collection[int], known: set[int]) -> None:
    for id in brokers:
        if id not in known:
            fail(f"there is no broker {id}, only {', '.join(map(str, sorted(known)))}")


def _chosen(everything: Plan, names: Collection[str], pattern: str | None) -> set[str]:
    """The topics that are planned for; ends the command when one of them is not there."""
    there = {p.topic for p in everything}
    for name in names:
        if name not in there:
            fail(f"there is no topic {name}")
    if pattern is None:
        return set(names) or there
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        fail(f"--topics {pattern}: {error}", 2)
    found = {name for name in there if wanted.fullmatch(name)} | set(names)
    if not found:
        fail(f"--topics {pattern}: no topic is called so")
    return found


def _sizes(talk: Talk, alive: Collection[int], chosen: Plan, goals: Collection[str]) -> dict[TopicPartition, int]:
    """Bytes of each partition: of its largest replica, the others may still be copying. What no broker tells counts as
    none, and a note says so; where disks are to be balanced by it, the command ends."""
    sizes: dict[TopicPartition, int] = {}
    told = told_directories(talk, alive)
    for directories in told.values():
        for directory in directories:
            for topic in directory.topics:
                for part in topic.partitions:
                    if not part.is_future_key:
                        key = TopicPartition(topic.name, part.partition_index)
                        sizes[key] = max(sizes.get(key, 0), part.partition_size)
    silent = set(alive) - told.keys()
    untold = [p for p, replicas in chosen.items() if p not in sizes and not silent.isdisjoint(replicas)]
    if untold and "disk" in goals:
        how = "--load FILE takes them from what `moldau job load -o json` wrote"
        fail(f"the bytes of {some(untold)} are not known, and disks cannot be balanced without: {how}")
    if untold:
        note(f"the bytes of {some(untold)} are not known, and count as none")
    return sizes


def sizes_in(text: str) -> dict[TopicPartition, int]:
    """Bytes of each partition out of the table of ``moldau job load`` in JSON: of its largest replica, over all of its
    time. BadPlan when it is none."""
    replicas: dict[tuple[TopicPartition, object, object], int] = {}
    try:
        for row in json.loads(text):
            key = TopicPartition(str(row["topic"]), int(row["partition"])), row.get("broker"), row.get("directory")
            replicas[key] = replicas.get(key, 0) + int(row["bytes"])
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        wanted = "a list of rows with topic, partition and bytes is expected, as `moldau job load -o json` writes it"
        lacking = f"no {error.args[0]} in a row" if isinstance(error, KeyError) else str(error)
        raise plans.BadPlan(f"{wanted}: {lacking}") from None
    sizes: dict[TopicPartition, int] = {}
    for (partition, _, _), size in replicas.items():
        sizes[partition] = max(sizes.get(partition, 0), size)
    return sizes


def _change(
    p: TopicPartition, held: Sequence[int], wanted: list[int], sizes: Mapping[TopicPartition, int]
) -> ReplicaChange:
    adding, removing = [r for r in wanted if r not in held], [r for r in held if r not in wanted]
    return {
        "topic": p.topic, "partition": p.partition, "replicas": list(held), "wanted": wanted, "adding": adding,
        "removing": removing, "bytes": sizes.get(p, 0) * len(adding),
    }  # fmt: skip


def _give(
    changes: tuple[Plan, list[ReplicaChange]], summary: Summary, out: Path | None, output: str, cluster: str | None
) -> None:
    plan, rows = changes
    text = plans.text_of(plan, cluster)
    if out is not None and plan:
        write_whole(out, text + "\n")
    if show_one({"plan": json.loads(text), **summary.as_json()}, output):
        return
    if output == "text" and out is None:
        say(text)
        note(_words(summary))
        return
    show([asdict(one) for one in summary.brokers], output, BROKERS)
    if output in ("text", "wide"):
        say("")
        show([asdict(one) for one in summary.skew], output, SKEW)
    if output == "wide":
        say("")
        show(rows, output, CHANGES)
    (note if output == "tsv" else say)(_words(summary))
    if not plan and out is not None:
        earlier = "; it holds an earlier plan, which is not this one" if out.exists() else ""
        note(f"{out} is not written: nothing has to change{earlier}.")


def _words(summary: Summary) -> str:
    if not summary.partitions:
        return "nothing has to change."
    words = [
        f"{counted(summary.partitions, 'partition changes', 'partitions change')}: "
        f"{counted(summary.replicas_to_move, 'replica is', 'replicas are')} copied, "
        f"{bytes_text(summary.bytes_to_move)}; "
        f"{counted(summary.leaders_to_change, 'gets', 'get')} another preferred leader"
    ]
    if summary.seconds is not None:
        words.append(f"about {time_text(summary.seconds)} at the throttle")
    if summary.too_few_racks or summary.too_few_racks_after:
        words.append(
            f"partitions in fewer racks than could be: {summary.too_few_racks}, then {summary.too_few_racks_after}"
        )
    return "; ".join(words) + "."
