"""Ways back, by the commands that the tool itself names: tables taken back and a reset, a checkpoint that is lost, a
replay whose driver is killed. Afterwards the books balance, and the tables have every record once."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from kafka_peer import wait_until
from pyspark.sql import SparkSession
from test_pipeline import PATIENCE_S, Orders

from moldau.admin.pipeline import pipeline as commands
from moldau.admin.spark import spark as table_commands
from moldau.pipeline.folder import BrokenPipelineFile
from moldau.pipeline.reading import load
from moldau.pipeline.resetting import reset
from moldau.pipeline.running import Ended

pytestmark = pytest.mark.timeout(900)

SECOND = "  - {table: second}"


@pytest.fixture
def orders(spark: SparkSession, bootstrap_servers: str, tmp_path: Path, fresh: Callable[[str], str]) -> Orders:
    return Orders(spark, bootstrap_servers, tmp_path, fresh("orders"))


def said(orders: Orders, command: str, *words: str, code: int = 0) -> str:
    """What ``moldau pipeline COMMAND FILE WORDS`` says, which ends with this code."""
    found = CliRunner().invoke(commands, [*command.split(), str(orders.file), *words])
    assert found.exit_code == code, found.output
    return found.output


def on_table(orders: Orders, command: str, table: str, *words: str) -> str:
    """What ``moldau spark COMMAND TABLE WORDS`` says: the position is its last line."""
    given = [command, str(orders.folder / table), *words, "--pipeline", orders.topic, "--yes"]
    found = CliRunner().invoke(table_commands, given)
    assert found.exit_code == 0, found.output
    return found.output.strip().splitlines()[-1]


def three_batches(orders: Orders) -> None:
    """Each of four rows and two dead letters."""
    for number in range(3):
        first = 10 * number
        orders.orders(range(first, first + 4))
        orders.write({"id": first + 4, "amount": -1, "at": None}, b"garbage")
        assert orders.run() is Ended.DONE


ALL = [first + one for first in (0, 10, 20) for one in range(4)]


def test_tables_that_are_taken_back_and_a_reset_leave_each_record_once_and_books_that_balance(orders: Orders) -> None:
    three_batches(orders)
    start = on_table(orders, "rewind", "orders", "0")
    assert on_table(orders, "rewind", "dead", "0") == start
    assert "4 rows" in said(orders, "status", "--verify", code=4)
    assert f"--to '{start}'` begins where it ends" in said(orders, "plan", "-o", "json").replace('\\"', '"')
    told = said(orders, "reset", "--to", start, "--dry-run")
    assert ("12 offsets would be read again" in told, "was taken back: the books count 8 rows" in told) == (True, True)
    said(orders, "reset", "--to", start, "--yes")
    said(orders, "status", "--verify")
    assert orders.run() is Ended.DONE
    assert orders.ids() == ALL
    status = json.loads(said(orders, "status", "--verify", "-o", "json"))
    assert (status["balanced"], status["read"], status["dead_waiting"]) == (True, 18 + 12, 6)
    orders.declare(rule="amount >= -1")
    said(orders, "dlq replay", "--stage", "sound", "--yes")
    assert orders.ids() == sorted([*ALL, 4, 14, 24])
    said(orders, "status", "--verify")


def test_a_pipeline_that_was_reset_before_resets_noted_what_went_is_told_the_way_to_balance(orders: Orders) -> None:
    three_batches(orders)
    start = on_table(orders, "rewind", "orders", "0")
    on_table(orders, "rewind", "dead", "0")
    reset(load(orders.file, {}), orders.runner().folder, start)  # as it was done then: nothing is noted
    assert orders.run() is Ended.DONE
    assert orders.ids() == ALL
    told = json.loads(said(orders, "status", "--verify", "-o", "json", code=4))["way_on"]
    (way,) = re.findall(r"`moldau pipeline ([^`]*)`", told)
    command, _, *given = shlex.split(way)
    assert "orders misses rows: the books count 8 rows" in said(orders, command, *given, "--dry-run")
    said(orders, command, *given, "--yes")
    said(orders, "status", "--verify")
    orders.orders(range(30, 34))
    assert orders.run() is Ended.DONE
    assert orders.ids() == [*ALL, *range(30, 34)]
    assert json.loads(said(orders, "status", "--verify", "-o", "json"))["dead_waiting"] == 6


def lose_the_checkpoint(orders: Orders) -> str:
    """What a run says of it, which is refused."""
    shutil.rmtree(orders.folder / "state" / "checkpoint")
    with pytest.raises(BrokenPipelineFile, match="checkpoint is gone") as found:
        orders.run()
    return str(found.value)


def test_tables_of_a_checkpoint_that_is_lost_are_gone_on_with_where_they_end(orders: Orders) -> None:
    three_batches(orders)
    told = lose_the_checkpoint(orders)
    start = on_table(orders, "adopt", "orders")
    assert on_table(orders, "adopt", "dead") == start
    assert f"--to '{start}' goes on where the books end" in told
    assert "checkpoint is gone" in said(orders, "plan")
    dry = said(orders, "reset", "--to", start, "--dry-run")
    assert "0 offsets would be read again, 0 would be left out" in dry
    said(orders, "reset", "--to", start, "--yes")
    orders.orders(range(30, 34))
    assert orders.run() is Ended.DONE
    assert orders.ids() == [*ALL, *range(30, 34)]
    assert orders.clean() == [*ALL, *range(30, 34)]
    said(orders, "status", "--verify")


def test_a_batch_that_was_half_written_when_its_checkpoint_was_lost_is_told_and_given_up(orders: Orders) -> None:
    """Tables that have it would have had its rows twice: nobody looked for it without a checkpoint."""
    orders.declare(more_sinks=SECOND)
    three_batches(orders)
    shutil.move(orders.folder / "second", orders.folder / "aside")
    (orders.folder / "second").write_text("in the way of a table")
    orders.orders(range(30, 34))
    orders.write(b"garbage")
    with pytest.raises(Exception, match="second"):
        orders.run()
    (orders.folder / "second").unlink()
    shutil.move(orders.folder / "aside", orders.folder / "second")
    assert orders.ids() == [*ALL, *range(30, 34)]
    told = lose_the_checkpoint(orders)
    assert ("batch 3 is half written" in told, "moldau pipeline abandon FILE" in told) == (True, True), told
    way = re.findall(r"--to '([^']*)' goes on where the books end", told)
    assert "batch 3 is half written" in said(orders, "status", "--verify", code=4)
    dry = said(orders, "reset", "--to", way[0], "--dry-run")
    assert ("5 offsets would be read again" in dry, "batch 3 is half written" in dry) == (True, True), dry
    said(orders, "abandon", "--yes")
    assert orders.ids() == ALL
    said(orders, "reset", "--to", way[0], "--yes")
    assert orders.run() is Ended.DONE
    assert orders.ids() == [*ALL, *range(30, 34)]
    said(orders, "status", "--verify")
    assert json.loads(said(orders, "status", "-o", "json"))["dead_waiting"] == 7


DRIVER = """
import signal, sys
from pathlib import Path
from moldau.admin.main import main
from moldau.pipeline import {module}

def stop(*_, **__):
    Path(sys.argv.pop()).touch()
    while True:
        signal.pause()

{module}.{name} = stop
main()
"""
"""The command itself, which comes as far as this step."""


def killed(orders: Orders, module: str, name: str, *words: str) -> None:
    """Run a command as a process of its own until this step, and kill it there."""
    reached = orders.folder / f"reached-{name}"
    code = DRIVER.format(module=module, name=name).replace("sys.argv.pop()", repr(str(reached)))
    process = subprocess.Popen([sys.executable, "-c", code, "pipeline", *words], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: reached.exists() or process.poll() is not None, "the step is reached", PATIENCE_S)
        assert reached.exists()
    finally:
        process.kill()
        process.wait(PATIENCE_S)
    wait_until(lambda: not orders.runner().folder.is_locked(), "nobody has the pipeline", PATIENCE_S)


def with_letters(orders: Orders) -> None:
    """A batch with three rows and three letters of the stage ``sound``, and one of two letters that are no JSON."""
    orders.orders(range(3))
    orders.write(*({"id": number, "amount": -1, "at": None} for number in (100, 101, 102)))
    assert orders.run() is Ended.DONE
    orders.write(b"garbage", b"more garbage")
    assert orders.run() is Ended.DONE
    orders.declare(rule="amount >= -1")


@pytest.mark.parametrize(
    ("module", "name"),
    [("batches", "ForeachBatch.take"), ("books", "Books.add")],
    ids=["before anything is written", "before the books"],
)
def test_a_replay_whose_driver_is_killed_is_finished_by_the_next_one(orders: Orders, module: str, name: str) -> None:
    with_letters(orders)
    killed(orders, module, name, "dlq", "replay", str(orders.file), "--stage", "sound", "--yes")
    assert "replay 0 was cut off" in said(orders, "status")
    said(orders, "dlq replay", "--stage", "sound", "--yes")
    assert orders.ids() == orders.clean() == [0, 1, 2, 100, 101, 102]
    status = json.loads(said(orders, "status", "--verify", "-o", "json"))
    assert (status["replayed"], status["dead_waiting"], status["unfinished"]) == (3, 2, [])


def test_letters_of_a_replay_that_was_killed_are_not_taken_back_with_those_that_are(orders: Orders) -> None:
    """They wait for its end, and were counted with the letters that the table holds no more."""
    with_letters(orders)
    killed(orders, "batches", "ForeachBatch.take", "dlq", "replay", str(orders.file), "--stage", "sound", "--yes")
    start = on_table(orders, "rewind", "orders", "0")
    assert on_table(orders, "rewind", "dead", "0") == start
    said(orders, "reset", "--to", start, "--yes")
    assert json.loads(said(orders, "status", "--verify", "-o", "json"))["dead_waiting"] == 3
    assert orders.run() is Ended.DONE
    said(orders, "dlq replay", "--stage", "sound", "--yes")
    assert orders.ids() == orders.clean() == [0, 1, 2, 100, 101, 102]
    status = json.loads(said(orders, "status", "--verify", "-o", "json"))
    assert (status["replayed"], status["dead_waiting"], status["unfinished"]) == (3, 2, [])
