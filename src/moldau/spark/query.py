"""Which streaming query is calling ``foreachBatch``, in a classic session and under Spark Connect."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUERY_ID = "sql.streaming.queryId"


class NoQuery(RuntimeError):
    """Nobody can say which query this is; the message says what to give instead."""


def query_id(rows: DataFrame) -> str:
    """The id of the query whose batch ``foreachBatch`` hands over just now; NoQuery outside of one.

    Under Connect the function runs in a Python process on the server, whose session holds the one query that called
    it; where more than one is active there, they cannot be told apart and a name must be given instead.
    """
    session = rows.sparkSession
    try:
        found = session.sparkContext.getLocalProperty(QUERY_ID)
    except Exception as error:  # Connect has no context: PySparkAttributeError, and other errors in other versions
        active = [str(query.id) for query in session.streams.active]
        if len(active) == 1:
            return active[0]
        raise NoQuery(
            f"{len(active)} streaming queries are active in this session and Spark Connect does not say which one "
            "calls: give the table a name, pipeline='...'"
        ) from error
    if not found:
        raise NoQuery("no streaming query is running here: call from within foreachBatch, or give a BatchKey")
    return str(found)
