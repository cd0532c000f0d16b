"""``moldau record``: single records by offset or time, with all there is to them; deletes records before an offset."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from moldau.admin.asking import Talk, refused
from moldau.admin.completing import topics as complete_topics
from moldau.admin.lazy import Noun
from moldau.admin.main import fail
from moldau.admin.options import DRY_RUN, INSTANT, OUTPUT, SERVERS, YES, confirm, refuse
from moldau.admin.output import note, say, show
from moldau.admin.progress import ProgressBar
from moldau.admin.record_text import FORMATS, formatter, readable
from moldau.admin.starting import PLACE, StartingPoint, offsets
from moldau.model.counted import counted

if TYPE_CHECKING:
    from collections.abc import Collection

    from moldau.model import TopicPartition
    from moldau.wire.batch import BatchHeader, Record

AT_ONCE = 500
"""Partitions of which one request may delete records: it is answered when all their replicas have done so."""


@click.group(cls=Noun)
def record() -> None:
    """Look at single records; delete the records before an offset.

    \b
    moldau record get orders-0 --offset 5
    moldau record get orders-0 --at 2026-11-22T10:00:00 --count 3 -o hex
    moldau record delete orders:0 --before 5 --dry-run
    """


@record.command()
@click.argument("partition", metavar="TOPIC-PARTITION", shell_complete=complete_topics)
@click.option("--offset", metavar="OFFSET[:OFFSET]", help="Of a record, or of the first and the last one.")
@click.option("--at", type=INSTANT, help="The first record that is not older.")
@click.option("--count", type=click.IntRange(min=1), help="How many (1).")
@click.option("-o", "--output", type=click.Choice(FORMATS), default="text", show_default=True, help="How to print.")
@SERVERS
def get(partition: str, bootstrap: str, offset: str | None, at: int | None, count: int | None, output: str) -> None:
    """Show records of a partition with times, headers and the batches that they came in.

    Exit 1 when there is none: records may be deleted, compacted away, or not be written yet.
    """
    if (offset is None) == (at is None):
        refuse("which? Either --offset or --at")
    first, last = _span(offset or "0", count)
    with Talk(bootstrap) as talk:
        place = _partition(talk, partition)
        start, end = _bounds(talk, place)
        if at is not None:
            found = offsets(talk, [place], StartingPoint("time", at))[place]
            first, last = found, None
        elif first >= end or (last is not None and last < start):
            what = "is deleted" if first < start else "is not written yet"
            fail(f"{place} has offsets {start} to {end - 1}: {first} {what}" if end > start else f"{place} is empty")
        span = max(first, start), end if last is None else min(last + 1, end)
        shown = _print(talk, place, span, count, output)
    if not shown and at is not None and first >= end:
        fail(f"{place} has no record of that time or a later one")
    if not shown:
        fail(f"{place} has no record there: compacted away, or what marks the end of a transaction")


def _span(text: str, count: int | None) -> tuple[int, int | None]:
    first, colon, last = text.partition(":")
    if not first.isdecimal() or (colon and not last.isdecimal()) or len(text) > 40:
        refuse(f"--offset {text}: OFFSET or OFFSET:OFFSET is expected")
    if colon and (count is not None or int(last) < int(first)):
        refuse(f"--offset {text}: the last one is not before the first, and --count is left out")
    return int(first), int(last) if colon else (int(first) if count is None else None)


def _partition(talk: Talk, text: str) -> TopicPartition:
    """``orders-0`` (or ``orders:0``); ends the command when it is not there."""
    topic, _, number = text.rpartition(":" if ":" in text else "-")
    if not topic or not number.isdecimal():
        refuse(f"{text!r} is no partition; orders-0 is one")
    return talk.partitions(f"{topic}:{number}")[0]


def _bounds(talk: Talk, place: TopicPartition) -> tuple[int, int]:
    from moldau.client.group_lags import bounds

    starts, ends = talk.ask(bounds, [place])
    if place not in starts or place not in ends:
        fail(f"no leader of {place} answers: `moldau topic describe {place.topic}`")
    return starts[place], ends[place]


def _print(talk: Talk, place: TopicPartition, span: tuple[int, int], count: int | None, output: str) -> int:
    """How many records of the offsets from the first to before the end were there to print."""
    from moldau.client.reading import visible
    from moldau.model import Code
    from moldau.wire.batch import headers

    first, end = span
    show_one = formatter(output, ())
    shown, most = 0, count or (1 if end - first == 1 else sys.maxsize)
    for fetched in talk.cluster.fetch_range(place, first, end):
        if fetched.code is not Code.NONE:
            refused(f"{place} at offset {first}", fetched.code)
        heads = [head for _, head in headers(fetched.records)]
        for one in readable(place, visible(fetched, first, end)):
            if output == "text":
                head = next(head for head in heads if head.base_offset <= one.offset <= head.last_offset)
                say(("\n" if shown else "") + _text(place, one, head))
            else:
                sys.stdout.buffer.write(show_one(place, one))
            shown += 1
            if shown == most:
                sys.stdout.flush()
                return shown
    sys.stdout.flush()
    return shown


def _text(place: TopicPartition, one: Record, head: BatchHeader) -> str:
    from moldau.admin.record_text import shown, time_text
    from moldau.wire.compression import Codec

    kind = "when it was appended" if head.is_log_append_time else "as its producer says"
    producer = f", producer {head.producer_id} epoch {head.producer_epoch}" if head.producer_id >= 0 else ""
    transaction = ", in a transaction" if head.is_transactional else ""
    codec = Codec(head.codec).name.lower() if head.codec in set(Codec) else str(head.codec)
    lines = [
        f"{place} offset {one.offset}",
        f"time     {time_text(one.timestamp)} ({kind})",
        f"batch    offsets {head.base_offset} to {head.last_offset}, leader epoch {head.leader_epoch}, "
        f"{head.size} bytes, compression {codec}{producer}{transaction}",
        f"key      {_sized(one.key, shown(one.key))}",
        f"value    {_sized(one.value, shown(one.value))}",
        *(f"header   {shown(key.encode())} = {shown(value)}" for key, value in one.headers),
    ]
    return "\n".join(lines)


def _sized(data: bytes | None, text: str) -> str:
    return text if data is None else f"{text}  ({counted(len(data), 'byte')})"


def _refuse_compacted(talk: Talk, topics: Collection[str]) -> None:
    """Brokers delete no records by offset where retention deletes none."""
    from moldau.client import admin
    from moldau.client.admin import Resource, ResourceType

    places = [Resource(ResourceType.TOPIC, name) for name in sorted(topics)]
    answers = talk.ask(admin.describe_configs, places, keys=["cleanup.policy"], synonyms=False)
    for place, (_, entries) in answers.items():
        policy = entries["cleanup.policy"].value if "cleanup.policy" in entries else "delete"
        if "delete" not in (policy or "").split(","):
            fail(f"records of {place.name} are not deleted by offset: its cleanup.policy is {policy or 'empty'}")


@record.command()
@click.argument("places", nargs=-1, required=True, metavar="TOPIC[:0,3-5]...", shell_complete=complete_topics)
@click.option("--before", "place", type=PLACE, required=True, help="An offset, a time, or latest: all there are.")
@DRY_RUN
@YES
@SERVERS
@OUTPUT
def delete(
    places: tuple[str, ...], bootstrap: str, place: StartingPoint, dry_run: bool, yes: bool, output: str
) -> None:
    """Delete all records before a place, of all replicas; there is no way back.

    \b
    moldau record delete orders --before -7d --dry-run
    moldau record delete orders:0 --before latest --yes
    """
    from moldau.client import admin
    from moldau.client.group_lags import bounds
    from moldau.model import Code

    with Talk(bootstrap) as talk:
        asked = sorted({one for text in places for one in talk.partitions(text)})
        before = offsets(talk, asked, place, destroys=True)
        starts, _ = talk.ask(bounds, asked)
        if silent := [one for one in asked if one not in starts]:
            fail(f"no leader of {silent[0]} answers: `moldau topic describe {silent[0].topic}`")
        _refuse_compacted(talk, {one.topic for one in asked})
        doomed = {one: offset for one, offset in before.items() if offset > starts.get(one, offset)}
        rows = [
            {
                "partition": str(one),
                "first_offset": starts[one],
                "before": before[one],
                "records": before[one] - starts[one],
            }
            for one in asked
        ]
        show(rows, output, ("partition", "first_offset", "before", "records"))
        total = sum(offset - starts[one] for one, offset in doomed.items())
        if dry_run or not doomed:
            note(f"{counted(total, 'offset')} would be deleted." if doomed else "there is nothing to delete.")
            return
        confirm(f"Delete {counted(total, 'offset')} of {counted(len(doomed), 'partition')}?", yes)
        answers: dict[TopicPartition, tuple[Code, int]] = {}
        todo = sorted(doomed)
        with ProgressBar("partitions", len(todo)) as progress:
            for first in range(0, len(todo), AT_ONCE):
                progress.at(first)
                answers |= talk.ask(admin.delete_records, {one: doomed[one] for one in todo[first : first + AT_ONCE]})
    bad = {one: code for one, (code, _) in answers.items() if code is not Code.NONE}
    if bad:
        one, code = next(iter(sorted(bad.items())))
        kept = counted(len(answers), "partition kept its", "partitions kept their")
        refused(f"{len(bad)} of {kept} records, {one} the first", code)
    note(f"{counted(total, 'offset was', 'offsets were')} deleted.")
