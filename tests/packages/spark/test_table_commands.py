"""``moldau spark``: what a table knows is shown; adopt, rewind and reset say what they cost before they change it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from pyiceberg.utils.config import Config

from moldau.admin.cli import cli
from moldau.spark.tables import LedgerError, Table
from moldau.spark.tables.delta import DeltaFormat
from moldau.spark.tables.files import read_footers
from moldau.spark.tables.iceberg import IcebergFormat
from moldau.spark.tables.ledger import UNNAMED
from moldau.spark.tables.manifest import ParquetFormat
from moldau.spark.tables.stores import open_store
from tests.packages.admin import test_examples as shown_lines
from tests.packages.spark.table_batches import key


class Filled:
    """A table of three batches of three rows, opened anew each time, and what the commands say of it."""

    def __init__(self, kind: str, folder: Path, pipeline: str = UNNAMED) -> None:
        self.kind, self.folder, self.pipeline = kind, folder, pipeline
        self.words = [str(folder / "t"), "--format", kind]
        if kind == "iceberg":
            self.words = ["db.t", "--format", kind, "--catalog", "here"]
        for batch in range(3):
            self.add(batch)

    def table(self) -> Table:
        store = open_store(self.folder / "t")
        if self.kind == "iceberg":
            from pyiceberg.catalog import load_catalog

            return Table(
                IcebergFormat(load_catalog("here"), "db.t", location=str(self.folder / "t")), pipeline=self.pipeline
            )
        return Table(DeltaFormat(store) if self.kind == "delta" else ParquetFormat(store), pipeline=self.pipeline)

    def add(self, batch: int, query: str = "q") -> None:
        rows = pa.table({"n": pa.array([batch * 3 + at for at in range(3)], pa.int64())})
        table, folder = self.table(), f"batch-{batch}-{query}"
        table.format.prepare(rows.schema, evolve=False)
        table.store.write(f"{folder}/_SUCCESS", b"")
        pq.write_table(rows, self.folder / "t" / folder / "part-0.parquet")
        table.add(read_footers(table.store, folder), key(batch, query))

    def run(self, verb: str, *words: str) -> Result:
        return CliRunner().invoke(cli, ["spark", verb, *self.words, *words])


@pytest.fixture(params=["delta", "parquet", "iceberg"])
def filled(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Filled:
    if request.param == "iceberg":
        monkeypatch.setenv("PYICEBERG_CATALOG__HERE__TYPE", "sql")
        monkeypatch.setenv("PYICEBERG_CATALOG__HERE__URI", f"sqlite:///{tmp_path}/catalog.db")
        monkeypatch.setenv("PYICEBERG_CATALOG__HERE__WAREHOUSE", str(tmp_path))
        # pyiceberg reads the environment once, when it is imported, which another test may have caused long ago.
        monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
    return Filled(str(request.param), tmp_path)


def test_the_newest_batch_is_shown_and_each_change_tells_its_cost_before_it_is_made(filled: Filled) -> None:
    shown = json.loads(filled.run("table", "-o", "json").stdout)
    assert (shown["batch"], shown["query"], shown["rows"]) == (2, "q", 9)
    assert json.loads(shown["ends_at"]) == {"t": {"0": 30}}

    for words, cost in (
        (["rewind", "0"], "of 9 rows 3 stay, 6 go"),
        (["adopt"], "not only q"),
        (["reset"], "rows may then be missing, or be there twice"),
    ):
        only = filled.run(*words, "--dry-run")
        assert (only.exit_code, cost in only.stderr, "nothing was changed" in only.stderr) == (0, True, True)
        unanswered = filled.run(*words)
        assert (unanswered.exit_code, "--yes says yes" in unanswered.stderr) == (2, True)
    last = filled.table().last()
    assert last is not None
    assert (filled.table().count(), last.query_id) == (9, "q")

    done = filled.run("rewind", "0", "--yes")
    assert json.loads(done.stdout) == {"t": {"0": 10}}
    assert filled.table().count() == 3
    filled.add(1, "another")
    assert json.loads(filled.run("adopt", "--yes").stdout) == {"t": {"0": 20}}
    with pytest.raises(LedgerError, match="leaves a gap"):
        filled.add(3, "third")
    assert filled.run("reset", "--yes").exit_code == 0
    filled.add(3, "third")
    assert filled.table().count() == 9


def test_what_a_table_cannot_do_is_said_in_its_own_words(tmp_path: Path) -> None:
    filled = Filled("delta", tmp_path)
    for words, said in (
        (("rewind", "9"), "batch 9 of pipeline 'default' is not in the table's log any more"),
        (("adopt", "--positions", "here"), "are not where a table can end"),
        (("adopt", "--pipeline", "other"), "pipeline 'other' has written nothing here"),
        (("reset", "--pipeline", "other", "--yes"), "pipeline 'other' has written nothing here"),
    ):
        done = filled.run(*words)
        assert (done.exit_code, said in done.stderr) == (1, True), done.output
    assert filled.run("table", "--catalog", "here").exit_code == 2
    assert CliRunner().invoke(cli, ["spark", "table", str(tmp_path / "nothing")]).exit_code == 1


@pytest.mark.parametrize(("lacking", "extra"), [("deltalake", "spark"), ("pyarrow", "spark"), ("pyiceberg", "iceberg")])
def test_where_a_package_is_missing_the_command_names_what_installs_it(lacking: str, extra: str) -> None:
    words = ["moldau", "spark", "table", "db.t"]
    if extra == "iceberg":
        words += ["--format", "iceberg", "--catalog", "c"]
    program = (
        f"import sys; sys.modules[{lacking!r}] = None; sys.argv = {words!r}\nfrom moldau.admin.main import main\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"pip install 'moldau[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("catalog:\n  here: {type: sql}\n", "line 2: Found ugly disallowed JSONesque flow mapping"),
        ("catalog:\n here:\n\t- x\n", "line 3: found character '\\t' that cannot start any token"),
    ],
)
def test_a_file_of_catalogs_that_cannot_be_read_is_named_with_its_line(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text(text)
    words = ["spark", "table", "db.t", "--format", "iceberg", "--catalog", "here"]
    program = f"from moldau.admin.cli import cli; cli({words!r})"
    found = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYICEBERG_HOME": str(tmp_path)}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    told = ".pyiceberg.yaml (in $PYICEBERG_HOME, the home folder or here) cannot be read"
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr.startswith(f"moldau: {told}, {why}"), found.stderr
    assert len(found.stderr.splitlines()) == 1


EXAMPLES = [line for place, line in shown_lines.shown() if place == "spark.md" or place.startswith("moldau spark")]


@pytest.mark.parametrize("line", EXAMPLES)
def test_what_the_help_and_the_page_of_spark_show_is_done_to_a_table(line: str, tmp_path: Path) -> None:
    """Of the pipeline that each names, with its batch and its place in this test's table."""
    given = shown_lines.words(line)
    assert given is not None
    Filled("delta", tmp_path, "orders" if "--pipeline" in given else UNNAMED)
    changes = not {"table", "--dry-run", "--yes"} & set(given)
    named = {"/data/orders": str(tmp_path / "t"), "41": "0"}
    done = CliRunner().invoke(cli, [*(named.get(word, word) for word in given), *(["--yes"] if changes else [])])
    assert done.exit_code == 0, done.output
