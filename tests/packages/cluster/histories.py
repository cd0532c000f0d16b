"""Histories that a log may have, drawn by Hypothesis, and ways to break one: each names the rule that must notice."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import combinations

from hypothesis import strategies as st

from moldau.history import checks
from moldau.history.rows import FAIL, INFO, OK, OPEN, History, Kill, Read, Send

ABSENT = "info, not in the log"
fates = st.tuples(
    st.sampled_from(["p0", "p1", "p2"]),
    st.sampled_from([0, 1]),
    st.sampled_from([OK, OK, OK, OK, INFO, ABSENT, FAIL]),
    st.integers(0, 40),  # how long before its turn in the log a record was sent
    st.integers(0, 40),  # and how long after it the answer came
)


@st.composite
def histories(draw: st.DrawFn) -> History:
    """A correct log of two partitions, written by three producers and followed by one reader that starts somewhere."""
    numbers: Counter[str] = Counter()
    ends: Counter[int] = Counter()
    sends, final = [], []
    for turn, (process, partition, fate, before, after) in enumerate(draw(st.lists(fates, max_size=25))):
        number = numbers[process]
        numbers[process] += 1
        value, offset = f"{process}-{number}", -1
        if fate in (OK, INFO):
            offset = ends[partition]
            ends[partition] += 1
            final.append(Read("final", partition, offset, value))
        now = 1000 + 10 * turn
        outcome = INFO if fate == ABSENT else fate
        acked = offset if outcome == OK else -1
        sends.append(Send(process, number, partition, value, now - before, now + after, outcome, acked))
    start = draw(st.integers(0, 5))
    reads = [read._replace(process="follower") for read in final if read.offset >= start]
    return History(sends, reads, final, dict(ends), [])


Break = Callable[[History], Iterator[History]]


def lose_the_last(history: History) -> Iterator[History]:
    """An acknowledged record at the end is gone, and everybody agrees on the shorter log."""
    for send in history.sends:
        if send.outcome == OK and send.offset == history.ends[send.partition] - 1:
            gone = (send.partition, send.offset)
            rest = [read for read in history.final if (read.partition, read.offset) != gone]
            ends = history.ends | {send.partition: send.offset}
            yield history._replace(final=rest, ends=ends, reads=[])


def lose_one_inside(history: History) -> Iterator[History]:
    """A log that was truncated and written on: the records behind the lost one moved up."""
    for send in history.sends:
        if send.outcome == OK and send.offset < history.ends[send.partition] - 1:
            final = [
                read._replace(offset=read.offset - (read.partition == send.partition and read.offset > send.offset))
                for read in history.final
                if (read.partition, read.offset) != (send.partition, send.offset)
            ]
            ends = history.ends | {send.partition: history.ends[send.partition] - 1}
            yield history._replace(final=final, ends=ends, reads=[])


def write_one_twice(history: History) -> Iterator[History]:
    for read in history.final:
        end = history.ends[read.partition]
        yield history._replace(
            final=[*history.final, read._replace(offset=end)], ends=history.ends | {read.partition: end + 1}
        )


def swap_two(history: History, one: Send, other: Send) -> History:
    """Two records changed places in the log, acknowledgements and readers included."""
    places = {(one.partition, one.value): other.offset, (other.partition, other.value): one.offset}

    def moved(read: Read) -> Read:
        return read._replace(offset=places.get((read.partition, read.value), read.offset))

    return history._replace(
        sends=[send._replace(offset=places.get((send.partition, send.value), send.offset)) for send in history.sends],
        final=sorted((moved(read) for read in history.final), key=lambda read: (read.partition, read.offset)),
        reads=sorted((moved(read) for read in history.reads), key=lambda read: (read.partition, read.offset)),
    )


def reorder_a_session(history: History) -> Iterator[History]:
    for one, other in pairs(history):
        if one.process == other.process:
            yield swap_two(history, one, other)


def overtake(history: History) -> Iterator[History]:
    """A record that was sent after another's acknowledgement stands before it."""
    for one, other in pairs(history):
        if one.process != other.process and one.complete_ns < other.invoke_ns:
            yield swap_two(history, one, other)


def pairs(history: History) -> Iterator[tuple[Send, Send]]:
    """Acknowledged sends of one partition, in log order."""
    by_partition: dict[int, list[Send]] = defaultdict(list)
    for send in history.sends:
        if send.outcome == OK:
            by_partition[send.partition].append(send)
    for sends in by_partition.values():
        yield from combinations(sorted(sends, key=lambda send: send.offset), 2)


def leave_one_open(history: History) -> Iterator[History]:
    for at, send in enumerate(history.sends):
        if send.outcome != OPEN:
            unfinished = send._replace(outcome=OPEN, complete_ns=-1, offset=-1)
            yield history._replace(sends=[*history.sends[:at], unfinished, *history.sends[at + 1 :]])


def acknowledge_elsewhere(history: History) -> Iterator[History]:
    for at, send in enumerate(history.sends):
        if send.outcome == OK and send.offset > 0:
            wrong = send._replace(offset=send.offset - 1)
            yield history._replace(sends=[*history.sends[:at], wrong, *history.sends[at + 1 :]])


def change_what_was_read(history: History) -> Iterator[History]:
    for at, read in enumerate(history.reads):
        yield history._replace(reads=[*history.reads[:at], read._replace(value="other"), *history.reads[at + 1 :]])


def invent_one(history: History) -> Iterator[History]:
    end = history.ends.get(0, 0)
    yield history._replace(final=[*history.final, Read("final", 0, end, "ghost")], ends=history.ends | {0: end + 1})


def keep_a_refused_one(history: History) -> Iterator[History]:
    for send in history.sends:
        if send.outcome == FAIL:
            end = history.ends.get(send.partition, 0)
            ghost = Read("final", send.partition, end, send.value)
            yield history._replace(final=[*history.final, ghost], ends=history.ends | {send.partition: end + 1})


def leave_a_hole(history: History) -> Iterator[History]:
    for read in history.final:
        if read.offset < history.ends[read.partition] - 1:
            yield history._replace(final=[other for other in history.final if other != read])


def stop_reading_early(history: History) -> Iterator[History]:
    for partition, end in history.ends.items():
        yield history._replace(ends=history.ends | {partition: end + 1})


def take_back_what_was_read(history: History) -> Iterator[History]:
    for partition, end in history.ends.items():
        yield history._replace(reads=[*history.reads, Read("second follower", partition, end, "gone")])


def give_a_reader_one_twice(history: History) -> Iterator[History]:
    for at, read in enumerate(history.reads):
        yield history._replace(reads=[*history.reads[:at], read, *history.reads[at:]])


def skip_one_for_a_reader(history: History) -> Iterator[History]:
    for at, read in enumerate(history.reads):
        others = [other for other in history.reads if other.partition == read.partition]
        if others[0] != read and others[-1] != read:
            yield history._replace(reads=[*history.reads[:at], *history.reads[at + 1 :]])


BREAKS: list[tuple[Break, str]] = [
    (lose_the_last, checks.LOST),
    (lose_one_inside, checks.LOST),
    (write_one_twice, checks.DUPLICATED),
    (reorder_a_session, checks.REORDERED),
    (overtake, checks.REORDERED),
    (leave_one_open, checks.UNANSWERED),
    (acknowledge_elsewhere, checks.INCONSISTENT),
    (change_what_was_read, checks.INCONSISTENT),
    (invent_one, checks.PHANTOM),
    (keep_a_refused_one, checks.PHANTOM),
    (leave_a_hole, checks.HOLE),
    (stop_reading_early, checks.UNSEEN),
    (take_back_what_was_read, checks.TAKEN_BACK),
    (give_a_reader_one_twice, checks.READER),
    (skip_one_for_a_reader, checks.READER),
]


def kill(**seen: float) -> Kill:
    """A kill of node 1, which led two partitions, at 1 s; its span ends at 10 s."""
    defaults = {"until_ns": 10_000_000_000, "leader_ms": 100.0, "acks_ms": 200.0, "in_sync_ms": 3000.0}
    return Kill("leader", 1, 1, 2, False, 1_000_000_000)._replace(**(defaults | seen))  # type: ignore[arg-type]
