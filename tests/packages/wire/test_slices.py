"""Large messages in slices: the same message and the same bytes as at once, no slice much larger than another, and a
bound on how much one request may ask for. Strings have the length that Kafka's generated code gives them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.wire.apis import APIS
from moldau.wire.codec import Malformed, Steps, decode_in_slices, encode_in_slices
from moldau.wire.frames import read_request, read_request_header, read_request_in_slices, request_frame
from moldau.wire.messages.k00_produce import ProduceRequest
from moldau.wire.messages.k01_fetch import FetchRequest
from moldau.wire.messages.k08_offset_commit import OffsetCommitRequest
from moldau.wire.messages.k09_offset_fetch import OffsetFetchRequest
from moldau.wire.messages.k19_create_topics import CreateTopicsResponse
from moldau.wire.schema import Message
from tests.packages.wire.messages import struct

T = TypeVar("T")
MESSAGES = [message for api in APIS.values() for message in (api.request, api.response)]
Topic = OffsetFetchRequest.OffsetFetchRequestTopic


def finish(work: Generator[None, None, T]) -> tuple[T, int]:
    """What the work returns, and how often it paused."""
    pauses = 0
    while True:
        try:
            next(work)
            pauses += 1
        except StopIteration as end:
            return end.value, pauses


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
@settings(max_examples=5)
@given(data=st.data())
def test_a_message_in_slices_is_the_message(cls: type[Message], data: st.DataObject) -> None:
    version = data.draw(st.integers(*cls.versions))
    message = data.draw(struct(cls, version))
    out = bytearray()
    finish(encode_in_slices(message, version, out, [], Steps(0)))
    whole = message.encode(version)
    if not any(field.type == "records" for field in cls.fields):
        assert bytes(out) == whole or len(out) < len(whole)  # records that are cut out are missing
    (again, end), _ = finish(decode_in_slices(cls, memoryview(whole), 0, version, Steps(1 << 20)))
    assert (again, end) == (message, len(whole))


def read(message: Message, version: int, items_max: int) -> tuple[Message, int]:
    frame = memoryview(b"".join(bytes(part) for part in request_frame(message, version, 1, "test")))[4:]
    return finish(read_request_in_slices(frame, read_request_header(frame), items_max))


@pytest.mark.parametrize("version", [5, 8])
def test_a_long_array_of_numbers_is_decoded_with_pauses(version: int) -> None:
    numbers = list(range(100_000))
    asked: Any = OffsetFetchRequest(group_id="g", topics=[Topic(name="t", partition_indexes=numbers)])
    if version >= 8:
        topics = [OffsetFetchRequest.OffsetFetchRequestTopics(name="t", partition_indexes=numbers)]
        asked = OffsetFetchRequest(groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=topics)])
    message, pauses = read(asked, version, 200_000)
    assert message == asked
    assert pauses >= 20


def test_a_fetch_of_a_hundred_thousand_partitions_is_decoded_with_pauses() -> None:
    parts = [FetchRequest.FetchPartition(partition=number) for number in range(100_000)]
    asked = FetchRequest(topics=[FetchRequest.FetchTopic(topic="t", partitions=parts)])
    message, pauses = read(asked, 12, 200_000)
    assert len(message.topics[0].partitions) == 100_000  # type: ignore[attr-defined]
    assert pauses >= 190, "one slice holds some five hundred partitions"


def test_arrays_that_hold_too_much_together_are_refused_before_it_is_built() -> None:
    asked = OffsetFetchRequest(group_id="g", topics=[Topic(name="t", partition_indexes=[7] * 60)] * 2)
    assert read(asked, 5, 122)[0] == asked
    with pytest.raises(Malformed, match=r"partition_indexes has 60 items"):
        read(asked, 5, 121)


def test_a_small_message_does_not_pause() -> None:
    asked = OffsetFetchRequest(group_id="g", topics=[Topic(name="t", partition_indexes=[1, 2])])
    assert read(asked, 5, 1000) == (asked, 0)


@pytest.mark.parametrize(("length", "taken"), [(32_767, True), (32_768, False)])
def test_a_compact_string_is_no_longer_than_any_other(length: int, taken: bool) -> None:
    topics = [OffsetCommitRequest.OffsetCommitRequestTopic(name="t")]
    honest = OffsetCommitRequest(group_id="g" * 32_767, topics=topics).encode(8)
    prefix, rest = honest[:3], honest[3 + 32_767 :]
    assert prefix == b"\x80\x80\x02"
    asked = bytes((((length + 1) & 0x7F) | 0x80, (((length + 1) >> 7) & 0x7F) | 0x80, (length + 1) >> 14))
    frame = asked + b"g" * length + rest
    if taken:
        assert OffsetCommitRequest.decode(frame, 8).group_id == "g" * length
    else:
        with pytest.raises(Malformed, match=r"group_id has 32768 bytes"):
            OffsetCommitRequest.decode(frame, 8)


def test_a_string_that_nobody_could_read_is_not_written() -> None:
    with pytest.raises(ValueError, match=r"group_id of 32768 bytes"):
        OffsetCommitRequest(group_id="g" * 32_768).encode(8)


@pytest.mark.parametrize("version", [4, 7])
def test_words_of_ours_that_quote_too_much_are_cut_between_characters(version: int) -> None:
    words = "x" + "é" * 20_000
    shown = CreateTopicsResponse.CreatableTopicResult(name="t", error_code=17, error_message=words)
    answer = CreateTopicsResponse.decode(CreateTopicsResponse(topics=[shown]).encode(version), version)
    assert answer.topics[0].error_message == words[: 1 + 16_383]


def test_a_struct_with_more_tagged_fields_than_any_message_has_is_refused() -> None:
    honest = OffsetCommitRequest(group_id="g").encode(8)
    assert honest.endswith(b"\0")
    with pytest.raises(Malformed, match=r"33 tagged fields"):
        OffsetCommitRequest.decode(honest[:-1] + b"\x21" + b"\x70\0" * 33, 8)


@pytest.mark.parametrize("version", [3, 9, 13])
def test_a_request_is_read_where_it_lies_and_tells_where_its_records_begin(version: int) -> None:
    parts = [ProduceRequest.PartitionProduceData(index=n, records=bytes([n]) * 300) for n in range(3)]
    parts.append(ProduceRequest.PartitionProduceData(index=3))
    sent = ProduceRequest(topic_data=[ProduceRequest.TopicProduceData(partition_data=parts)])
    frame = b"".join(bytes(part) for part in request_frame(sent, version, 1, "test"))
    came = memoryview(bytearray(b"what came before" + frame))
    header = read_request_header(came, 20)
    assert header.client_id == "test"
    for request in (read_request(came, header), finish(read_request_in_slices(came, header, 100))[0]):
        assert isinstance(request, ProduceRequest)
        assert request == sent
        *whole, empty = request.topic_data[0].partition_data
        assert [came[part.records_at : part.records_at + 300] for part in whole] == [part.records for part in parts[:3]]
        assert empty.records_at == -1
