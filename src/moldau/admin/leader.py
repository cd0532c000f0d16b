"""``moldau leader``: who leads, who should, and elections that give leads back (KIP-460).

The counterpart of Kafka's kafka-leader-election; standard requests only, so that it works on any Kafka cluster. When
the controller gives leads back by itself, docs/controller.md tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click

from moldau.admin.asking import OUTPUT, SERVERS, Talk, note, show
from moldau.admin.main import fail
from moldau.client import admin
from moldau.client.admin import Election
from moldau.client.view import Topic
from moldau.terms import Code, TopicPartition

_FINE = frozenset({Code.NONE, Code.ELECTION_NOT_NEEDED})


@click.group()
def leader() -> None:
    """Look at leaders, and elect them.

    \b
    moldau leader imbalance
    moldau leader elect --all
    moldau leader elect --topic orders --partition 3 --type unclean
    """


@leader.command()
@SERVERS
@click.option("--type", "kind", type=click.Choice(["preferred", "unclean"]), default="preferred", show_default=True)
@click.option("--topic", "topic", help="Elect for this topic's partitions.")
@click.option("--partition", "numbers", type=click.IntRange(min=0), multiple=True, help="Of them only this; repeat it.")
@click.option("--all", "everything", is_flag=True, help="Elect wherever it is needed.")
@click.option("--yes", is_flag=True, help="Do not ask before an unclean election.")
@OUTPUT
def elect(bootstrap: str, output: str, kind: str, topic: str | None, **wish: Any) -> None:
    """Elect leaders: the preferred replica, or (unclean) any that lives, which may LOSE acknowledged records.

    Exit 0 when every partition named has the leader asked for, 1 when one could not.
    """
    if bool(topic) == wish["everything"]:
        fail("for what? Give either --topic (and --partition), or --all", 2)
    if wish["numbers"] and topic is None:
        fail("--partition needs --topic", 2)
    unclean = kind == "unclean"
    if unclean and not wish["yes"]:
        click.confirm("An unclean election may lose records that were acknowledged. Go on?", abort=True, err=True)
    with Talk(bootstrap) as talk:
        wanted = None if topic is None else _partitions(talk, topic, wish["numbers"])
        code, outcomes = talk.ask(admin.elect_leaders, wanted, Election.UNCLEAN if unclean else Election.PREFERRED)
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


def _partitions(talk: Talk, topic: str, numbers: Iterable[int]) -> list[TopicPartition]:
    known = talk.topics([topic]).get(topic)
    if known is None:
        return list(fail(f"there is no topic {topic}"))
    for number in numbers:
        if number not in known.partitions:
            fail(f"topic {topic} has no partition {number}; it has {len(known.partitions)}")
    return [TopicPartition(topic, number) for number in (numbers or sorted(known.partitions))]


@leader.command()
@SERVERS
@click.option("--limit", default=10.0, show_default=True, help="Per cent that count as too much, as the controller's.")
@OUTPUT
def imbalance(bootstrap: str, limit: float, output: str) -> None:
    """What share of the partitions that each broker should lead is led by others. Exit 4 when one is above the limit.

    The controller itself looks every leader.imbalance.check.interval.seconds and gives leads back above
    leader.imbalance.per.broker.percentage.
    """
    with Talk(bootstrap) as talk:
        topics = talk.cluster.topics()
        rows = imbalances(topics, talk.cluster.brokers())
    show(rows, output, ("broker", "alive", "replicas", "preferred", "leads", "astray", "imbalance_percent"))
    orphans = sum(part.leader < 0 for topic in topics.values() for part in topic.partitions.values())
    if orphans:
        note(f"{orphans} partitions have no leader.")
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
