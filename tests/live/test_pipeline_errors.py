"""What ends a run is told in one line that names the part of the pipeline, and what to do."""

from __future__ import annotations

import subprocess
import sys

import pytest
from foreign import create_topic
from test_pipeline import Orders, orders

from moldau.pipeline.folder import BrokenFile, Folder
from moldau.pipeline.positions import plan
from moldau.pipeline.reading import load
from moldau.pipeline.running import Ended
from moldau.pipeline.said import PartFailed, words

__all__ = ["orders"]  # a fixture

COMMAND = [sys.executable, "-c", "from moldau.admin.main import main; main()", "pipeline"]
PATIENCE_S = 240


def run(orders: Orders) -> subprocess.CompletedProcess[str]:
    """A run by the command, in a process of its own."""
    words = [*COMMAND, "run", str(orders.file), "--once"]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE_S)


@pytest.mark.timeout(900)
def test_an_error_of_sql_is_one_line_that_names_the_step_and_not_sparks_log(orders: Orders) -> None:
    orders.orders(range(3))
    text = orders.file.read_text()
    orders.file.write_text(text.replace("amount * 2 AS twice", "CAST(_topic AS INT) AS twice"))
    found = run(orders)
    assert (found.returncode, found.stdout) == (1, "")
    (line,) = found.stderr.splitlines()
    assert line.startswith("moldau: transform: [CAST_INVALID_INPUT] The value "), line
    assert "SQLSTATE" not in line

    orders.file.write_text(text.replace("key: id}", "key: id, value: raise_error('no such order')}"))
    with pytest.raises(PartFailed) as failed:
        orders.run()
    assert words(failed.value) == f"sink {orders.topic}-clean: [USER_RAISED_EXCEPTION] no such order"


@pytest.mark.timeout(900)
def test_a_step_of_python_that_ends_the_program_ends_the_run(orders: Orders) -> None:
    orders.orders(range(3))
    (orders.folder / "leaves.py").write_text("import sys\n\ndef clean(rows):\n    sys.exit('bad configuration')\n")
    lines = [
        "  - python: 'leaves:clean'" if line.startswith("  - sql") else line
        for line in orders.file.read_text().splitlines()
    ]
    orders.file.write_text("\n".join(lines))
    found = run(orders)
    assert (found.returncode, found.stderr.splitlines()[-1]) == (
        1,
        "moldau: transform[0]: it ended by SystemExit: bad configuration",
    )


@pytest.mark.timeout(900)
def test_a_topic_that_is_taken_out_of_the_file_is_told_by_plan_and_run_alike(orders: Orders) -> None:
    other = f"{orders.topic}-b"
    create_topic(orders.bootstrap, other, 1, 3)
    text = orders.file.read_text()
    orders.file.write_text(text.replace(f"topics: {orders.topic},", f"topics: [{orders.topic}, {other}],"))
    orders.orders(range(3))
    assert orders.run() is Ended.DONE
    orders.file.write_text(text)
    orders.orders(range(3, 6))
    why = "it is not in the list of what is read any more"
    pipeline = load(orders.file, {})
    steps = {one.what: one.how for one in plan(pipeline, Folder(pipeline))}
    assert steps[f"topic {other}"] == f"{why}: a run is refused"
    with pytest.raises(Exception, match=why) as failed:
        orders.run()
    assert "is gone on with when it is named there again" in words(failed.value)
    orders.file.write_text(text.replace("max_records: 40", "max_records: 40, on_loss: skip"))
    assert orders.run() is Ended.DONE
    assert orders.ids() == [*range(6)]


@pytest.mark.timeout(900)
def test_a_checkpoint_that_was_damaged_is_named_and_gone_on_with_when_it_is_restored(orders: Orders) -> None:
    orders.orders(range(3))
    assert orders.run() is Ended.DONE
    orders.orders(range(3, 6))
    for name in ("metadata", "offsets/0", "commits/0"):
        file = orders.folder / "state/checkpoint" / name
        whole = file.read_bytes()
        file.write_bytes(b"")
        with pytest.raises(BrokenFile, match=f"checkpoint/{name} is damaged"):
            orders.run()
        file.write_bytes(whole)
    assert orders.run() is Ended.DONE
    assert orders.ids() == [*range(6)]
