"""What a table knows about the stream that fills it, and whether a batch may follow: decided here, without I/O.

Each batch's commit carries a ``LedgerEntry``: pipeline, query, batch number, source offsets from..to with topic ids,
row count. The next batch must begin where the last one ended. What is in the table already is skipped; what would leave
a gap, overlap, or comes from another checkpoint is refused, and the message says which of ``adopt``, ``rewind`` and
``reset`` leads on. Read next: table.py (who asks), checkpoint.py (where offsets come from).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import NamedTuple

from moldau.model.counted import counted

LINE = "moldau.ledger"
"""The name of an entry in a commit's, or a snapshot's, own metadata."""

ANYONE = "*"
"""The query of an entry after which any query may go on: written by ``adopt``, ``rewind`` and ``reset``."""

UNNAMED = "default"
"""The pipeline of a table that only one stream fills."""

LOST = "lost"
"""What the line of a pipeline is none of whose batches the table holds any more."""

Offsets = tuple[str, ...]
"""One JSON text for each source of a query, as in Spark's checkpoint."""


class TableError(RuntimeError):
    """Rows that do not fit the table, or a table that cannot be written; the message names it."""


class Raced(TableError):
    """Another writer was first; look again."""


class LedgerError(TableError):
    """A batch that must not be added; the message says what the table holds, what the batch is, and what to do: which
    calls of ``Table`` lead on is the ``advice``, which whoever has commands for them says in another way."""

    def __init__(self, what: str, advice: str = "") -> None:
        super().__init__(f"{what} {advice}".strip())
        self.what, self.advice = what, advice


class BatchKey(NamedTuple):
    """What makes a batch the same batch when it is run again: the query (its id in the checkpoint) and its number.

    ``start`` and ``end`` are the source offsets that it covers, None where they are not known.
    """

    query_id: str
    batch_id: int
    start: Offsets | None = None
    end: Offsets | None = None


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One commit's line in the ledger; ``sequence`` counts the pipeline's commits, ``rows`` is what this one added."""

    pipeline: str
    sequence: int
    query_id: str
    batch_id: int
    start: Offsets | None
    end: Offsets | None
    rows: int
    what: str = "batch"

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    def restated(self) -> LedgerEntry:
        """The same line again, as the pipeline's next: nothing was added."""
        return replace(self, sequence=self.sequence + 1, what=self.what if self.what != "batch" else "kept")

    @classmethod
    def from_json(cls, text: str) -> LedgerEntry:
        found = json.loads(text)
        for name in ("start", "end"):
            found[name] = None if found[name] is None else tuple(found[name])
        return cls(**found)


class BatchVerdict(Enum):
    """What becomes of a batch that is not refused."""

    NEXT = "next"
    DONE = "done"


class OffsetOrder(Enum):
    """Where offsets stand, compared with others."""

    EQUAL = "equal"
    BEFORE = "before"
    AFTER = "after"
    APART = "apart"


def next_entry(pipeline: str, last: LedgerEntry | None, key: BatchKey, rows: int) -> LedgerEntry:
    """The line of a batch that follows ``last``."""
    sequence = 0 if last is None else last.sequence + 1
    return LedgerEntry(pipeline, sequence, key.query_id, key.batch_id, key.start, key.end, rows)


def marker(last: LedgerEntry, what: str, end: Offsets | None) -> LedgerEntry:
    """A line after which any query may go on from ``end`` (None: from wherever it begins)."""
    return replace(
        last, sequence=last.sequence + 1, query_id=ANYONE, batch_id=-1, start=last.end, end=end, rows=0, what=what
    )


def judge(table: str, last: LedgerEntry | None, key: BatchKey, *, begins_late: bool = False) -> BatchVerdict:
    """What a batch is to the table's last line: it follows, or is in the table already; LedgerError when neither.

    Without a line a query begins with its first batch, unless it ``begins_late``.
    """
    if last is None:
        if key.batch_id > 0 and not begins_late:
            raise LedgerError(
                f"{table}: batch {key.batch_id} of query {key.query_id} is not the query's first, and the table has "
                "nothing of this pipeline: was it removed, or the path or the pipeline's name changed?",
                "If it is a new table for a query that runs already, say begins_late=True.",
            )
        return BatchVerdict.NEXT
    if last.query_id == ANYONE:
        if _follows(last, key):
            return BatchVerdict.NEXT
        raise _gap_or_overlap(table, last, key)
    if last.query_id != key.query_id:
        raise LedgerError(
            f"{table}: batch {key.batch_id} comes from query {key.query_id}, but pipeline {last.pipeline!r} of this "
            f"table was filled by query {last.query_id} up to its batch {last.batch_id}. A new or another checkpoint "
            "would add rows again or leave some out.",
            "If the new stream begins where the table ends (startingOffsets = table.positions()), call table.adopt() "
            "and start it again; table.reset() takes whatever comes; a second stream into the same table needs a "
            "pipeline name of its own.",
        )
    if key.batch_id <= last.batch_id:
        return _repeated(table, last, key)
    if _follows(last, key):
        return BatchVerdict.NEXT
    raise _gap_or_overlap(table, last, key)


def _follows(last: LedgerEntry, key: BatchKey) -> bool:
    """Whether nothing that is known of the batch's offsets contradicts that it begins where the table ends."""
    if last.end is None:
        return True
    if key.start is not None:
        return same(last.end, key.start)
    return key.end is None or place(key.end, last.end) is not OffsetOrder.BEFORE


def refuse_rewind(table: str, to: LedgerEntry, later: Sequence[LedgerEntry]) -> None:
    """LedgerError when a table that is taken back to ``to`` would lose what other pipelines wrote since."""
    wrote = (each.pipeline for each in later if each.what not in ("kept", LOST))
    others = sorted({*wrote} - {to.pipeline})
    if others:
        raise LedgerError(
            f"{table}: batch {to.batch_id} of pipeline {to.pipeline!r} cannot be gone back to: pipeline "
            f"{', '.join(map(repr, others))} has written since, and its rows would go as well while its stream goes "
            "on.",
            "Restore the table by its format's own means, and call adopt(positions) for each pipeline.",
        )


def refuse_removed(table: str, to: LedgerEntry, gone: int) -> None:
    """LedgerError when files that a table had at ``to``, and has no more, were removed."""
    if gone:
        raise LedgerError(
            f"{table}: batch {to.batch_id} of pipeline {to.pipeline!r} cannot be gone back to: {counted(gone, 'file')} "
            "that the table had then and replaced since, as a merge does, are removed, by a maintenance for example. "
            "The table is as it was."
        )


def _repeated(table: str, last: LedgerEntry, key: BatchKey) -> BatchVerdict:
    """A batch number that the table has had: the same batch again, or another one under its number?"""
    if key.end is None or last.end is None or same(last.end, key.end) or place(key.end, last.end) is OffsetOrder.BEFORE:
        return BatchVerdict.DONE
    if key.start is not None and same(last.end, key.start):
        return BatchVerdict.NEXT  # the checkpoint forgot its last batches' numbers, not where they ended
    raise LedgerError(
        f"{table}: batch {key.batch_id} of query {key.query_id} covers other offsets than it did when it was added: "
        f"{_text(key.start)} to {_text(key.end)}, the table ends at {_text(last.end)}. The checkpoint was restored "
        "from an older copy, or part of it removed.",
        "Start the stream with a new checkpoint and startingOffsets = table.positions() after table.adopt(); or call "
        "table.rewind(batch) to take the table back to the end of an earlier batch.",
    )


def _gap_or_overlap(table: str, last: LedgerEntry, key: BatchKey) -> LedgerError:
    assert last.end is not None, "only known offsets are compared"
    where = place(key.start or key.end or (), last.end)
    what = {OffsetOrder.AFTER: "leaves a gap", OffsetOrder.BEFORE: "overlaps what is there"}.get(
        where, "does not continue it"
    )
    return LedgerError(
        f"{table}: batch {key.batch_id} of query {key.query_id} {what}: it begins at {_text(key.start)}, the table's "
        f"pipeline {last.pipeline!r} ends at {_text(last.end)}.",
        "Start the stream with a new checkpoint and startingOffsets = table.positions() after table.adopt(); call "
        "table.rewind(batch) to take the table back to the end of an earlier batch; or table.reset() to go on with the "
        "gap or the doubles.",
    )


def same(one: Offsets, other: Offsets) -> bool:
    """Whether two sets of offsets are equal, however their JSON is written."""
    return place(one, other) is OffsetOrder.EQUAL


def place(one: Sequence[str], other: Sequence[str]) -> OffsetOrder:
    """Where ``one`` stands compared with ``other``; offsets of other kinds of sources are equal or apart."""
    if len(one) != len(other):
        return OffsetOrder.APART
    found = {_place(_read(a), _read(b)) for a, b in zip(one, other, strict=True)} - {OffsetOrder.EQUAL}
    if not found:
        return OffsetOrder.EQUAL
    return found.pop() if len(found) == 1 else OffsetOrder.APART


def _place(one: object, other: object) -> OffsetOrder:
    if one == other:
        return OffsetOrder.EQUAL
    ours, theirs = _flat(one), _flat(other)
    if ours is None or theirs is None:
        return OffsetOrder.APART
    ids, other_ids = _ids(one), _ids(other)
    if any(other_ids.get(topic, id) != id for topic, id in ids.items()):
        return OffsetOrder.APART  # a topic that was made anew: its offsets cannot be compared with its predecessor's
    found = set()
    for name in ours.keys() | theirs.keys():
        a, b = ours.get(name, 0), theirs.get(name, 0)  # a partition that is not named begins at its beginning
        if a != b:
            found.add(OffsetOrder.BEFORE if a < b else OffsetOrder.AFTER)
    if not found:
        return OffsetOrder.EQUAL
    return found.pop() if len(found) == 1 else OffsetOrder.APART


def _read(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _flat(offsets: object) -> dict[tuple[str, str], int] | None:
    """Offsets of a Kafka source by (topic, partition); None when they are of another kind."""
    if isinstance(offsets, int):
        return {("", ""): offsets}
    if not isinstance(offsets, Mapping):
        return None
    found = {}
    for topic, partitions in offsets.items():
        if topic.startswith("#"):
            continue
        if not isinstance(partitions, Mapping) or not all(isinstance(at, int) for at in partitions.values()):
            return None
        found.update({(topic, number): at for number, at in partitions.items()})
    return found


def _ids(offsets: object) -> Mapping[str, str]:
    found = offsets.get("#topicIds", {}) if isinstance(offsets, Mapping) else {}
    return found if isinstance(found, Mapping) else {}


def _text(offsets: Offsets | None) -> str:
    if offsets is None:
        return "an unknown place"
    shown = " and ".join(json.dumps({k: v for k, v in found.items() if not k.startswith("#")})
                         if isinstance(found := _read(each), Mapping) else each for each in offsets)  # fmt: skip
    return shown if len(shown) <= 400 else shown[:400] + "..."


def are_positions(end: Offsets) -> bool:
    """Whether these are offsets of one Kafka source, each of them a record's place and not a word for one."""
    found = _flat(_read(end[0])) if len(end) == 1 else None
    return bool(found) and all(name != ("", "") and at >= 0 for name, at in (found or {}).items())


def starting_offsets(end: Offsets | None) -> str:
    """``end`` as the option ``startingOffsets`` of a stream with one source; LedgerError when it is not known."""
    if end is None or len(end) != 1 or _flat(_read(end[0])) is None:
        raise LedgerError("the table does not say from where one source could go on")
    found = _read(end[0])
    assert isinstance(found, Mapping), "offsets by topic"
    return json.dumps({topic: places for topic, places in found.items() if not topic.startswith("#")})
