"""Which streaming query is calling ``foreachBatch``, in a classic session and under Spark Connect."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUERY_ID = "sql.streaming.queryId"


class NoQuery(RuntimeError):
    """Nobody can say which query this is; the message says what to give instead."""


def query_id(rows: DataFrame, checkpoint: str | None = None) -> str:
    """The id of the query whose batch ``foreachBatch`` hands over just now; NoQuery outside of one.

    Under Connect the function runs in a Python process on the server, where the ``checkpoint`` (a checkpointLocation)
    says which query it is; without it that session's only query is taken, of which it may know none.
    """
    session = rows.sparkSession
    try:
        found = session.sparkContext.getLocalProperty(QUERY_ID)
    except Exception as error:  # Connect has no context: PySparkAttributeError, and other errors in other versions
        if checkpoint is not None and (id := id_in(checkpoint)) is not None:
            return id
        active = [str(query.id) for query in session.streams.active]
        if len(active) == 1:
            return active[0]
        raise NoQuery(
            f"{len(active)} streaming queries are active in this session and Spark Connect does not say which one "
            "calls: give checkpoint=, the query's checkpointLocation, to what foreachBatch calls"
        ) from error
    if not found:
        raise NoQuery("no streaming query is running here: call from within foreachBatch, or give a BatchKey")
    return str(found)


def id_in(checkpoint: str) -> str | None:
    """The id of the query whose checkpoint it is; None where there is none yet."""
    from moldau.spark.tables.stores import open_store

    content = open_store(checkpoint).read("metadata")
    try:
        return None if content is None else str(json.loads(content)["id"])
    except (ValueError, KeyError, TypeError):
        return None
