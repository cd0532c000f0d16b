"""Replicas over the wire, of brokers that are doubles: nothing is waited for in vain, nobody is asked for ever."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pytest

from moldau.admin.replica_check.wire import Silent, verify
from moldau.client.client import Client
from moldau.client.reading import EARLIEST, Offset
from moldau.client.sync import Cluster
from moldau.client.view import Partition, View
from moldau.clusterdata.replica_check.comparing import ReplicaVerdict
from moldau.clusterdata.replica_check.folders import ReadPace
from moldau.model import Code, TopicPartition
from moldau.wire.batch import HEADER_SIZE, build, headers
from moldau.wire.crc import crc32c
from moldau.wire.messages.k01_fetch import FetchRequest, FetchResponse
from tests.packages.doubles import TimeModule

Answer = Callable[[int, FetchRequest], FetchResponse]


class AnsweringClient(Client):
    """A client whose every fetch is answered by a function of (broker, request)."""

    def __init__(self, answer: Answer) -> None:
        self.view, self._answer = View(), answer
        self.asked: list[tuple[int, int]] = []

    async def ask(self, request: FetchRequest, node: Any, **_: object) -> FetchResponse:
        self.asked.append((node.node_id, request.max_wait_ms))
        return self._answer(node.node_id, request)


class Brokers(Cluster):
    """A cluster of such a client, in which nothing waits."""

    def __init__(self, answer: Answer, earliest: int = 0) -> None:
        self.client: AnsweringClient = AnsweringClient(answer)
        self.earliest = earliest

    def offsets(self, asked: Mapping[TopicPartition, int], *, isolation: int = 0) -> dict[TopicPartition, Offset]:
        assert set(asked.values()) == {EARLIEST}
        return dict.fromkeys(asked, Offset(Code.NONE, self.earliest))

    def run(self, work: Coroutine[Any, Any, FetchResponse]) -> FetchResponse:
        try:
            work.send(None)
        except StopIteration as done:
            answer: FetchResponse = done.value
            return answer
        raise AssertionError("it waits")


def empty() -> FetchResponse:
    part = FetchResponse.PartitionData(partition_index=0, high_watermark=0, log_start_offset=0)
    return FetchResponse(responses=[FetchResponse.FetchableTopicResponse(topic="t", partitions=[part])])


def verdicts(brokers: Brokers, number: int, silent: Silent) -> list[ReplicaVerdict]:
    known = Partition(number, leader=1, leader_epoch=0, replicas=[1, 2], isr=[1, 2], offline=[])
    found = verify(brokers, TopicPartition("t", number), known, ReadPace(None), compacted=False, silent=silent)
    return [one.verdict for one in found]


def test_nothing_is_waited_for_where_there_is_nothing() -> None:
    brokers = Brokers(lambda broker, request: empty())
    assert verdicts(brokers, 0, {}) == [ReplicaVerdict.OK, ReplicaVerdict.OK]
    assert brokers.client.asked == [(1, 0), (2, 0)]


def test_a_broker_that_does_not_answer_is_not_asked_for_every_partition_anew() -> None:
    def answer(broker: int, request: FetchRequest) -> FetchResponse:
        if broker == 2:
            raise TimeoutError("no answer for 10 s")
        return empty()

    silent: Silent = {}
    brokers = Brokers(answer)
    for number in range(5):
        assert verdicts(brokers, number, silent) == [ReplicaVerdict.OK, ReplicaVerdict.UNREACHABLE]
    assert [broker for broker, _ in brokers.client.asked].count(2) == 1


def test_what_a_quota_puts_off_is_asked_again_and_is_not_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = TimeModule()
    monkeypatch.setattr("moldau.admin.replica_check.wire.time", clock)
    answers = [FetchResponse(throttle_time_ms=700), FetchResponse(throttle_time_ms=300), empty(), empty()]
    brokers = Brokers(lambda broker, request: answers.pop(0))
    assert verdicts(brokers, 0, {}) == [ReplicaVerdict.OK, ReplicaVerdict.OK]
    assert clock.slept == [0.7, 0.3]


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (Code.CORRUPT_MESSAGE, ReplicaVerdict.DIVERGED),
        (Code.OFFSET_OUT_OF_RANGE, ReplicaVerdict.LAGGING),
        (Code.UNKNOWN_SERVER_ERROR, ReplicaVerdict.UNREACHABLE),
    ],
)
def test_an_error_in_place_of_records_is_told_as_what_it_is(code: Code, verdict: ReplicaVerdict) -> None:
    """A replica that its broker found damaged was said to lag: that would pass, and damage does not."""
    batch = build([(0, None, b"a", ())])

    def answer(broker: int, request: FetchRequest) -> FetchResponse:
        response = empty()
        part = response.responses[0].partitions[0]
        part.high_watermark = 1
        if broker == 2 and request.max_wait_ms:
            part.error_code = code
        elif request.max_wait_ms:
            part.records = batch
        return response

    assert verdicts(Brokers(answer), 0, {}) == [ReplicaVerdict.OK, verdict]


def from_five(request: FetchRequest, data: bytes) -> FetchResponse:
    """What a broker answers whose log begins at offset 5, and ends at 6."""
    (asked,) = request.topics[0].partitions
    response = empty()
    part = response.responses[0].partitions[0]
    if not 5 <= asked.fetch_offset <= 6:  # as brokers of both kinds tell it
        part.error_code, part.high_watermark, part.log_start_offset = Code.OFFSET_OUT_OF_RANGE, -1, -1
        return response
    part.high_watermark, part.log_start_offset = 6, 5
    part.records = data if asked.fetch_offset == 5 else b""
    return response


@pytest.mark.parametrize(("other", "verdict"), [(b"a", ReplicaVerdict.OK), (b"b", ReplicaVerdict.DIVERGED)])
def test_a_log_whose_first_records_are_deleted_is_compared_from_where_it_begins(
    other: bytes, verdict: ReplicaVerdict
) -> None:
    """Nothing of it was compared, and all of its replicas were said to be well."""
    data = {1: build([(0, None, b"a", ())], base_offset=5), 2: build([(0, None, other, ())], base_offset=5)}
    brokers = Brokers(lambda broker, request: from_five(request, data[broker]), earliest=5)
    assert verdicts(brokers, 0, {}) == [ReplicaVerdict.OK, verdict]


@pytest.mark.parametrize("code", [Code.OFFSET_OUT_OF_RANGE, Code.UNKNOWN_SERVER_ERROR])
def test_replicas_of_which_the_leader_does_not_say_up_to_where_are_not_said_to_be_well(code: Code) -> None:
    def answer(broker: int, request: FetchRequest) -> FetchResponse:
        response = empty()
        part = response.responses[0].partitions[0]
        part.error_code, part.high_watermark, part.log_start_offset = code, -1, -1
        return response

    assert verdicts(Brokers(answer), 0, {}) == [ReplicaVerdict.UNREACHABLE, ReplicaVerdict.UNREACHABLE]


def kept(records: list[tuple[int, bytes]]) -> bytes:
    """A batch of the offsets 0 to 3 of which a compaction left these records."""
    whole = bytearray(build([(0, b"%d" % offset, value, ()) for offset, value in records]))
    header = next(headers(whole))[1]
    body, at = bytearray(), HEADER_SIZE
    for offset, _ in records:  # each record is: length, attributes, time, offset, ...; all of them are a byte long here
        size = whole[at] // 2 + 1
        record = whole[at : at + size]
        record[3] = 2 * offset
        body += record
        at += size
    made = whole[:HEADER_SIZE] + body
    made[23:27] = (3).to_bytes(4, "big")
    made[17:21] = crc32c(bytes(made[21:])).to_bytes(4, "big")
    assert len(made) == header.size
    return bytes(made)


@pytest.mark.parametrize(
    ("third", "wanted"),
    [(b"c", [ReplicaVerdict.OK, ReplicaVerdict.OK]), (b"x", [ReplicaVerdict.OK, ReplicaVerdict.DIVERGED])],
)
def test_replicas_that_were_compacted_at_different_points_are_compared_by_record(
    third: bytes, wanted: list[ReplicaVerdict]
) -> None:
    """A topic whose policy was changed from compact to delete was called DIVERGED for ever after."""
    held = {
        1: kept([(0, b"a"), (2, b"c"), (3, b"d")]),
        2: kept([(2, third), (3, b"d")]),
    }

    def answer(broker: int, request: FetchRequest) -> FetchResponse:
        response = empty()
        part = response.responses[0].partitions[0]
        part.high_watermark = 4
        part.records = held[broker]
        return response

    assert verdicts(Brokers(answer), 0, {}) == wanted
