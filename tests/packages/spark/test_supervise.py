"""A stream is begun again where a restart mends what ended it, and only there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, cast

import pytest

from moldau.spark.supervise import BEGINNINGS, IDLE_MOST, run, until_it_stands
from moldau.spark.tables.catalogs import NoAnswer

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

SLOW = "java.net.SocketTimeoutException: Timed out while waiting for the Python worker to connect back"


class Query:
    """One that initializes for a while, and then stands or has failed."""

    def __init__(self, failure: str = "") -> None:
        self._failure, self._messages = failure, iter(["Initializing sources", "Initializing sources"])

    @property
    def isActive(self) -> bool:
        return not self._failure

    @property
    def status(self) -> dict[str, str]:
        return {"message": next(self._messages, "Waiting for data to arrive")}

    def exception(self) -> RuntimeError | None:
        return RuntimeError(self._failure) if self._failure else None


def begun(queries: Iterator[Query]) -> StreamingQuery:
    return until_it_stands(lambda: cast("StreamingQuery", next(queries)))


def test_a_stream_whose_python_was_too_slow_is_begun_again() -> None:
    queries = [Query(SLOW), Query(SLOW), Query(), Query()]
    assert begun(iter(queries)) is cast("StreamingQuery", queries[2])
    assert queries[2].status["message"] == "Waiting for data to arrive"


def test_a_stream_that_fails_otherwise_or_always_has_failed() -> None:
    with pytest.raises(RuntimeError, match="no such topic"):
        begun(iter([Query("no such topic"), Query()]))
    with pytest.raises(RuntimeError, match="Timed out"):
        begun(iter([Query(SLOW)] * BEGINNINGS))


class Life:
    """One start of a query: what it did, and how it ended. ``turns`` are its waits of a second, none of which waits."""

    def __init__(self, failure: str = "", batches: int = 0, skipped: str = "", turns: int = 1) -> None:
        self._failure, self._turns, self.name = failure, turns, "q"
        end = json.dumps({"a": {"0": 5}, **({"#skipped": {"a-0": skipped}} if skipped else {})})
        self.recentProgress: list[StreamingQueryProgress] = [
            {"batchId": number, "numInputRows": 1, "sources": [{"endOffset": end}]} for number in range(batches)
        ]

    @property
    def isActive(self) -> bool:
        return self._turns > 0

    @property
    def status(self) -> dict[str, object]:
        return {}

    def exception(self) -> Exception | None:
        return RuntimeError(self._failure) if self._failure and self._turns <= 0 else None

    def awaitTermination(self, timeout: int) -> bool:
        self._turns -= 1
        if self._turns <= 0 and self._failure:
            raise RuntimeError(self._failure)
        return self._turns <= 0


def runs(*lives: Life, restarts: int = 2, until: Callable[[], bool] = lambda: False) -> tuple[object, int]:
    """The query that ``run`` gives over these starts, and how many there were."""
    left = list(lives)
    found = run(lambda: left.pop(0), restarts=restarts, pause_s=0, until=until)
    return found, len(lives) - len(left)


GONE = "moldau.client.client.Unreachable: nobody answers"


def test_a_query_that_may_stand_again_is_begun_again_and_one_that_ended_is_not() -> None:
    last = Life(batches=3)
    assert runs(Life(SLOW), Life(GONE), last, Life()) == (last, 3)


def test_a_query_whose_catalog_gave_no_answer_is_begun_again() -> None:
    error = f"{NoAnswer.__module__}.{NoAnswer.__qualname__}: table n.t: the catalog gave no answer"
    last = Life()
    assert runs(Life(error), last) == (last, 2)


GONE_AWAY = (
    "Broken pipe", "Connection reset", "terminated with exception:  SQLSTATE: XXKST",
    "Lost task 1.0 in stage 14.0 (TID 19) (localhost executor driver): java.io.IOException: Stream closed",
    "Stream closed",
)  # fmt: skip


@pytest.mark.parametrize("said", GONE_AWAY)
def test_a_query_whose_python_processes_were_killed_is_begun_again(said: str) -> None:
    """As PySpark 4.3 raised it after a kill -9 of the source's process at three moments, and of what forks workers."""
    last = Life()
    assert runs(Life(f"{said}\n=== Streaming Query ===\nCurrent State: ACTIVE"), last) == (last, 2)


DEAD_IDLE = "moldau.pipeline.said.PartFailed: decode and checks: Stream closed"


def test_each_idle_worker_that_died_takes_a_beginning_and_none_of_them_counts() -> None:
    """As Spark 4.3 did it after a kill -9 of all Python processes: it kept three workers for later, handed out one for
    each task, and failed the task as it told the process that forks workers, which was gone, to end the worker."""
    last = Life()
    assert runs(Life("Broken pipe"), *(Life(DEAD_IDLE) for _ in range(9)), last, restarts=1) == (last, 11)
    with pytest.raises(RuntimeError, match="nobody answers"):
        runs(*(Life(DEAD_IDLE) for _ in range(9)), Life(GONE), Life(GONE), last, restarts=1)


def test_what_is_told_as_an_idle_worker_that_died_and_is_none_ends() -> None:
    with pytest.raises(RuntimeError, match="Stream closed"):
        runs(*(Life(DEAD_IDLE) for _ in range(2 * IDLE_MOST)), Life())


def test_a_query_that_fails_otherwise_is_not_begun_again() -> None:
    with pytest.raises(RuntimeError, match="lost"):
        runs(Life("some records were lost"), Life())


def test_restarts_are_counted_from_the_last_batch_that_was_finished() -> None:
    last = Life()
    assert runs(Life(GONE), Life(GONE), Life(GONE, batches=1), Life(GONE), last)[1] == 5
    with pytest.raises(RuntimeError, match="nobody answers"):
        runs(Life(GONE), Life(GONE), Life(GONE), last)


def test_batches_are_counted_under_spark_connect_which_says_rows_by_source_alone() -> None:
    """As PySpark 4.3 reads it from the server's JSON: the sum's place is there, and empty."""
    by_source, none = Life(GONE, batches=1), Life(GONE, batches=1)
    for life, rows in ((by_source, 7), (none, 0)):
        for progress in life.recentProgress:
            progress["numInputRows"] = None
            progress["sources"][0]["numInputRows"] = rows
    assert runs(Life(GONE), Life(GONE), by_source, Life())[1] == 4
    with pytest.raises(RuntimeError, match="nobody answers"):
        runs(Life(GONE), Life(GONE), none, Life())


def test_what_a_batch_left_out_is_a_warning_of_the_program() -> None:
    with pytest.warns(UserWarning, match="query q, batch 0: records lost, going on: a-0: expired"):
        runs(Life(batches=1, skipped="expired"))


def test_a_query_is_given_back_running_when_its_program_says_so() -> None:
    lasting = Life(turns=100)
    assert runs(lasting, until=lambda: True) == (lasting, 1)
    assert lasting.isActive


def test_the_ten_seconds_are_known_by_what_pyspark_shows_of_them_as_well() -> None:
    """As PySpark 4.3 raised it on a busy machine: the exception around the first, without its cause."""
    shown = "Python worker failed to connect back.\n=== Streaming Query ===\nCurrent State: INITIALIZING"
    queries = [Query(shown), Query()]
    assert begun(iter(queries)) is cast("StreamingQuery", queries[1])
    ended = [Life(shown), Life(batches=1)]
    assert run(iter(ended).__next__, pause_s=0) is ended[1]


def test_a_start_that_raises_as_under_spark_connect_is_made_again() -> None:
    def starts(last: object, *errors: str) -> Callable[[], object]:
        left = [RuntimeError(error) for error in errors]

        def start() -> object:
            if left:
                raise left.pop(0)
            return last

        return start

    stands, ended = Query(), Life(batches=1)
    assert until_it_stands(cast("Callable[[], StreamingQuery]", starts(stands, SLOW, SLOW))) is cast("object", stands)
    assert run(cast("Callable[[], Life]", starts(ended, SLOW, GONE)), pause_s=0) is ended
    for begin in (until_it_stands, run):
        with pytest.raises(RuntimeError, match="refused"):
            begin(cast("Callable[[], StreamingQuery]", starts(ended, "refused")))


def test_a_query_that_fails_once_its_program_says_so_is_not_begun_again() -> None:
    """Whoever ends the program has ended Spark's processes as well."""
    stopped: list[Life] = []

    def stop() -> bool:
        return bool(stopped)

    class Killed(Life):
        def exception(self) -> Exception | None:
            stopped.append(self)
            return super().exception()

    with pytest.raises(RuntimeError, match="nobody answers"):
        runs(Killed(GONE), Life(), until=stop)
