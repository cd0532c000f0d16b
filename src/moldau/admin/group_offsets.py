"""``moldau group reset|offsets``: where groups go on reading, set by place or time, saved to files and read from them.

What would change is shown before it is; nothing is written while the group has members, because they would go on where
they are and overwrite it. Sources: KIP-122 (what Kafka's tool can do), KIP-496.
"""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from moldau.admin.asking import Talk, refused
from moldau.admin.completing import groups as complete_groups
from moldau.admin.completing import topics as complete_topics
from moldau.admin.group import INACTIVE, busy, described, existing
from moldau.admin.main import fail
from moldau.admin.options import DRY_RUN, OUTPUT, SERVERS, YES, confirm, duration_ms, instant_ms, refuse
from moldau.admin.output import Row, note, show
from moldau.model.counted import counted
from moldau.model.named import NamedTuple

if TYPE_CHECKING:
    from moldau.client.groups import Committed
    from moldau.model import TopicPartition

ROWS_MAX = 1_000_000


class ResetOptions(TypedDict):
    """Which offsets are to be set, and to what; one of the last five is given."""

    topics: tuple[str, ...]
    all_topics: bool
    to: str | None
    shift_by: int | None
    by_duration: str | None
    to_datetime: str | None
    from_file: str | None


class Reset(NamedTuple):
    """A partition's committed offset as it is and as it shall be; ``note`` says what was done to the wish."""

    partition: TopicPartition
    before: int | None
    after: int
    start: int
    end: int
    note: str = ""


@click.command()
@click.argument("id", metavar="GROUP", shell_complete=complete_groups)
@click.option(
    "--topic", "topics", multiple=True, metavar="TOPIC[:0,3-5]", shell_complete=complete_topics, help="Repeat it."
)
@click.option("--all-topics", is_flag=True, help="All that the group has committed.")
@click.option("--to", metavar="PLACE", help="earliest, latest, current, or an offset.")
@click.option("--shift-by", type=int, metavar="N", help="N records on; back when it is negative.")
@click.option("--by-duration", metavar="DURATION", help="To what was written so long ago: 90m, PT1H30M.")
@click.option(
    "--to-datetime", metavar="TIME", help="To what was written then: 2026-11-22T10:00:00, local without a zone."
)
@click.option("--from-file", metavar="FILE", help="To what `group offsets -o json|tsv` or Kafka's tool (CSV) wrote.")
@DRY_RUN
@YES
@SERVERS
@OUTPUT
def reset(id: str, bootstrap: str, output: str, dry_run: bool, yes: bool, **options: Unpack[ResetOptions]) -> None:
    """Set where GROUP goes on reading, in the partitions of --topic, of --all-topics, or of a file.

    Shows offsets before and after, then asks. Offsets that a partition does not have become its nearest.

    \b
    moldau group reset billing --topic orders --to earliest --dry-run
    moldau group reset billing --topic orders:0 --to 12 --yes
    moldau group reset billing --all-topics --by-duration 1h30m --yes
    moldau group reset billing --from-file billing.json --yes
    """
    given = [
        name for name in ("to", "shift_by", "by_duration", "to_datetime", "from_file") if options[name] is not None
    ]
    if len(given) != 1:
        refuse("to where? One of --to, --shift-by, --by-duration, --to-datetime, --from-file")
    if (path := options["from_file"]) is not None:
        if options["topics"] or options["all_topics"]:
            refuse("--from-file names the partitions itself: leave --topic and --all-topics out")
    elif bool(options["topics"]) == options["all_topics"]:
        refuse("of which partitions? Either --topic (repeat it) or --all-topics")
    moment = _moment(options)
    listed = {} if path is None else read_offsets(path)
    with Talk(bootstrap) as talk:
        found = existing(talk, id) if options["all_topics"] else described(talk, id)
        if found.state not in INACTIVE:
            busy(found)
        before = _committed(talk, id)
        asked: Collection[TopicPartition] = listed or _asked(talk, id, options, before)
        plan = _plan(talk, asked, before, moment, listed)
        rows = [_row(one) for one in plan]
        show(rows, output, ("topic", "partition", "before", "after", "change", "note"), ("start", "end"))
        changed = [one for one in plan if one.before != one.after]
        if dry_run or not changed:
            of = counted(len(plan), "offset")
            note(f"{len(changed)} of {of} would change." if changed else "nothing would change.")
            return
        confirm(f"Set {counted(len(changed), 'offset')} of group {id}?", yes)
        _commit(talk, id, changed)
    note(f"{counted(len(changed), 'offset')} of group {id} {'was' if len(changed) == 1 else 'were'} set.")


Moment = tuple[str, int]
"""What was asked for: one of earliest, latest, current, offset, shift, time, file; and its number."""


def _moment(options: ResetOptions) -> Moment:
    if options["from_file"] is not None:
        return "file", 0
    if options["shift_by"] is not None:
        return "shift", options["shift_by"]
    if options["by_duration"] is not None:
        ago_ms = _read(duration_ms, options["by_duration"].removeprefix("-"), "by-duration")
        return "time", int(time.time() * 1000) - ago_ms
    if options["to_datetime"] is not None:
        return "time", _read(instant_ms, options["to_datetime"], "to-datetime")
    text = options["to"]
    assert text is not None, options
    if text in ("earliest", "latest", "current"):
        return text, 0
    if not text.isdecimal() or len(text) > 18:
        refuse(f"--to {text}: earliest, latest, current or an offset is expected")
    return "offset", int(text)


def _read(read: Callable[[str], int], text: str, option: str) -> int:
    try:
        return read(text)
    except ValueError as error:
        refuse(f"--{option}: {error}")


def _asked(
    talk: Talk, id: str, options: ResetOptions, before: Collection[TopicPartition]
) -> Collection[TopicPartition]:
    if options["topics"]:
        return sorted({one for text in options["topics"] for one in talk.partitions(text)})
    if not before:
        fail(f"group {id} has committed nothing: name topics with --topic")
    return sorted(before)


def _committed(talk: Talk, id: str) -> dict[TopicPartition, Committed]:
    from moldau.client.group_lags import committed

    return talk.ask(committed, id)


def _plan(
    talk: Talk,
    asked: Collection[TopicPartition],
    before: dict[TopicPartition, Committed],
    moment: Moment,
    listed: dict[TopicPartition, int],
) -> list[Reset]:
    """What becomes of each partition; ends the command when one cannot be told."""
    from moldau.client.group_lags import bounds, offsets_since

    starts, ends = talk.ask(bounds, asked)
    kind, number = moment
    told = talk.ask(offsets_since, number, starts, ends) if kind == "time" and ends.keys() == starts.keys() else ends
    if missing := [one for one in asked if one not in told]:
        fail(f"offsets of {missing[0]} cannot be told: it is not there, or no leader answers (`moldau topic describe`)")
    plan = []
    for one in sorted(asked):
        had = before[one].offset if one in before else None
        start, end = starts[one], ends[one]
        if kind in ("current", "shift") and had is None and kind == "shift":
            fail(f"{one} has no committed offset to shift: --to earliest or latest sets one")
        wanted = {
            "earliest": start,
            "latest": end,
            "offset": number,
            "current": end if had is None else had,
            "shift": (had or 0) + number,
            "time": told[one],
            "file": listed.get(one, 0),
        }[kind]
        after = min(max(wanted, start), end)
        plan.append(Reset(one, had, after, start, end, f"{wanted} is not there" if wanted != after else ""))
    return plan


def _row(one: Reset) -> Row:
    return {
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "before": one.before,
        "after": one.after,
        "change": None if one.before is None else one.after - one.before,
        "start": one.start,
        "end": one.end,
        "note": one.note,
    }


def _commit(talk: Talk, id: str, changed: Iterable[Reset]) -> None:
    from moldau.client import groups
    from moldau.client.groups import Committed
    from moldau.model import Code

    offsets = {one.partition: Committed(one.after) for one in changed}
    codes = talk.ask(groups.commit, id, offsets)
    bad = [(one, code) for one, code in codes.items() if code is not Code.NONE]
    if bad:
        refused(f"{len(bad)} of {counted(len(codes), 'offset')} of group {id}, the first of {bad[0][0]}", bad[0][1])


@click.command()
@click.argument("id", metavar="GROUP", shell_complete=complete_groups)
@click.option(
    "--topic", "topics", multiple=True, metavar="TOPIC[:0,3-5]", shell_complete=complete_topics, help="Only these."
)
@click.option("--delete", "forget", is_flag=True, help="Have the group forget what it committed for --topic.")
@DRY_RUN
@YES
@SERVERS
@OUTPUT
def offsets(
    id: str, bootstrap: str, output: str, topics: tuple[str, ...], forget: bool, dry_run: bool, yes: bool
) -> None:
    """Show what GROUP committed, in a form that `group reset --from-file` reads back; or have it forget that.

    \b
    moldau group offsets billing -o json > billing.json
    moldau group offsets billing --topic orders:5 --delete --yes
    """
    from moldau.admin.options import partitions_of

    if forget and not topics:
        refuse("--delete needs --topic: `moldau group delete` deletes all of a group")
    wanted = [partitions_of(text) for text in topics]
    with Talk(bootstrap) as talk:
        existing(talk, id)
        found = {
            one: position
            for one, position in sorted(_committed(talk, id).items())
            if not wanted
            or any(one.topic == name and (numbers is None or one.partition in numbers) for name, numbers in wanted)
        }
        rows = [
            {
                "topic": p.topic,
                "partition": p.partition,
                "offset": c.offset,
                "leader_epoch": c.leader_epoch,
                "metadata": c.metadata,
            }
            for p, c in found.items()
        ]
        show(rows, output, ("topic", "partition", "offset"), ("leader_epoch", "metadata"))
        if not forget or dry_run or not found:
            if forget:
                note(f"{counted(len(found), 'offset')} would be forgotten.")
            return
        confirm(f"Have group {id} forget {counted(len(found), 'offset')}?", yes)
        _forget(talk, id, found)
    note(f"{counted(len(found), 'offset was', 'offsets were')} forgotten.")


def _forget(talk: Talk, id: str, found: Collection[TopicPartition]) -> None:
    from moldau.client import groups
    from moldau.model import Code

    code, codes = talk.ask(groups.delete_offsets, id, found)
    if code is not Code.NONE:
        refused(f"group {id}", code)
    for one, refusal in codes.items():
        if refusal is not Code.NONE:
            refused(f"offset of {one} in group {id}", refusal)


# ---- files


def read_offsets(path: str) -> dict[TopicPartition, int]:
    """Offsets by partition out of a file: JSON or tabs as `group offsets` writes them, or CSV as Kafka's tool does."""
    from moldau.model import TopicPartition

    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        refuse(f"--from-file {path}: {getattr(error, 'strerror', None) or 'no text file'}")
    if text.lstrip().startswith(("- ", "---")):
        refuse(f"--from-file {path} is YAML, which is not read here: write it with `group offsets -o json` or `-o tsv`")
    found: dict[TopicPartition, int] = {}
    for number, (topic, partition, offset) in enumerate(_rows(path, text), 1):
        if not (topic and partition.isdecimal() and offset.isdecimal() and len(offset) < 19 and len(partition) < 10):
            refuse(f"--from-file {path}: entry {number} is no topic, partition, offset: {topic},{partition},{offset}")
        if found.setdefault(TopicPartition(topic, int(partition)), int(offset)) != int(offset):
            refuse(f"--from-file {path}: entry {number} gives {topic}-{partition} another offset than an earlier one")
    if not found:
        refuse(f"--from-file {path}: there are no offsets in it")
    return found


def _objects(path: str, text: str) -> list[dict[str, object]]:
    """Objects with a topic, a partition and an offset, out of JSON."""
    try:
        entries = json.loads(text)
    except ValueError as error:
        refuse(f"--from-file {path} is no JSON: {error}")
    except RecursionError:
        refuse(f"--from-file {path} is nested too deeply")
    if not isinstance(entries, list):
        refuse(f"--from-file {path}: a list of objects with topic, partition and offset is expected")
    for number, one in enumerate(entries, 1):
        lacking = [key for key in ("topic", "partition", "offset") if not isinstance(one, dict) or key not in one]
        if lacking:
            refuse(f"--from-file {path}: entry {number} has no {', '.join(lacking)}")
    return entries


def _rows(path: str, text: str) -> list[tuple[str, str, str]]:
    if text.lstrip()[:1] in ("[", "{"):
        return [(str(one["topic"]), str(one["partition"]), str(one["offset"])) for one in _objects(path, text)]
    lines = [line for line in text.splitlines() if line.strip()]
    tabbed = bool(lines) and "\t" in lines[0]
    rows = [line.split("\t")[:3] for line in lines] if tabbed else [row[-3:] for row in csv.reader(lines)]
    heads = ("topic", "partition", "offset")
    rows = [row for at, row in enumerate(rows) if at or tuple(word.strip().lower() for word in row) != heads]
    return [
        (row[0].strip(), row[1].strip(), row[2].strip()) if len(row) == 3 else ("", ",".join(row), "") for row in rows
    ]
