"""``moldau config``: settings of topics, brokers, groups and of all brokers together: value, source, default, change.

Standard requests only; which keys there are is the cluster's to say. The counterpart of Kafka's kafka-configs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from moldau.admin.asking import Talk, refused
from moldau.admin.completing import brokers as complete_brokers
from moldau.admin.completing import groups as complete_groups
from moldau.admin.completing import topic_keys
from moldau.admin.completing import topics as complete_topics
from moldau.admin.each_broker import answering
from moldau.admin.lazy import Noun
from moldau.admin.main import fail
from moldau.admin.options import DRY_RUN, MISMATCH, OUTPUT, SERVERS, YES, F, confirm, pairs, refuse
from moldau.admin.output import note, printable, say, show

if TYPE_CHECKING:
    from moldau.client.admin import AlterOp, ConfigEntry, Resource

    Wanted = list[tuple[str, AlterOp, str | None]]
    """Key, what is to become of it, and the value where that takes one."""

WORDS = ("unknown", "topic", "broker", "all brokers", "file", "default", "logger", "client metrics", "group")
"""Where a value comes from, in the order of Kafka's numbers."""
HIDDEN = "(hidden)"


class Whose(TypedDict):
    """Whose settings are meant, as the options of ``OF`` say it."""

    topics: tuple[str, ...]
    brokers: tuple[int, ...]
    groups: tuple[str, ...]
    all_brokers: bool


class Lists(Whose):
    """Whose settings are meant, what is to be added to those that are lists, and what is to be taken from them."""

    append: tuple[str, ...]
    subtract: tuple[str, ...]


@click.group(cls=Noun)
def config() -> None:
    """Look at settings of topics, brokers and groups, and change them.

    \b
    moldau config describe --topic orders
    moldau config describe --broker 1 --all
    moldau config alter --topic orders --set retention.ms=3600000 --unset cleanup.policy --dry-run
    moldau config alter --all-brokers --set log.retention.ms=86400000 --yes
    """


def OF(command: F) -> F:
    """Options that name whose settings are meant."""
    all_brokers = click.option("--all-brokers", is_flag=True, help="What holds for every broker.")
    group = click.option("--group", "groups", multiple=True, metavar="ID", shell_complete=complete_groups)
    broker = click.option(
        "--broker", "brokers", multiple=True, type=click.IntRange(min=0), metavar="ID", shell_complete=complete_brokers
    )
    topic = click.option("--topic", "topics", multiple=True, metavar="NAME", shell_complete=complete_topics)
    return topic(broker(all_brokers(group(command))))


def _places(talk: Talk, options: Whose) -> list[Resource]:
    """Whose settings are meant, without brokers that do not answer, which a note names; ends the command when one is
    not there."""
    from moldau.client.admin import Resource, ResourceType

    topics = talk.existing(options["topics"]) if options["topics"] else {}
    alive = talk.cluster.brokers() if options["brokers"] else {}
    for broker in options["brokers"]:
        if broker not in alive:
            fail(f"there is no broker {broker} that serves, only {', '.join(map(str, sorted(alive)))}")
    brokers = list(dict.fromkeys(options["brokers"]))
    answer = answering(talk, brokers, "nobody else knows its settings") if brokers else []
    return [
        *(Resource(ResourceType.TOPIC, name) for name in topics),
        *(Resource(ResourceType.BROKER, str(id)) for id in brokers if id in answer),
        *(Resource(ResourceType.GROUP, name) for name in dict.fromkeys(options["groups"])),
        *([Resource(ResourceType.BROKER, "")] if options["all_brokers"] else []),
    ]


def _count(options: Whose) -> int:
    """How many are meant."""
    return len({*options["topics"]}) + len({*options["brokers"]}) + len({*options["groups"]}) + options["all_brokers"]


def _named(options: Whose) -> None:
    if not (options["topics"] or options["brokers"] or options["groups"] or options["all_brokers"]):
        refuse("whose settings? --topic NAME, --broker ID, --group ID or --all-brokers")


def _title(place: Resource) -> str:
    from moldau.client.admin import ResourceType

    if not place.name and place.type is ResourceType.BROKER:
        return "all brokers"
    return f"{place.type.name.lower()} {place.name}"


@config.command()
@OF
@click.argument("keys", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Values that nobody has set, too.")
@click.option("--doc", is_flag=True, help="What each key means, where the cluster says so.")
@SERVERS
@OUTPUT
def describe(
    keys: tuple[str, ...], bootstrap: str, output: str, everything: bool, doc: bool, **options: Unpack[Whose]
) -> None:
    """Show settings with their source and default; those that somebody has set, or KEYS.

    Sources: topic, broker (this one, set while it ran), all brokers, file (server.properties), default.
    """
    _named(options)
    with Talk(bootstrap) as talk:
        places = _places(talk, options)
        found = _described(talk, places, doc)
    if not found:
        raise SystemExit(1)
    rows = []
    for place, entries in found.items():
        for key in keys:
            if key not in entries:
                _no_such_key(key, entries, _title(place))
        for name, entry in sorted(entries.items()):
            if name in keys if keys else everything or WORDS[_source(entry)] != "default":
                rows.append(_row(place, entry))
    if not rows and output == "text":
        note("nothing is set; --all shows defaults")
    else:
        extra = ("documentation",) if doc else ()
        show(rows, output, ("of", "key", "value", "source", "default", *extra), ("read_only", "synonyms"))
    if len(places) < _count(options):
        raise SystemExit(MISMATCH)


def _described(talk: Talk, places: list[Resource], doc: bool = False) -> dict[Resource, dict[str, ConfigEntry]]:
    from moldau.client import admin

    answers = talk.ask(admin.describe_configs, places, documentation=doc)
    for place, (outcome, _) in answers.items():
        if not outcome.ok:
            refused(f"settings of {_title(place)}", outcome.code, outcome.message)
    return {place: answers[place][1] for place in places}


def _source(entry: ConfigEntry) -> int:
    return entry.source if 0 <= entry.source < len(WORDS) else 0


def _row(place: Resource, entry: ConfigEntry) -> dict[str, object]:
    default = next((value for _, value, source in entry.synonyms if WORDS[source] == "default"), None)
    return {
        "of": _title(place),
        "key": entry.name,
        "value": HIDDEN if entry.sensitive else entry.value,
        "source": WORDS[_source(entry)],
        "default": default if entry.synonyms else None,
        "read_only": entry.read_only,
        "synonyms": [f"{name}={HIDDEN if entry.sensitive else value}" for name, value, _ in entry.synonyms],
        **({"documentation": entry.documentation} if entry.documentation else {}),
    }


def _no_such_key(key: str, entries: Mapping[str, object], whose: str) -> None:
    from moldau.admin.advice import nearest

    fail(f"{whose} has no setting {key!r}. {nearest(key, entries) or '`moldau config describe --all` shows all.'}")


@config.command()
@OF
@click.option(
    "--set", "-c", "settings", metavar="KEY=VALUE", multiple=True, shell_complete=topic_keys, help="Repeat it."
)
@click.option("--unset", metavar="KEY", multiple=True, help="Back to what holds otherwise; repeat it.")
@click.option("--append", metavar="KEY=VALUE", multiple=True, help="Add to a list; repeat it.")
@click.option("--subtract", metavar="KEY=VALUE", multiple=True, help="Take from a list; repeat it.")
@DRY_RUN
@YES
@SERVERS
def alter(
    settings: tuple[str, ...],
    unset: tuple[str, ...],
    bootstrap: str,
    dry_run: bool,
    yes: bool,
    **options: Unpack[Lists],
) -> None:
    """Change settings, after showing what changes. What holds for brokers asks before (--yes does not).

    All that is asked for is tried first; when anything would be refused, nothing is changed.
    """
    from moldau.client.admin import AlterOp

    _named(options)
    wanted: Wanted = [
        (key, op, value)
        for texts, option, op in (
            (settings, "--set", AlterOp.SET),
            (options["append"], "--append", AlterOp.APPEND),
            (options["subtract"], "--subtract", AlterOp.SUBTRACT),
        )
        for key, value in pairs(texts, option).items()
    ]
    wanted += [(key, AlterOp.DELETE, None) for key in unset]
    if not wanted:
        refuse("what is to change? --set, --unset, --append or --subtract")
    keys = [key for key, _, _ in wanted]
    if twice := {key for key in keys if keys.count(key) > 1}:
        refuse(f"{sorted(twice)[0]} is to be changed in two ways")
    with Talk(bootstrap) as talk:
        places = _places(talk, options)
        if len(places) < _count(options):
            fail("nothing was changed")
        before = _described(talk, places)
        for place in places:
            _check_keys(before[place], wanted, place)
        _alter(talk, places, wanted, validate_only=True)
        for place in places:
            for line in changes(before[place], wanted):
                say(printable(f"{_title(place)}  {line}"))
        if dry_run:
            return
        if options["brokers"] or options["all_brokers"]:
            confirm("Change how brokers run?", yes)
        _alter(talk, places, wanted, validate_only=False)
    note("changed.")


def _check_keys(entries: Mapping[str, ConfigEntry], wanted: Wanted, place: Resource) -> None:
    """Ends the command at a key that the cluster does not have, before it is asked: brokers keep any they are given."""
    from moldau.admin.advice import nearest
    from moldau.client.admin import ResourceType

    if place.type is ResourceType.BROKER and not place.name:
        return  # only what is set is told
    for key, _, _ in wanted:
        if key not in entries and (near := nearest(key, entries)):
            fail(f"{_title(place)} has no setting {key!r}. {near}")


def _alter(talk: Talk, places: list[Resource], wanted: Wanted, *, validate_only: bool) -> None:
    from moldau.client import admin

    for place, outcome in talk.ask(
        admin.alter_configs, dict.fromkeys(places, wanted), validate_only=validate_only
    ).items():
        if not outcome.ok:
            refused(f"settings of {_title(place)}", outcome.code, outcome.message)


def changes(before: Mapping[str, ConfigEntry], wanted: Wanted) -> list[str]:
    """A line for each key: what it is and what it will be."""
    from moldau.client.admin import AlterOp

    lines = []
    for key, op, value in wanted:
        entry = before.get(key)
        was = "-" if entry is None or entry.value is None else entry.value
        if entry is not None and entry.sensitive:
            was = HIDDEN
        source = f" ({WORDS[_source(entry)]})" if entry is not None else ""
        items = [] if was in ("-", "") else was.split(",")
        match op:
            case AlterOp.SET:
                now = value
            case AlterOp.APPEND:
                now = ",".join([*items, *(one for one in (value or "").split(",") if one not in items)])
            case AlterOp.SUBTRACT:
                now = ",".join(one for one in items if one not in (value or "").split(","))
            case _:
                now = "what holds otherwise" + _otherwise(entry)
        same = "  (as it is)" if now == was and op is not AlterOp.DELETE else ""
        shown = HIDDEN if entry is not None and entry.sensitive and op is not AlterOp.DELETE else now
        lines.append(f"{key}: {was}{source} -> {shown}{same}")
    return lines


def _otherwise(entry: ConfigEntry | None) -> str:
    """The value that a key has once the first setting of it is gone, as far as it was told."""
    if entry is None or len(entry.synonyms) < 2 or entry.sensitive:
        return ""
    return f": {entry.synonyms[1][1]}"
