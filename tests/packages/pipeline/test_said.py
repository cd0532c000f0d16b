"""Errors are told whole, in the words of whoever raised them, with commands in the place of calls."""

from __future__ import annotations

import pytest

from moldau.model import TopicPartition
from moldau.pipeline.said import first_line, words
from moldau.spark.losses import DataLossError, Loss, LossKind
from moldau.spark.tables.ledger import BatchKey, Entry, LedgerError, judge

PROXY = (
    "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: An exception was raised by the Python Proxy."
    " Return Message: Traceback (most recent call last):\n"
    '  File "/x/py4j/clientserver.py", line 642, in _call_proxy\n    value = getattr(self.pool[obj_id], method)\n'
)
AFTER = " SQLSTATE: XXKST\n=== Streaming Query ===\nIdentifier: ev [id = 1, runId = 2]\nLogical Plan:\n~Write\n"


def carried(error: Exception) -> RuntimeError:
    """As Spark carries an error through its processes."""
    name = f"{type(error).__module__}.{type(error).__qualname__}"
    return RuntimeError(f"{PROXY}{name}: {error}\n{AFTER}")


def test_records_that_were_lost_are_listed_whole_with_both_ways_on() -> None:
    losses = [Loss(LossKind.TOPIC_RECREATED, TopicPartition("ev", number), 51, 0) for number in range(30)]
    lines = words(carried(DataLossError(losses))).splitlines()
    assert lines[0] == "some records can no longer be read:"
    assert lines[1:31] == [f"  ev-{n}: the topic was deleted and made anew (position 51, found 0)" for n in range(30)]
    assert "`on_loss: skip` (onDataLoss)" in lines[31]
    assert "`moldau pipeline reset FILE --to POSITION`" in lines[31]
    assert len(lines) == 32


def refused() -> LedgerError:
    last = Entry("a", 3, "q" * 36, 3, None, None, 5)
    with pytest.raises(LedgerError) as found:
        judge("/tables/" + "long/" * 120, last, BatchKey("another", 0))
    return found.value


def test_a_table_that_refuses_a_batch_is_told_whole_and_with_commands() -> None:
    told = words(refused())
    assert told.startswith("/tables/long/")
    assert "would add rows again or leave some out.\n" in told
    assert "moldau pipeline reset" in told
    assert "moldau spark rewind" in told
    assert "table." not in told
    assert "table.adopt()" in str(refused()), "whoever has the table in Python is told of its calls"


def test_an_error_of_ours_is_found_wherever_spark_puts_it() -> None:
    proxy = "An exception was raised by the Python Proxy. Return Message: "
    one = RuntimeError(f"{proxy}moldau.pipeline.books.NotBalanced: batch 3: gone")
    assert words(one) == "batch 3: gone"
    assert words(carried(refused())).startswith("/tables/long/long")


def test_what_is_long_and_not_ours_is_cut_between_words() -> None:
    told = first_line(ValueError("word " * 300))
    assert len(told) < 520
    assert told.endswith("word ...")
