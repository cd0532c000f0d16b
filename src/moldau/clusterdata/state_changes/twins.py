"""Moldau's JSON lines about partitions, and which line of the log beside them each belongs to.

A controller's line that a partition goes offline, or is gone, names neither leader nor epochs in the log, whose words
are Kafka's; its twin does, and says why and of which topic id. Lines and twins are in one order, so that both are gone
through from their ends: the oldest of each may be rolled away. A twin whose line is not at hand is an event itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from glob import escape, glob
from heapq import merge as merged
from operator import attrgetter
from pathlib import Path

from moldau.clusterdata.state_changes.eras import GONE, Event, fits
from moldau.clusterdata.state_changes.lines import time_of
from moldau.clusterdata.state_changes.merging import LOG_NAMES, logs
from moldau.clusterdata.state_changes.sources import Damaged, lines_of

MARK = ".jsonl"
DELETED = "topic deleted"
_UNLED = ("NewPartition", GONE)
"""States of which lines do not say who leads: nobody does yet, or any more."""
_QUARTER = timedelta(minutes=15)
"""Zones are whole quarters of an hour apart."""
_ZONES = timedelta(hours=27)
"""How far two lines' times may be apart for their zones: no further than UTC-12 is from UTC+14, and the hour of a line
from that of its twin."""
NEAR_S = 60
"""A line is written some turns of the loop later than its twin says, at most."""
_FORM = "%Y-%m-%d %H:%M:%S,%f"


# ---- files


def is_twin(path: str) -> bool:
    """Whether a file's name is that of JSON lines, also rolled or packed ones."""
    return MARK in Path(path).name


def logs_and_twins(paths: Sequence[str]) -> list[list[str]]:
    """The files of each log that paths name, as ``logs``, and after them those of the twin beside it. The name of a
    twin stands for its log as well; where there is none, it is a log itself. FileNotFoundError names what is not
    there."""
    texts: list[str] = []
    alone: dict[str, dict[str, None]] = {}
    for path in paths:
        named = [path]
        if Path(path).is_dir():
            named = sorted(str(file) for file in Path(path).rglob("state-change.jsonl*") if file.is_file())
            if not named or any(True for name in LOG_NAMES for _ in Path(path).rglob(name)):
                texts.append(path)
        for one in named:
            if not is_twin(one) or not Path(one).exists():
                texts.append(one)
            elif found := _texts_of(one):
                texts += found
            else:
                alone.setdefault(str(Path(one).parent / _stem(one)), {})[one] = None
    found_logs = [[*files, *_twins_of(files)] for files in (logs(texts) if texts else [])]
    return found_logs + [list(files) for files in alone.values()]


def _stem(path: str) -> str:
    """What a log and its twin are both named by: ``state-change``."""
    return Path(path).name.partition(MARK if is_twin(path) else ".log")[0]


def _texts_of(twin: str) -> list[str]:
    return sorted(glob(f"{escape(str(Path(twin).parent / _stem(twin)))}.log*"))


def _twins_of(files: Sequence[str]) -> list[str]:
    names = {Path(path).parent / stem for path in files for stem in (_stem(path), "state-change")}
    return sorted({file for name in names for file in glob(f"{escape(str(name))}{MARK}*")})


# ---- lines


def told(
    files: Sequence[str],
    topics: Collection[str],
    damaged: Damaged,
    on_event: Callable[[Event | None], object] | None = None,
) -> Iterator[Event]:
    """What the twins among the files of one log say of partitions of these topics (of all topics if there are none),
    the oldest first, read as it is asked for. Where only some files of a log are given, and all of its twins, they
    have no times: they tell more about lines, but are none themselves. ``on_event`` is called with the event of each
    line, None for a line that is none."""
    texts, twins = [one for one in files if not is_twin(one)], [one for one in files if is_twin(one)]
    is_whole = all(set(_texts_of(one)) <= set(texts) for one in twins)
    wanted = [topic.encode() for topic in topics]
    for twin in sorted(twins, key=_first_time):
        for line in lines_of(twin, damaged):
            if on_event is None and wanted and not any(topic in line for topic in wanted):
                continue
            event = read(line)
            if on_event is not None:
                on_event(event)
            if event is not None and event.partitions and (not topics or event.partitions[0][0] in topics):
                yield event if is_whole else event._replace(time="")


def timed(events: Iterable[Event]) -> Iterator[Event]:
    """The events that have a time."""
    return (event for event in events if event.time)


def _first_time(twin: str) -> str:
    """The first time that a file of JSON lines tells."""
    with closing(lines_of(twin, lambda _: None)) as lines:
        return next((event.time for event in map(read, lines) if event is not None and event.time), "")


def read(line: bytes) -> Event | None:
    """What a JSON line says; without partitions if it is about something else, None if it is cut off."""
    try:
        fact = json.loads(line)
        if not isinstance(fact, dict):
            return None
        at = time_of(fact) or ""
        if not isinstance(fact.get("topic"), str) or fact.get("event", "partition") not in ("partition", "replica"):
            return Event(at, "INFO", "")
        return _of_partition(fact, at)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _of_partition(fact: dict[str, object], at: str) -> Event:
    def number(name: str) -> int | None:
        value = fact.get(name)
        return value if type(value) is int and fits(value) else None

    def word(name: str) -> str | None:
        value = fact.get(name)
        return value if isinstance(value, str) else None

    def ids(name: str) -> tuple[int, ...] | None:
        value = fact.get(name)
        return tuple(map(int, value)) if isinstance(value, list) and fits(value) else None

    topic, partition, leader, state = str(fact["topic"]), number("partition"), number("leader"), word("to")
    if partition is None:
        raise ValueError("no partition")
    is_broker = fact.get("event") == "replica"
    role, node = ("Broker", number("node")) if is_broker else ("Controller", number("controller"))
    if state in _UNLED or (state == "OfflinePartition" and (word("why") == DELETED or leader != -1)):
        leader = None  # it passes through this state and stays nowhere
    words = (
        f"{str(word('role')).capitalize()} {topic}-{partition} starts at leader epoch {number('leaderEpoch')}"
        if is_broker
        else f"Changed partition {topic}-{partition} from {word('from')} to {state},"
        f" adding replicas {list(ids('adding') or ())} and removing replicas {list(ids('removing') or ())}"
    )
    return Event(
        time=at, level="INFO", text=f"[{role} id={node} epoch={number('controllerEpoch')}] {words}", role=role,
        node=node, controller=number("controller"), controller_epoch=number("controllerEpoch"),
        event=str(word("role")) if is_broker else "partition", partitions=((topic, partition),), state=state,
        leader=leader, leader_epoch=number("leaderEpoch"), isr=ids("isr"), replicas=ids("replicas"),
        partition_epoch=number("partitionEpoch"), topic_id=word("topicId"), why=word("why"),
    )  # fmt: skip


# ---- lines and twins


def completed(lines: Sequence[Event], twins: Sequence[Event]) -> list[Event]:
    """The lines about one partition with what their twins tell more, and twins whose lines are not among them, all by
    time. Both are of any number of logs, those of each in its order."""
    if not twins:
        return list(lines)
    left: dict[object, list[Event]] = {}
    for twin in dict.fromkeys(twins):
        left.setdefault((_kind(twin), twin.role, twin.node), []).append(twin)
    zones: dict[int | None, timedelta] = {}
    of_line: dict[Event, Event | None] = {}
    done: list[Event] = []
    for line in reversed(lines):
        if line not in of_line:  # logs that are given twice have one twin
            of_line[line] = _taken(line, left)
        found = of_line[line]
        if found is not None and line.node not in zones and (zone := _zone(line, found)) is not None:
            zones[line.node] = zone
        done.append(line if found is None else _with(line, found))
    done.reverse()
    alone = [_moved(twin, zones.get(twin.node)) for twins in left.values() for twin in twins if twin.time]
    return list(merged(done, sorted(alone, key=attrgetter("time")), key=attrgetter("time")))


def _kind(event: Event) -> object:
    """What a line and its twin have in common for certain, besides who wrote them: the leader epoch, or the state where
    lines tell no epoch; None for lines that have no twins."""
    if event.role == "Broker":
        return (event.event, event.leader_epoch) if event.event in ("leader", "follower") else None
    if event.event not in ("partition", "other"):
        return None
    if event.leader_epoch is None or event.state in (*_UNLED, "OfflinePartition"):
        return event.state
    return event.leader_epoch


def _taken(line: Event, left: dict[object, list[Event]]) -> Event | None:
    """The last twin that may be the line's; it is nobody else's any more."""
    kind = None if line.role is None else _kind(line)
    for node in () if kind is None else (line.node, None):  # a twin may not tell whose it is
        twins = left.get((kind, line.role, node), [])
        for at in range(len(twins) - 1, -1, -1):
            same = all(None in pair or pair[0] == pair[1] for pair in zip(_told(line), _told(twins[at]), strict=True))
            if same and _is_near(line.time, twins[at].time):
                return twins.pop(at)
    return None


def _is_near(line: str, twin: str) -> bool:
    """Whether the times of a line and a twin may be those of one event, in whatever time zones."""
    if not twin:
        return True
    apart = abs(_in_quarter_s(line) - _in_quarter_s(twin))
    return min(apart, 900 - apart) <= NEAR_S


def _in_quarter_s(time: str) -> int:
    return int(time[14:16]) % 15 * 60 + int(time[17:19])


def _told(event: Event) -> tuple[object, ...]:
    return (
        event.role, event.node, event.controller, event.controller_epoch, event.state, event.leader,
        event.leader_epoch, event.partition_epoch, event.isr,
    )  # fmt: skip


def _with(line: Event, twin: Event) -> Event:
    """A line with what its twin says besides."""
    more = {
        name: value
        for name in ("leader", "leader_epoch", "isr", "replicas", "partition_epoch", "topic_id", "why")
        if getattr(line, name) is None and (value := getattr(twin, name)) is not None
    }
    return line._replace(**more)


def _zone(line: Event, twin: Event) -> timedelta | None:
    """How far the clock of the place where a line was written is ahead of the one here, by time zones alone; None where
    their times do not tell: one that is no date, or none, or days away."""
    try:
        apart = datetime.strptime(line.time, _FORM) - datetime.strptime(twin.time, _FORM)
    except ValueError:
        return None
    return round(apart / _QUARTER) * _QUARTER if abs(apart) <= _ZONES else None


def _moved(twin: Event, zone: timedelta | None) -> Event:
    if not zone:
        return twin
    try:
        at = datetime.strptime(twin.time, _FORM) + zone
    except OverflowError:  # at the end of the year 9999
        return twin
    return twin._replace(time=at.isoformat(" ", "milliseconds").replace(".", ","))
