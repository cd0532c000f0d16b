"""Each file that a pipeline keeps in its folder, damaged: whoever reads it names it, in words, or does without it.

Nobody shows a traceback, nobody writes on by what a damaged file says, and with the file as it was all goes on.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from test_pipeline import Fresh, Orders, with_dedup

from moldau.admin.pipeline import pipeline as commands
from moldau.pipeline.running import Ended
from moldau.pipeline.said import words
from moldau.spark.tables import Table

pytestmark = pytest.mark.timeout(900)

DAMAGED = {"cut off": b"", "not whole": b"{", "no text": b"\xff\x00{", "something else": b'{"id": 3, "number": "x"}'}
LOOKS: dict[str, Callable[[str], list[str]]] = {
    "status": lambda file: ["status", file, "--verify"],
    "plan": lambda file: ["plan", file],
    "lag": lambda file: ["lag", file],
    "dlq list": lambda file: ["dlq", "list", file],
    "dlq replay": lambda file: ["dlq", "replay", file, "--dry-run"],
    "backfill": lambda file: ["backfill", file, "--dry-run"],
    "abandon": lambda file: ["abandon", file, "--dry-run"],
    "reset": lambda file: ["reset", file, "--to", "earliest", "--dry-run"],
}


@pytest.fixture
def orders(spark: SparkSession, bootstrap_servers: str, tmp_path: Path, fresh: Fresh) -> Orders:
    """A pipeline whose folder has whatever one can have: batches, a replay, a backfill, keys that dedup remembers."""
    found = Orders(spark, bootstrap_servers, tmp_path, fresh("orders"))
    found.orders(range(5))
    with_dedup(found, "by: [id, amount], within: 1h")
    found.file.write_text(found.file.read_text().replace("max_records: 40", "max_records: 40, start: latest"))
    assert found.run() is Ended.DONE
    found.orders(range(10, 15))
    found.write(b"garbage", {"id": 16, "amount": -1})
    assert found.run() is Ended.DONE
    for command in (
        ["dlq", "replay", str(found.file), "--stage", "sound", "--yes"],
        ["backfill", str(found.file), "--yes"],
    ):
        done = CliRunner().invoke(commands, command)
        assert done.exit_code == 0, done.output
    return found


def kinds(state: Path) -> dict[str, Path]:
    """One file of each kind, by its place with its number left out."""
    found: dict[str, Path] = {}
    for file in sorted(state.rglob("*")):
        place = file.relative_to(state)
        if file.is_file() and file.suffix != ".crc" and not place.name.startswith("."):
            parts = ["N" if part[0].isdigit() or "-" in part else part for part in place.parts]
            found["/".join(parts)] = file  # the newest of its kind
    return found


def test_whatever_file_is_damaged_it_is_named_or_done_without(orders: Orders, tmp_path: Path) -> None:
    state, kept = orders.folder / "state", tmp_path / "kept"
    shutil.copytree(state, kept)
    files = kinds(state)
    assert {"begun/batch.json", "dedup/parts.json", "replays/id", "backfills/id", "state.json"} <= files.keys()
    wrong: list[str] = []
    for kind, file in files.items():
        for how, content in DAMAGED.items():
            for command, line in LOOKS.items():
                file.write_bytes(content)
                ended = CliRunner().invoke(commands, line(str(orders.file)))
                at = f"{kind} {how}: {command}"
                if ended.exception is not None and not isinstance(ended.exception, SystemExit):
                    wrong.append(f"{at} raised {type(ended.exception).__name__}: {ended.exception}")
                elif ended.exit_code not in (0, 4) and not names(ended.output, file):
                    wrong.append(f"{at} ended with {ended.exit_code} and does not name it: {ended.output!r}")
                elif "Traceback" in ended.output:
                    wrong.append(f"{at} shows a traceback")
                shutil.rmtree(state)
                shutil.copytree(kept, state)
    assert not wrong, "\n".join(wrong)


def names(text: str, file: Path) -> bool:
    """Whether a text names a file, or a folder that it stands for."""
    return any(str(part) in text for part in (file.name, file.parent.name))


def test_a_run_on_a_damaged_file_names_it_and_loses_nothing_once_it_is_as_it_was(
    orders: Orders, tmp_path: Path
) -> None:
    """Or it goes on as if the file were whole, where the file is for people alone."""
    state, kept = orders.folder / "state", tmp_path / "kept"
    tables = [orders.folder / "orders", orders.folder / "dead"]
    orders.orders(range(20, 25))
    wrong: list[str] = []
    for kind, file in kinds(state).items():
        shutil.rmtree(kept, ignore_errors=True)
        for folder in (state, *tables):
            shutil.copytree(folder, kept / folder.name)
        file.write_bytes(DAMAGED["not whole"])
        try:
            assert orders.run() is Ended.DONE
            if orders.ids() != [*range(5), *range(10, 15), *range(20, 25)]:
                wrong.append(f"{kind}: went on, and the table has {orders.ids()}")
        except Exception as error:
            if not names(words(error), file):
                wrong.append(f"{kind}: {type(error).__name__} does not name it: {words(error)}")
        for folder in (state, *tables):
            shutil.rmtree(folder)
            shutil.copytree(kept / folder.name, folder)
    assert not wrong, "\n".join(wrong)
    assert orders.run() is Ended.DONE
    assert orders.ids() == [*range(5), *range(10, 15), *range(20, 25)]
    assert Table(orders.folder / "dead", pipeline=orders.topic).read().num_rows == 3
