"""The rows of a history: sends with their answers, reads, kills. Written as JSON lines, read back the same.

Values are unique, so that a value names its send. A send is ``ok`` (acknowledged at an offset), ``fail`` (refused for
sure: it never left the client), ``info`` (refused, but it may be in the log: every error after the first attempt), or
``open`` (never answered). Times are monotonic, in ns. Checks nothing. Read next: ``checks.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import IO, Any, NamedTuple

OK, FAIL, INFO, OPEN = "ok", "fail", "info", "open"


class Send(NamedTuple):
    """One record given to a producer. ``number`` counts within the process, which is one producer session.

    ``invoke_ns`` is taken before the call and ``complete_ns`` after the answer; without one, ``complete_ns`` and
    ``offset`` are -1.
    """

    process: str
    number: int
    partition: int
    value: str
    invoke_ns: int
    complete_ns: int = -1
    outcome: str = OPEN
    offset: int = -1
    error: str = ""


class Read(NamedTuple):
    """One record that a reader was given."""

    process: str
    partition: int
    offset: int
    value: str


class Kill(NamedTuple):
    """One kill -9 and what was seen of it. Durations are in ms since the kill, -1 where nothing was seen.

    leader_ms: every partition of the victim has a leader again, another one. -1 when it led nothing.
    controller_ms: another controller answers. -1 when the victim was not the controller.
    acks_ms: every partition has acknowledged a record that was sent after the kill.
    in_sync_ms: from the restart until the victim is in every ISR again.
    until_ns: when the next fault may come; what happens later is not this kill's.
    """

    scenario: str
    number: int
    node: int
    led: int
    was_controller: bool
    kill_ns: int
    until_ns: int = -1
    leader_ms: float = -1
    controller_ms: float = -1
    acks_ms: float = -1
    in_sync_ms: float = -1

    @property
    def had_effect(self) -> bool:
        """Return whether the cluster reacted: another leader, or another controller, where the victim was one."""
        led = self.leader_ms >= 0 if self.led else True
        ruled = self.controller_ms >= 0 if self.was_controller else True
        return led and ruled and (self.led > 0 or self.was_controller)


def key_of(value: str) -> str:
    """The key of a record of a compacted topic, where a value is ``key=unique``, and a tombstone ``key~unique``."""
    return value.partition("~" if is_tombstone(value) else "=")[0]


def is_tombstone(value: str) -> bool:
    """Whether a record of a compacted topic has no value (its row has all the same, from a header)."""
    return "~" in value


class History(NamedTuple):
    """All that clients saw of one topic.

    final: a fresh reader's records from the start, in the order in which they came, after all producers had stopped.
    ends: the high watermark of each partition when that reader started; it must have come so far.
    """

    sends: list[Send]
    reads: list[Read]
    final: list[Read]
    ends: dict[int, int]
    kills: list[Kill]

    def of(self, wanted: Callable[[int], bool]) -> History:
        """Return the part of the history that is about some partitions."""
        return self._replace(
            sends=[one for one in self.sends if wanted(one.partition)],
            reads=[one for one in self.reads if wanted(one.partition)],
            final=[one for one in self.final if wanted(one.partition)],
            ends={partition: end for partition, end in self.ends.items() if wanted(partition)},
        )

    @property
    def acked(self) -> int:
        """Return how many sends were acknowledged."""
        return sum(send.outcome == OK for send in self.sends)


def write_lines(history: History, file: IO[str]) -> None:
    """One JSON object per line; ``op`` says what it is."""
    file.write(json.dumps({"op": "ends", "ends": history.ends}) + "\n")
    lists: list[tuple[str, Iterable[NamedTuple]]] = [
        ("send", history.sends), ("read", history.reads), ("final", history.final), ("kill", history.kills)
    ]  # fmt: skip
    for op, rows in lists:
        for row in rows:
            file.write(json.dumps({"op": op, **row._asdict()}) + "\n")


def read_lines(lines: Iterable[str]) -> History:
    """A history that ``write_lines`` wrote; ValueError names a line that is none."""
    history = History([], [], [], {}, [])
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        row: dict[str, Any] = json.loads(line)
        match row.pop("op", None):
            case "ends":
                history.ends.update({int(partition): end for partition, end in row["ends"].items()})
            case "send":
                history.sends.append(Send(**row))
            case "read":
                history.reads.append(Read(**row))
            case "final":
                history.final.append(Read(**row))
            case "kill":
                history.kills.append(Kill(**row))
            case op:
                raise ValueError(f"line {number}: {op!r} is no operation of a history")
    return history
