"""What a leader takes from a client, what it refuses and with which code, and how retries are recognised."""

from __future__ import annotations

import zlib

import pytest

from moldau.model import Code
from moldau.model.config_key import ConfigError
from moldau.storage import Appended, Log, LogConfig, LogDirs
from moldau.storage.log_validator import RENUMBERED_MAX, LogValidator, ValidatedBatches
from moldau.wire.batch import build, headers, patch, read_header, records
from moldau.wire.compression import Codec, compress
from moldau.wire.crc import crc32c
from tests.packages.storage.faulty_disk import FaultyDisk
from tests.packages.storage.test_log import TOPIC_ID, P, batch

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


def test_every_bad_record_of_a_batch_is_named_in_kafkas_words() -> None:
    log = log_with(LogConfig(cleanup_policy=("compact",)))
    sent = build([(NOW, b"k" if number % 2 else None, b"v", []) for number in range(5)])
    refused = log.append_leader(sent, 0, NOW)
    text = f"Compacted topic cannot accept message without key in topic partition {P}"
    assert (refused.code, refused.bad_records) == (Code.INVALID_RECORD, ((0, text), (2, text), (4, text)))
    assert refused.message.startswith("One or more records have been rejected due to 3 record errors in total")


def test_a_record_that_is_too_new_is_named_whatever_the_header_says() -> None:
    log = log_with()
    sent = bytearray(build([(NOW, None, b"v", []), (NOW + 3_600_001, None, b"v", [])]))
    stamp(sent, 35, NOW, 8)
    refused = log.append_leader(sent, 0, NOW)
    assert (refused.code, [record.batch_index for record in refused.bad_records]) == (Code.INVALID_TIMESTAMP, [1])


def stamp(batch: bytearray, at: int, value: int, size: int) -> bytearray:
    """The batch with other bytes in its header, and a checksum that agrees."""
    batch[at : at + size] = value.to_bytes(size, "big", signed=True)
    batch[17:21] = crc32c(memoryview(batch)[21:]).to_bytes(4, "big")
    return batch


@pytest.mark.parametrize("bits", [0x08, 0x40, 0x80, -0x8000, 0x7F80 | 0x40])
def test_attribute_bits_that_are_not_a_clients_are_not_stored(bits: int) -> None:
    log = log_with()
    assert log.append_leader(stamp(batch(timestamp=NOW), 21, bits, 2), 0, NOW).code is Code.NONE
    (_, header), = headers(log.read(0, 10_000))  # fmt: skip
    assert (header.attributes, header.delete_horizon_ms, header.max_timestamp) == (0, None, NOW + 2)
    follower = log_with()
    assert follower.append_follower(log.read(0, 10_000)).code is Code.NONE


@pytest.mark.parametrize("bits", [0x20, 0x30, 0x8020 - 0x10000])
def test_no_attribute_makes_a_clients_batch_control(bits: int) -> None:
    assert log_with().append_leader(stamp(batch(), 21, bits, 2), 0, NOW).code is Code.INVALID_RECORD


def test_the_largest_timestamp_is_that_of_the_records_not_the_headers_claim() -> None:
    log = log_with()
    for claim in (-1, 0, NOW + 10**6, 2**62):
        assert log.append_leader(stamp(batch(timestamp=NOW), 35, claim, 8), 0, NOW).code is Code.NONE
    assert {header.max_timestamp for _, header in headers(log.read(0, 10_000))} == {NOW + 2}


@pytest.mark.parametrize("codec", Codec)
def test_offset_deltas_that_do_not_count_up_are_written_anew(codec: Codec) -> None:
    log = log_with()
    sent = bytearray(build([(NOW, b"k", b"v%d" % number, []) for number in range(3)]))
    sent[63 + 1] = 2 * 50  # the first record says that it stands at 50
    body = compress(codec, sent[61:])
    sent[61:] = body
    sent[8:12] = (len(sent) - 12).to_bytes(4, "big")
    assert log.append_leader(stamp(sent, 21, int(codec), 2), 0, NOW).last_offset == 2
    stored = log.read(0, 10_000)
    assert [(record.offset, record.value) for record in records(stored)] == [(0, b"v0"), (1, b"v1"), (2, b"v2")]


def test_many_offset_deltas_that_do_not_count_up_are_refused() -> None:
    sent = bytearray(build([(NOW, None, None, [])] * (RENUMBERED_MAX + 1)))
    sent[64] = 2 * 50
    stamp(sent, 21, 0, 2)
    assert log_with().append_leader(sent, 0, NOW).code is Code.INVALID_RECORD


def is_slow(log: Log, sent: bytearray) -> bool:
    """Whether examining a batch asks for something to be done off the loop."""
    return any(found is not None for found in log.validator.examine(sent, NOW, False, P))


@pytest.mark.parametrize(("count", "slow"), [(100, False), (5_000, True)])
def test_offset_deltas_of_many_records_are_written_anew_off_the_loop(count: int, slow: bool) -> None:
    sent = bytearray(build([(NOW, None, None, [])] * count))
    sent[64] = 2 * 50
    assert is_slow(log_with(), stamp(sent, 21, 0, 2)) is slow


@pytest.mark.parametrize(("size", "slow"), [(10_000, False), (400_000, True)])
def test_what_takes_long_to_pack_in_another_codec_is_packed_off_the_loop(size: int, slow: bool) -> None:
    """A megabyte took gzip 46 ms."""
    sent = bytearray(build([(NOW, None, b"v" * size, [])]))
    assert is_slow(log_with(LogConfig(compression_type="gzip")), sent) is slow


def test_a_batch_that_unpacks_to_far_more_than_it_may_is_too_large_and_not_unpacked() -> None:
    log = log_with(LogConfig(max_message_bytes=100_000))
    record = bytes([12, 0, 0, 0, 0, 1, 0])  # seven bytes: nothing is smaller
    body = zlib.compress(record * 500_000, wbits=31)
    sent = bytearray(build([(NOW, None, b"", [])])[:61] + body)
    sent[8:12] = (len(sent) - 12).to_bytes(4, "big")
    stamp(sent, 23, 499_999, 4)
    stamp(sent, 57, 500_000, 4)
    assert log.append_leader(stamp(sent, 21, 1, 2), 0, NOW).code is Code.MESSAGE_TOO_LARGE


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


def test_a_batch_is_looked_at_where_it_lies_in_the_bytes_of_its_request() -> None:
    validator = LogValidator(LogConfig())
    sent = build([(NOW, None, b"x" * size, ()) for size in (100, 130, 70)])
    header = read_header(sent)
    request = bytearray(b"before" + sent + b"behind")
    view = memoryview(request)[6 : 6 + len(sent)]
    validated = validator.validate_quickly(view, header, NOW, at=6)
    assert validated is not None
    assert validated.data is view
    assert validator.validate_quickly(view, header, NOW) is not None
    assert validator.validate_quickly(view, header, NOW, at=5) is None, "another place has another checksum"
    assert validator.validate_quickly(view.toreadonly(), header, NOW, at=6) is None, "offsets could not be written"
    request[-9] ^= 1  # the last record's value
    assert validator.validate_quickly(view, header, NOW, at=6) is None


def test_the_append_time_that_is_told_is_the_one_that_was_stamped() -> None:
    log = log_with(LogConfig.parse({"message.timestamp.type": "LogAppendTime"}))
    validated = log.validator.validate(batch(), NOW, False)
    assert isinstance(validated, ValidatedBatches)
    assert log.append_leader(validated, 0, NOW + 5).append_time_ms == NOW
