"""Bytes of __consumer_offsets, against bytes laid out by hand from the schemas of Kafka's own records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.groups.codec import pack, subscribed_topics, unpack
from moldau.groups.records import (
    GroupRecord,
    OffsetRecord,
    OtherGroupRecord,
    Record,
    StoredGroup,
    StoredMember,
    StoredOffset,
)
from moldau.wire.codec import Malformed


def string(text: str) -> bytes:
    return len(text).to_bytes(2, "big") + text.encode()


def blob(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def number(value: int, size: int) -> bytes:
    return value.to_bytes(size, "big", signed=True)


def test_an_offset_is_written_as_key_1_and_value_3() -> None:
    key, value = pack(OffsetRecord("g", "t", 7, StoredOffset(42, 5, "m", 1000)))
    assert key == b"\x00\x01" + string("g") + string("t") + number(7, 4)
    assert value == b"\x00\x03" + number(42, 8) + number(5, 4) + string("m") + number(1000, 8)


def test_an_offset_with_its_own_expiry_is_written_as_value_1() -> None:
    _, value = pack(OffsetRecord("g", "t", 7, StoredOffset(42, -1, "", 1000, 2000)))
    assert value == b"\x00\x01" + number(42, 8) + string("") + number(1000, 8) + number(2000, 8)


def test_a_group_is_written_as_key_2_and_value_3() -> None:
    member = StoredMember("m-1", "i", "c", "/h", 300, 100, b"sub", b"ass")
    key, value = pack(GroupRecord("g", StoredGroup("consumer", 4, "range", "m-1", 99, (member,))))
    assert key == b"\x00\x02" + string("g")
    assert value == (
        b"\x00\x03" + string("consumer") + number(4, 4) + string("range") + string("m-1") + number(99, 8)
        + number(1, 4) + string("m-1") + string("i") + string("c") + string("/h") + number(300, 4) + number(100, 4)
        + blob(b"sub") + blob(b"ass")
    )  # fmt: skip


def test_values_of_older_and_newer_brokers_are_read() -> None:
    key, _ = pack(OffsetRecord("g", "t", 7, None))
    old = b"\x00\x00" + number(42, 8) + string("m") + number(1000, 8)
    assert unpack(b"\x00\x00" + key[2:], old) == OffsetRecord("g", "t", 7, StoredOffset(42, -1, "m", 1000))
    newer = b"\x00\x04" + number(42, 8) + number(5, 4) + b"\x02m" + number(1000, 8) + b"\x00"
    assert unpack(key, newer) == OffsetRecord("g", "t", 7, StoredOffset(42, 5, "m", 1000))
    key, _ = pack(GroupRecord("g", None))
    empty = b"\x00\x00" + string("") + number(3, 4) + b"\xff\xff" + b"\xff\xff" + number(0, 4)
    assert unpack(key, empty) == GroupRecord("g", StoredGroup("", 3, None, None, -1, ()))


def test_tombstones_and_unknown_kinds() -> None:
    assert unpack(pack(OffsetRecord("g", "t", 7, None))[0], None) == OffsetRecord("g", "t", 7, None)
    assert unpack(pack(GroupRecord("g", None))[0], None) == GroupRecord("g", None)
    assert unpack(b"\x00\x63" + string("g"), b"\x00\x00") is None


@pytest.mark.parametrize("broken", [b"", b"\x00", b"\x00\x01\x00\x05g", b"\x00\x02\x00\x09g"])
def test_broken_keys_are_named_not_guessed(broken: bytes) -> None:
    with pytest.raises(Malformed):
        unpack(broken, None)
    with pytest.raises(Malformed):
        unpack(pack(GroupRecord("g", None))[0], b"\x00\x09")


text = st.text(max_size=8)
stamps = st.integers(0, 2**62)
members = st.builds(
    StoredMember, text, st.none() | text, text, text, st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1),
    st.binary(max_size=8), st.binary(max_size=8),
)  # fmt: skip
groups = st.builds(
    StoredGroup, text, st.integers(0, 2**31 - 1), st.none() | text, st.none() | text, stamps,
    st.lists(members, max_size=3).map(tuple),
)  # fmt: skip
offsets = st.builds(StoredOffset, stamps, st.just(-1), text, stamps, stamps) | st.builds(
    StoredOffset, stamps, st.integers(-1, 2**31 - 1), text, stamps, st.none()
)
records = st.builds(OffsetRecord, text, text, st.integers(0, 2**31 - 1), st.none() | offsets) | st.builds(
    GroupRecord, text, st.none() | groups
)


@given(records)
def test_every_record_comes_back(record: Record) -> None:
    assert unpack(*pack(record)) == record


def test_a_subscription_of_any_version_shows_its_topics_and_rubbish_shows_none() -> None:
    v0 = b"\x00\x00" + number(2, 4) + string("a") + string("b") + number(-1, 4)
    v3 = b"\x00\x03" + v0[2:] + number(0, 4) + number(7, 4) + string("rack")
    assert subscribed_topics(v0) == subscribed_topics(v3) == ("a", "b")
    assert subscribed_topics(b"") is None
    assert subscribed_topics(b"\x00\x00\x7f\xff\xff\xff") is None


def test_of_groups_of_other_protocols_it_is_noted_that_they_are() -> None:
    """Keys of Kafka 4: 3 a consumer group's epoch, 5 its member, 10 a share group's, 19 a streams group's."""
    for kind, of_member in ((3, False), (5, True), (8, False), (10, True), (19, True)):
        key = number(kind, 2) + string("g") + string("member")
        assert unpack(key, b"\0\0") == OtherGroupRecord("g", key, of_member, True)
        assert unpack(key, None) == OtherGroupRecord("g", key, of_member, None)
    assert unpack(number(99, 2) + string("g"), b"") is None
