"""Puts rows for topics in an order that is the same when their batch runs again: that of the log wherever they tell it.

A shuffle leaves rows in another order than they came in. Two things hang on it: a reader who takes the last record of a
key for the truth, and the marks, which count rows (``moldau.spark.sink``). Read next: batches.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.pipeline import columns as names
from moldau.spark.rows import as_json, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TASKS = 8
"""So many tasks write what was shuffled. The number of processors would be another one on another machine, and a row
would be marked as another than before."""

_SHUFFLES = frozenset(
    ("Aggregate", "Join", "Window", "Distinct", "Deduplicate", "Repartition", "RepartitionByExpression",
     "RebalancePartitions", "Intersect", "Except")
)  # fmt: skip
_SHUFFLES_TOO = ("FlatMapGroups", "FlatMapCoGroups")
_PLACE = (names.TOPIC, names.PARTITION, names.OFFSET)


def as_in_the_log(rows: DataFrame) -> DataFrame:
    """The records of a batch, those of one partition in one task and by offset."""
    return rows.repartition(TASKS, *_PLACE[:2]).sortWithinPartitions(*_PLACE)


def steady(rows: DataFrame) -> DataFrame:
    """What the steps made of records that are cached, in an order that depends on nothing but the rows; as it is where
    the steps keep the order of the records, or say one themselves (``ORDER BY``)."""
    from pyspark.sql import functions as fn

    plan = getattr(rows, "_jdf", None)  # a client of Spark Connect has no plan
    if plan is not None and not is_shuffled(plan.queryExecution().optimizedPlan().toString()):
        return rows
    hashed = fn.xxhash64(*(as_json(fn.col(quoted(name))) for name in rows.columns))  # maps have no hash
    if set(_PLACE) <= set(rows.columns):
        return rows.repartition(TASKS, *_PLACE[:2]).sortWithinPartitions(*_PLACE, hashed)
    return rows.repartition(TASKS, hashed).sortWithinPartitions(hashed)


def is_shuffled(plan: str) -> bool:
    """Whether an optimized plan, as Spark prints it, leaves rows in an order that neither its source nor a sort says.
    How a cached source was made does not count."""
    cached = None
    for line in plan.splitlines():
        node = line.lstrip(" :+-")
        depth = len(line) - len(node)
        if cached is not None and depth > cached:
            continue
        cached = depth if node.startswith("InMemoryRelation") else None
        name = node.partition(" ")[0]
        if name == "Sort" and node.endswith(", true"):
            return False
        if name in _SHUFFLES or name.startswith(_SHUFFLES_TOO):
            return True
    return False
