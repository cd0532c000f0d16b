"""The books: every line balances, a batch has one line however often it runs, and totals are sums of lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.pipeline.books import (
    BATCH,
    REPLAY,
    AnotherRun,
    BookLine,
    Books,
    BookTotals,
    BrokenLine,
    Count,
    Drift,
    NotBalanced,
    SinkRows,
    balances,
    check,
    outcomes,
)


class Memory:
    """Files in memory, each written once."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def read(self, name: str) -> bytes | None:
        return self.files.get(name)

    def names(self, folder: str, suffix: str = "") -> list[str]:
        return [name for name in self.files if name.startswith(folder) and name.endswith(suffix)]

    def put_if_absent(self, name: str, content: bytes) -> bool:
        return self.files.setdefault(name, content) is content

    def replace(self, name: str, content: bytes) -> None:
        raise AssertionError("lines are written once")


def count(outcome: str, records: int, stage: str | None = None) -> Count:
    return Count("t", outcome, stage, records, "t-0@0")


def line(batch: int, counts: Sequence[Count], *, kind: str = BATCH, rows_out: int | None = None,
         dead: int | None = None, query: str = "q") -> BookLine:  # fmt: skip
    ok = sum(one.records for one in counts if one.outcome == "ok")
    rows_out = ok if rows_out is None else rows_out
    meant = sum(one.records for one in counts if one.outcome == "dlq")
    return BookLine(
        sequence=-1, kind=kind, batch=batch, query=query, at_ms=0, took_ms=1, start=None, end=(f"end of {batch}",),
        counts=counts, drift=[], rows_out=rows_out, late=0, sinks={"table": SinkRows(rows_out)},
        dead=meant if dead is None else dead, totals=BookTotals(),
    )  # fmt: skip


COUNTS = st.lists(
    st.builds(count, st.sampled_from(["ok", "skip", "dlq"]), st.integers(0, 1000), st.sampled_from(["decode", "a"])),
    max_size=5,
)


@given(st.lists(st.tuples(st.sampled_from([BATCH, REPLAY]), COUNTS, st.booleans()), max_size=12))
def test_totals_are_the_sums_of_lines_and_balance_with_batches_that_run_twice(
    batches: list[tuple[str, list[Count], bool]],
) -> None:
    files = Memory()
    books = Books(files)
    for number, (kind, counts, again) in enumerate(batches):
        books.add(line(number, counts, kind=kind))
        if again:  # the process was killed before Spark knew
            books = Books(files)
            books.add(line(number, counts, kind=kind))
    last = books.last()
    totals = BookTotals() if last is None else last.totals
    assert balances(totals)
    assert totals.read == sum(sum(one.records for one in counts) for kind, counts, _ in batches if kind == BATCH)
    for outcome in ("ok", "skip", "dlq"):
        there = sum(one.records for _, counts, _ in batches for one in counts if one.outcome == outcome)
        assert outcomes(totals, outcome) == there
    assert [one.batch for one in books.newest(100)] == list(range(len(batches)))
    ends = [number for number, (kind, _, _) in enumerate(batches) if kind == BATCH]
    assert totals.end == ([f"end of {ends[-1]}"] if ends else None) or totals.end == (f"end of {ends[-1]}",)


def test_the_newest_line_is_found_among_thousands_and_by_another_process() -> None:
    files = Memory()
    books, other = Books(files), Books(files)
    for number in range(2500):
        books.add(line(number, [count("ok", 1)]))
    last = other.last()
    assert last is not None
    assert (last.sequence, last.totals.read) == (2499, 2500)
    books.add(line(2500, [count("ok", 1)]))
    last = other.last()
    assert last is not None
    assert last.batch == 2500


def test_two_runs_of_one_pipeline_do_not_both_write_its_books() -> None:
    files = Memory()

    class Raced(Memory):
        """Another process writes a line between looking and writing."""

        def put_if_absent(self, name: str, content: bytes) -> bool:
            Books(files).add(line(0, [count("ok", 1)]))
            return files.put_if_absent(name, content)

    with pytest.raises(AnotherRun):
        Books(Raced()).add(line(0, [count("ok", 2)], query="another"))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (line(3, [count("pause", 1, "decode")]), "1 record of t is pause"),
        (line(3, [count("dlq", 2, "decode")], dead=1), "2 records are dead letters, 1 was written"),
    ],
)
def test_a_line_that_does_not_balance_is_refused(wrong: BookLine, why: str) -> None:
    with pytest.raises(NotBalanced, match=why):
        check(wrong, ["table"])


def test_a_table_that_took_other_rows_than_the_transformation_gave_is_refused() -> None:
    sound = line(0, [count("ok", 2)])
    check(sound, ["table"])
    wrong = BookLine.from_json(sound.to_json().replace(b'"rows": 2', b'"rows": 1'))
    with pytest.raises(NotBalanced, match="gave 2 rows, table has 1"):
        check(wrong, ["table"])
    check(wrong, [])


def test_lines_that_are_gone_are_noticed_before_the_next_batch_is_written() -> None:
    files = Memory()
    kept = Books(files)
    for batch in range(4):
        kept.add(line(batch, [count("ok", 5)]))
        kept.follows("q", batch + 1)
    assert max(files.files).endswith("3.json")
    del files.files[max(files.files)]
    cut = Books(files)
    cut.follows("q", 3)
    with pytest.raises(NotBalanced, match=r"end with batch 2.*batch 4.*moldau pipeline reset"):
        cut.follows("q", 4)
    cut.follows("after a reset", 0)
    cut.add(line(0, [count("ok", 5)], kind=REPLAY, query="replay"))
    with pytest.raises(NotBalanced):
        Books(files).follows("q", 4)
    with pytest.raises(NotBalanced, match=r"are gone"):
        Books(Memory()).follows("q", 7)


@pytest.mark.parametrize("content", [b"", b'{"sequence": 0', b"[]", b"{}", b"null", b"\xff", b'{"counts": [{}]}'])
def test_a_line_that_was_cut_is_named_and_never_taken_for_an_empty_one(content: bytes) -> None:
    files = Memory()
    Books(files).add(line(0, [count("ok", 5)]))
    name = next(iter(files.files))
    files.files[name] = content
    with pytest.raises(BrokenLine, match=name):
        Books(files).last()


def test_what_drifted_in_any_batch_stays_with_its_first_place_and_is_bounded() -> None:
    files = Memory()
    books = Books(files)
    first = [Drift("names: a", None, "t-0@3", 2), Drift("names: b", 7, "t-0@5", 1)]
    books.add(replace(line(0, [count("ok", 3)]), drift=first))
    books.add(line(1, [count("ok", 3)]))
    books.add(replace(line(2, [count("ok", 3)]), drift=[Drift("names: a", None, "t-0@9", 1)], drift_more=4))
    assert Books(files).drift() == ([Drift("names: a", None, "t-0@3", 3), first[1]], 4)
    many = [Drift(f"names: {at}", None, f"t-0@{at}", 1) for at in range(20)]
    books.add(replace(line(3, [count("ok", 20)]), drift=many))
    found, more = Books(files).drift()
    assert (len(found), found[-1].what, more) == (20, "names: 17", 6)


def test_books_of_before_totals_had_drift_are_searched_for_it() -> None:
    files = Memory()
    kept = [Drift("names: a", None, "t-0@3", 2)]
    Books(files).add(replace(line(0, [count("ok", 3)]), drift=kept))
    for name, content in files.files.items():
        old = json.loads(content)
        del old["drift_more"], old["totals"]["drift"], old["totals"]["drift_more"]
        files.files[name] = json.dumps(old).encode()
    assert Books(files).drift() == (kept, 0)
    books = Books(files)
    books.add(line(1, [count("ok", 3)]))
    assert Books(files).drift() == (kept, 0)


def test_a_damaged_line_of_before_totals_had_drift_holds_up_no_batch() -> None:
    """It was harmless as long as the newest line is sound, and stopped the stream after its sinks were written."""
    files = Memory()
    for number in range(2):
        Books(files).add(line(number, [count("ok", 3)]))
    for name, content in sorted(files.files.items()):
        old = json.loads(content)
        del old["drift_more"], old["totals"]["drift"], old["totals"]["drift_more"]
        files.files[name] = json.dumps(old).encode()
    files.files[min(files.files)] = b"{"
    Books(files).add(line(2, [count("ok", 3)]))
    assert Books(files).drift() == ([], 0)
