"""Frames that real clients and a real Apache Kafka broker exchanged, read and written again byte for byte.

The bytes: tests/golden/frames.json, taken off the wire by tests/golden/record.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.model import Code
from moldau.wire import batch
from moldau.wire.apis import APIS
from moldau.wire.frames import (
    read_request,
    read_request_header,
    read_response_body,
    request_frame,
    response_frame,
)

FRAMES = json.loads((Path(__file__).parents[2] / "golden" / "frames.json").read_text())
EXCHANGES = [pytest.param(one, id=f"{APIS[one['key']].name}-v{one['version']}-{one['client']}") for one in FRAMES]
MUST_HAVE = {
    "ApiVersions", "Metadata", "CreateTopics", "Produce", "Fetch", "FindCoordinator", "JoinGroup", "SyncGroup",
    "OffsetCommit", "OffsetFetch", "ListOffsets", "Heartbeat", "LeaveGroup", "InitProducerId",
}  # fmt: skip


def whole(parts):
    return b"".join(bytes(part) for part in parts)[4:]


@pytest.mark.parametrize("one", EXCHANGES)
def test_a_real_request_is_read_and_written_again_byte_for_byte(one):
    frame = bytes.fromhex(one["request"])
    header = read_request_header(memoryview(frame))
    assert (header.api_key, header.api_version) == (one["key"], one["version"])
    message = read_request(memoryview(frame), header)
    assert whole(request_frame(message, header.api_version, header.correlation_id, header.client_id)) == frame


@pytest.mark.parametrize("one", EXCHANGES)
def test_a_real_response_is_read_and_written_again_byte_for_byte(one):
    frame = bytes.fromhex(one["response"])
    message = read_response_body(memoryview(frame), one["key"], one["version"])
    correlation_id = int.from_bytes(frame[:4], "big")
    assert whole(response_frame(message, one["version"], correlation_id)) == frame


def test_every_api_that_clients_need_was_recorded():
    assert {APIS[one["key"]].name for one in FRAMES} >= MUST_HAVE


def batches() -> Iterator[bytes]:
    for one in FRAMES:
        frame = memoryview(bytes.fromhex(one["request"] if one["key"] == 0 else one["response"]))
        if one["key"] == 0:
            request: Any = read_request(frame, read_request_header(frame))
            for topic in request.topic_data:
                yield from (part.records for part in topic.partition_data)
        elif one["key"] == 1:
            response: Any = read_response_body(frame, 1, one["version"])
            for topic in response.responses:
                yield from (part.records for part in topic.partitions if part.records)


def test_real_record_batches_are_sound_and_are_built_again_byte_for_byte():
    found = 0
    for data in batches():
        for pos, head in batch.headers(data):
            assert batch.check(data, pos, head) is Code.NONE
            entries = [(r.timestamp, r.key, r.value, r.headers) for r in batch.records(data, pos)]
            again = batch.build(
                entries, base_offset=head.base_offset, leader_epoch=head.leader_epoch, producer_id=head.producer_id,
                producer_epoch=head.producer_epoch, base_sequence=head.base_sequence,
            )  # fmt: skip
            assert again == bytes(data[pos : pos + head.size])
            found += 1
    assert found >= 8
