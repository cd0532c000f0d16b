"""What a scan says of a batch's records is what reading them says, whichever way it went through them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.wire.batch import HEADER_SIZE, BatchHeader, build, read_header, records
from moldau.wire.codec import Buffer
from moldau.wire.common_form import is_one_record, read_common
from moldau.wire.compression import BatchError
from moldau.wire.scan import FOUND_MAX, RecordBounds, Scan
from moldau.wire.varints import LONG_MAX
from tests.examples import examples

BASE = 1_800_000_000_000
ANY = RecordBounds()


def alike(count: int, size: int = 100, *, key: bytes | None = None, per_ms: int = 30) -> bytearray:
    value = bytes(range(256)) * (size // 256 + 1)
    return bytearray(build((BASE + number // per_ms, key, value[:size], ()) for number in range(count)))


def scanned(batch: Buffer, wanted: RecordBounds = ANY, *, by_column: bool = True, part: int = LONG_MAX) -> Scan:
    scan = Scan(read_header(batch), bytes(batch[HEADER_SIZE:]), wanted)
    if not by_column:
        scan._misses = 99
    scan.run(part)
    while not scan.done:
        scan.run(part)
    return scan


def summary(scan: Scan) -> tuple[object, ...]:
    return scan.count, scan.index, scan.in_order, scan.largest, scan.bad, scan.found


@pytest.mark.parametrize("count", [1, 24, 63, 64, 65, 200, 8192, 8300])
@pytest.mark.parametrize("size", [0, 55, 100, 9000])
def test_records_of_one_size_are_scanned_as_those_read_one_by_one(count: int, size: int) -> None:
    count = count if size < 200 else min(count, 65)
    batch = alike(count, size, key=b"key" if size == 55 else None)
    for wanted in (
        RecordBounds(),
        RecordBounds(keyed=True),
        RecordBounds(False, BASE, BASE),
        RecordBounds(none_at_all=True),
    ):
        expected = summary(scanned(batch, wanted, by_column=False))
        assert summary(scanned(batch, wanted)) == summary(scanned(batch, wanted, part=7)) == expected
    assert scanned(batch).largest == read_header(batch).max_timestamp


def test_ten_thousand_records_of_one_size_are_not_read_one_by_one() -> None:
    scan = Scan(read_header(alike(10_000)), bytes(alike(10_000)[HEADER_SIZE:]), RecordBounds())
    steps = 0
    while not scan.done:
        scan.run(100)
        steps += 1
    assert steps < 20


@settings(max_examples=examples(400), deadline=None)
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
            outcomes.append(summary(scanned(batch, RecordBounds(True, BASE, BASE + 50), by_column=by_column)))
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
    scan = scanned(alike(FOUND_MAX + 500), RecordBounds(keyed=True))
    assert (len(scan.found), scan.bad) == (FOUND_MAX, FOUND_MAX + 500)


def test_sums_of_timestamps_wrap_around() -> None:
    batch = bytearray(build([(0, None, b"a", ()), (1, None, b"b", ())]))
    header: BatchHeader = read_header(batch)._replace(base_timestamp=LONG_MAX)
    scan = Scan(header, bytes(batch[HEADER_SIZE:]), RecordBounds(False, 0, LONG_MAX))
    scan.run()
    assert [found.timestamp for found in scan.found] == [-LONG_MAX - 1]


@settings(max_examples=examples(400), deadline=None)
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
    glance = is_one_record(batch, HEADER_SIZE, len(batch), keyed)
    if glance:
        scan = scanned(batch, RecordBounds(keyed))
        assert summary(scan) == (1, 1, True, BASE, 0, [])
    elif change is None:
        assert headers or (keyed and key is None) or len(batch) == HEADER_SIZE


def test_a_record_that_is_not_in_the_common_form_does_not_pass_at_a_glance() -> None:
    def passes(record: bytes) -> bool:
        return is_one_record(bytes(HEADER_SIZE) + record, HEADER_SIZE, HEADER_SIZE + len(record), False)

    for bad in (b"", b"\x0c", b"\xff" * 12, b"\x0c\0\0\0\x01\x01", b"\x0c\0\0\0\x01\x01\0\0"):
        assert not passes(bad)
    assert passes(b"\x0c\0\0\0\x01\x01\0")
    assert passes(b"\x0e\0\0\0\x01\x02a\0")
    assert not passes(b"\x0e\0\0\0\x01\x02a\x01")


@st.composite
def batches_of_clients(draw: st.DrawFn) -> tuple[bytearray, int]:
    """A batch as producers write them, mostly in the common form, some bytes changed; and where it begins."""
    chance = random.Random(draw(st.integers(0, 2**32)))
    count = chance.choice((1, 2, 6, 7, 40, 64, 65, 130, 300))
    least, spread = chance.choice((0, 5, 40, 50, 100, 1000)), chance.choice((0, 0, 1, 7, 30, 200))
    keys = chance.choice(([None], [None], [b""], [b"k"], [b"k" * 20], [b"k" * 80], [b"a", b"bcd"], [None, b"a"]))
    per_ms = chance.choice((1, 1, 5, 100))
    made = (
        (
            BASE + number // per_ms,
            chance.choice(keys),
            None if not chance.randrange(500) else chance.randbytes(least + chance.randrange(spread + 1)),
            () if chance.randrange(400) else [("h", b"v")],
        )
        for number in range(count)
    )
    batch = bytearray(build(made))
    for _ in range(chance.choice((0, 0, 1, 1, 3))):
        at = chance.randrange(HEADER_SIZE, len(batch))
        if count > 1 and chance.randrange(2):  # one byte of the first records' fields
            at = min(HEADER_SIZE + chance.randrange(12), len(batch) - 1)
        batch[at] = chance.choice((0, 1, 2, 128, batch[at] ^ 1, batch[at] ^ 2, batch[at] ^ 128, chance.randrange(256)))
    return batch, chance.choice((0, 1, 77))


@settings(max_examples=examples(1500), deadline=None)
@given(batches_of_clients(), st.booleans(), st.sampled_from([LONG_MAX, 50, 7]))
def test_what_is_read_in_the_common_form_is_what_is_read_one_by_one(
    made: tuple[bytearray, int], keyed: bool, work: int
) -> None:
    batch, before = made
    header = read_header(batch)
    owner = bytearray(bytes([255]) * before + batch + b"\x02\0\0\x7e\x01\x80\x01" * 40)
    at, end = before + HEADER_SIZE, before + len(batch)
    index, pos, largest = read_common(owner, at, end, 0, header.count, keyed=keyed, work=work)
    assert 0 <= index <= header.count
    assert at <= pos <= end
    plain = Scan(header._replace(count=index), bytes(owner[at:pos]), RecordBounds(keyed))
    plain._misses = 99
    plain.run()  # no BatchError: those records are sound, and nothing else is there
    assert (plain.in_order, plain.bad) == (True, 0)
    if index:
        assert plain.largest == BASE + largest
    else:
        assert (pos, largest) == (at, -1)


@settings(max_examples=examples(1500), deadline=None)
@given(
    batches_of_clients(), st.sampled_from([RecordBounds(), RecordBounds(True), RecordBounds(False, BASE, BASE + 20)])
)
def test_a_scan_says_the_same_whichever_way_it_goes(made: tuple[bytearray, int], wanted: RecordBounds) -> None:
    outcomes = []
    for by_column, part in ((True, LONG_MAX), (True, 9), (False, LONG_MAX)):
        try:
            outcomes.append(summary(scanned(made[0], wanted, by_column=by_column, part=part)))
        except BatchError:
            outcomes.append(("BatchError",))
    assert outcomes[0] == outcomes[1] == outcomes[2]


@pytest.mark.parametrize("key", [None, b"k" * 36])
@pytest.mark.parametrize("spread", [0, 37])
@pytest.mark.parametrize("per_ms", [2, 1000])
def test_twenty_thousand_records_are_read_in_the_common_form(key: bytes | None, spread: int, per_ms: int) -> None:
    value = bytes(200)
    made = ((BASE + n // per_ms, key, value[: 100 + n * 31 % (spread + 1)], ()) for n in range(20_000))
    batch = build(made)
    expected = 20_000, len(batch), read_header(batch).max_timestamp - BASE
    found = read_common(batch, HEADER_SIZE, len(batch), 0, 20_000, keyed=False, work=LONG_MAX)
    assert found == expected or (per_ms == 2 and found[0] >= 16_000)  # deltas of three bytes are read one by one
