"""``moldau topic create|alter|delete``.

Several topics are changed together or not at all: what the cluster would refuse is found by a dry run first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from moldau.admin.asking import Talk, refused
from moldau.admin.completing import topic_keys
from moldau.admin.completing import topics as complete_topics
from moldau.admin.main import fail
from moldau.admin.options import DRY_RUN, SERVERS, WAIT, YES, confirm, pairs, refuse, wait_until
from moldau.admin.output import note, printable, say
from moldau.admin.waiting import Looks
from moldau.model.counted import counted

if TYPE_CHECKING:
    from moldau.client.view import Outcome, Topic
    from moldau.wire.messages.k03_metadata import MetadataResponse

QUOTA_S, QUOTA_LOOK_S = 30.0, 0.5
"""How long, and how often, a change is asked for that a quota puts off."""
ONE_BROKER_MS = 5_000
"""How long one broker is asked whether it knows of a change."""
LONGEST_S = 30
"""For which a deletion is waited for in its request; `--wait` looks on after that."""


class WaitOptions(TypedDict):
    """What ``WAIT`` says."""

    wait: bool
    timeout_s: float


class TopicChange(WaitOptions):
    """What becomes of a topic, but for its settings."""

    partitions: int | None
    assignment: str | None
    dry_run: bool


class NewTopics(TopicChange):
    """What topics that are created are to have, but for their settings."""

    factor: int | None
    if_not_exists: bool


SET = click.option(
    "--set",
    "-c",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    shell_complete=topic_keys,
    help="A setting; repeat it.",
)
ASSIGNMENT = click.option(
    "--assignment",
    metavar="1:2,2:3",
    help="Brokers of each partition, the preferred leader first: ',' between partitions, ':' between brokers.",
)


@click.command()
@click.argument("names", nargs=-1, required=True)
@click.option(
    "-p", "--partitions", type=click.IntRange(1, 2**31 - 1), help="How many partitions (the cluster's default)."
)
@click.option(
    "-r", "--replication-factor", "factor", type=click.IntRange(1, 32767), help="How many replicas (default)."
)
@ASSIGNMENT
@SET
@click.option("--if-not-exists", is_flag=True, help="Let be what exists already.")
@DRY_RUN
@WAIT
@SERVERS
def create(names: tuple[str, ...], bootstrap: str, settings: tuple[str, ...], **options: Unpack[NewTopics]) -> None:
    """Make topics, all alike.

    \b
    moldau topic create orders --partitions 6 --replication-factor 3
    moldau topic create events --set cleanup.policy=compact --dry-run
    moldau topic create by-hand --assignment 1:2,2:3,3:1 --wait
    """
    from moldau.client import admin
    from moldau.client.admin import NewTopic
    from moldau.model import Code

    if options["assignment"] is not None and (options["partitions"] or options["factor"]):
        refuse("--assignment says how many partitions and replicas there are: leave the other two options out")
    assignment = _assignment(options["assignment"])
    configs = pairs(settings, "--set")
    wanted = {
        name: NewTopic(
            name=name,
            partitions=options["partitions"] or -1,
            replication_factor=options["factor"] or -1,
            configs=configs,
            assignment=assignment,
        )
        for name in dict.fromkeys(names)
    }
    with Talk(bootstrap) as talk:
        tried = _but_throttled(talk.ask(admin.create_topics, list(wanted.values()), validate_only=True))
        there = [name for name, one in tried.items() if one.code is Code.TOPIC_ALREADY_EXISTS]
        for name in there if options["if_not_exists"] else ():
            note(f"topic {name} exists already")
            wanted.pop(name), tried.pop(name, None)
        _all_well(tried, configs)
        if options["dry_run"]:
            for name in wanted:
                say(f"topic {name} would be made")
            return
        began_s = time.monotonic()
        done = _patiently(lambda left: talk.ask(admin.create_topics, [wanted[name] for name in left]), wanted)
        for name, one in done.items():
            if one.ok:
                say(f"topic {name} was made")
        _all_well(done, configs)
        if options["wait"] and wanted:
            wait_until(
                lambda: _are_led(talk, list(wanted)),
                options["timeout_s"],
                "every partition has a leader",
                since_s=began_s,
            )


def _patiently(ask: Callable[[Collection[str]], dict[str, Outcome]], names: Collection[str]) -> dict[str, Outcome]:
    """What becomes of each; what a quota of changes puts off (KIP-599) is asked again, as Kafka's Admin does."""
    from moldau.model import Code

    left, told = list(names), False
    done: dict[str, Outcome] = {}
    for _ in Looks(QUOTA_S, first_s=QUOTA_LOOK_S):
        done.update(ask(left) if left else {})
        left = [name for name, one in done.items() if one.code is Code.THROTTLING_QUOTA_EXCEEDED]
        if not left:
            break
        if not told:
            note("a quota of the cluster's (controller_mutation_rate) puts it off; asking again ...")
            told = True
    return done


def _but_throttled(tried: dict[str, Outcome]) -> dict[str, Outcome]:
    """Outcomes of a dry run without those that a quota puts off: nothing is said against them."""
    from moldau.model import Code

    return {name: one for name, one in tried.items() if one.code is not Code.THROTTLING_QUOTA_EXCEEDED}


def _are_led(talk: Talk, names: list[str], count: int = 1) -> bool:
    """Whether every broker knows these topics, with so many partitions at least, and leaders of all."""
    seen = _seen_by_all(talk, names)
    return bool(seen) and all(
        len(topic.partitions) >= count and all(part.leader_id >= 0 for part in topic.partitions) for topic in seen
    )


def _are_gone(talk: Talk, names: list[str]) -> bool:
    """Whether no broker that answers knows these topics; not when none answers."""
    from moldau.model import Code

    seen = _seen_by_all(talk, names)
    return bool(seen) and all(one.error_code != Code.NONE for one in seen)


def _seen_by_all(talk: Talk, names: list[str]) -> list[MetadataResponse.MetadataResponseTopic]:
    """The topics as every broker that answers has them now: each learns of a change in its own time."""
    from moldau.client.client import ForNode
    from moldau.wire.messages.k03_metadata import MetadataRequest

    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    found: list[MetadataResponse.MetadataResponseTopic] = []
    for id in talk.cluster.brokers():
        with suppress(OSError):  # one that has just died knows nothing
            client = talk.cluster.client
            asked = client.ask(
                request, ForNode(id), codes=lambda r: (), timeout_ms=ONE_BROKER_MS, request_timeout_ms=ONE_BROKER_MS
            )
            answer = talk.cluster.run(asked)
            found += answer.topics
    return found


def _all_well(outcomes: Mapping[str, Outcome], configs: Mapping[str, str | None]) -> None:
    """Ends the command, when one was refused, with the first refusal."""
    from moldau.model import Code

    for name, one in outcomes.items():
        if not one.ok:
            message = with_near_keys(one.message, configs) if one.code is Code.INVALID_CONFIG else one.message
            others = sum(not other.ok for other in outcomes.values()) - 1
            rest = f"; so {'is' if others == 1 else 'are'} {counted(others, 'other')}" if others else ""
            refused(f"topic {name}{rest}", one.code, message)


def with_near_keys(message: str | None, keys: Iterable[str]) -> str | None:
    """What a cluster said of keys, and ``Did you mean ...?`` for the first that no topic has, as far as this version of
    Kafka's settings knows."""
    from moldau.admin.advice import nearest
    from moldau.model.topic_config import TOPIC_KEYS

    for key in keys:
        if key not in TOPIC_KEYS and (near := nearest(key, TOPIC_KEYS)):
            said = (message or "").rstrip(" .")
            return f"{said}. {near}" if key in said else f"{said}. {key}: {near}".removeprefix(". ")
    return message


def _assignment(text: str | None) -> dict[int, list[int]] | None:
    """Replicas by partition; ends the command when the text is none."""
    if text is None:
        return None
    found: dict[int, list[int]] = {}
    for number, word in enumerate(text.split(",")):
        brokers = word.split(":")
        if not all(one.isdecimal() and len(one) < 10 for one in brokers):
            refuse(
                f"--assignment {text}: {word!r} is no list of brokers; 1:2,2:3 is two partitions with two replicas each"
            )
        found[number] = [int(one) for one in brokers]
        if len(set(found[number])) < len(brokers):
            refuse(f"--assignment {text}: {word!r} names a broker twice")
    return found


@click.command()
@click.argument("name", shell_complete=complete_topics)
@click.option("-p", "--partitions", type=click.IntRange(1, 2**31 - 1), help="How many partitions it is to have.")
@ASSIGNMENT
@SET
@click.option("--unset", metavar="KEY", multiple=True, help="Back to the cluster's default; repeat it.")
@DRY_RUN
@WAIT
@SERVERS
def alter(
    name: str, bootstrap: str, settings: tuple[str, ...], unset: tuple[str, ...], **options: Unpack[TopicChange]
) -> None:
    """Add partitions to a topic, and change its settings. Records of a key may go to another partition from then on.

    --assignment places the new partitions only. For other replicas: `moldau reassign`.

    \b
    moldau topic alter orders --partitions 12 --set retention.ms=3600000 --dry-run
    """
    changes = pairs(settings, "--set")
    if not (options["partitions"] or changes or unset):
        refuse("what is to change? --partitions, --set or --unset")
    if twice := set(changes) & set(unset):
        refuse(f"{sorted(twice)[0]} is to be set and unset")
    placed = _assignment(options["assignment"])
    with Talk(bootstrap) as talk:
        before = talk.existing([name])[name]
        new = _new_partitions(before, options["partitions"], placed)
        _apply(talk, name, new, changes, unset, validate_only=True)
        began_s = time.monotonic()
        verb = "would be changed" if options["dry_run"] else "was changed"
        if not options["dry_run"]:
            _apply(talk, name, new, changes, unset, validate_only=False)
        if new is not None:
            say(f"topic {name} {verb}: {len(before.partitions)} -> {counted(new[0], 'partition')}")
        for key, value in changes.items():
            say(printable(f"topic {name} {verb}: {key}={value}"))
        for key in unset:
            say(f"topic {name} {verb}: {key} as the cluster has it")
        if options["wait"] and new is not None and not options["dry_run"]:
            count = new[0]
            wait_until(
                lambda: _are_led(talk, [name], count),
                options["timeout_s"],
                counted(count, "partition has a leader", "partitions have leaders"),
                since_s=began_s,
            )


New = tuple[int, Sequence[Sequence[int]] | None]


def _new_partitions(before: Topic, count: int | None, placed: Mapping[int, list[int]] | None) -> New | None:
    """How many partitions there shall be and where the new ones are; None when that does not change."""
    if count is None:
        if placed is not None:
            refuse("--assignment places new partitions: --partitions says how many there shall be")
        return None
    has = len(before.partitions)
    if count < has:
        now = counted(has, "partition")
        fail(f"topic {before.name} has {now}, and a partition with its records cannot be taken away")
    if count == has:
        note(f"topic {before.name} has {counted(has, 'partition')} already")
        return None
    if placed is not None and len(placed) != count - has:
        refuse(f"--assignment places {counted(len(placed), 'partition')}, and the new ones are {count - has}")
    return count, None if placed is None else list(placed.values())


def _apply(
    talk: Talk,
    name: str,
    new: New | None,
    changes: Mapping[str, str],
    unset: Sequence[str],
    *,
    validate_only: bool,
) -> None:
    from moldau.client import admin
    from moldau.client.admin import AlterOp, Resource, ResourceType
    from moldau.model import Code

    if changes or unset:
        place = Resource(ResourceType.TOPIC, name)
        wanted: list[tuple[str, AlterOp, str | None]] = [(key, AlterOp.SET, value) for key, value in changes.items()]
        wanted += [(key, AlterOp.DELETE, None) for key in unset]
        outcome = talk.ask(admin.alter_configs, {place: wanted}, validate_only=validate_only)[place]
        if not outcome.ok:
            keys, message = (*changes, *unset), outcome.message
            message = with_near_keys(message, keys) if outcome.code is Code.INVALID_CONFIG else message
            refused(f"settings of topic {name}", outcome.code, message)
    if new is not None:
        count, placed = new
        given = None if placed is None else {name: placed}

        def ask(_: Collection[str]) -> dict[str, Outcome]:
            return talk.ask(admin.create_partitions, {name: count}, assignments=given, validate_only=validate_only)

        found = _but_throttled(ask([name])) if validate_only else _patiently(ask, [name])
        for one in found.values():
            if not one.ok:
                refused(f"partitions of topic {name}", one.code, one.message)


@click.command()
@click.argument("names", nargs=-1, required=True, shell_complete=complete_topics)
@click.option("--if-exists", is_flag=True, help="Do not mind topics that are not there.")
@DRY_RUN
@YES
@WAIT
@SERVERS
def delete(
    names: tuple[str, ...], bootstrap: str, if_exists: bool, dry_run: bool, yes: bool, **options: Unpack[WaitOptions]
) -> None:
    """Delete topics with all their records; there is no way back.

    \b
    moldau topic delete orders --dry-run
    moldau topic delete orders --yes --wait
    """
    from moldau.admin.advice import is_going
    from moldau.client import admin

    wanted = list(dict.fromkeys(names))
    with Talk(bootstrap) as talk:
        known = talk.topics(wanted) if if_exists else talk.existing(wanted)
        for name in wanted:
            if name not in known:
                note(f"there is no topic {name}")
        if dry_run:
            for name, one in known.items():
                say(f"topic {name} with {counted(len(one.partitions), 'partition')} would be deleted")
            return
        if not known:
            return
        count = sum(len(one.partitions) for one in known.values())
        confirm(f"Delete {', '.join(known)} with {counted(count, 'partition')} and all records?", yes)
        began_s = time.monotonic()
        most_ms = int(1000 * min(options["timeout_s"] if options["wait"] else LONGEST_S, LONGEST_S))
        outcomes = _patiently(lambda left: talk.ask(admin.delete_topics, left, timeout_ms=most_ms), known)
        for name, outcome in outcomes.items():
            if outcome.ok:
                say(f"topic {name} was deleted")
            elif options["wait"] and is_going(outcome.message):
                note(outcome.message or "")  # in ZooKeeper mode, while a broker is down or the topic moves
        _all_well({n: o for n, o in outcomes.items() if not (options["wait"] and is_going(o.message))}, {})
        if options["wait"]:
            wait_until(
                lambda: _are_gone(talk, list(known)),
                options["timeout_s"],
                "no broker knows it any more",
                since_s=began_s,
            )
