"""Puts rows for topics in an order that is the same when their batch runs again: that of the log wherever they tell it.

A shuffle leaves rows in another order than they came in. Two things hang on it: a reader who takes the last record of a
key for the truth, and the marks, which count rows (``moldau.spark.sink``). Read next: batches.py.
"""

from __future__ import annotations

from enum import Enum
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
    the steps keep the order of the records. Where they say one themselves (``ORDER BY``) one task writes it: Spark cuts
    a sort into tasks by a sample, which is another one in another run."""
    from pyspark.sql import functions as fn

    plan = getattr(rows, "_jdf", None)  # a client of Spark Connect has no plan
    order = Order.ANY if plan is None else order_of(plan.queryExecution().optimizedPlan().toString())
    if order is Order.KEPT:
        return rows
    if order is Order.SORTED:
        return rows.coalesce(1)
    hashed = fn.xxhash64(*(as_json(fn.col(quoted(name))) for name in rows.columns))  # maps have no hash
    if set(_PLACE) <= set(rows.columns):
        return rows.repartition(TASKS, *_PLACE[:2]).sortWithinPartitions(*_PLACE, hashed)
    return rows.repartition(TASKS, hashed).sortWithinPartitions(hashed)


class Order(Enum):
    """What says in which order the rows of a plan come."""

    KEPT = "its source"
    SORTED = "a sort"
    ANY = "nothing"


def order_of(plan: str) -> Order:
    """The order of an optimized plan, as Spark prints it. How the records, which are cached, were made does not count;
    what a step cached itself does, and is not looked into."""
    cached, limited = None, False
    for line in plan.splitlines():
        node = line.lstrip(" :+-")
        depth = len(line) - len(node)
        if cached is not None and depth > cached:
            if "InMemory" in node:  # the records, within what a step cached
                return Order.ANY
            continue
        cached = depth if node.startswith("InMemoryRelation") else None
        name = node.partition(" ")[0]
        if name == "Sort" and node.endswith(", true"):
            return Order.SORTED
        if name in _SHUFFLES or name.startswith(_SHUFFLES_TOO):
            return Order.ANY
        limited |= name in ("GlobalLimit", "Offset")
    return Order.ANY if limited else Order.KEPT
