"""Errors are told whole, in the words of whoever raised them, with commands in the place of calls."""

from __future__ import annotations

import re

import pytest

from moldau.model import TopicPartition
from moldau.pipeline.said import PartFailed, first_line, named, words
from moldau.spark.given import OptionError
from moldau.spark.losses import DataLossError, Loss, LossKind
from moldau.spark.supervise import may_pass
from moldau.spark.tables.columns import new_columns
from moldau.spark.tables.ledger import BatchKey, LedgerEntry, LedgerError, TableError, judge

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
    last = LedgerEntry("a", 3, "q" * 36, 3, None, None, 5)
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


JAVA = (
    "An error occurred while calling o18755.parquet.\n"
    ": org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing to file:/t. SQLSTATE: 58030\n"
    "\tat org.apache.spark.sql.Errors$.failed(Errors.scala:1)\n\t... 12 more\n"
    "Caused by: java.io.IOException: No space left on device\n\tat java.base/java.io.Stream.write(Stream.java:1)\n"
)
WORKER = (
    "An exception was thrown from the Python worker. Please see the stack trace below.\n"
    'Traceback (most recent call last):\n  File "step.py", line 3, in clean\n    1 / 0\n'
    "ZeroDivisionError: division by zero\n"
)


def test_the_last_cause_is_told_where_java_says_no_more_than_what_was_called() -> None:
    assert first_line(RuntimeError(JAVA)) == "No space left on device"
    assert words(RuntimeError(JAVA)) == "No space left on device"
    short = JAVA.partition("Caused by")[0]
    assert first_line(RuntimeError(short)) == "[TASK_WRITE_FAILED] Task failed while writing to file:/t."
    assert first_line(RuntimeError("An error occurred while calling o1.x.\n: java.lang.Halt")) == "java.lang.Halt"


def test_a_part_of_a_batch_that_fails_is_named_with_the_cause() -> None:
    for text, cause in ((JAVA, "No space left on device"), (WORKER, "ZeroDivisionError: division by zero")):
        with pytest.raises(PartFailed, match=f"^sink orders: {cause}$") as found, named("sink orders"):
            raise RuntimeError(text)
        assert words(found.value) == words(carried(found.value)) == f"sink orders: {cause}"
    with pytest.raises(LedgerError), named("sink orders"):  # says itself which table
        raise refused()
    with pytest.raises(KeyError), named("sink orders"):  # a fault of the program
        raise KeyError("no")
    said = "moldau.spark.produce.Failed: topic t: no"
    with pytest.raises(RuntimeError, match="no") as own, named("sink orders"):
        raise RuntimeError(f"in a worker:\n{said}")
    assert words(own.value) == "topic t: no"


def test_what_a_restart_mends_is_known_behind_the_part_that_failed() -> None:
    with pytest.raises(PartFailed) as found, named("transform"):
        raise RuntimeError("Job aborted.\nCaused by: Python worker exited unexpectedly (crashed)")
    assert may_pass(found.value)
    assert not may_pass(PartFailed("transform: no"))


def test_a_topic_that_is_not_listed_any_more_is_not_called_gone() -> None:
    told = words(carried(DataLossError([Loss(LossKind.NOT_LISTED, TopicPartition("ev", 0), 51, 0)])))
    assert "ev-0: it is not in the list of what is read any more" in told
    assert "`topics` is gone on with when it is named there again" in told
    assert "`on_loss: skip`" in told


def test_what_is_long_and_not_ours_is_cut_between_words() -> None:
    told = first_line(ValueError("word " * 300))
    assert len(told) < 520
    assert told.endswith("word ...")


ERRORS = [OSError(28, "No space left on device", "/f/books/1"), ValueError("bad step"), RuntimeError("a\nb")]


@pytest.mark.parametrize("error", ERRORS)
def test_no_message_begins_with_what_carried_the_error(error: Exception) -> None:
    name = type(error).__name__
    for carrying in (f"{PROXY}{name}: {error}\n{AFTER}", f"{PROXY.partition('Traceback')[0]}{name}: {error}"):
        for told in (words(RuntimeError(carrying)), first_line(RuntimeError(carrying))):
            assert told == f"{name}: {str(error).splitlines()[0]}"


def test_a_file_that_cannot_be_written_is_named_without_a_number() -> None:
    with pytest.raises(PartFailed, match=r"^books: /f/books/1: No space left on device$"), named("books"):
        raise OSError(28, "No space left on device", "/f/books/1")


def test_columns_that_a_table_lacks_are_let_in_by_a_word_of_the_file() -> None:
    with pytest.raises(TableError) as found:
        new_columns("t", {"id": "long"}, {"id": "long", "more": "long"}, evolve=False)
    for error in (found.value, carried(found.value)):
        assert "new columns are added by `evolve: true`" in words(error)


def test_a_source_that_is_not_there_is_told_in_the_words_of_the_file() -> None:
    """It was told of an option, subscribe, that no file has."""
    error = OptionError("subscribe", "ordrs", "not in the cluster: ordrs")
    assert words(error) == "source: topics is 'ordrs': not in the cluster: ordrs"
    assert words(OptionError("startingOffsets", "5", "no position")) == "source: start is '5': no position"
    assert words(OptionError("minPartitions", "x", "a number")) == "option minPartitions is 'x': a number"


def test_what_delta_says_below_its_first_line_is_told_in_one_line() -> None:
    """Its errors are a line for each cause, the last of which is what went wrong, with or without colours."""
    for arrow in ("\x1b[31m↳\x1b[0m", "↳"):
        full = OSError(f"Generic LocalFileSystem error\n          {arrow} Unable to copy data to file\n"
                       f"           {arrow} No space left on device (os error 28)\n")  # fmt: skip
        whole = "Generic LocalFileSystem error: Unable to copy data to file: No space left on device (os error 28)"
        assert first_line(full) == words(full) == whole
        with pytest.raises(PartFailed, match="^" + re.escape(f"sink orders: {whole}") + "$"), named("sink orders"):
            raise full
