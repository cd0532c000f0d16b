"""The page of a pipeline's books: well-formed, loads nothing, axes that are aligned, nothing over the data."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from moldau.admin.pipeline import pipeline as commands
from moldau.pipeline.books import BookLine, Books, BookTotals, Count, SinkRows, outcomes
from moldau.pipeline.folder import PipelineFolder, RunState
from moldau.pipeline.page import LINES_MOST, PageContents, page
from moldau.pipeline.plots import HEIGHT, LEFT, RIGHT, TOP, WIDTH, ticks
from moldau.pipeline.positions import PipelineLag
from moldau.pipeline.reading import load

NOW_MS = 1_764_000_000_000


def line(number: int, ok: int, left_out: int = 0, dead: int = 0) -> BookLine:
    counts = [Count("orders", "ok", None, ok, "orders-0@0")]
    counts += [Count("orders", "skip", "dedup", left_out, "orders-0@1")] if left_out else []
    counts += [Count("orders", "dlq", "decode", dead, "orders-0@2")] if dead else []
    return BookLine(
        sequence=-1, kind="batch", batch=number, query="q", at_ms=NOW_MS + number * 10_000, took_ms=900 + number,
        start=None, end=None, counts=counts, drift=[], rows_out=ok, late=0, sinks={"a<b>&": SinkRows(ok)}, dead=dead,
        totals=BookTotals(),
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> PipelineFolder:
    file = tmp_path / "orders.yaml"
    file.write_text(
        "pipeline: orders\ncluster: 127.0.0.1:1\nsource: {topics: orders}\ndecode: {format: raw}\nsinks: [{table: t}]\n"
    )
    return PipelineFolder(load(file, {}))


def shown(books: Books, lags: list[PipelineLag] | None = None) -> PageContents:
    return PageContents("orders", RunState("running", 1, 0), books.newest(LINES_MOST), lags, "nobody <there>")


def plots(text: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(one) for one in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]


def test_the_page_says_what_the_books_say_with_separators_and_loads_nothing(folder: PipelineFolder) -> None:
    for number in range(12):
        folder.books.add(line(number, 12_345, number * 100, 3 if number % 2 else 0))
    text = page(
        shown(folder.books, [PipelineLag("orders", 0, 5, 0, 70_005), PipelineLag("orders", 1, 9, 0, 9)]), NOW_MS
    )
    totals = folder.books.newest(1)[0].totals
    assert f"{totals.read:,} read + 0 replayed = 148,140 ok + {outcomes(totals, 'skip'):,} left out" in text
    assert "70,000 offsets in 2 partitions are left to read" in text
    assert "a&lt;b&gt;&amp;" in text
    assert not re.search(r"(src|href)=|url\(|@import|<script|https?:", text)
    assert len(plots(text)) == 4


def test_all_plots_of_batches_have_one_scale_and_nothing_stands_over_the_data(folder: PipelineFolder) -> None:
    for number in range(30):
        folder.books.add(line(number, 1_000_000 * (number + 1), 7, 1))
    found = plots(page(shown(folder.books), NOW_MS))
    assert len(found) == 3
    below = [
        [(one.get("x"), one.text) for one in plot.iter("text") if one.get("text-anchor") == "middle"] for plot in found
    ]
    assert below[0] == below[1] == below[2]
    for plot in found:
        for one in plot.iter("text"):
            x, y = float(one.get("x", "0")), float(one.get("y", "0"))
            assert x < LEFT or y < TOP - 4 or y > TOP + HEIGHT + 4, one.text
            assert x <= WIDTH
        for one in plot.iter("rect"):
            if float(one.get("y", "0")) >= TOP - 1:
                assert float(one.get("x", "0")) >= LEFT
                assert float(one.get("x", "0")) + float(one.get("width", "0")) <= WIDTH - RIGHT
                assert float(one.get("y", "0")) + float(one.get("height", "0")) <= TOP + HEIGHT + 1
    assert "30,000,000" in [one.text for one in found[0].iter("text")]


@pytest.mark.parametrize("most", [0, 1, 2, 3, 4, 5, 7, 19, 20, 21, 99, 100, 1234, 10**9 + 1])
def test_numbers_of_an_axis_are_round_and_reach_the_highest(most: int) -> None:
    found = ticks(most)
    assert found[0] == 0
    assert found[-1] >= most
    assert 2 <= len(found) <= 6
    assert len({high - low for low, high in itertools.pairwise(found)}) == 1


def test_only_the_newest_batches_are_drawn_and_the_page_says_so(folder: PipelineFolder) -> None:
    for number in range(LINES_MOST + 5):
        folder.books.add(line(number, 1))
    text = page(shown(folder.books), NOW_MS)
    assert f"the newest {LINES_MOST} of {LINES_MOST + 5} batches" in text
    assert len([one for one in plots(text)[0].iter("rect") if one.find("title") is not None]) == LINES_MOST


def test_a_new_pipeline_and_one_that_does_not_balance_have_a_page(folder: PipelineFolder) -> None:
    assert "No batch is in the books yet" in page(shown(folder.books), NOW_MS)
    assert "Not known: nobody &lt;there&gt;" in page(shown(folder.books), NOW_MS)
    wrong = line(0, 10)
    broken = replace(wrong, sequence=0, totals=BookTotals(read=11, topics={"orders": {"ok": 10}}))
    assert "DIFFERS FROM" in page(PageContents("orders", None, [broken], None), NOW_MS)


def test_the_command_writes_the_page_where_the_cluster_cannot_be_asked(folder: PipelineFolder, tmp_path: Path) -> None:
    folder.books.add(line(0, 10))
    begun = tmp_path / "orders" / "checkpoint" / "offsets"
    begun.mkdir(parents=True)
    (begun / "0").touch()  # else what is wrong is said, and the exit status is not 0
    target = tmp_path / "out.html"
    found = CliRunner().invoke(commands, ["status", str(tmp_path / "orders.yaml"), "--html", str(target)])
    assert found.exit_code == 0, found.output
    text = target.read_text(encoding="utf-8")
    assert "10 read + 0 replayed = 10 ok" in text
    assert "Not known:" in text
    assert [one.name for one in tmp_path.glob("out.html*")] == ["out.html"]
