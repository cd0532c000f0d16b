"""Which offset of a copied topic stands for which of the original: marks between batches, kept in the checkpoint.

Before a batch is written, the mark has where it begins in the source and where the target's logs end: every record from
there on in the source lies from there on in the target, whatever ran twice. Between two marks offsets are told one by
one where the batch wrote as many records as the source has offsets, else the earlier mark is taken, so that nothing is
stepped over. A target that has another topic id, or whose logs end before where they ended, was made anew: the mapping
begins again, with all that is there. Read next: groups.py (whose offsets are translated).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from moldau.model import NO_UUID, TopicPartition, uuid_text
from moldau.model.protocol import Protocol
from moldau.pipeline.books import BATCH, BookLine
from moldau.pipeline.folder import CHECKPOINT, BrokenPipelineFile
from moldau.pipeline.spec import Pipeline, TopicSink
from moldau.pipeline.typed import read_json
from moldau.spark.offsets import decode
from moldau.spark.tables import BatchKey
from moldau.spark.tables.stores import Store

if TYPE_CHECKING:
    from collections.abc import Callable

Ends = dict[int, int]


class TargetLogs(NamedTuple):
    """Where the logs of a topic end, and the topic's id, an empty text where the cluster has none for topics."""

    ends: Ends
    topic_id: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """Offsets by partition between two batches; in partitions ``exact`` the batch before wrote each record once.
    ``topic_id`` is the target's, empty where it is not known, as in marks of before this was kept."""

    source: Mapping[int, int]
    target: Mapping[int, int]
    exact: Collection[int] = ()
    topic_id: str = ""

    def to_json(self) -> bytes:
        told = {"source": self.source, "target": self.target, "exact": sorted(self.exact), "topic_id": self.topic_id}
        return json.dumps(told).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Mark:
        """The mark of a file; ValueError says why there is none."""
        found = read_json(_Kept, text)
        source, target = ({int(name): at for name, at in side.items()} for side in (found.source, found.target))
        return cls(source, target, frozenset(found.exact), found.topic_id)


@dataclass(frozen=True, slots=True)
class _Kept:
    """A mark as its file has it."""

    source: Mapping[str, int]
    target: Mapping[str, int]
    exact: Sequence[int]
    topic_id: str = ""


class Marks(Protocol):
    """Marks in their order."""

    def __len__(self) -> int: ...

    def __getitem__(self, at: int) -> Mark: ...


def translated(marks: Marks, partition: int, offset: int) -> int | None:
    """Where a reader of the target goes on whose position in the source is ``offset``; None when nothing is copied.

    Never past what was copied, and never past a record that the reader has not seen."""
    low, high = 0, len(marks)
    while low < high:  # marks[:low] begin at or before the offset
        middle = (low + high) // 2
        at = marks[middle].source.get(partition)
        if at is not None and at > offset:
            high = middle
        else:
            low = middle + 1
    if low == 0:
        return marks[0].target.get(partition) if len(marks) else None
    mark = marks[low - 1]
    if partition not in mark.source or partition not in mark.target:
        # It was added in the batch after the mark, which read it from its first record on.
        added = low < len(marks) and partition in marks[low].target
        return mark.target.get(partition, 0) if added else None
    if low < len(marks) and partition in marks[low].exact:
        return mark.target[partition] + offset - mark.source[partition]
    return mark.target[partition]


class KeptMarks:
    """The marks of one sink in a checkpoint."""

    def __init__(self, store: Store, sink: TopicSink) -> None:
        self._store = store
        self._folder = f"{CHECKPOINT}/groups/{hashlib.sha256(sink.name.encode()).hexdigest()[:16]}"
        self._numbers: list[int] | None = None

    def __len__(self) -> int:
        return len(self.numbers())

    def __getitem__(self, at: int) -> Mark:
        found = self.read(self.numbers()[at])
        assert found is not None, "it was listed"
        return found

    def numbers(self) -> list[int]:
        """The batches before which there is a mark, as they are when this is asked first."""
        if self._numbers is None:
            since, found = self.since(), self._store.names(self._folder, ".json")
            numbers = (int(name.rsplit("/", 1)[-1].removesuffix(".json")) for name in found)
            self._numbers = sorted(number for number in numbers if number >= since)
        return self._numbers

    def since(self) -> int:
        """The batch with whose mark the mapping begins: those before are of a target that is there no more."""
        found = (self._store.read(f"{self._folder}/since") or b"").decode(errors="replace")
        return int(found) if found.isdecimal() else 0

    def begin_anew(self, batch: int) -> None:
        """Let the mapping begin with the mark before this batch."""
        self._store.replace(f"{self._folder}/since", str(batch).encode())

    def are_of(self, target: TargetLogs) -> bool:
        """Whether the newest mark may be of the logs that the target has now; the next batch begins the mapping anew
        where it is not."""
        return not len(self) or not _made_anew(self[len(self) - 1], target)

    def read(self, batch: int) -> Mark | None:
        """The mark before a batch, None where there is none; BrokenPipelineFile where its file holds something else."""
        name = f"{self._folder}/{batch:012d}.json"
        found = self._store.read(name)
        try:
            return None if found is None else Mark.from_json(found)
        except ValueError as error:
            raise BrokenPipelineFile(
                f"{self._store.uri}/{name} does not say which offsets of a copied topic stand for which ({error});"
                " restore it, or `moldau pipeline reset FILE --to POSITION` begins anew"
            ) from None

    def add(self, batch: int, mark: Mark) -> None:
        """Write the mark before a batch, unless there is one."""
        self._store.put_if_absent(f"{self._folder}/{batch:012d}.json", mark.to_json())


class CopyMarks:
    """Writes the marks of a pipeline's copied topics. ``logs`` asks a cluster where a topic's logs end."""

    def __init__(self, pipeline: Pipeline, store: Store, logs: Callable[[str, str], TargetLogs]) -> None:
        self._pipeline, self._logs = pipeline, logs
        self._sinks = [
            (sink, KeptMarks(store, sink)) for sink in pipeline.sinks if isinstance(sink, TopicSink) and sink.groups
        ]

    def begins(self, key: BatchKey, last: BookLine | None) -> None:
        """See that there is a mark before this batch; ``last`` is the newest line of the books."""
        for sink, marks in self._sinks:
            if key.start is not None and marks.read(key.batch_id) is None:
                before = (
                    last if last is not None and (last.query, last.batch) == (key.query_id, key.batch_id - 1) else None
                )
                self._mark(sink, marks, key.batch_id, key.start[0], before)

    def ended(self, line: BookLine) -> None:
        """Mark where the batch of a line ends, once it is in the books."""
        for sink, marks in self._sinks:
            if line.end is not None and marks.read(line.batch + 1) is None:
                self._mark(sink, marks, line.batch + 1, line.end[0], line)

    def _mark(self, sink: TopicSink, marks: KeptMarks, batch: int, source: str, line: BookLine | None) -> None:
        assert sink.cluster is not None, "groups are for another cluster"
        at = {one.partition: offset for one, offset in decode(json.loads(source)).offsets.items()}
        target = self._logs(sink.cluster, sink.topic)
        before = marks.read(batch - 1) if batch else None
        if before is not None and _made_anew(before, target):
            marks.begin_anew(batch)
        if batch and batch == marks.since():  # what the new logs have so far may be of any offset before
            marks.add(batch, Mark(at, dict.fromkeys(target.ends, 0), topic_id=target.topic_id))
            return
        exact = () if line is None or before is None else self._exact(line, before, at, target.ends)
        marks.add(batch, Mark(at, target.ends, exact, target.topic_id))

    def _exact(self, line: BookLine, before: Mark, source: Ends, target: Ends) -> frozenset[int]:
        """The partitions in which the batch wrote each record once, one for each offset of the source."""
        if line.kind != BATCH or self._pipeline.steps or line.rows_out != line.read:
            return frozenset()
        sizes = {one: at - before.source.get(one, 0) for one, at in source.items()}
        if sum(sizes.values()) != line.read:
            return frozenset()  # offsets without a record (compacted, of transactions)
        return frozenset(
            one for one, size in sizes.items()
            if one in before.source and one in before.target and target.get(one, -1) - before.target[one] == size
        )  # fmt: skip


def _made_anew(mark: Mark, target: TargetLogs) -> bool:
    """Whether these are logs of another topic: by its id, as they may have grown past where the others ended."""
    if "" not in (mark.topic_id, target.topic_id) and mark.topic_id != target.topic_id:
        return True
    return any(target.ends.get(one, 0) < end for one, end in mark.target.items())


def logs_of(bootstrap: str, topic: str) -> TargetLogs:
    """Where the logs of a topic end; none of a topic that is not there."""
    from moldau.client.reading import LATEST
    from moldau.client.sync import Cluster

    with Cluster(bootstrap) as cluster:
        found = cluster.topics([topic]).get(topic)
        if found is None:
            return TargetLogs({})
        ends = cluster.offsets(dict.fromkeys((TopicPartition(topic, one) for one in found.partitions), LATEST))
        id = "" if found.topic_id == NO_UUID else uuid_text(found.topic_id)
        return TargetLogs({one.partition: offset.offset for one, offset in ends.items()}, id)
