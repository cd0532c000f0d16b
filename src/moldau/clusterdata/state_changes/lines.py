"""State-change logs line by line: every line is a row, and one that is no entry says why.

A range of a file holds the lines that begin in it, so that ranges that meet share no line and lose none. Packed files
and Moldau's JSON lines are read as well. Read next: ``arrow`` (the same as columns, many lines at once).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from glob import glob

from moldau.clusterdata.columns import Column
from moldau.clusterdata.state_changes.eras import Event, fits, is_entry, parse
from moldau.clusterdata.state_changes.sources import opened
from moldau.model.named import NamedTuple

BLOCK_BYTES = 1 << 18
CONTINUES = "no time in it: it belongs to the line before"
CUT_JSON = "JSON that does not parse"
TOO_LARGE = "a number in it is larger than any of a cluster's"
NAMES = ("state-change.log*", "stage-change.log*", "state-change.jsonl*")

COLUMNS = (
    Column("file", "string", "The file's path."),
    Column("position", "bigint", "The byte at which the line begins (of a packed file: after it is unpacked)."),
    Column("line", "string", "The line as it stands there; bytes that are no UTF-8 as \\xNN."),
    Column("reason", "string", "Why the columns below are empty; null where the line was understood."),
    Column("time", "string", "2024-01-31 12:00:00,123, in the zone of the node that wrote it."),
    Column("level", "string", "INFO, TRACE, ...; null in JSON lines."),
    Column("role", "string", "Controller or Broker: who wrote it."),
    Column("node", "int", "Its id."),
    Column("controller", "int", "The controller that decided or sent."),
    Column("controller_epoch", "int", "The epoch of that controller."),
    Column("correlation_id", "int", "The number of the request that the line is about."),
    Column("to_broker", "int", "The broker that something was sent to."),
    Column("event", "string", "What kind of line it is: partition, leader, follower, LeaderAndIsr, ..., other."),
    Column("topic", "string", "The topic of the only partition that the line names."),
    Column("partition", "int", "The number of that partition."),
    Column("partitions", "array<string>", "All partitions of a line that names several: orders-0, orders-1."),
    Column("state", "string", "The state that a partition or replica went to."),
    Column("leader", "int", "The leader; -1 is nobody."),
    Column("leader_epoch", "int", "The leader epoch."),
    Column("isr", "array<int>", "The in-sync replicas."),
    Column("replicas", "array<int>", "The assigned replicas."),
    Column("why", "string", "Why it came about; said by Moldau's JSON lines only."),
)
FIELDS = tuple(one.name for one in COLUMNS[4:])
"""The columns that are read out of a line."""


class FileRange(NamedTuple):
    """The lines of a file that begin at a byte from ``start`` on and before ``end``; None is the file's end."""

    path: str
    start: int
    end: int | None


def files_of(path: str) -> list[str]:
    """The state-change logs that a file, a pattern or a folder names. FileNotFoundError when there is none."""
    found: list[str] = []
    for each in sorted(glob(path)) if any(sign in path for sign in "*?[") else [path]:
        if os.path.isdir(each):
            found += sorted({file for name in NAMES for file in glob(f"{each}/**/{name}", recursive=True)})
        elif os.path.exists(each):
            found.append(each)
    if not found:
        raise FileNotFoundError(2, "no state-change log is there or below", path)
    return found


def ranges(path: str, most_bytes: int) -> list[FileRange]:
    """A file as ranges of about ``most_bytes``; a packed one is one range."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    if packed or size <= most_bytes:
        return [FileRange(path, 0, None)]
    starts = range(0, size, most_bytes)
    return [FileRange(path, start, min(start + most_bytes, size)) for start in starts]


def blocks(of: FileRange, most_bytes: int = BLOCK_BYTES) -> Iterator[tuple[int, bytes]]:
    """(position, bytes) of whole lines, without the newline of the last; OSError when a packed file is damaged."""
    with opened(of.path) as file:
        at = of.start
        if at:  # a line that begins before the range belongs to the range before
            file.seek(at - 1)
            at += len(file.readline()) - 1
        while of.end is None or at < of.end:
            left = most_bytes if of.end is None else min(most_bytes, of.end - at)
            data = file.read(left)
            if not data:
                return
            if not data.endswith(b"\n"):
                data += file.readline()
            yield at, data.removesuffix(b"\n")
            at += len(data)


def text_of(line: bytes) -> str:
    """A line as text from which its bytes can be told."""
    return line.decode("utf-8", "backslashreplace")


def fields_of(line: str) -> tuple[str | None, tuple[object, ...]]:
    """The reason why a line is no entry, or None; and its values in the order of ``FIELDS``."""
    if line.startswith("{"):
        return _of_json(line)
    event = parse(line.encode())
    if event is None:
        return (TOO_LARGE if is_entry(line) else CONTINUES), _NOTHING
    return None, values(event)


_NOTHING: tuple[object, ...] = (None,) * len(FIELDS)


def values(event: Event) -> tuple[object, ...]:
    """An entry in the order of ``FIELDS``."""
    only = event.partitions[0] if len(event.partitions) == 1 else (None, None)
    several = [f"{topic}-{number}" for topic, number in event.partitions] if len(event.partitions) > 1 else None
    return (
        event.time, event.level, event.role, event.node, event.controller, event.controller_epoch, event.correlation_id,
        event.to_broker, event.event, *only, several, event.state, event.leader, event.leader_epoch,
        None if event.isr is None else list(event.isr), None if event.replicas is None else list(event.replicas), None,
    )  # fmt: skip


def time_of(fact: dict[str, object]) -> str | None:
    """When a JSON line was written, as the log beside it has it: on the clock of the place where this runs."""
    ms = fact.get("time_ms")
    if type(ms) is not int:
        return None
    try:
        at = time.localtime(ms // 1000)
    except (ValueError, OSError, OverflowError):  # no year has it
        return None
    if not 1000 <= at.tm_year <= 9999:  # times of other years are longer or shorter, and are no lines' of a log
        return None
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', at)},{ms % 1000:03d}"


def _of_json(line: str) -> tuple[str | None, tuple[object, ...]]:
    try:
        fact = json.loads(line)
        if not isinstance(fact, dict) or (at := time_of(fact)) is None:
            return CUT_JSON, _NOTHING
    except (ValueError, RecursionError):
        return CUT_JSON, _NOTHING

    def number(name: str) -> int | None:
        value = fact.get(name)
        return value if type(value) is int and fits(value) else None

    def word(name: str) -> str | None:
        value = fact.get(name)
        return value if isinstance(value, str) else None

    def ids(name: str) -> list[int] | None:
        value = fact.get(name)
        return value if isinstance(value, list) and all(type(id) is int and fits(id) for id in value) else None

    event, role, node = word("event"), None, number("node")
    if event == "replica":
        event, role = word("role"), "Broker"
    elif number("controller") is not None:
        role, node = "Controller", number("controller")
    return None, (
        at, None, role, node, number("controller"), number("controllerEpoch"), None, None, event,
        word("topic"), number("partition"), None, word("to"), number("leader"), number("leaderEpoch"), ids("isr"),
        ids("replicas"), word("why"),
    )  # fmt: skip
