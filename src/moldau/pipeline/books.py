"""The books of a pipeline: one line for each batch, which says what became of every record that was read.

A line balances: read = ok + left out + dead, for each topic and stage. It carries the totals of all batches so far, so
that the newest line alone tells a pipeline's state however many there are. Lines are files, written once and never
changed: a batch that is run again finds its line, or makes the same. Read next: batches.py.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Protocol

from moldau.model.counted import counted
from moldau.pipeline.spec import OnError
from moldau.pipeline.stages import OK
from moldau.pipeline.typed import read_json

FOLDER = "books"
BATCH, REPLAY, BACKFILL = "batch", "replay", "backfill"
_ID = f"{FOLDER}/id"
_TAKEN_BACK = f"{FOLDER}/taken-back"
_PER_FOLDER = 1000
DRIFTS_MOST = 20
"""How many kinds of drift a line, and the totals, have with their first places."""
_LINES_SEARCHED = 1000
_MENDS = (
    "restore the file, or set the folder `books` aside and begin anew with `moldau pipeline reset FILE --to POSITION`"
)


def names_of(pipeline: str) -> tuple[str, str, str]:
    """The names under which a pipeline writes: in ledgers, and in the column of its dead letters."""
    return pipeline, f"{pipeline}.{REPLAY}", f"{pipeline}.{BACKFILL}"


class NotBalanced(RuntimeError):
    """A line whose sides differ: a fault of the pipeline itself, so nothing is committed."""


class BrokenLine(RuntimeError):
    """A file of the books that holds no whole line; the message names it."""


class AnotherRun(RuntimeError):
    """Two runs of one pipeline write its books."""


@dataclass(frozen=True, slots=True)
class Count:
    """Records of one topic that had one outcome at one stage; ``first`` is where the first of them lies."""

    topic: str
    outcome: str
    stage: str | None
    records: int
    first: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Drift:
    """Values whose schema differs from the columns, and where the first of them lies."""

    what: str
    schema_id: int | None
    first: str
    records: int


@dataclass(frozen=True, slots=True)
class SinkRows:
    """What a sink took of a batch."""

    rows: int
    again: bool = False
    """Whether an earlier run of the batch had written it."""


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest event time of a batch, which record has it, and that record's own timestamp; in ms since 1970."""

    at_ms: int
    record: str | None = None
    stamped_ms: int | None = None


@dataclass(frozen=True, slots=True)
class BookTotals:
    """Sums over all batches: by topic, then by ``ok``, ``skip:STAGE`` and ``dlq:STAGE``; and rows by sink.

    ``read`` are the records of batches, ``replayed`` the dead letters that replays took up again, which then had an
    outcome anew: read + replayed = the sum of all outcomes.
    """

    read: int = 0
    replayed: int = 0
    late: int = 0
    rows_out: int = 0
    topics: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    sinks: Mapping[str, int] = field(default_factory=dict)
    end: Sequence[str] | None = None
    """Where the newest batch of the stream ended."""
    newest_ms: int | None = None
    """The newest event time seen, where the pipeline counts late rows."""
    newest_record: str | None = None
    """Where the record of that time lies; None in books of before this was kept."""
    newest_stamped_ms: int | None = None
    """That record's own timestamp."""
    late_since: int = 0
    """How many of the late rows came since that time was seen."""
    late_first: str | None = None
    """The first of these."""
    newest: tuple[str, int] | None = None
    """Query and number of the newest batch of the stream; None in books of before this was kept."""
    dead: Mapping[str, int] = field(default_factory=dict)
    """Rows that each place of dead letters took."""
    drift: Sequence[Drift] | None = None
    """What drifted in any batch, in the order in which it was seen, ``DRIFTS_MOST`` of it; None before the first line,
    and in books of before this was kept."""
    drift_more: int = 0
    """Records that drifted otherwise, of which no place is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BookLine:
    """What became of one batch. ``start`` and ``end`` are source offsets as in Spark's checkpoint."""

    sequence: int
    """Lines count from 0, over resets and replays too."""
    kind: str
    """``batch`` of the stream, ``replay`` of dead letters, or ``backfill`` of a range of offsets."""
    batch: int
    query: str
    at_ms: int
    took_ms: int
    start: Sequence[str] | None
    end: Sequence[str] | None
    counts: Sequence[Count]
    drift: Sequence[Drift]
    rows_out: int
    """Rows that the transformation gave."""
    late: int
    sinks: Mapping[str, SinkRows]
    dead: int
    """Rows that the dead letters took."""
    dead_in: str | None = None
    """The table of dead letters, None where there is none."""
    totals: BookTotals
    late_first: str | None = None
    """The first row that came late."""
    drift_more: int = 0
    """Records that drifted otherwise than ``drift`` says, which has the most frequent ones."""

    @property
    def read(self) -> int:
        return sum(one.records for one in self.counts)

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), indent=1).encode()

    @classmethod
    def from_json(cls, text: bytes) -> BookLine:
        """The line of this text; ValueError when it is none, or one of its values is of another type."""
        return read_json(cls, text)


def key_of(count: Count) -> str:
    """How totals call an outcome: ``ok``, ``skip:positive``, ``dlq:decode``."""
    return OK if count.outcome == OK else f"{count.outcome}:{count.stage}"


def drifted(before: BookTotals, lines: Iterable[BookLine]) -> tuple[list[Drift], int]:
    """What drifted before and in these lines, each with its first place, and how many records drifted otherwise."""
    found = {(one.what, one.schema_id): one for one in before.drift or ()}
    more = before.drift_more
    for line in lines:
        more += line.drift_more
        for one in line.drift:
            there = found.get((one.what, one.schema_id))
            if there is None and len(found) >= DRIFTS_MOST:
                more += one.records
                continue
            found[one.what, one.schema_id] = (
                one if there is None else replace(there, records=there.records + one.records)
            )
    return list(found.values()), more


def without_newest(totals: BookTotals) -> BookTotals:
    """The totals of whoever knows of no newest event time."""
    return replace(totals, newest_ms=None, newest_record=None, newest_stamped_ms=None, late_since=0, late_first=None)


def added(before: BookTotals, line: BookLine, newest: Newest | None) -> BookTotals:
    """The totals after a line; ``newest`` is the newest event time of its batch."""
    topics = {topic: dict(found) for topic, found in before.topics.items()}
    for count in line.counts:
        of = topics.setdefault(count.topic, {})
        of[key_of(count)] = of.get(key_of(count), 0) + count.records
    sinks = dict(before.sinks)
    for name, wrote in line.sinks.items():
        sinks[name] = sinks.get(name, 0) + wrote.rows
    moved = newest is not None and (before.newest_ms is None or newest.at_ms > before.newest_ms)
    replays, stream = line.kind == REPLAY, line.kind == BATCH
    drift, more = drifted(before, [line])
    return BookTotals(
        read=before.read + (0 if replays else line.read),
        replayed=before.replayed + (line.read if replays else 0),
        late=before.late + line.late,
        rows_out=before.rows_out + line.rows_out,
        topics=topics,
        sinks=sinks,
        end=line.end if stream else before.end,
        newest_ms=newest.at_ms if newest is not None and moved else before.newest_ms,
        newest_record=newest.record if newest is not None and moved else before.newest_record,
        newest_stamped_ms=newest.stamped_ms if newest is not None and moved else before.newest_stamped_ms,
        late_since=0 if moved else before.late_since + line.late,
        late_first=None if moved else before.late_first or line.late_first,
        newest=(line.query, line.batch) if stream else before.newest,
        dead=before.dead if line.dead_in is None else {
            **before.dead, line.dead_in: before.dead.get(line.dead_in, 0) + line.dead
        },
        drift=drift,
        drift_more=more,
    )  # fmt: skip


def outcomes(totals: BookTotals, outcome: str) -> int:
    """How many records had an outcome (``ok``, ``skip``, ``dlq``), over all topics and stages."""
    return sum(
        records for of in totals.topics.values() for name, records in of.items() if name.partition(":")[0] == outcome
    )


def balances(totals: BookTotals) -> bool:
    """Whether every record that was read or replayed has an outcome."""
    there = sum(outcomes(totals, one) for one in (OK, OnError.SKIP.value, OnError.DLQ.value))
    return totals.read + totals.replayed == there


def check(line: BookLine, tables: Iterable[str]) -> None:
    """NotBalanced unless every record has one of the outcomes that a batch may end with, the dead letters hold as many
    as were meant for them, and each of ``tables`` (those that keep every row) took what the transformation gave.

    A batch of the stream that ran before, with the file as it was then, may have given other rows. One of a replay or a
    backfill may not: its number would be that of another one, whose folder is gone."""
    for count in line.counts:
        if count.outcome not in (OK, OnError.SKIP.value, OnError.DLQ.value):
            of, verb = counted(count.records, "record"), "is" if count.records == 1 else "are"
            raise NotBalanced(f"batch {line.batch}: {of} of {count.topic} {verb} {count.outcome}")
    dead = sum(one.records for one in line.counts if one.outcome == OnError.DLQ.value)
    if dead != line.dead:
        meant = counted(dead, "record is a dead letter", "records are dead letters")
        raise NotBalanced(f"batch {line.batch}: {meant}, {counted(line.dead, 'was', 'were')} written")
    for name in tables:
        if line.sinks[name].rows != line.rows_out and (not line.sinks[name].again or line.kind != BATCH):
            gave = counted(line.rows_out, "row")
            raise NotBalanced(
                f"batch {line.batch}: the transformation gave {gave}, {name} has {line.sinks[name].rows:,}"
            )


@dataclass(frozen=True, slots=True)
class TakenBack:
    """What tables that were taken back, as ``moldau spark rewind`` does, hold no more of what the lines count: rows by
    sink, and dead letters that would wait."""

    rows: Mapping[str, int] = field(default_factory=dict)
    waiting: int = 0

    def and_more(self, more: TakenBack) -> TakenBack:
        """Both together."""
        rows = {name: self.rows.get(name, 0) + more.rows.get(name, 0) for name in (*self.rows, *more.rows)}
        return TakenBack(rows, self.waiting + more.waiting)


def waiting(totals: BookTotals, back: TakenBack) -> int:
    """How many dead letters wait for a replay."""
    return outcomes(totals, OnError.DLQ.value) - totals.replayed - back.waiting


class Files(Protocol):
    """Where the lines lie; ``tables.stores.Store`` has it."""

    def read(self, name: str) -> bytes | None: ...

    def names(self, folder: str, suffix: str = "") -> list[str]: ...

    def put_if_absent(self, name: str, content: bytes) -> bool: ...

    def replace(self, name: str, content: bytes) -> None: ...


class Books:
    """The lines of one pipeline, in a folder of its own."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._last: BookLine | None = None

    def line(self, sequence: int) -> BookLine | None:
        """A line by its number, None where there is none; BrokenLine when its file holds something else."""
        name = _name(sequence)
        found = self._files.read(name)
        try:
            line = None if found is None else BookLine.from_json(found)
        except ValueError as error:
            raise BrokenLine(f"{name}: not a line of the books ({error}); {_MENDS}") from None
        if line is not None and line.sequence != sequence:
            raise BrokenLine(f"{name}: it holds line {line.sequence}; {_MENDS}")
        return line

    def last(self) -> BookLine | None:
        """The newest line, None in a new pipeline. BrokenLine when lines before it are missing."""
        if self._last is None:
            try:
                found = sorted(self._files.names(FOLDER, ".json"))
            except OSError as error:
                raise BrokenLine(f"{FOLDER}: not a folder of books ({error}); {_MENDS}") from None
            for number, name in enumerate(found):
                if name != _name(number):
                    raise BrokenLine(f"{_name(number)} is missing, and {name} is there; {_MENDS}")
            self._last = self.line(len(found) - 1) if found else None
        while self._last is not None and (following := self.line(self._last.sequence + 1)) is not None:
            self._last = following
        return self._last

    def newest_of_stream(self) -> BookLine | None:
        """The newest line of the stream itself, whatever replays and backfills came after it."""
        line = self.last()
        while line is not None and line.kind != BATCH:
            line = self.line(line.sequence - 1)
        return line

    def newest(self, most: int) -> list[BookLine]:
        """The newest lines, oldest first."""
        last = self.last()
        if last is None:
            return []
        found = [self.line(number) for number in range(max(0, last.sequence - most + 1), last.sequence + 1)]
        return [line for line in found if line is not None]

    def drift(self) -> tuple[Sequence[Drift], int]:
        """What drifted in all batches, each with its first place, and how many records drifted otherwise; in books of
        before totals had it, by the newest lines, of which a bounded number is read."""
        last = self.last()
        if last is None or last.totals.drift is not None:
            return ([], 0) if last is None else (last.totals.drift or [], last.totals.drift_more)
        found = []
        for number in range(last.sequence, max(-1, last.sequence - _LINES_SEARCHED), -1):
            try:
                line = self.line(number)
            except BrokenLine:  # only the newest line has to be sound for what comes next
                break
            if line is None:
                break
            found.append(line)
        return drifted(BookTotals(), found[::-1])

    def next(self) -> int:
        """The number of the line that comes next."""
        last = self.last()
        return 0 if last is None else last.sequence + 1

    def find(self, query: str, batch: int) -> BookLine | None:
        """The line of a batch that ran before: only the newest batch of a query can be run again."""
        last = self.last()
        return last if last is not None and (last.query, last.batch) == (query, batch) else None

    def booked(self, query: str, batch: int) -> BookLine | None:
        """The line of a batch of the stream that is in the books, whatever replays and backfills came after it."""
        line = self.newest_of_stream()
        return line if line is not None and (line.query, line.batch) == (query, batch) else None

    def tag(self, used: Callable[[], bool]) -> str:
        """What sets the names of these books' dead letters apart from those of books that were before them, and were
        set aside or lost; empty where there were none. ``used`` says whether the table has dead letters already."""
        found = self._files.read(_ID)
        if found is None:
            anew = self.last() is None and (bool(self._files.names("replays")) or used())
            self._files.put_if_absent(_ID, (uuid.uuid4().hex[:8] if anew else "").encode())
            found = self._files.read(_ID)
        return (found or b"").decode()

    def taken_back(self) -> TakenBack:
        """What was taken back so far, as resets noted it; BrokenLine when their file holds something else."""
        found = self._files.read(_TAKEN_BACK)
        try:
            return TakenBack() if found is None else read_json(TakenBack, found)
        except ValueError as error:
            raise BrokenLine(f"{_TAKEN_BACK}: not what resets note ({error}); {_MENDS}") from None

    def take_back(self, more: TakenBack) -> None:
        """Note that this was taken back, besides what was before."""
        self._files.replace(_TAKEN_BACK, json.dumps(asdict(self.taken_back().and_more(more))).encode())

    def follows(self, query: str, batch: int) -> None:
        """NotBalanced when lines are missing between the newest one and this batch of the stream: totals would say
        that they balance, and lack what those batches wrote."""
        last = self.last()
        newest = None if last is None else last.totals.newest
        if last is None and batch > 0:
            what = f"the books are gone, and batch {batch} of a checkpoint comes next"
        elif newest is not None and newest[0] == query and batch not in (newest[1], newest[1] + 1):
            what = f"the books end with batch {newest[1]}, and batch {batch} of the same checkpoint comes next"
        elif newest is not None and newest[0] != query and batch > 0:
            end = f"the books end with batch {newest[1]} of another checkpoint"
            what = f"{end}, and batch {batch} of this one comes next"
        else:
            return
        raise NotBalanced(f"{what}: restore them, or begin anew with `moldau pipeline reset`")

    def add(self, line: BookLine, newest: Newest | None = None, *, forget: bool = False) -> BookLine:
        """Write a batch's line after the newest one, with the totals that follow from it; or the line that it has.

        ``forget``: the newest event time so far counts no more. AnotherRun when somebody else has written a line
        meanwhile.
        """
        there = self.find(line.query, line.batch)
        if there is not None:
            return there
        last = self.last()
        before = BookTotals() if last is None else last.totals
        if last is not None and before.drift is None:
            drift, more = self.drift()
            before = replace(before, drift=drift, drift_more=more)
        sequence = self.next()
        before = without_newest(before) if forget else before
        line = replace(line, sequence=sequence, totals=added(before, line, newest))
        if not self._files.put_if_absent(_name(sequence), line.to_json()):
            raise AnotherRun(f"line {sequence} of the books was written by another run of this pipeline")
        self._last = line
        return line


def _name(sequence: int) -> str:
    return f"{FOLDER}/{sequence // _PER_FOLDER:06d}/{sequence:09d}.json"
