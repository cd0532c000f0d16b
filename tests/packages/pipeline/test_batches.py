"""What a batch ends by is an error that Spark hears of, whatever a stage of it raised."""

from __future__ import annotations

from typing import cast

import pytest
from pyspark.sql import DataFrame

from moldau.pipeline.batches import BatchEnded, ForeachBatch, RefusedBatch
from moldau.pipeline.books import Count
from moldau.pipeline.said import PartFailed


class Leaving(ForeachBatch):
    """Batches in which something ends the program."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def _take_next(self, records: DataFrame, batch_id: int) -> None:
        raise self._error


@pytest.mark.parametrize("error", [SystemExit("no"), KeyboardInterrupt("no"), GeneratorExit("no")])
def test_what_would_end_the_thread_of_a_batch_unheard_is_told_as_an_error(error: BaseException) -> None:
    batches = Leaving(error)
    with pytest.raises(BatchEnded, match=f"batch 7 was ended by {type(error).__name__}: no") as found:
        batches(cast("DataFrame", None), 7)
    assert batches.failed is found.value


def test_what_fails_in_a_batch_and_has_no_part_of_its_own_is_told_with_the_batch() -> None:
    batches = Leaving(OSError(28, "No space left on device", "/f/begun"))
    with pytest.raises(PartFailed, match="^batch 7: /f/begun: No space left on device$"):
        batches(cast("DataFrame", None), 7)
    fault = KeyError("no")
    with pytest.raises(KeyError):
        Leaving(fault)(cast("DataFrame", None), 7)


def test_a_record_that_is_refused_is_told_in_one_line_whatever_its_producer_wrote() -> None:
    told = str(RefusedBatch(Count("t", "fail", "decode", 1, "t-0@3", "m.a\n00:00:00 batch 9\x1b[2J: no number")))
    assert "\n" not in told
    assert "\x1b" not in told
    assert r"m.a\n00:00:00 batch 9\x1b[2J: no number" in told
