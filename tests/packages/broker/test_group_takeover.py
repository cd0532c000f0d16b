"""A coordinator that takes a group log over answers as the one that wrote it, whatever transactions were open then."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from moldau.broker.groups.offsets_log import OffsetsBatch, Replay, batches_of
from moldau.groups import GroupsConfig, Shard, laws
from moldau.groups.facts import (
    Append,
    AppendCommitted,
    AppendInTransaction,
    CommitItem,
    DeleteOffsets,
    FetchOffsets,
    Now,
    OffsetCommit,
    Reply,
    TransactionalWriter,
    TransactionEnded,
    TxnCommit,
)
from moldau.model import Code, TopicPartition
from moldau.storage.slow import Slow
from moldau.wire.batch import ControlType
from tests.packages.broker.test_group_log import OldLog, end

PARTITIONS = tuple(TopicPartition("t", number) for number in range(2))
NOW = Now(0, 0)


class Coordinator:
    """A shard and the log that it writes, all of which is committed at once."""

    def __init__(self) -> None:
        self.log: Any = OldLog()  # as much of a log as a replay reads
        self.shard = Shard(GroupsConfig())
        self.shard.loaded(NOW)

    def write(self, data: bytes) -> None:
        self.log = OldLog(*(batch for _, batch in self.log.batches), data)

    def ask(self, ask: Any) -> Any:  # Any: each ask has a reply of its own
        """The reply, once what it writes is committed."""
        left, heard = [ask], None
        while left:
            for effect in self.shard.step(left.pop(0), NOW, "asker"):
                if isinstance(effect, Append | AppendInTransaction):
                    producer = effect.producer if isinstance(effect, AppendInTransaction) else None
                    for one in batches_of([(effect.seq, effect.records)], 0, 1 << 20, producer):
                        assert isinstance(one, OffsetsBatch)
                        self.write(one.data)
                    left.append(AppendCommitted((effect.seq,)))
                elif isinstance(effect, Reply):
                    heard = effect.value
        laws.check(self.shard)
        return heard

    def ended(self, producer: int, commits: bool) -> None:
        self.write(end(producer, ControlType.COMMIT if commits else ControlType.ABORT))
        self.shard.step(TransactionEnded(producer, commits), NOW)

    def taken_over(self) -> None:
        """Another broker coordinates from now on, with what the log has."""
        replay, self.shard = Replay(self.log, self.log.log_end_offset), Shard(GroupsConfig())
        for record in replay.records():
            assert not isinstance(record, Slow)
            if record is not None:
                self.shard.apply(record)
        for producer, record in replay.still_open():
            self.shard.apply_open(producer, [record])
        self.shard.loaded(NOW)
        laws.check(self.shard)

    def offset(self, partition: int, *, stable: bool) -> object:
        """The offset that is read; the code in its place where there is no stable one."""
        (found,) = self.ask(FetchOffsets("g", PARTITIONS[partition : partition + 1], stable)).items
        return found.stored and found.stored.offset if found.code is Code.NONE else found.code


def item(partition: int, offset: int) -> tuple[CommitItem, ...]:
    return (CommitItem("t", partition, offset, -1, ""),)


PARTITION, PRODUCER = st.integers(0, 1), st.integers(1, 2)
EVENTS = st.one_of(
    st.tuples(st.just("in a transaction"), PRODUCER, PARTITION),
    st.tuples(st.just("ended"), PRODUCER, st.booleans()),
    st.tuples(st.just("committed"), PARTITION),
    st.tuples(st.just("removed"), PARTITION),
    st.tuples(st.just("taken over")),
)


@example([("in a transaction", 1, 0), ("committed", 0), ("removed", 0), ("ended", 1, True), ("taken over",)])
@given(st.lists(EVENTS, max_size=14))
@settings(max_examples=400)
def test_whoever_takes_over_answers_as_the_coordinator_before(events: list[Any]) -> None:
    """The same offsets at any time; what it calls stable, though the other waits still, no transaction changes."""
    stays, changes = Coordinator(), Coordinator()
    stable: dict[int, object] = {}
    for number, (kind, *facts) in enumerate(events, 1):
        for one in (stays, changes):
            match kind:
                case "in a transaction":
                    producer, partition = facts
                    stable.pop(partition, None)
                    one.ask(TxnCommit("g", "", None, -1, item(partition, number), TransactionalWriter(producer, 0)))
                case "ended":
                    one.ended(*facts)
                case "committed" | "removed":
                    stable.pop(facts[0], None)
                    gone = PARTITIONS[facts[0] : facts[0] + 1]
                    one.ask(
                        OffsetCommit("g", "", None, -1, item(facts[0], number))
                        if kind == "committed"
                        else DeleteOffsets("g", gone)
                    )
        if kind == "taken over":
            changes.taken_over()
        for partition in range(len(PARTITIONS)):
            read = changes.offset(partition, stable=False)
            assert read == stays.offset(partition, stable=False)
            assert stable.get(partition, read) == read
            told = changes.offset(partition, stable=True)
            if told is not Code.UNSTABLE_OFFSET_COMMIT:
                assert told == read
                stable[partition] = told
