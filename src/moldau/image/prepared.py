"""Records whose new partitions are put together beforehand: ten thousand of one topic take too long for one step.

They still stand in one batch and come into an image all at once, so that nobody ever sees half of a topic. What is left
to do then is to hand over what is here, which takes a tenth of the time. Who makes it pauses as often as it likes.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from itertools import groupby

from moldau.image.partition import Key, Partition, from_record
from moldau.wire.batch import Builder
from moldau.wire.records.framing import pack_metadata
from moldau.wire.records.metadata import PartitionRecord
from moldau.wire.schema import Message

MANY = 50
"""Fewer new partitions of a topic are folded one by one."""


class PartitionRun:
    """New partitions of one topic. Most stand alike (same replicas, ISR, leader), and are looked up together.

    ``begin``: where the first of their records stands in the batch; they stand there one after the other.
    """

    __slots__ = ("_directories", "_numbers", "alike", "begin", "partitions", "topic_id")

    def __init__(self, topic_id: bytes, begin: int) -> None:
        self.topic_id = topic_id
        self.begin = begin
        self.partitions: dict[int, Partition] = {}
        self.alike: dict[tuple[object, ...], dict[Key, None]] = {}
        self._numbers: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._directories: dict[tuple[bytes, ...], tuple[bytes, ...]] = {}

    def add(self, one: Partition) -> bool:
        """Take the next partition; False when its number was there already."""
        if one.id in self.partitions:
            return False
        share = self._numbers.setdefault
        replicas, isr = share(one.replicas, one.replicas), share(one.isr, one.isr)
        directories = self._directories.setdefault(one.directories, one.directories)
        after = Partition(
            self.topic_id, one.id, replicas, isr, one.leader, one.leader_epoch, one.partition_epoch,
            one.adding, one.removing, one.elr, one.last_known_elr, directories, one.recovery,
        )  # fmt: skip
        self.partitions[one.id] = after
        state = id(replicas), id(isr), one.leader, one.adding, one.removing, one.elr, one.last_known_elr
        self.alike.setdefault(state, {})[self.topic_id, one.id] = None
        return True


class Prepared(list[Message]):
    """A batch's records, of which ``runs`` are partitions that may be new.

    ``packed``: the same as they will stand in the log, but for their offsets and their time; None where nobody writes
    them.
    """

    __slots__ = ("packed", "runs")

    def __init__(
        self, records: Sequence[Message], runs: Sequence[PartitionRun] = (), packed: Builder | None = None
    ) -> None:
        super().__init__(records)
        self.runs = runs
        self.packed = packed

    def add(self, record: Message) -> None:
        """Put another record at the end."""
        self.append(record)
        if self.packed is not None:
            self.packed.append(0, None, pack_metadata(record))


def prepared_in_slices(records: Sequence[Message], at_once: int) -> Generator[None, None, Prepared]:
    """What was read from the log, with the runs of partitions that are in it. Pauses after so many."""
    runs, begin, done = [], 0, 0
    for topic_id, group in groupby(records, topic_of):
        size = 0
        run = PartitionRun(bytes(topic_id), begin) if topic_id is not None else None
        for record in group:
            size += 1
            if run is not None and isinstance(record, PartitionRecord) and not run.add(from_record(record)):
                run = None
            done += 1
            if done % at_once == 0:
                yield
        if run is not None and size >= MANY:
            runs.append(run)
        begin += size
    return Prepared(records, runs)


def prepared_without_pauses(records: Iterable[Message]) -> Prepared:
    """Records that are prepared in one step, without pauses."""
    records = list(records)
    if len(records) < MANY:
        return Prepared(records)
    work = prepared_in_slices(records, len(records) + 1)
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: Prepared = end.value
            return found


def topic_of(record: Message) -> bytes | None:
    """The topic id in a record of a partition, None for any other record."""
    return record.topic_id if type(record) is PartitionRecord else None
