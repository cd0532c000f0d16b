"""Group records in batches, and back: sizes, transactions, and what cannot be read."""

from __future__ import annotations

import logging
import struct
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.broker.groups.offsets_log import OffsetsBatch, Replay, Unwritable, batches_of
from moldau.groups import GroupsConfig, Shard, laws
from moldau.groups.codec import pack
from moldau.groups.facts import AppendCommitted, Describe, Expired, FetchOffsets, Now
from moldau.groups.records import GroupRecord, OffsetRecord, StoredGroup, StoredMember, StoredOffset
from moldau.model import Code, TopicPartition
from moldau.storage import slow
from moldau.storage.slow import Slow
from moldau.wire import batch
from moldau.wire.batch import ControlType, build, control_key
from moldau.wire.compression import Codec, decompress
from moldau.wire.crc import crc32c


def record(offset: int, partition: int = 0) -> OffsetRecord:
    return OffsetRecord("g", "t", partition, StoredOffset(offset, -1, "", 0))


class OldLog:
    """As much of a log as a replay reads."""

    def __init__(self, *batches: bytes) -> None:
        self.partition = TopicPartition("__consumer_offsets", 3)
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.batches: list[tuple[int, bytes]] = []
        for data in batches:
            written = bytearray(data)
            batch.patch(written, 0, self.log_end_offset, 0)
            self.batches.append((self.log_end_offset, bytes(written)))
            self.log_end_offset = batch.read_header(written).next_offset

    def read(self, offset: int, max_bytes: int, *, up_to: int) -> bytes:
        return next((data for base, data in self.batches if base >= offset), b"")


def written(*records: OffsetRecord, **facts: Any) -> bytes:
    return build([(0, *pack(one), ()) for one in records], **facts)


def end(producer_id: int, kind: ControlType) -> bytes:
    return build([(0, control_key(kind), b"\x00" * 6, ())], producer_id=producer_id, control=True, transactional=True)


def replayed(*batches: bytes) -> Sequence[int]:
    log: Any = OldLog(*batches)
    records = [one for one in Replay(log, log.log_end_offset).records() if one is not None]
    return [one.value.offset for one in records if isinstance(one, OffsetRecord) and one.value is not None]


def batched(appends: Any, max_bytes: int = 1 << 20) -> list[OffsetsBatch]:
    return [one for one in batches_of(appends, 0, max_bytes) if isinstance(one, OffsetsBatch)]


def test_appends_share_batches_up_to_a_size_and_are_never_split() -> None:
    appends = [(seq, (record(seq), record(seq))) for seq in range(10)]
    one = batched(appends)
    assert [seqs for _, seqs in one] == [tuple(range(10))]
    assert replayed(one[0].data) == [offset for seq in range(10) for offset in (seq, seq)]
    assert [seqs for _, seqs in batched(appends, 1)] == [(seq,) for seq in range(10)]
    assert list(batches_of([], 0, 1)) == []


def test_a_group_that_the_log_would_not_take_is_refused_before_it_is_made() -> None:
    """Of an assignment of 95 MB the batch was made and its checksum computed, for 0.6 s in one step."""
    member = StoredMember("m", None, "c", "h", 1, 1, b"s" * 600, b"a" * 600)
    large, small = (
        GroupRecord("g", StoredGroup("consumer", 1, "range", "m", 0, (member._replace(assignment=b"a" * size),)))
        for size in (600, 10)
    )
    found = list(batches_of([(0, (small,)), (1, (large,)), (2, (small,))], 0, 1 << 20, None, 1_000))
    assert [(one.seq, one.code) for one in found if isinstance(one, Unwritable)] == [(1, Code.MESSAGE_TOO_LARGE)]
    assert [one.seqs for one in found if isinstance(one, OffsetsBatch)] == [(0, 2)]


@pytest.mark.parametrize("bad", range(3))
def test_an_append_that_no_batch_can_hold_comes_out_by_itself_and_before_whatever_is_later(bad: int) -> None:
    long = OffsetRecord("g" * 40_000, "t", 0, StoredOffset(9, -1, "", 0))
    appends = [(seq, (record(seq), long) if seq == bad else (record(seq),)) for seq in range(3)]
    found = list(batches_of(appends, 0, 1))
    refused = [one for one in found if isinstance(one, Unwritable)]
    assert [one.seq for one in refused] == [bad]
    assert "cannot hold it" in refused[0].why
    rest = [one for one in found if isinstance(one, OffsetsBatch)]
    assert [one.seqs for one in rest] == [(seq,) for seq in range(3) if seq != bad]
    assert replayed(*(one.data for one in rest)) == [seq for seq in range(3) if seq != bad]
    assert all(found.index(refused[0]) < found.index(one) for one in rest if one.seqs[0] > bad)
    assert batched(appends[bad : bad + 1]) == [], "alone, it leaves no batch at all"


def test_a_log_is_read_in_order() -> None:
    assert replayed(written(record(1), record(2)), written(record(3))) == [1, 2, 3]


def test_offsets_of_transactions_count_from_their_commit_marker_on() -> None:
    assert replayed(
        written(record(1, partition=1), producer_id=7, transactional=True),
        written(record(2), producer_id=8, transactional=True),
        written(record(3)),
        end(8, ControlType.ABORT),
        end(7, ControlType.COMMIT),
        written(record(4), producer_id=9, transactional=True),
    ) == [3, 1]


def test_an_offset_of_a_transaction_does_not_count_where_a_later_one_is_there_already() -> None:
    """As in Apache Kafka: of the records about one thing the one that stands last in the log counts."""
    first, second = {"producer_id": 7, "transactional": True}, {"producer_id": 8, "transactional": True}
    commits = end(7, ControlType.COMMIT), end(8, ControlType.COMMIT)
    assert replayed(written(record(5), **first), written(record(9)), commits[0]) == [9]
    assert replayed(written(record(5), **first), written(record(6), **second), commits[1], commits[0]) == [6]
    assert replayed(written(record(5), **first), written(record(6), **second), *commits) == [5, 6]
    assert replayed(written(record(9)), written(record(5), **first), commits[0]) == [9, 5]
    removed = OffsetRecord("g", "t", 0, None)
    assert replayed(written(record(5), **first), written(removed), commits[0]) == [5]


def test_what_cannot_be_read_is_named_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    broken = build([(0, b"\x00\x01\x00", b"", ()), (0, *pack(record(2)), ()), (0, b"\x00\x09new kind", b"", ())])
    mangled = bytearray(written(record(3)))
    mangled[-3] ^= 0x7F
    with caplog.at_level(logging.WARNING, "moldau.broker.groups"):
        assert replayed(written(record(1)), broken, bytes(mangled), written(record(4))) == [1, 2, 4]
    assert "the record at offset 1 of __consumer_offsets-3 cannot be read" in caplog.text
    assert (
        "the batch at offset 4 of __consumer_offsets-3 cannot be read and is left out: CORRUPT_MESSAGE" in caplog.text
    )


def test_markers_and_payloads_that_say_nothing_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    no_key = build([(0, None, b"", ())], producer_id=7, control=True, transactional=True)
    minus = build([(0, b"\xff\xff\x00\x01", b"", ())], producer_id=7, control=True, transactional=True)
    garbage = raw_batch(b"\xff" * 40, codec=1)
    short = raw_batch(b"\x10", codec=0)
    with caplog.at_level(logging.WARNING, "moldau.broker.groups"):
        assert replayed(written(record(1)), no_key, minus, garbage, short, written(record(2))) == [1, 2]
    assert caplog.text.count("is left out") == 4


@pytest.mark.parametrize("transactional", [False, True])
def test_what_unpacks_to_much_is_unpacked_wherever_the_reader_likes(
    transactional: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    here: list[int] = []

    def watched(codec: int, packed: Any, most: int) -> bytes:
        here.append(most)
        return decompress(codec, packed, most)

    monkeypatch.setattr(slow, "decompress", watched)
    bomb = build([(0, b"\x00\x01\x00", bytes(12 << 20), ()), (0, *pack(record(2)), ())], codec=Codec.GZIP)
    small = build([(0, *pack(record(1)), ())], codec=Codec.GZIP)
    ends: tuple[bytes, ...] = ()
    if transactional:
        bomb, small = (_in_transaction(one) for one in (bomb, small))
        ends = (end(7, ControlType.COMMIT),)
    log: Any = OldLog(small, bomb, small, *ends)
    found = []
    for one in Replay(log, log.log_end_offset).records():
        if isinstance(one, Slow):
            assert max(here) <= slow.UNPACKED_HERE_MAX, "no step of the reader's own unpacks more"
            one()
            here.clear()
        elif isinstance(one, OffsetRecord) and one.value is not None:
            found.append(one.value.offset)
    assert found == ([1] if transactional else [1, 2, 1])
    assert max(here) <= slow.UNPACKED_HERE_MAX


def _in_transaction(data: bytes) -> bytes:
    header = batch.read_header(data)
    return build(
        ((one.timestamp, one.key, one.value, one.headers) for one in batch.records(data)),
        codec=header.codec,
        producer_id=7,
        transactional=True,
    )


def test_a_log_full_of_garbage_is_told_in_a_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    garbage = build([(0, b"\x00\x01\x00", b"", ())] * 500)
    log: Any = OldLog(garbage)
    replay = Replay(log, log.log_end_offset)
    with caplog.at_level(logging.WARNING, "moldau.broker.groups"):
        found = list(replay.records())
    assert replay.left_out == 500
    assert len(found) > 500, "the reader may pause between records that are left out"
    assert len([one for one in caplog.records if one.name.startswith("moldau.")]) < 20


def member(id: str, instance: str | None = None) -> StoredMember:
    return StoredMember(id, instance, "c", "/h", 1000, 1000, b"", b"")


@pytest.mark.parametrize(
    "group",
    [
        StoredGroup("consumer", 1, "range", "a", 0, (member("a", "i"), member("b", "i"))),
        StoredGroup("consumer", 1, "range", "a", 0, (member("a"), member("a"))),
        StoredGroup("consumer", 1, None, "a", 0, (member("a"),)),
        StoredGroup("", 1, "range", "a", 0, (member("a"),)),
        StoredGroup("consumer", 1, "range", "a", 0, (member(""),)),
    ],
)
def test_a_group_that_cannot_be_is_left_out_and_the_others_are_loaded(
    group: StoredGroup, caplog: pytest.LogCaptureFixture
) -> None:
    good = StoredGroup("consumer", 3, "range", "a", 0, (member("a"),))
    log: Any = OldLog(
        build([(0, *pack(GroupRecord("g", good)), ()), (0, *pack(GroupRecord("g", group)), ())]), written(record(8))
    )
    shard = Shard(GroupsConfig())
    with caplog.at_level(logging.WARNING, "moldau.broker.groups"):
        load(shard, log)
    assert shard.groups["g"].generation == 3
    assert shard.groups["g"].offsets[TopicPartition("t", 0)].offset == 8
    assert "the record at offset 1 of __consumer_offsets-3" in caplog.text


def load(shard: Shard, log: Any) -> None:
    for one in Replay(log, log.log_end_offset).records():
        assert not isinstance(one, Slow)
        if one is not None:
            shard.apply(one)
    shard.loaded(Now(0, 0))
    laws.check(shard)


def raw_batch(payload: bytes, *, codec: int) -> bytes:
    """A batch whose checksum is good, whatever is in it."""
    head = bytearray(written(record(0))[:61])
    struct.pack_into(">i", head, 8, 49 + len(payload))
    struct.pack_into(">h", head, 21, codec)
    struct.pack_into(">I", head, 17, crc32c(payload, crc32c(memoryview(head)[21:])))
    return bytes(head) + payload


TEXT = st.sampled_from(["", "a", "b", "i", "range", "x" * 300])
MEMBERS = st.builds(
    StoredMember,
    TEXT,
    st.none() | TEXT,
    TEXT,
    TEXT,
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.binary(max_size=12),
    st.binary(max_size=4),
)
GROUPS = st.builds(
    StoredGroup,
    st.sampled_from(["", "consumer", "connect"]),
    st.integers(-(2**31), 2**31 - 1),
    st.none() | TEXT,
    st.none() | TEXT,
    st.integers(-(2**63), 2**63 - 1),
    st.lists(MEMBERS, max_size=3).map(tuple),
)
OFFSETS = st.builds(
    OffsetRecord,
    st.sampled_from("gh"),
    TEXT,
    st.integers(-(2**31), 2**31 - 1),
    st.none()
    | st.builds(
        StoredOffset,
        st.integers(-(2**63), 2**63 - 1),
        st.integers(-(2**31), 2**31 - 1),
        TEXT,
        st.integers(-(2**63), 2**63 - 1),
        st.none() | st.integers(0, 2**63 - 1),
    ),
)
RECORDS = st.builds(GroupRecord, st.sampled_from("gh"), st.none() | GROUPS) | OFFSETS


def edited(data: bytes | None, edits: list[tuple[int, int]], cut: int) -> bytes | None:
    """The bytes with some of them changed, and the last ``cut`` gone."""
    if not data:
        return data
    changed = bytearray(data)
    for at, value in edits:
        changed[at % len(changed)] = value
    return bytes(changed[: max(len(changed) - cut, 0)])


EDITS = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=3)
ENTRIES = st.builds(
    lambda record, keys, values, cut: (edited(pack(record)[0], keys, 0), edited(pack(record)[1], values, cut)),
    RECORDS,
    st.just([]) | EDITS,
    EDITS,
    st.sampled_from([0, 0, 0, 1, 5]),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(ENTRIES, min_size=1, max_size=8), st.integers(0, 4))
def test_whatever_stands_in_a_group_log_the_shard_loads_keeps_its_laws_and_serves(
    entries: list[tuple[bytes | None, bytes | None]], codec: int
) -> None:
    log: Any = OldLog(build([(0, key, value, ()) for key, value in entries], codec=codec), written(record(77)))
    shard = Shard(GroupsConfig())
    load(shard, log)
    assert shard.groups["g"].offsets[TopicPartition("t", 0)].offset == 77
    for moment in (1, 2**31, 2**40):
        for key in list(shard.deadlines):
            shard.step(Expired(key), Now(moment, moment))
            laws.check(shard)
    for group_id in list(shard.groups):
        shard.step(Describe(group_id), Now(2**40, 0), "t")
        shard.step(FetchOffsets(group_id, None), Now(2**40, 0), "u")
    for pending in list(shard.pending.values()):
        shard.step(AppendCommitted((pending.seq,)), Now(2**40, 0))
        laws.check(shard)
