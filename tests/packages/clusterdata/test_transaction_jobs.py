"""``__transaction_state`` as tables: against the words of Kafka's own tool about the same bytes, and against a fold."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.wire.batch import Builder, build
from moldau.wire.records.framing import pack_versioned
from moldau.wire.records.transactions import TransactionLogKey, TransactionLogValue
from tests.golden.dump_records import KINDS, TRANSACTIONS, sound, spoiled
from tests.golden.transaction_log import RECORDED, STATES, TOPIC, Row, newest, row, write_recorded
from tests.packages.clusterdata.naive import replica
from tests.packages.clusterdata.test_job_commands import said
from tests.packages.clusterdata.test_jobs import table

NEWEST, HISTORY = "transactions", "transaction-history"
WORDS = json.loads((RECORDED.parent / "dump-records-4.3.json").read_text())[TRANSACTIONS]
RECORD_KINDS = [kind for kind in KINDS if kind.option == TRANSACTIONS]


def key(id: str) -> bytes:
    return pack_versioned(TransactionLogKey(transactional_id=id), 0)


def value(status: int = 0, version: int = 1, producer_id: int = 7) -> bytes:
    return pack_versioned(TransactionLogValue(producer_id=producer_id, transaction_status=status), version)


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[Path, list[Row]]:
    """The log that a broker of Kafka wrote, and what Kafka's tool says of it."""
    return tmp_path, write_recorded(tmp_path / "1")


def test_what_a_broker_of_kafka_wrote_is_told_as_kafka_tells_it(recorded: tuple[Path, list[Row]]) -> None:
    folder, told = recorded
    assert len(told) == 45
    assert table(HISTORY, folder) == told
    assert {one["transactional_id"]: one for one in table(NEWEST, folder)} == newest(told)
    states = {id: one["state"] for id, one in newest(told).items()}
    assert states == {
        "aborted": "CompleteAbort", "before KIP-890: abort": "CompleteAbort", "late": "CompleteAbort",
        "committed": "CompleteCommit", "before KIP-890: commit": "CompleteCommit", "java": "CompleteCommit",
        "ünïcode ☃": "CompleteCommit", "idle": "Empty", "open": "Ongoing", "removed": None,
    }  # fmt: skip
    assert {one["version"] for one in told} == {0, 1, None}
    assert {one["client_version"] for one in told} == {0, 2, None}


def test_one_transactional_id_is_told_of_and_one_that_is_nowhere_is_named(recorded: tuple[Path, list[Row]]) -> None:
    folder, told = recorded
    mine = [one for one in told if one["transactional_id"] == "java"]
    assert table(HISTORY, folder, transactional_ids=("java",)) == mine
    code, text = said(NEWEST, folder, "--transactional-id", "java", "-o", "json")
    assert (code, json.loads(text)) == (0, mine[-1:])
    code, text = said(HISTORY, folder, "--transactional-id", "java", "--transactional-id", "jawa")
    assert (code, f"not in {folder}: transactional id jawa" in text) == (1, True), text
    assert text.count("CompleteCommit") == len([one for one in mine if one["state"] == "CompleteCommit"])


@pytest.mark.parametrize("verb", [NEWEST, HISTORY])
def test_a_folder_without_transactions_is_no_success(tmp_path: Path, verb: str) -> None:
    code, text = said(verb, tmp_path, "--transactional-id", "a")
    assert (code, f"nothing to read for `moldau job {verb}`" in text) == (1, True), text
    assert "transactional id a" in text


def test_records_of_every_kind_sound_and_not_are_read_where_kafka_reads_them(tmp_path: Path) -> None:
    """What Kafka's tool cannot read is a row with the reason, and the offset of the record."""
    entries = [[None if one is None else bytes.fromhex(one) for one in fields] for *fields, _ in WORDS]
    log = [build([(9, *entry, ())], base_offset=offset) for offset, entry in enumerate(entries)]
    replica(tmp_path, 1, f"{TOPIC}-3", log)
    found = table(HISTORY, tmp_path)
    assert len(found) == len(WORDS)
    for offset, ((*_, words), mine) in enumerate(zip(WORDS, found, strict=True)):
        assert (mine["log_partition"], mine["log_offset"], mine["record_ms"]) == (3, offset, 9)
        shown, _, payload = words.strip().removeprefix("| ").removeprefix("key: ").partition(" payload: ")
        if not payload:
            assert mine["reason"], words
            assert mine["state"] is mine["producer_id"] is mine["tombstone"] is None
            kind = words.partition("Unknown record type ")[2].partition(" ")[0]
            version = words.partition("unknown record version ")[2].partition(" ")[0]
            assert f"type {kind}" in mine["reason"] or not kind
            assert f"version {version} " in mine["reason"] or not version
            continue
        told = row(shown, payload)
        assert {name: mine[name] for name in told} == told
        assert (mine["reason"] is None) == (told["state"] is not None or told["tombstone"]), mine
    assert sum(one["reason"] is None for one in found) > 5


def test_a_state_that_is_not_known_is_named_and_the_rest_is_told(tmp_path: Path) -> None:
    replica(tmp_path, 1, f"{TOPIC}-0", [build([(1, key("a"), value(status=9), ())])])
    ((one),) = table(NEWEST, tmp_path)
    assert (one["transactional_id"], one["state"], one["producer_id"]) == ("a", None, 7)
    assert (one["tombstone"], one["reason"]) == (False, "its state: 9 is not known")


def test_of_an_id_whose_newest_record_cannot_be_read_no_older_state_is_told(tmp_path: Path) -> None:
    builder = Builder()
    for id, data in (("a", value(4)), ("b", value(1)), ("a", b"\0\2" + value(1)[2:]), ("c", b""), ("d", None)):
        builder.append(5, key(id), data)
    builder.append(5, None, value())
    builder.append(5, b"\0\1" + key("e")[2:], value())
    replica(tmp_path, 1, f"{TOPIC}-0", [builder.finish()])
    names = ("transactional_id", "state", "log_offset", "reason")
    assert [tuple(one[name] for name in names) for one in table(NEWEST, tmp_path)] == [
        ("a", None, 2, "its value: version 2 is not known: 0 and 1 are"),
        ("b", "Ongoing", 1, None),
        ("c", None, 3, "its value: a versioned blob needs 2 bytes, 0 are there"),
        ("d", None, 4, None),
        (None, None, 5, "a record without a key"),
        (None, None, 6, "a record of type 1: 0 alone is known"),
    ]
    tombstones = [one["tombstone"] for one in table(NEWEST, tmp_path)]
    assert tombstones == [None, False, None, True, None, None]
    code, text = said(NEWEST, tmp_path)
    assert (code, "version 2 is not known" in text) == (0, True), text


RECORDS = st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.integers(0, 7)), st.integers(0, 1))


@settings(deadline=None, max_examples=60)
@given(st.lists(RECORDS, min_size=1, max_size=12), st.sets(st.integers(0, 11)), st.integers(0, 2**32))
def test_the_newest_of_each_id_is_that_of_a_fold_and_damaged_batches_are_named(
    written: list[tuple], damaged: set[int], seed: int
) -> None:
    log, expected, history = [], dict[str, tuple](), list[tuple]()
    for offset, (id, status, version) in enumerate(written):
        data = None if status is None else value(status, version, producer_id=offset)
        batch = bytearray(build([(offset, key(id), data, ())], base_offset=offset))
        if offset in damaged:
            batch[-1 - seed % 8] ^= 1 + seed % 255
        else:
            told = (id, None if status is None else STATES[status], None if status is None else offset, offset)
            expected[id] = told
            history.append(told)
        log.append(bytes(batch))
    with tempfile.TemporaryDirectory() as folder:
        replica(Path(folder), 1, f"{TOPIC}-0", log)
        found, all_of_them = table(NEWEST, Path(folder)), table(HISTORY, Path(folder))

    def seen(some: list[dict]) -> list[tuple]:
        names = ("transactional_id", "state", "producer_id", "log_offset")
        return [tuple(one[name] for name in names) for one in some if one["reason"] is None]

    assert {one[0]: one for one in seen(found)} == expected
    assert seen(all_of_them) == history
    reasons = [one["reason"] for one in all_of_them if one["reason"] is not None]
    assert bool(reasons) == bool(damaged & set(range(len(written))))
    assert all(f"{TOPIC}-0/" in one and ", byte " in one for one in reasons)


def test_spoiled_records_end_nothing_and_hide_no_other(tmp_path: Path) -> None:
    rng = random.Random(14)
    log = []
    for offset in range(0, 2000, 2):
        kind = RECORD_KINDS[0]
        entry = spoiled(rng, sound(kind, rng.randrange(2), rng.randrange(60)))
        log.append(build([(1, *entry, ()), (1, key(f"sound-{offset}"), value(1), ())], base_offset=offset))
    replica(tmp_path, 1, f"{TOPIC}-0", log)
    found = table(HISTORY, tmp_path)
    assert [one["log_offset"] for one in found] == list(range(2000))
    assert [one["state"] for one in found[1::2]] == ["Ongoing"] * 1000
    assert 100 < sum(one["reason"] is not None for one in found[::2]) < 1000


def test_the_replica_that_goes_furthest_is_read(tmp_path: Path) -> None:
    first, second = (build([(1, key("a"), value(status), ())], base_offset=status) for status in (0, 1))
    replica(tmp_path / "1", 1, f"{TOPIC}-0", [first])
    replica(tmp_path / "2", 2, f"{TOPIC}-0", [first, second])
    assert [one["state"] for one in table(NEWEST, tmp_path)] == ["Ongoing"]
