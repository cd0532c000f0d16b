"""``moldau log``: state-change logs of many nodes as one, the history of a partition, and why it is as it is.

Reads files, of Moldau's nodes or of Apache Kafka's of any release; no cluster need run. Exit 0 done, 1 nothing found or
not readable, 2 usage.
"""

from __future__ import annotations

import heapq
import itertools
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path

import click

from moldau.admin.asking import OUTPUT, note, show
from moldau.admin.main import fail
from moldau.admin.options import instant_ms
from moldau.admin.output import printable, say
from moldau.clusterdata.state_changes.eras import Event, parse
from moldau.clusterdata.state_changes.history import IN_ASCII, PartitionChange, bar, changes
from moldau.clusterdata.state_changes.lines import time_of
from moldau.clusterdata.state_changes.merging import logs, merge, one_after_the_other, wanted
from moldau.clusterdata.state_changes.skew import milliseconds, skews
from moldau.clusterdata.state_changes.sources import EARLIEST, LogSource, first_time
from moldau.clusterdata.state_changes.twins import completed, is_twin, logs_and_twins, timed, told
from moldau.model import TopicPartition
from moldau.model.counted import counted

LOGS = click.option(
    "-l",
    "--logs",
    "paths",
    multiple=True,
    default=("moldau-data",),
    show_default="./moldau-data",
    help="A state-change log, or a folder of such; repeat it.",
)
TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d([.,]\d{1,3})?)?$")


class Time(click.ParamType[bytes]):
    """A time as logs have it, seconds or their parts may be left out; or one that other commands take, -10m or one that
    names a zone, which is meant on the clock of the place where this runs."""

    name = "TIME"

    def convert(self, value: str | bytes, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        """The 23 bytes that logs have."""
        if isinstance(value, bytes):
            return value
        try:
            ms = instant_ms(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if TIME.match(value) is None:
            if (at := time_of({"time_ms": ms})) is None:
                self.fail(f"{value!r} is in no year that a log could name", param, ctx)
            return at.encode()
        text = value.replace("T", " ").replace(".", ",")
        text += ":00" if text.count(":") == 1 else ""
        seconds, _, parts = text.partition(",")
        return f"{seconds},{parts:0<3}".encode()


class PartitionArgument(click.ParamType[TopicPartition]):
    """``orders-0``."""

    name = "PARTITION"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> TopicPartition:
        """Topic and number."""
        topic, _, number = str(value).rpartition("-")
        if not topic or not number.isdecimal():
            self.fail(f"{value!r} is no partition; orders-0 is one", param, ctx)
        return TopicPartition(topic, int(number))


@click.group()
def log() -> None:
    """Merge state-change logs; tell who led a partition when, and why.

    \b
    moldau log merge node-1/logs node-2/logs node-3/logs --topic orders
    moldau log timeline orders-0 --logs moldau-data
    moldau log why orders-0 --at '2026-11-22 10:00:00' --logs moldau-data
    moldau log skew --logs moldau-data
    """


@log.command("merge")
@click.argument("paths", nargs=-1, required=True)
@click.option("--topic", help="Only lines about this topic.")
@click.option("--partition", "numbers", type=click.IntRange(min=0), multiple=True, help="Of it only this; repeat it.")
@click.option("--start-time", "start", type=Time(), help="Nothing earlier; -10m is ten minutes ago.")
@click.option("--end-time", "end", type=Time(), help="Nothing later.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def merge_command(
    paths: tuple[str, ...],
    topic: str | None,
    numbers: tuple[int, ...],
    start: bytes | None,
    end: bytes | None,
    output: str,
) -> None:
    """Write all lines of state-change logs, ordered by time, stack traces with their lines.

    PATHS are files, rolled and gzipped ones too, or folders, in which they are looked for.
    """
    if numbers and topic is None:
        fail("--partition needs --topic", 2)
    keep = wanted(topic, numbers, start, end)
    found = _logs(paths)
    for path in itertools.chain.from_iterable(found):
        if first_time(path) == EARLIEST and Path(path).stat().st_size:
            note(f"{path}: no line near its beginning has a time; is it a state-change log? Such lines come first")
    damaged = _Damaged()
    several = [one for files in found for one in one_after_the_other(files)]
    for entries in merge([LogSource(files, keep, damaged=damaged) for files in several]):
        if output == "text":
            sys.stdout.buffer.write(b"\n".join(entries) + b"\n")
        else:
            _write_json(entries)
    sys.stdout.buffer.flush()
    damaged.end()


class _Damaged:
    """Tells of each file that cannot be unpacked to its end, once, and ends the command with 1 when all is printed."""

    def __init__(self) -> None:
        self._told: set[object] = set()

    def __call__(self, error: OSError) -> None:
        if error.filename not in self._told:
            self._told.add(error.filename)
            sys.stdout.flush()
            note(f"moldau: {error.filename}: {error.strerror}")

    def end(self) -> None:
        """After all that could be read."""
        if self._told:
            raise SystemExit(1)


def _write_json(entries: list[bytes]) -> None:
    import json

    for entry in entries:
        event = parse(entry)
        fields = {"text": entry.decode("utf-8", "replace")} if event is None else event._asdict()
        line = json.dumps({name: value for name, value in fields.items() if value not in (None, "", ())})
        sys.stdout.buffer.write(line.encode() + b"\n")


@log.command()
@click.argument("partition", type=PartitionArgument())
@LOGS
@OUTPUT
def timeline(partition: TopicPartition, paths: tuple[str, ...], output: str) -> None:
    """Tell who led PARTITION (orders-0) when, why it changed, and who was in sync.

    ISR: one mark for each replica, in the order of the assignment: leading, in sync, or not in sync. Topics of one
    name, made one after the other, are told apart by TOPIC-ID.
    """
    damaged = _Damaged()
    files = _logs(paths, logs_and_twins)
    found = _history(partition, files, damaged)
    if output != "json":
        for line in _heads(partition, found):
            note(line)
    columns = ["time", "epoch", "leader", "isr", "in_sync", "controller", "why"]
    show(_rows(found, found), output, columns + ["topic_id"] * _are_several(found))
    for skew in skews(_all_events(files, damaged)):
        if skew.is_proved:
            note(f"the clock of node {skew.broker} is {skew.verdict}, against that of controller {skew.controller}")
    damaged.end()


def _heads(partition: TopicPartition, found: list[PartitionChange]) -> list[str]:
    """The replicas; of each topic where several had the name."""
    firsts = {change.topic: change for change in reversed(found)}
    replicas = _replicas(found)
    ids = [",".join(map(str, replicas[one])) or "unknown" for one in sorted(firsts)]
    if len(ids) == 1:
        return [f"{partition}: replicas {ids[0]}"]
    told = [(firsts[at], one) for at, one in enumerate(ids)]
    return [f"{partition} from {of.time} on, topic id {of.topic_id or 'unknown'}: replicas {one}" for of, one in told]


def _are_several(found: list[PartitionChange]) -> bool:
    """Whether topics of one name were made one after the other."""
    return len({change.topic for change in found}) > 1


def _rows(some: Iterable[PartitionChange], found: list[PartitionChange]) -> list[dict[str, object]]:
    """A row for some of the changes that were found."""
    several, replicas = _are_several(found), _replicas(found)
    rows = []
    for change in some:
        by = None if change.controller is None else f"{change.controller} (epoch {change.controller_epoch})"
        row: dict[str, object] = {
            "time": change.time,
            "epoch": change.leader_epoch,
            "leader": "none" if change.leader < 0 else change.leader,
            "isr": _fitting(bar(change.isr, change.leader, replicas[change.topic])),
            "in_sync": None if change.isr is None else list(change.isr),
            "controller": by,
            "why": change.why,
        }
        rows.append(row | {"topic_id": change.topic_id} if several else row)
    return rows


def _fitting(marks: str) -> str:
    """The marks, or other ones where the terminal's encoding has not got them."""
    try:
        marks.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        return marks.translate(IN_ASCII)
    return marks


@log.command()
@click.argument("partition", type=PartitionArgument())
@click.option("--at", "at", type=Time(), help="When, as logs have it, or -10m; now if it is left out.")
@LOGS
@OUTPUT
def why(partition: TopicPartition, at: bytes | None, paths: tuple[str, ...], output: str) -> None:
    """Tell who led PARTITION at a time, since when, and why; and what became of it next."""
    damaged = _Damaged()
    found = _history(partition, _logs(paths, logs_and_twins), damaged)
    _tell_why(partition, found, at, output)
    damaged.end()


def _tell_why(partition: TopicPartition, found: list[PartitionChange], at: bytes | None, output: str) -> None:
    until = "9999" if at is None else at.decode()
    before = [change for change in found if change.time <= until]
    if not before:
        fail(f"{partition} is first told of at {found[0].time}")
    now, following = before[-1], found[len(before) :]
    if output != "text":
        show(_rows((now, *following[:1]), found), output, ["time", "epoch", "leader", "why"])
        return
    if now.is_deletion:
        say(f"{partition}: there was no such partition, its topic was deleted")
    else:
        leads = "nobody led" if now.leader < 0 else f"broker {now.leader} led"
        isr = "" if now.isr is None else f", in sync {','.join(map(str, now.isr)) or 'nobody'}"
        say(f"{partition}: {leads} in leader epoch {now.leader_epoch}{isr}")
    say(f"  since {now.time}: {printable(now.why)}")
    if now.controller is not None:
        say(f"  decided by controller {now.controller} of epoch {now.controller_epoch}")
    for node, time in now.seen:
        say(f"  {time}  told by node {node}")
    if following:
        say(f"  until {following[0].time}: {printable(following[0].why)}")


@log.command()
@LOGS
@OUTPUT
def skew(paths: tuple[str, ...], output: str) -> None:
    """Tell how far the clocks of brokers are from those of controllers, as far as their logs tell."""
    damaged = _Damaged()
    unread: list[Event] = []
    rows = [
        {
            "node": one.broker,
            "controller": one.controller,
            "ahead_ms_least": one.low_ms,
            "ahead_ms_most": one.high_ms,
            "pairs": one.pairs,
            "verdict": one.verdict,
        }
        for one in skews(_all_events(_logs(paths, logs_and_twins), damaged), unread.append)
    ]
    show(rows, output, ["node", "controller", "ahead_ms_least", "ahead_ms_most", "pairs", "verdict"])
    _note_no_dates(unread, "left out")
    if not rows:
        note(
            "nothing to compare: that takes a controller's line of a decision (Changed partition ... to OnlinePartition"
            " with state ...; Kafka's KRaft controllers write none) and the line of a broker on another node that leads"
            " or follows under the same leader epoch and partition epoch; topics made more than once do not count"
        )
    damaged.end()


# ---- reading


def _logs(paths: tuple[str, ...], find: Callable[[tuple[str, ...]], list[list[str]]] = logs) -> list[list[str]]:
    try:
        return find(paths)
    except FileNotFoundError as error:
        fail(f"{error.filename}: {error.strerror}; name state-change logs, or folders of such")
        raise AssertionError from None


def _events(files: list[list[str]], topic: str | None, damaged: _Damaged) -> Iterator[Event]:
    texts = [[path for path in one if not is_twin(path)] for one in files]
    sources = [LogSource(one, wanted(topic), damaged=damaged) for one in texts if one]
    for entry in itertools.chain.from_iterable(merge(sources)):
        event = parse(entry)
        if event is not None:
            yield event


def _all_events(files: list[list[str]], damaged: _Damaged) -> Iterator[Event]:
    """The entries of all logs, also of those of which there are JSON lines alone; those without a time are left out."""
    alone = [timed(told(one, (), damaged)) for one in files if all(map(is_twin, one))]
    return heapq.merge(_events(files, None, damaged), *alone, key=attrgetter("time"))


def _note_no_dates(entries: Sequence[Event], what: str) -> None:
    if entries:
        count = counted(len(entries), "entry has", "entries have")
        note(f"{count} a time that is no date, as {entries[0].time}: {what}")


def _history(partition: TopicPartition, files: list[list[str]], damaged: _Damaged) -> list[PartitionChange]:
    of = partition.topic, partition.partition
    lines = [event for event in _events(files, partition.topic, damaged) if of in event.partitions]
    twins = [event for one in files for event in told(one, [partition.topic], damaged) if of in event.partitions]
    found = changes(completed(lines, twins), partition)
    if not found:
        fail(f"no log tells of {partition}")
    no_dates = [event for event in lines if milliseconds(event.time) is None]
    _note_no_dates(no_dates, "taken in by its text, where no epoch says what came first")
    return found


def _replicas(found: list[PartitionChange]) -> dict[int, tuple[int, ...]]:
    """The replicas of each topic's partition: those that are assigned first, then those that led or were in
    sync."""
    named: dict[int, tuple[int, ...]] = {}
    ids: dict[int, set[int]] = {}
    for change in found:
        named[change.topic] = change.replicas or named.get(change.topic, ())
        ids.setdefault(change.topic, set()).update(id for id in (*(change.isr or ()), change.leader) if id >= 0)
    return {topic: (*some, *sorted(ids[topic] - set(some))) for topic, some in named.items()}
