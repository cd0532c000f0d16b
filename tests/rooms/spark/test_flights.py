"""How the demo's stream begins: again where Python was too slow for Spark, and only there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import pytest

from moldau.spark.flights import BEGINNINGS, until_it_stands

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

SLOW = "java.net.SocketTimeoutException: Timed out while waiting for the Python worker to connect back"


class Query:
    """One that initializes for a while, and then stands or has failed."""

    def __init__(self, failure: str = "") -> None:
        self._failure, self._messages = failure, iter(["Initializing sources", "Initializing sources"])

    @property
    def isActive(self) -> bool:  # noqa: N802
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
