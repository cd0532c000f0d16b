"""What a scan says of a batch's records is what reading them says, whichever way it went through them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.wire.batch import HEADER_SIZE, LONG_MAX, BatchHeader, build, read_header, records
from moldau.wire.compression import BatchError
from moldau.wire.scan import ALIKE_MIN, FOUND_MAX, Scan, Wanted, is_one_record

BASE = 1_800_000_000_000
ANY = Wanted()


def alike(count: int, size: int = 100, *, key: bytes | None = None, per_ms: int = 30) -> bytearray:
    value = bytes(range(256)) * (size // 256 + 1)
    return bytearray(build((BASE + number // per_ms, key, value[:size], ()) for number in range(count)))


def scanned(batch: bytes, wanted: Wanted = ANY, *, by_column: bool = True, part: int = LONG_MAX) -> Scan:
    scan = Scan(read_header(batch), bytes(batch[HEADER_SIZE:]), wanted)
    if not by_column:
        scan._misses = 99
    scan.run(part)
    while not scan.done:
        scan.run(part)
    return scan


def summary(scan: Scan) -> tuple[object, ...]:
    return scan.count, scan.index, scan.in_order, scan.largest, scan.bad, scan.found


@pytest.mark.parametrize("count", [1, ALIKE_MIN, 63, 64, 65, 200, 8192, 8300])
@pytest.mark.parametrize("size", [0, 55, 100, 9000])
def test_records_of_one_size_are_scanned_as_those_read_one_by_one(count: int, size: int) -> None:
    count = count if size < 200 else min(count, 65)
    batch = alike(count, size, key=b"key" if size == 55 else None)
    for wanted in (Wanted(), Wanted(keyed=True), Wanted(False, BASE, BASE), Wanted(none_at_all=True)):
        expected = summary(scanned(batch, wanted, by_column=False))
        assert summary(scanned(batch, wanted)) == summary(scanned(batch, wanted, part=7)) == expected
    assert scanned(batch).largest == read_header(batch).max_timestamp


def test_ten_thousand_records_of_one_size_are_not_read_one_by_one() -> None:
    scan = Scan(read_header(alike(10_000)), bytes(alike(10_000)[HEADER_SIZE:]), Wanted())
    steps = 0
    while not scan.done:
        scan.run(100)
        steps += 1
    assert steps < 20


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 300), st.sampled_from([None, b"k", b"four"]))
def test_one_changed_byte_is_seen_by_column_as_it_is_one_by_one(seed: int, count: int, key: bytes | None) -> None:
    chance = random.Random(seed)
    batch = alike(count, chance.choice((0, 3, 60, 70)), key=key, per_ms=chance.choice((1, 5, 100)))
    for _ in range(chance.choice((1, 1, 2))):
        at = chance.randrange(HEADER_SIZE, len(batch))
        batch[at] = chance.choice((0, 1, 2, 128, batch[at] ^ 1, batch[at] ^ 2, chance.randrange(256)))
    outcomes = []
    for by_column in (True, False):
        try:
            outcomes.append(summary(scanned(batch, Wanted(True, BASE, BASE + 50), by_column=by_column)))
        except BatchError:
            outcomes.append(("BatchError",))
    assert outcomes[0] == outcomes[1]
    try:
        found = list(records(batch))
    except BatchError:
        assert outcomes[0] == ("BatchError",)
    else:
        assert outcomes[0][2] == ([record.offset for record in found] == list(range(count)))
        assert outcomes[0][3] == max(record.timestamp for record in found)


def test_so_many_bad_records_are_named_and_the_others_counted() -> None:
    scan = scanned(alike(FOUND_MAX + 500), Wanted(keyed=True))
    assert (len(scan.found), scan.bad) == (FOUND_MAX, FOUND_MAX + 500)


def test_sums_of_timestamps_wrap_around() -> None:
    batch = bytearray(build([(0, None, b"a", ()), (1, None, b"b", ())]))
    header: BatchHeader = read_header(batch)._replace(base_timestamp=LONG_MAX)
    scan = Scan(header, bytes(batch[HEADER_SIZE:]), Wanted(False, 0, LONG_MAX))
    scan.run()
    assert [found.timestamp for found in scan.found] == [-LONG_MAX - 1]


@settings(max_examples=400, deadline=None)
@given(
    st.none() | st.binary(max_size=70),
    st.none() | st.binary(max_size=200),
    st.sampled_from([(), [("h", b"v")]]),
    st.none() | st.tuples(st.integers(0, 300), st.integers(0, 255)),
    st.booleans(),
)
def test_what_passes_for_one_record_at_a_glance_passes_when_it_is_read(
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes]],
    change: tuple[int, int] | None,
    keyed: bool,
) -> None:
    batch = bytearray(build([(BASE, key, value, headers)]))
    if change is not None:
        batch[HEADER_SIZE + change[0] % (len(batch) - HEADER_SIZE)] = change[1]
    glance = is_one_record(memoryview(batch), keyed)
    if glance:
        scan = scanned(batch, Wanted(keyed))
        assert summary(scan) == (1, 1, True, BASE, 0, [])
    elif change is None:
        assert headers or (keyed and key is None) or len(batch) == HEADER_SIZE


def test_a_record_that_is_not_in_the_common_form_does_not_pass_at_a_glance() -> None:
    for bad in (b"", b"\x0c", b"\xff" * 12, b"\x0c\0\0\0\x01\x01", b"\x0c\0\0\0\x01\x01\0\0"):
        assert not is_one_record(memoryview(bytes(HEADER_SIZE) + bad), False)
    assert is_one_record(memoryview(bytes(HEADER_SIZE) + b"\x0c\0\0\0\x01\x01\0"), False)


def test_few_records_are_read_where_they_are() -> None:
    batch = alike(ALIKE_MIN - 1, 3000)
    scan = Scan(read_header(batch), memoryview(batch)[HEADER_SIZE:], ANY)
    scan.run()
    assert summary(scan) == summary(scanned(batch))
