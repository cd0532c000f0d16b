"""What Apache Kafka 4.3.1 made of 10,000 batches (tests/golden/record_admission.py), Moldau makes of them too."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path

import pytest

from moldau.model import Code, TopicPartition
from moldau.storage import LogConfig
from moldau.storage.log_validator import BadRecord, InvalidAppend, LogValidator, ValidatedBatches
from moldau.wire.batch import LENGTH_OVERHEAD, BatchHeader, read_header, records
from moldau.wire.crc import crc32c
from tests.golden.produced_batches import CONFIGS, COUNT, NOW_MS, batch_of

VERDICTS = (Path(__file__).parents[2] / "golden" / "admission-4.3.tsv").read_text().splitlines()
PARTS = 20
WRONG_OFFSETS = "UnsupportedOperation"
IN_KAFKAS_WORDS = (Code.INVALID_RECORD, Code.INVALID_TIMESTAMP)


def verdict_of(line: str) -> tuple[Code, list[int], str, list[int] | str, bytes | None]:
    code, indices, digest, stored, packed = (line.split("\t") + [""] * 4)[:5]
    told: list[int] | str = [int(word) for word in stored.split(",")] if code == "0" else stored
    bad = [int(index) for index in indices.split(",") if index]
    return Code(int(code)), bad, digest, told, b64decode(packed) if packed else None


def differs_on_purpose(verdict: str, sent: BatchHeader, ours: Code) -> bool:
    """The differences that decision 20 names, one by one."""
    kafka, indices, _, told, packed = verdict_of(verdict)
    if kafka is Code.UNKNOWN_SERVER_ERROR:  # an exception that nobody in Kafka expected
        return ours in IN_KAFKAS_WORDS or (ours is Code.NONE and (sent.producer_id < -1 or told == WRONG_OFFSETS))
    if sent.producer_id >= 0 > sent.producer_epoch or (sent.is_transactional and sent.producer_id < 0):
        return ours is Code.INVALID_RECORD  # a producer without an epoch could never be fenced
    if kafka in IN_KAFKAS_WORDS and indices:  # Kafka looked for keys where it reads no lengths
        return ours is Code.INVALID_RECORD and bool(sent.codec)
    unreadable = told[-1] == 0  # by Kafka itself, once stored
    not_whole = packed is not None  # cut off after the last record, or followed by other bytes
    return kafka is Code.NONE and ours is Code.INVALID_RECORD and bool(sent.codec) and (unreadable or not_whole)


def stored_as(validated: ValidatedBatches) -> tuple[int, int, int, int]:
    (header,) = validated.headers
    return header.attributes, header.last_offset_delta, header.max_timestamp, header.count


def digest_of(message: str, bad: tuple[BadRecord, ...]) -> str:
    return f"{crc32c(chr(0x1F).join((message, *(record.message for record in bad))).encode()):08x}"


@pytest.mark.parametrize("part", range(PARTS))
def test_ten_thousand_batches_get_the_codes_that_apache_kafka_gives(part: int) -> None:
    wrong = differences({number: VERDICTS[number] for number in range(part, COUNT, PARTS)})
    assert not wrong, f"{len(wrong)} differ: {wrong[:6]}"


def differences(verdicts: Mapping[int, str]) -> list[tuple[object, ...]]:
    """What Moldau makes of batches, by number, where that is other than Kafka's verdict, and not on purpose."""
    validators = {name: LogValidator(LogConfig.parse({**settings})) for name, settings in CONFIGS.items()}
    wrong: list[tuple[object, ...]] = []
    for number, verdict in verdicts.items():
        kafka, indices, digest, told, packed = verdict_of(verdict)
        name, batch, _ = batch_of(number, packed)
        sent = read_header(batch)
        result = validators[name].validate(batch, NOW_MS, False, TopicPartition(name, 0))
        code = result.code if isinstance(result, InvalidAppend) else Code.NONE
        if code is not kafka:
            if not differs_on_purpose(verdict, sent, code):
                wrong.append(
                    (number, name, kafka.name, told, result if isinstance(result, InvalidAppend) else code.name)
                )
            continue
        if isinstance(result, InvalidAppend):
            bad = result.bad_records
            same = ([record.batch_index for record in bad], digest_of(result.message, bad)) == (indices, digest)
            if indices and not same and not differs_on_purpose(verdict, sent, code):
                wrong.append((number, name, "other records or words", indices, result))
            continue
        found = list(records(result.data))  # whatever is taken can be read
        assert not isinstance(told, str)
        attributes, last_delta, _, largest, count, _ = told
        if sent.is_log_append_time:
            largest = max(record.timestamp for record in found)  # Kafka keeps the client's word for it
        if [record.offset for record in found] != list(range(count)):
            wrong.append((number, name, "offsets", told, result.headers))
        elif stored_as(result) != (attributes & ~0x40, last_delta, largest, count):
            wrong.append((number, name, "stored", told, result.headers))
        elif read_header(result.data).length + LENGTH_OVERHEAD != len(result.data):
            wrong.append((number, name, "length", told, result.headers))
    return wrong
