"""``moldau leader``: who leads, who should, and elections that give leads back (KIP-460).

The counterpart of Kafka's kafka-leader-election; standard requests only, so that it works on any Kafka cluster. When
the controller gives leads back by itself, docs/controller.md tells.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import click

from moldau.admin.asking import OUTPUT, SERVERS, Talk, note, show
from moldau.admin.completing import topics as complete_topics
from moldau.admin.main import fail
from moldau.admin.options import DRY_RUN, WATCH, YES, Finite, confirm
from moldau.admin.output import watch
from moldau.client import admin
from moldau.client.admin import ElectionType
from moldau.client.view import Topic
from moldau.model import Code, TopicPartition
from moldau.model.counted import counted


@click.group()
def leader() -> None:
    """Look at leaders, and elect them.

    \b
    moldau leader imbalance
    moldau leader elect --all
    moldau leader elect --topic orders --partition 2 --type unclean
    """


@leader.command()
@SERVERS
@click.option("--type", "kind", type=click.Choice(["preferred", "unclean"]), default="preferred", show_default=True)
@click.option("--topic", "topic", shell_complete=complete_topics, help="Elect for this topic's partitions.")
@click.option("--partition", "numbers", type=click.IntRange(min=0), multiple=True, help="Of them only this; repeat it.")
@click.option("--all", "everything", is_flag=True, help="Elect wherever it is needed.")
@DRY_RUN
@YES
@OUTPUT
def elect(bootstrap: str, output: str, kind: str, topic: str | None, **options: Any) -> None:
    """Elect leaders: the preferred replica, or (unclean) any that lives, which may LOSE acknowledged records: that is
    asked about, unless --yes says it beforehand.

    \b
    moldau leader elect --all --dry-run

    Exit 0 when every partition named has the leader asked for, 1 when one could not.
    """
    if bool(topic) == options["everything"]:
        fail("for what? Give either --topic (and --partition), or --all", 2)
    if options["numbers"] and topic is None:
        fail("--partition needs --topic", 2)
    unclean = kind == "unclean"
    if unclean and not options["dry_run"]:
        confirm("An unclean election may lose records that were acknowledged. Go on?", options["yes"])
    with Talk(bootstrap) as talk:
        wanted = None if topic is None else _partitions(talk, topic, options["numbers"])
        if options["dry_run"]:
            topics = talk.cluster.topics() if topic is None else talk.topics([topic])
            rows = would_elect(topics, talk.cluster.brokers(), wanted, unclean=unclean)
            show(rows, output, ("topic", "partition", "result", "leader", "next_leader", "reason"))
            return
        code, outcomes = talk.ask(
            admin.elect_leaders, wanted, ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
        )
    if code is not Code.NONE:
        fail(code.name)
    rows = [
        {"topic": p.topic, "partition": p.partition, "result": _result(one.code), "reason": one.message}
        for p, one in sorted(outcomes.items())
    ]
    show(rows, output, ("topic", "partition", "result", "reason"))
    bad = [row for row in rows if row["result"] not in ("elected", "not needed")]
    note(f"{sum(row['result'] == 'elected' for row in rows)} elected, {len(bad)} refused.")
    raise SystemExit(1 if bad else 0)


def _result(code: Code) -> str:
    return {Code.NONE: "elected", Code.ELECTION_NOT_NEEDED: "not needed"}.get(code, code.name)


def would_elect(
    topics: Mapping[str, Topic], alive: Collection[int], wanted: Collection[TopicPartition] | None, *, unclean: bool
) -> list[dict[str, object]]:
    """What an election would do to these partitions, or to all that need one, as far as the metadata tells."""
    rows = []
    for name, topic in sorted(topics.items()):
        for number, part in sorted(topic.partitions.items()):
            if wanted is not None and TopicPartition(name, number) not in wanted:
                continue
            has_leader = part.leader in alive
            first = part.replicas[0] if part.replicas else -1
            takers = [one for one in part.replicas if one in alive] if unclean else [first]
            needed = not has_leader if unclean else part.leader != first
            able = bool(takers) and takers[0] in alive and (unclean or first in part.isr)
            if wanted is None and not needed:
                continue
            row: dict[str, object] = {"topic": name, "partition": number, "leader": part.leader if has_leader else None}
            rows.append(row)
            if not needed:
                row["result"] = "not needed"
            elif able:
                row |= {"result": "would be elected", "next_leader": takers[0]}
            else:
                why = "no replica lives" if unclean else f"broker {first} is not alive, or not in sync"
                row |= {"result": "would be refused", "reason": why}
    return rows


def _partitions(talk: Talk, topic: str, numbers: Iterable[int]) -> list[TopicPartition]:
    known = talk.topics([topic]).get(topic)
    if known is None:
        known = talk.existing([topic])[topic]
    for number in numbers:
        if number not in known.partitions:
            fail(f"topic {topic} has no partition {number}; it has {len(known.partitions)}")
    return [TopicPartition(topic, number) for number in (numbers or sorted(known.partitions))]


@leader.command()
@SERVERS
@click.option(
    "--limit",
    type=Finite(min=0),
    default=10.0,
    show_default=True,
    help="Per cent that count as too much, as the controller's.",
)
@WATCH
@OUTPUT
def imbalance(bootstrap: str, limit: float, every_s: float | None, output: str) -> None:
    """What share of the partitions that each broker should lead is led by others. Exit 4 when one is above the limit.

    The controller itself looks every leader.imbalance.check.interval.seconds and gives leads back above
    leader.imbalance.per.broker.percentage.
    """
    rows: list[dict[str, Any]] = []  # Any: a table's cells, of which numbers are compared

    def show_once() -> None:
        with Talk(bootstrap) as talk:
            topics = talk.cluster.topics()
            rows[:] = imbalances(topics, talk.cluster.brokers())
        show(rows, output, ("broker", "alive", "replicas", "preferred", "leads", "astray", "imbalance_percent"))
        orphans = sum(part.leader < 0 for topic in topics.values() for part in topic.partitions.values())
        if orphans:
            note(f"{counted(orphans, 'partition has', 'partitions have')} no leader.")

    watch(show_once, every_s)
    raise SystemExit(4 if any(row["imbalance_percent"] > limit for row in rows) else 0)


def imbalances(topics: Mapping[str, Topic], alive: Iterable[int]) -> list[dict[str, Any]]:
    """A row for each broker: replicas it holds, partitions it should lead and does, and the share led elsewhere."""
    live = set(alive)
    rows: dict[int, dict[str, Any]] = {}

    def row(broker: int) -> dict[str, Any]:
        blank = {"broker": broker, "alive": broker in live, "replicas": 0, "preferred": 0, "leads": 0, "astray": 0}
        return rows.setdefault(broker, blank)

    for broker in live:
        row(broker)
    for topic in topics.values():
        for part in topic.partitions.values():
            for replica in part.replicas:
                row(replica)["replicas"] += 1
            if part.replicas:
                row(part.replicas[0])["preferred"] += 1
                row(part.replicas[0])["astray"] += part.leader != part.replicas[0]
            if part.leader >= 0:
                row(part.leader)["leads"] += 1
    for found in rows.values():
        found["imbalance_percent"] = 100 * found["astray"] / found["preferred"] if found["preferred"] else 0.0
    return [rows[broker] for broker in sorted(rows)]
