"""Rules over a history: pure functions, each of which returns the anomalies that it found.

Rules, with the ids of the laws: S1 nothing acknowledged is lost, S6 what was read stays, S15 order, S16 once, S19 a
definite refusal is in no log, L2 every send is answered. All are linear or n log n. What replicas hold on disk is
compared elsewhere. A checker can be wrong too: tests/packages/history/test_checks.py breaks each rule. What a topic's
producers did not ask for (acks, idempotence) is no anomaly: ``check`` takes a ``Promise``.
Source: the anomalies of Jepsen's Kafka checker. Read next: ``rows.py`` (the rows).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from moldau.history.rows import FAIL, INFO, OK, OPEN, History, Kill, Read, Send, is_tombstone, key_of

LOST, DUPLICATED, REORDERED, UNANSWERED = "lost", "duplicated", "reordered", "unanswered"
INCONSISTENT, PHANTOM, HOLE, UNSEEN, TAKEN_BACK, READER = (
    "inconsistent offset", "phantom", "hole", "unseen", "taken back", "reader out of order"
)  # fmt: skip
RISEN = "risen"


_LAWS = {
    DUPLICATED: "S16", REORDERED: "S15", UNANSWERED: "L2", INCONSISTENT: "S6", PHANTOM: "S19", TAKEN_BACK: "S6",
    READER: "S6", "went back": "S7", "stray": "C9", "undone": "C13", "late": "L3", "no end": "L12", "back again": "C8",
    "ended": "X7",
}  # fmt: skip


class Anomaly(NamedTuple):
    """A violation: which rule was broken, and where."""

    kind: str
    text: str

    @property
    def law(self) -> str:
        """Return the id of the law that it breaks."""
        return _LAWS.get(self.kind, "S1")


class Promise(NamedTuple):
    """What the producers of a topic were promised. Without ``acked`` (acks=1) an acknowledgement is worth nothing here;
    without ``once`` (no idempotence) a record may stand twice, and out of order. Without ``kept`` (an unclean election
    was allowed, and was held) neither counts, and what was read may be gone. ``compacted``: only each key's newest
    record must stay; ``tombstones``: it does so if it is one, too.
    """

    acked: bool = True
    once: bool = True
    kept: bool = True
    compacted: bool = False
    tombstones: bool = False


SAFE = Promise()


def check(history: History, promise: Promise = SAFE) -> list[Anomaly]:
    """Return every anomaly of a history, by all rules that its promise covers."""
    if not promise.kept:
        history, promise = history._replace(reads=[]), Promise(acked=False, once=False, kept=False)
    if not promise.acked:
        sends = [send._replace(outcome=INFO, offset=-1) if send.outcome == OK else send for send in history.sends]
        history = history._replace(sends=sends)
    found: list[Anomaly] = []
    for rule in COMPACTED if promise.compacted else RULES:
        if promise.once or rule not in _ONCE:
            found += rule(history)
    if promise.compacted and not promise.tombstones:
        found = [anomaly for anomaly in found if anomaly.kind != RISEN]
    return found


def unanswered(history: History) -> Iterator[Anomaly]:
    """L2: a send that was never answered."""
    for send in history.sends:
        if send.outcome == OPEN:
            yield Anomaly(UNANSWERED, _of(send))


def lost(history: History) -> Iterator[Anomaly]:
    """S1: an acknowledged value that a fresh reader does not find anywhere in its partition."""
    there = {(read.partition, read.value) for read in history.final}
    for send in history.sends:
        if send.outcome == OK and (send.partition, send.value) not in there:
            yield Anomaly(LOST, f"{_of(send)} was acknowledged at offset {send.offset} and is not in the log")


def unseen(history: History) -> Iterator[Anomaly]:
    """S1: the fresh reader did not come as far as the high watermark, or as far as what was acknowledged."""
    came: dict[int, int] = defaultdict(int)
    for read in history.final:
        came[read.partition] = max(came[read.partition], read.offset + 1)
    wanted: dict[int, int] = defaultdict(int, history.ends)
    for send in history.sends:
        if send.outcome == OK:
            wanted[send.partition] = max(wanted[send.partition], send.offset + 1)
    for partition, end in sorted(wanted.items()):
        if came[partition] < end:
            yield Anomaly(UNSEEN, f"partition {partition} ends at {end}, a fresh reader came to {came[partition]}")


def phantom(history: History) -> Iterator[Anomaly]:
    """S19: a value in the log that no producer sent there, or whose send was refused for sure."""
    outcomes = {(send.partition, send.value): send.outcome for send in history.sends}
    for read in history.final:
        outcome = outcomes.get((read.partition, read.value))
        if outcome is None:
            yield Anomaly(PHANTOM, f"{_at(read)} was sent by nobody")
        elif outcome == FAIL:
            yield Anomaly(PHANTOM, f"{_at(read)} was refused for sure")


def duplicated(history: History) -> Iterator[Anomaly]:
    """S16: a value at more than one offset."""
    seen: dict[tuple[int, str], int] = {}
    for read in history.final:
        first = seen.setdefault((read.partition, read.value), read.offset)
        if first != read.offset:
            yield Anomaly(DUPLICATED, f"{_at(read)} is at offset {first} too")


def reordered(history: History) -> Iterator[Anomaly]:
    """S15: within a producer session and partition, offsets go as the sends went."""
    offsets = _first_offsets(history.final)
    last: dict[tuple[str, int], tuple[int, Send]] = {}
    for send in sorted(history.sends, key=lambda send: send.number):
        offset = offsets.get((send.partition, send.value))
        if offset is None:
            continue
        session = (send.process, send.partition)
        before = last.get(session)
        if before is not None and offset < before[0]:
            yield Anomaly(REORDERED, f"{_of(send)} is at {offset}, before {before[1].value} at {before[0]}")
            continue
        last[session] = (offset, send)


def overtaken(history: History) -> Iterator[Anomaly]:
    """S15 across producers: what was acknowledged before another send began stands before it."""
    offsets = _first_offsets(history.final)
    events: list[tuple[int, int, int, int, str]] = []
    for send in history.sends:
        offset = offsets.get((send.partition, send.value), send.offset)
        if offset < 0:
            continue
        events.append((send.invoke_ns, 0, send.partition, offset, send.value))  # at the same instant: no order
        if send.outcome == OK:
            events.append((send.complete_ns, 1, send.partition, offset, send.value))
    highest: dict[int, int] = defaultdict(lambda: -1)
    for _, is_ack, partition, offset, value in sorted(events):
        if is_ack:
            highest[partition] = max(highest[partition], offset)
        elif offset < highest[partition]:
            text = f"{value} of partition {partition} is at {offset}, but {highest[partition]} was acknowledged before"
            yield Anomaly(REORDERED, text)


def inconsistent(history: History) -> Iterator[Anomaly]:
    """One offset, two values: over acknowledgements and all readers. Also S6: what was read does not change."""
    values: dict[tuple[int, int], str] = {}
    told = [send for send in history.sends if send.outcome == OK and send.offset >= 0]
    rows = [(send.partition, send.offset, send.value) for send in told]
    rows += [(read.partition, read.offset, read.value) for read in (*history.final, *history.reads)]
    for partition, offset, value in rows:
        first = values.setdefault((partition, offset), value)
        if first != value:
            yield Anomaly(INCONSISTENT, f"partition {partition} offset {offset} is {first} and {value}")


def taken_back(history: History) -> Iterator[Anomaly]:
    """S6: a value that a reader was given before, and that is no longer in the log."""
    there = {(read.partition, read.offset) for read in history.final}
    for read in history.reads:
        if (read.partition, read.offset) not in there:
            yield Anomaly(TAKEN_BACK, f"{_at(read)} was read by {read.process} and is gone")


def holes(history: History) -> Iterator[Anomaly]:
    """Offsets of a log that was never cut or compacted go up by one, from 0; and a fresh reader sees them so."""
    expected: dict[int, int] = defaultdict(int)
    for read in history.final:
        if read.offset > expected[read.partition]:
            yield Anomaly(
                HOLE, f"partition {read.partition} has nothing at {expected[read.partition]}..{read.offset - 1}"
            )
        elif read.offset < expected[read.partition]:
            yield Anomaly(READER, f"{_at(read)} came after offset {expected[read.partition] - 1}")
        expected[read.partition] = max(expected[read.partition], read.offset + 1)


def readers_in_order(history: History) -> Iterator[Anomaly]:
    """A reader that keeps its assignment is given each offset once, in order, without leaving one out."""
    last: dict[tuple[str, int], int] = {}
    for read in history.reads:
        before = last.get((read.process, read.partition))
        if before is not None and read.offset != before + 1:
            yield Anomaly(READER, f"{read.process} was given {_at(read)} after offset {before}")
        last[read.process, read.partition] = read.offset


def replaced(history: History) -> Iterator[Anomaly]:
    """S1 of a compacted topic: of each key a fresh reader finds the newest that was acknowledged, or a newer one; where
    that is a tombstone, or was, it may find nothing, and nothing older.
    """
    found: dict[tuple[int, str], int] = {}
    for read in history.final:
        found[read.partition, key_of(read.value)] = read.offset
    newest: dict[tuple[int, str], Send] = {}
    for send in sorted((one for one in history.sends if one.outcome == OK), key=lambda one: one.offset):
        newest[send.partition, key_of(send.value)] = send
    # A tombstone may have come after it whose answer was lost, and may be gone: then no row shows it.
    doubtful = {
        (one.partition, key_of(one.value)) for one in history.sends if one.outcome != OK and is_tombstone(one.value)
    }
    for where, send in newest.items():
        there = found.get(where, -1)
        if there < send.offset and not (there < 0 and (is_tombstone(send.value) or where in doubtful)):
            text = f"{_of(send)} was acknowledged at offset {send.offset}; the newest of its key is at {there}"
            yield Anomaly(RISEN if is_tombstone(send.value) or where in doubtful else LOST, text)


def in_order(history: History) -> Iterator[Anomaly]:
    """Readers of a compacted topic are given offsets that go up, with gaps; the fresh one too."""
    for reads in (history.reads, history.final):
        last: dict[tuple[str, int], int] = {}
        for read in reads:
            before = last.get((read.process, read.partition), -1)
            if read.offset <= before:
                yield Anomaly(READER, f"{read.process} was given {_at(read)} after offset {before}")
            last[read.process, read.partition] = read.offset


Rule = Callable[[History], Iterable[Anomaly]]
RULES: tuple[Rule, ...] = (
    unanswered, lost, unseen, phantom, duplicated, reordered, overtaken, inconsistent, taken_back, holes,
    readers_in_order,
)  # fmt: skip
COMPACTED: tuple[Rule, ...] = (
    unanswered, replaced, unseen, phantom, duplicated, reordered, overtaken, inconsistent, in_order,
)  # fmt: skip
_ONCE: tuple[Rule, ...] = (duplicated, reordered, overtaken)


def count(anomalies: Iterable[Anomaly]) -> Counter[str]:
    """Return how many of each kind."""
    return Counter(anomaly.kind for anomaly in anomalies)


def longest_gap_ms(sends: Iterable[Send], kill: Kill) -> float:
    """Return the longest time within a kill's span in which one partition acknowledged nothing, in ms.

    A gap counts from the last acknowledgement before the kill, or from the kill when there was none; it is cut at the
    end of the span.
    """
    acks: dict[int, list[int]] = defaultdict(list)
    for send in sends:
        if send.outcome == OK and send.complete_ns <= kill.until_ns:
            acks[send.partition].append(send.complete_ns)
        else:
            acks[send.partition] += ()
    longest = 0
    for times in acks.values():
        last = max((time for time in times if time <= kill.kill_ns), default=kill.kill_ns)
        for time in sorted(time for time in times if time > kill.kill_ns):
            longest = max(longest, time - last)
            last = time
        longest = max(longest, kill.until_ns - last)
    return longest / 1e6


def doubts(history: History, kills: int, acks_per_kill: int = 50) -> list[str]:
    """Return why a run without anomalies proves nothing: too few kills or acknowledgements, or no effect."""
    found = []
    if len(history.kills) < kills:
        found.append(f"{len(history.kills)} of {kills} kills were done")
    if history.acked < acks_per_kill * kills:
        found.append(f"only {history.acked} acknowledgements, {acks_per_kill * kills} are wanted")
    found += [
        f"kill {kill.number} of node {kill.node} had no effect that anybody saw"
        for kill in history.kills
        if not kill.had_effect
    ]
    silent = sorted(set(history.ends) - {send.partition for send in history.sends if send.outcome == OK})
    if silent:
        found.append(f"partitions {silent} acknowledged nothing")
    return found


def _first_offsets(final: Iterable[Read]) -> dict[tuple[int, str], int]:
    offsets: dict[tuple[int, str], int] = {}
    for read in final:
        offsets.setdefault((read.partition, read.value), read.offset)
    return offsets


def _of(send: Send) -> str:
    return f"{send.value} of {send.process} to partition {send.partition}"


def _at(read: Read) -> str:
    return f"{read.value} at partition {read.partition} offset {read.offset}"
