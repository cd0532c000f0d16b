"""What a leader takes from a client, what it refuses and with which code, and how retries are recognised."""

from __future__ import annotations

import pytest

from moldau.storage import Appended, Log, LogConfig, LogDirs
from moldau.terms import Code
from moldau.terms.config_key import ConfigError
from moldau.wire.batch import build, headers, patch, records
from moldau.wire.compression import Codec
from tests.rooms.storage.faulty_disk import FaultyDisk
from tests.rooms.storage.test_log import TOPIC_ID, P, batch

NOW = 1_000_000_000_000


def log_with(config: LogConfig | None = None) -> Log:
    dirs = LogDirs(FaultyDisk(), ["/d"])
    dirs.load(lambda _: LogConfig())
    return dirs.create(P, TOPIC_ID, config or LogConfig())


def changed(at: int, value: int) -> bytearray:
    data = batch()
    data[at] = value
    return data


def based_at_5() -> bytearray:
    data = batch()
    patch(data, 0, 5, -1)
    return data


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (bytearray(), Code.INVALID_RECORD),
        (batch()[:40], Code.CORRUPT_MESSAGE),
        (batch()[:-1], Code.CORRUPT_MESSAGE),
        (batch() + batch()[:70], Code.CORRUPT_MESSAGE),
        (changed(-1, 7), Code.CORRUPT_MESSAGE),
        (changed(16, 1), Code.INVALID_RECORD),
        (changed(16, 3), Code.CORRUPT_MESSAGE),
        (based_at_5(), Code.INVALID_RECORD),
        (batch(1, size=2_000_000), Code.MESSAGE_TOO_LARGE),
        (batch(control=True), Code.INVALID_RECORD),
        (batch(producer_id=1, producer_epoch=0), Code.INVALID_RECORD),
        (batch(transactional=True), Code.INVALID_RECORD),
        (batch(timestamp=NOW + 3_600_001), Code.INVALID_TIMESTAMP),
    ],
)
def test_a_bad_append_is_refused_whole_and_named(data: bytearray, code: Code) -> None:
    log = log_with()
    result = log.append_leader(batch() + data if data and code is not Code.INVALID_RECORD else data, 0, NOW)
    assert result.code is code
    assert result.message
    assert log.log_end_offset == log.size == 0


def test_several_batches_are_taken_together_or_not_at_all() -> None:
    log = log_with(LogConfig(internal_segment_bytes=1000))
    assert log.append_leader(batch() + batch(), 0, NOW)[:3] == (Code.NONE, 0, 5)
    assert log.append_leader(batch() * 3, 0, NOW).code is Code.RECORD_LIST_TOO_LARGE
    assert log.log_end_offset == 6


def test_log_append_time_is_stamped_inside_the_checksum() -> None:
    log = log_with(LogConfig(message_timestamp_type="LogAppendTime"))
    data = batch(timestamp=NOW + 10**9)  # whatever the producer's clock says
    result = log.append_leader(data, 0, NOW)
    assert (result.code, result.append_time_ms) == (Code.NONE, NOW)
    stored = log.read(0, 10_000)
    assert [record.timestamp for record in records(stored)] == [NOW] * 3
    follower = log_with()
    assert follower.append_follower(stored).code is Code.NONE  # the checksum holds


def test_old_timestamps_are_refused_where_the_topic_says_so() -> None:
    log = log_with(LogConfig(message_timestamp_before_max_ms=1000))
    mixed = bytearray(build([(NOW, b"k", b"", []), (NOW - 1001, b"k", b"", [])]))
    assert log.append_leader(mixed, 0, NOW).code is Code.INVALID_TIMESTAMP
    assert log.append_leader(batch(timestamp=NOW - 1000), 0, NOW).code is Code.NONE


def test_a_compacted_topic_needs_keys() -> None:
    log = log_with(LogConfig(cleanup_policy=("compact",)))
    assert log.append_leader(bytearray(build([(NOW, None, b"v", [])])), 0, NOW).code is Code.INVALID_RECORD
    assert log.append_leader(bytearray(build([(NOW, b"k", None, [])])), 0, NOW).code is Code.NONE


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_the_topics_codec_replaces_the_producers(codec: str) -> None:
    log = log_with(LogConfig(compression_type=codec, message_timestamp_type="LogAppendTime"))
    sent = build([(5, b"k", b"v" * 500, [("h", b"1")])] * 4, codec=Codec.GZIP, producer_id=3, producer_epoch=0,
                 base_sequence=0)  # fmt: skip
    assert log.append_leader(bytearray(sent), 7, NOW).last_offset == 3
    stored = log.read(0, 10_000)
    (_, header), = headers(stored)  # fmt: skip
    wanted = Codec.NONE if codec == "uncompressed" else Codec[codec.upper()]
    assert (header.codec, header.producer_id, header.base_sequence, header.leader_epoch) == (wanted, 3, 0, 7)
    assert [(r.timestamp, r.key, r.value, r.headers) for r in records(stored)] == [
        (NOW, b"k", b"v" * 500, [("h", b"1")])
    ] * 4


# -- idempotent producers


def send(log: Log, epoch: int, sequence: int, count: int = 1, id: int = 4) -> Appended:
    return log.append_leader(batch(count, producer_id=id, producer_epoch=epoch, base_sequence=sequence), 0, NOW)


def test_the_last_five_batches_are_recognised_when_they_come_again() -> None:
    log = log_with()
    for number in range(7):
        assert send(log, 0, 2 * number, 2).code is Code.NONE
    for number in range(2, 7):
        result = send(log, 0, 2 * number, 2)
        assert (result.duplicate, result.first_offset, result.last_offset) == (True, 2 * number, 2 * number + 1)
    assert send(log, 0, 2, 2).code is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 14


def test_a_gap_in_the_sequence_is_refused() -> None:
    log = log_with()
    send(log, 0, 0)
    assert send(log, 0, 2).code is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, 0, 1).code is Code.NONE
    assert send(log, 0, 77, id=5).code is Code.NONE  # nothing known of it: its records may have been deleted


def test_an_older_epoch_is_fenced_and_a_newer_one_begins_at_zero() -> None:
    log = log_with()
    send(log, 3, 0)
    assert send(log, 2, 1).code is Code.INVALID_PRODUCER_EPOCH
    assert send(log, 4, 5).code is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, 4, 0).code is Code.NONE
    assert send(log, 3, 1).code is Code.INVALID_PRODUCER_EPOCH


def test_sequences_wrap_at_31_bits() -> None:
    log = log_with()
    assert send(log, 0, 2**31 - 2, 3).code is Code.NONE
    assert send(log, 0, 2**31 - 2, 3).duplicate
    assert send(log, 0, 1).code is Code.NONE
    log = log_with()
    send(log, 0, 2**31 - 1)
    assert send(log, 0, 0).code is Code.NONE


def test_several_batches_of_one_producer_in_one_append_follow_each_other() -> None:
    log = log_with()
    one, two, four = (batch(1, producer_id=4, producer_epoch=0, base_sequence=n) for n in (0, 1, 3))
    assert log.append_leader(one + four, 0, NOW).code is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.append_leader(one + two, 0, NOW).last_offset == 1
    assert send(log, 0, 2).code is Code.NONE


def test_producers_are_forgotten_after_their_time() -> None:
    log = log_with()
    send(log, 0, 0)
    assert log.producers.expire(1000 + 86_400_000, 86_400_000) == 1
    assert send(log, 0, 50).code is Code.NONE


def test_a_follower_remembers_producers_too() -> None:
    leader, follower = log_with(), log_with()
    for number in range(3):
        send(leader, 0, number)
    follower.append_follower(leader.read(0, 10_000))
    assert send(follower, 0, 2).duplicate
    assert send(follower, 0, 3).code is Code.NONE


def test_a_refused_configuration_names_key_value_and_what_is_allowed() -> None:
    for settings, words in (
        ({"retention.ms": "-2"}, "-2 for configuration retention.ms: a whole number"),
        ({"cleanup.policy": "burn"}, "burn for configuration cleanup.policy: a list of compact, delete"),
        ({"nonsense": "1"}, "nonsense"),
    ):
        with pytest.raises(ConfigError, match=words):
            LogConfig.parse(settings)
    parsed = LogConfig.parse({"cleanup.policy": "compact,delete", "preallocate": "true", "retention.ms": None})
    assert (parsed.compact, parsed.delete, parsed.retention_ms) == (True, True, 7 * 24 * 3_600_000)
