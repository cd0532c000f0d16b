"""``moldau topic``: which topics there are, how their partitions stand; makes, grows and deletes them.

Standard requests only. Changes are in topic_changes.py. The counterpart of Kafka's kafka-topics.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from moldau.admin.asking import CONTROLLER_S, LEADERS_S, MISMATCH, Talk, note
from moldau.admin.completing import topics as complete_topics
from moldau.admin.lazy import Noun
from moldau.admin.main import fail
from moldau.admin.options import OUTPUT, SERVERS, WATCH, F
from moldau.admin.output import TABLES, Row, say, show, watch

if TYPE_CHECKING:
    from moldau.admin.partition_states import PartitionHealth
    from moldau.client.admin import Reassignment
    from moldau.client.view import Topic
    from moldau.model import TopicPartition

COLUMNS = ("topic", "partition", "leader", "replicas", "in_sync", "state")
WIDE = ("epoch", "adding", "removing", "first_offset", "end_offset")
CHANGES = "moldau.admin.topic_changes"


class Filters(TypedDict):
    """By which of ``FILTERS`` partitions are looked for."""

    offline: bool
    under_replicated: bool
    under_min_isr: bool
    at_min_isr: bool
    moving: bool


@click.group(
    cls=Noun,
    lazy={
        "create": (f"{CHANGES}:create", "Make topics."),
        "alter": (f"{CHANGES}:alter", "Add partitions to a topic, and change its settings."),
        "delete": (f"{CHANGES}:delete", "Delete topics with all their records."),
    },
)
def topic() -> None:
    """Look at topics; make, grow and delete them.

    \b
    moldau topic create orders --partitions 6 --replication-factor 3 --set retention.ms=86400000
    moldau topic list
    moldau topic describe orders -o wide
    moldau topic describe --under-min-isr
    moldau topic alter orders --partitions 12
    moldau topic delete orders
    """


def FILTERED(command: F) -> F:
    """Options by which partitions are looked for; those that are given are or-ed."""
    wanted = {
        "--offline": "without a leader",
        "--under-replicated": "with replicas that are not in sync",
        "--under-min-isr": "with fewer in sync than min.insync.replicas, or offline",
        "--at-min-isr": "with just min.insync.replicas in sync",
        "--moving": "under reassignment",
    }
    for option, what in reversed(wanted.items()):
        command = click.option(option, is_flag=True, help=f"Only partitions {what}.")(command)
    return command


PATTERNS = click.argument("patterns", nargs=-1, shell_complete=complete_topics)
EXCLUDE = click.option("--exclude-internal", is_flag=True, help="Leave the cluster's own topics out.")


def LOOKED_AT(command: F) -> F:
    """Which topics are looked at, how often, and how they are printed."""
    return PATTERNS(SERVERS(FILTERED(EXCLUDE(WATCH(OUTPUT(command))))))


@topic.command("list")
@LOOKED_AT
def list_(
    patterns: tuple[str, ...],
    bootstrap: str,
    exclude_internal: bool,
    every_s: float | None,
    output: str,
    **options: Unpack[Filters],
) -> None:
    """List topics, all or those that match PATTERNS ('order*'), with the worst that is to say of their partitions."""

    def show_once() -> None:
        with Talk(bootstrap) as talk:
            topics = matching(talk, patterns, exclude_internal)
            by_topic: dict[str, list[PartitionHealth]] = {name: [] for name in topics}
            parts, moves_are_known = seen_partitions(talk, topics)
            for one in parts:
                by_topic[one.topic].append(one)
        rows = [
            _row(topics[name], parts)
            for name, parts in by_topic.items()
            if not any(options.values()) or _kept(parts, options)
        ]
        show(rows, output, ("topic", "partitions", "replication_factor", "state"), ("internal", "id"))
        _end(moves_are_known, every_s)

    watch(show_once, every_s)


@topic.command()
@LOOKED_AT
def describe(
    patterns: tuple[str, ...],
    bootstrap: str,
    exclude_internal: bool,
    every_s: float | None,
    output: str,
    **options: Unpack[Filters],
) -> None:
    """Show leader, replicas and state of each partition; of all topics, or of those that match PATTERNS.

    -o wide adds leader epochs, moves, and the first and end offsets. JSON and YAML list topics with their partitions,
    of those that are looked for the topics that have one.
    """

    def show_once() -> None:
        with Talk(bootstrap) as talk:
            topics = matching(talk, patterns, exclude_internal)
            parts, moves_are_known = seen_partitions(talk, topics)
            _describe(talk, output, topics, parts, options)
        _end(moves_are_known, every_s)

    watch(show_once, every_s)


def _describe(
    talk: Talk, output: str, topics: Mapping[str, Topic], parts: list[PartitionHealth], options: Filters
) -> None:
    filtered = any(options.values())
    kept = _kept(parts, options) if filtered else parts
    rows = [one.row() for one in kept]
    if output in ("wide", "json", "yaml"):
        _add_offsets(talk, kept, rows)
    if output == "tsv" or (filtered and output in TABLES):
        show(rows, output, COLUMNS, WIDE)
        return
    heads: dict[str, list[PartitionHealth]] = {name: [] for name in topics}
    for one in parts:
        heads[one.topic].append(one)
    by_topic: dict[str, list[Row]] = {one.topic: [] for one in kept} if filtered else {name: [] for name in topics}
    for one, row in zip(kept, rows, strict=True):
        by_topic[one.topic].append(row)
    settings = _own_settings(talk, {name: topics[name] for name in by_topic})
    whole: list[Row] = [
        {**_row(topics[name], heads[name]), "configs": settings[name], "partition_list": theirs}
        for name, theirs in by_topic.items()
    ]
    if output not in TABLES:
        show(whole, output, ())
        return
    show(whole, output, ["topic", "partitions", "replication_factor", "state", "id", "configs"])
    if rows:
        say("")
        show(rows, output, COLUMNS, WIDE)


def _end(moves_are_known: bool, every_s: float | None) -> None:
    """Exit 4 when something is not told for want of a controller, unless it is looked at again."""
    if not moves_are_known and every_s is None:
        raise SystemExit(MISMATCH)


def _row(topic: Topic, parts: list[PartitionHealth]) -> Row:
    from moldau.admin.partition_states import worst
    from moldau.model import NO_UUID, uuid_text

    return {
        "topic": topic.name,
        "partitions": len(topic.partitions),
        "replication_factor": max((one.factor for one in parts), default=0),
        "state": worst(parts),
        "internal": topic.internal,
        "id": uuid_text(topic.topic_id) if topic.topic_id != NO_UUID else None,
    }


def _kept(parts: list[PartitionHealth], options: Filters) -> list[PartitionHealth]:
    from moldau.admin.partition_states import FILTERS

    wanted = [FILTERS[name] for name, on in options.items() if on]
    return [one for one in parts if any(matches(one) for matches in wanted)]


# ---- asking


def matching(talk: Talk, patterns: tuple[str, ...], exclude_internal: bool = False) -> dict[str, Topic]:
    """Topics that match any of the patterns, all without one; ends the command when a pattern matches none."""
    from moldau.admin.advice import no_such

    plain = [one for one in patterns if not set(one) & set("*?[")]
    topics = talk.existing(plain) if len(plain) == len(patterns) > 0 else talk.cluster.topics()
    found: dict[str, Topic] = {}
    for pattern in patterns:
        names = [name for name in topics if name == pattern or fnmatchcase(name, pattern)]
        if not names:
            fail(no_such("topic", pattern, topics, "`moldau topic list` lists them"))
        found.update((name, topics[name]) for name in names)
    chosen = found if patterns else topics
    return {name: one for name, one in sorted(chosen.items()) if not (exclude_internal and one.internal)}


def look_at(
    talk: Talk, topics: Mapping[str, Topic], moves: Mapping[TopicPartition, Reassignment]
) -> list[PartitionHealth]:
    """The partitions of these topics, with their minimum of replicas in sync, and how they move."""
    from moldau.admin.partition_states import states

    return states(topics.values(), talk.cluster.client.view.brokers, _min_isr(talk, topics), moves)


def _min_isr(talk: Talk, topics: Mapping[str, Topic]) -> dict[str, int]:
    from moldau.client import admin
    from moldau.client.admin import Resource, ResourceType

    wanted = [Resource(ResourceType.TOPIC, name) for name in topics]
    answers = talk.ask(admin.describe_configs, wanted, keys=["min.insync.replicas"], synonyms=False) if wanted else {}
    return {
        place.name: int(entries["min.insync.replicas"].value or 1)
        for place, (_, entries) in answers.items()
        if "min.insync.replicas" in entries
    }


def moves_under_way(talk: Talk) -> tuple[dict[TopicPartition, Reassignment] | None, str]:
    """Moves under way; none from brokers that cannot say, or not to us; None when no controller answers, which alone
    knows them, and what brokers say of it then. It is asked over connections of its own: a broker that waits for one
    answers nothing else meanwhile."""
    from moldau.client import admin
    from moldau.client.client import Refused
    from moldau.client.lines import UnsupportedApi
    from moldau.model import Code

    with talk.apart(int(1000 * CONTROLLER_S)) as other:
        try:
            outcome, moves = other.ask(admin.reassignments)
        except UnsupportedApi:
            return {}, ""
        except (Refused, OSError):
            return None, ""
    if outcome.code is Code.REQUEST_TIMED_OUT:
        return None, ""
    return (None, outcome.message or "") if outcome.code is Code.NOT_CONTROLLER else (moves, "")


def seen_partitions(talk: Talk, topics: Mapping[str, Topic]) -> tuple[list[PartitionHealth], bool]:
    """The partitions of topics, and whether a controller said which of them move; a note says so when none did."""
    moves, why = moves_under_way(talk)
    if moves is None:
        why = why or f"none answers within {CONTROLLER_S:g} s"
        note(f"no controller is active ({why}): moves under way are not known")
    return look_at(talk, topics, moves or {}), moves is not None


def _own_settings(talk: Talk, topics: Mapping[str, Topic]) -> dict[str, dict[str, str | None]]:
    """What is set for each topic itself."""
    from moldau.client import admin
    from moldau.client.admin import ConfigSource, Resource, ResourceType

    wanted = [Resource(ResourceType.TOPIC, name) for name in topics]
    answers = talk.ask(admin.describe_configs, wanted, synonyms=False) if wanted else {}
    found: dict[str, dict[str, str | None]] = {name: {} for name in topics}
    for place, (_, entries) in answers.items():
        own = {key: one.value for key, one in sorted(entries.items()) if one.source == ConfigSource.TOPIC}
        found[place.name] = own
    return found


def _add_offsets(talk: Talk, parts: list[PartitionHealth], rows: list[dict[str, object]]) -> None:
    """First and end offsets of partitions that have a leader, into their rows."""
    from moldau.client.group_lags import bounds
    from moldau.model import TopicPartition

    with_leader = [TopicPartition(one.topic, one.partition) for one in parts if one.leader >= 0]
    starts, ends = talk.ask(bounds, with_leader, int(1000 * LEADERS_S))
    for one, row in zip(parts, rows, strict=True):
        place = TopicPartition(one.topic, one.partition)
        row["first_offset"], row["end_offset"] = starts.get(place), ends.get(place)
    if untold := [one for one in with_leader if one not in ends]:
        more = f" and {len(untold) - 1} more" if len(untold) > 1 else ""
        note(f"offsets of {untold[0]}{more} are not known: no leader answers within {LEADERS_S:g} s (`moldau doctor`)")
