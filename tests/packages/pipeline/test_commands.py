"""What the commands say where something of this machine is in their way: the place as it was given, and why."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from moldau import admin
from moldau.admin.pipeline import pipeline as commands
from moldau.pipeline.books import BATCH, BookLine, Books, BookTotals, Count, Drift, Newest
from moldau.pipeline.trial import read_cases
from moldau.pipeline.unfinished import Unfinished
from moldau.spark.tables import BatchKey
from moldau.spark.tables.stores import open_store
from tests.packages.pipeline.test_unfinished import bury

MAIN = [sys.executable, "-c", "from moldau.admin.main import main; main()", "pipeline"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "a.yaml"
    found.write_text(
        "pipeline: a\ncluster: 127.0.0.1:1\nfolder: state\nsource: {topics: t}\n"
        "decode: {format: text}\nsinks: [{table: tab}]\n"
    )
    return found


def said(*words: object) -> tuple[int, str]:
    found = CliRunner().invoke(commands, [str(one) for one in words])
    return found.exit_code, found.output


def test_a_port_for_metrics_that_is_taken_is_named(file: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code, told = said("run", file, "--once", "--metrics-port", port)
    assert (code, told) == (1, f"moldau: metrics cannot be shown at 127.0.0.1:{port}: Address already in use\n")


def test_a_page_that_cannot_be_written_is_named_as_it_was_given(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moldau.pipeline.page.shown_of", lambda *_: None)
    monkeypatch.setattr("moldau.pipeline.page.page", lambda *_: "")
    code, told = said("status", file, "--html", tmp_path / "none" / "a.html")
    assert (code, told.splitlines()[-1]) == (
        1,
        f"moldau: {tmp_path}/none/a.html cannot be written: No such file or directory",
    )


@pytest.mark.parametrize("command", ["list", "replay"])
def test_dead_letters_of_a_stage_that_is_not_there_are_not_none(file: Path, tmp_path: Path, command: str) -> None:
    """A name that was mistyped had no dead letters, as if all had been taken up."""
    more = f"check: [{{name: sound, rule: value <> '', on_error: dlq}}]\ndlq: {{table: {tmp_path / 'dead'}}}\n"
    file.write_text(file.read_text() + more)
    bury(tmp_path / "dead", "a", "0", 2, stage="known")
    words = () if command == "list" else ("--dry-run",)
    for stage, names in (("soud", "Did you mean sound?"), ("x", "There are decode, sound, known.")):
        assert said("dlq", command, file, "--stage", stage, *words) == (
            1,
            f"moldau: there is no stage {stage!r}. {names}\n",
        )
    for stage in ("sound", "known"):
        assert said("dlq", command, file, "--stage", stage, *words)[0] == 0


def test_a_folder_that_is_there_is_not_exported_into(file: Path, tmp_path: Path) -> None:
    assert said("export", file, "--to", tmp_path) == (
        1,
        f"moldau: {tmp_path} is there already; --to names a new folder\n",
    )
    (tmp_path / "plain").write_text("")
    code, told = said("export", file, "--to", tmp_path / "plain" / "new")
    assert (code, told) == (1, f"moldau: {tmp_path}/plain/new: Not a directory\n")


def test_a_command_whose_output_nobody_reads_ends_quietly(file: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        found = subprocess.run(
            [*MAIN, "status", str(file)], stdout=writer, stderr=subprocess.PIPE, text=True, check=False
        )
    finally:
        os.close(writer)
    assert (found.returncode, found.stderr) == (1, "")


def test_the_help_of_tests_says_what_stands_in_a_test_file(tmp_path: Path) -> None:
    code, told = said("test", "--help")
    assert code == 0
    found = re.search(r"(?m)^  - name: .*\n(?:^    .*\n)+", told)
    assert found is not None, told
    cases = tmp_path / "a.test.yaml"
    cases.write_text(found[0])
    (case,) = read_cases(cases)
    assert (case.left_out, case.dead, len(case.records)) == (0, [{"stage": "decode", "offset": 7}], 2)


def test_status_shows_what_drifted_in_an_earlier_batch_without_its_escape_codes(file: Path, tmp_path: Path) -> None:
    books = Books(open_store(str(tmp_path / "state"), {}))
    drift = Drift("fields that are no columns: \x1b[31mred\nwrong: 5 lost", None, "t-0@3", 2)
    for batch in range(2):
        books.add(BookLine(
            sequence=-1, kind=BATCH, batch=batch, query="q", at_ms=0, took_ms=1, start=None, end=None,
            counts=[Count("t", "ok", None, 3, "t-0@0")], drift=[] if batch else [drift], rows_out=3, late=0, sinks={},
            dead=0, totals=BookTotals(),
        ))  # fmt: skip
    _, told = said("status", file)
    what = "fields that are no columns: \\x1b[31mred\\nwrong: 5 lost"
    assert f"\ndrift: {what} in 2 records, first at t-0@3\n" in told
    assert "\x1b" not in told


@pytest.mark.parametrize(
    ("newest_ms", "told_as"),
    [(253402300799000, "9999-12-31T23:59:59Z"), (9223372036854775, "9,223,372,036,854,775 ms since 1970")],
)
def test_status_shows_late_rows_with_the_newest_time_by_which_they_are_late(
    newest_ms: int, told_as: str, file: Path, tmp_path: Path
) -> None:
    Books(open_store(str(tmp_path / "state"), {})).add(BookLine(
        sequence=-1, kind=BATCH, batch=0, query="q", at_ms=0, took_ms=1, start=None, end=None,
        counts=[Count("t", "ok", None, 3, "t-0@0")], drift=[], rows_out=3, late=2, sinks={}, dead=0,
        totals=BookTotals(),
    ), Newest(newest_ms))  # fmt: skip
    _, told = said("status", file)
    assert f"\n2 of these came late, the newest time being {told_as}\n" in told


def test_status_names_the_record_that_makes_others_late_and_how_its_time_is_bounded(file: Path, tmp_path: Path) -> None:
    kept = Books(open_store(str(tmp_path / "state"), {}))

    def add(batch: int, late: int, first: str | None, newest: Newest | None) -> str:
        kept.add(BookLine(
            sequence=-1, kind=BATCH, batch=batch, query="q", at_ms=0, took_ms=1, start=None, end=None,
            counts=[Count("t", "ok", None, 3, "t-0@0")], drift=[], rows_out=3, late=late, late_first=first, sinks={},
            dead=0, totals=BookTotals(),
        ), newest)  # fmt: skip
        return said("status", file)[1]

    file.write_text(f"{file.read_text()}late: {{column: value, after: 10m}}\n")
    told = add(0, 0, None, Newest(1_000_000, "t-0@2", 1_000_000))
    assert "\n0 of these came late, the newest time being 1970-01-01T00:16:40Z, of t-0@2\n" in told
    assert "ahead" not in told
    add(1, 1, "t-0@3", Newest(253402300799000, "t-0@5", 1_100_000))
    told = add(2, 2, "t-0@6", Newest(1_200_000, "t-0@8", 1_200_000))
    add(3, 3, "t-0@9", None)
    told = said("status", file)[1]
    assert (
        "\n6 of these came late, the newest time being 9999-12-31T23:59:59Z, of t-0@5; 5 of them since that was seen, "
        "t-0@6 the first\n"
    ) in told
    assert "\nt-0@5: value is 2,932,896 days ahead of the record's own timestamp, and whatever follows is late" in told
    file.write_text(file.read_text().replace("after: 10m", "after: 10m, ahead: 1h"))
    assert "days ahead" not in said("status", file)[1]


def test_a_format_that_spark_has_not_is_no_format_of_exported_tables(file: Path, tmp_path: Path) -> None:
    code, told = said("export", file, "--to", tmp_path / "new", "--table-format", "bogus")
    assert (code, (tmp_path / "new").exists()) == (2, False)
    assert "'bogus' is not one of 'parquet', 'delta', 'iceberg', 'orc'" in told


def test_who_cannot_be_asked_is_sent_to_the_option_that_answers(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script got "Give it up? [y/N]: moldau: Abort" with exit 1, where every other command says what it lacks."""
    one = Unfinished(BATCH, BatchKey("a", 0), (), ())
    monkeypatch.setattr("moldau.pipeline.unfinished.unfinished", lambda *_, **__: [one])
    code, told = said("abandon", file)
    assert (code, "Give it up? There is no terminal to ask on: --yes says yes" in told) == (2, True), told


def test_every_command_asks_in_the_same_way() -> None:
    asks = [path.name for path in Path(admin.__file__).parent.rglob("*.py") if "click.confirm(" in path.read_text()]
    assert asks == ["options.py"]
