"""Leaves out records whose key was seen before: in their batch, or in earlier ones within a span of event time.

What is remembered lies in the pipeline's folder, as hashes of the keys in Parquet files, one part for each batch, and
``dedup/parts.json`` names the parts. A part is written before anything else of its batch, and a batch is never compared
with its own: run again, it judges its records as it did the first time. Parts that are too old go, many small ones
become one, but only while every batch of theirs is in the books. Read next: batches.py.
"""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from moldau.pipeline import columns as names
from moldau.pipeline import stages
from moldau.pipeline.reading import seconds
from moldau.pipeline.spec import DEDUP, Dedup
from moldau.spark.tables import BatchKey
from moldau.spark.tables.stores import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FOLDER = "dedup"
PARTS = f"{FOLDER}/parts.json"
MERGED_FROM = 50
"""So many parts are made one."""
_KEYS = (names.DEDUP_KEY, names.DEDUP_KEY_2)
_AT = names.DEDUP_AT


class BrokenMemory(RuntimeError):
    """What was remembered cannot be read; the message names the file and what to do."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one batch, or many that became one, added: the folder's name and the newest event time, in ms since 1970.

    ``booked``: the batch is in the books, so that it is never run again.
    """

    name: str
    query: str
    batch: int
    newest_ms: int
    booked: bool = False


class SeenKeys:
    """The keys that one pipeline remembers."""

    def __init__(self, store: Store, dedup: Dedup) -> None:
        self._store, self._dedup = store, dedup
        self._within_ms = round(seconds(dedup.within) * 1000)

    def judged(self, rows: DataFrame, key: BatchKey | None = None) -> DataFrame:
        """As the function of this name, with what other batches than ``key`` left."""
        return judged(rows, self._dedup, self._before(rows.sparkSession, key))

    def remember(self, rows: DataFrame, key: BatchKey) -> None:
        """Write the keys of the batch's records that go on, in place of what an earlier try of it wrote."""
        from pyspark.sql import functions as fn

        now_ms = round(time.time() * 1000)  # an event time in the future would have everything else forgotten
        kept = rows.where((fn.col(names.OUTCOME) == stages.OK) & fn.col(_AT).isNotNull())
        kept = kept.select(*_KEYS, fn.least(fn.col(_AT), fn.lit(now_ms)).alias(_AT))
        name = f"{key.query_id}-{key.batch_id:012d}-{now_ms}"
        kept.write.mode("overwrite").parquet(self._at(name))
        others = [one for one in self._parts() if not _is_of(one, key)]
        newest = kept.agg(fn.max(_AT)).collect()[0][0]
        if newest is None:
            newest = max((one.newest_ms for one in others), default=0)
        self._write([*others, Part(name, key.query_id, key.batch_id, newest)])

    def booked(self, spark: SparkSession, key: BatchKey) -> None:
        """The batch is in the books: forget what is too old, and make many parts one."""
        parts = [replace(one, booked=True) if _is_of(one, key) else one for one in self._parts()]
        if not all(one.booked for one in parts):
            self._write(parts)  # of a backfill that was cut off: it is to judge as it did
            return
        oldest = self._oldest(parts)
        kept = [one for one in parts if one.newest_ms >= oldest]
        if len(kept) >= MERGED_FROM:
            name = f"merged-{key.query_id}-{key.batch_id:012d}"
            still = self._read(spark, kept).where(f"{_AT} >= {oldest}")
            still.coalesce(1).write.mode("overwrite").parquet(self._at(name))
            kept = [Part(name, "", -1, max(one.newest_ms for one in kept), booked=True)]
        self._write(kept)
        folders = {PurePosixPath(name).parts[1] for name in self._store.names(FOLDER) if name.count("/") > 1}
        for gone in folders - {one.name for one in kept}:
            with contextlib.suppress(FileNotFoundError):
                self._store.filesystem.delete_dir(self._store.at(f"{FOLDER}/{gone}"))

    def _before(self, spark: SparkSession, key: BatchKey | None) -> DataFrame | None:
        """The keys that other batches left and that still count; None when there are none."""
        parts = [one for one in self._parts() if key is None or not _is_of(one, key)]
        if not parts:
            return None
        return self._read(spark, parts).where(f"{_AT} >= {self._oldest(parts)}").select(*_KEYS)

    def _oldest(self, parts: list[Part]) -> int:
        return max((one.newest_ms for one in parts), default=0) - self._within_ms

    def _read(self, spark: SparkSession, parts: list[Part]) -> DataFrame:
        return spark.read.schema(_SCHEMA).parquet(*(self._at(one.name) for one in parts))

    def _at(self, name: str) -> str:
        return f"{self._store.uri}/{FOLDER}/{name}"

    def _parts(self) -> list[Part]:
        found = self._store.read(PARTS)
        try:
            return [] if found is None else [Part(**one) for one in json.loads(found)]
        except (ValueError, TypeError) as error:
            raise BrokenMemory(
                f"{self._store.uri}/{PARTS}: not a list of what dedup remembers ({error}); restore it, or remove the"
                f" folder {FOLDER} to begin without what was remembered"
            ) from None

    def _write(self, parts: list[Part]) -> None:
        self._store.replace(PARTS, json.dumps([asdict(one) for one in parts]).encode())


_SCHEMA = f"{_KEYS[0]} bigint, {_KEYS[1]} bigint, {_AT} bigint"


def judged(rows: DataFrame, dedup: Dedup, before: DataFrame | None = None) -> DataFrame:
    """The judged records of a batch, where those whose key was seen before have the policy as their outcome: of one key
    the first by timestamp, topic, partition and offset goes on, unless it is in ``before``.

    A record with NULL in one of the key's columns is compared with none.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as fn

    rows = hashed(rows, dedup)
    first = Window.partitionBy(*_KEYS).orderBy(names.TIMESTAMP, names.TOPIC, names.PARTITION, names.OFFSET)
    rows = rows.withColumn(names.DEDUP_NTH, fn.row_number().over(first))
    compared = fn.col(_AT).isNotNull()
    repeated = compared & (fn.col(names.DEDUP_NTH) > 1)
    reason = fn.lit("its key is that of another record of the batch")
    if before is not None:
        wanted = rows.where(compared).select(*_KEYS).distinct()
        found = before.join(wanted, [*_KEYS], "left_semi").distinct().withColumn(names.DEDUP_SEEN, fn.lit(True))
        rows = rows.join(found, [*_KEYS], "left")
        seen = compared & fn.coalesce(names.DEDUP_SEEN, fn.lit(False))
        reason = fn.when(seen, fn.lit(f"its key was seen within {dedup.within} before")).otherwise(reason)
        repeated = repeated | seen
    return rows.withColumns(
        {
            names.OUTCOME: fn.when(repeated, fn.lit(dedup.on_duplicate.value)).otherwise(fn.col(names.OUTCOME)),
            names.STAGE: fn.when(repeated, fn.lit(DEDUP)).otherwise(fn.col(names.STAGE)),
            names.REASON: fn.when(repeated, reason).otherwise(fn.col(names.REASON)),
        }
    )


def hashed(rows: DataFrame, dedup: Dedup) -> DataFrame:
    """The records with 128 bits of hash of their key, and its event time in ms; both are of no use, the time NULL, of a
    record that is not compared."""
    from pyspark.sql import functions as fn

    given = [fn.col(f"`{name}`") for name in dedup.by]
    parts = [part for one in given for part in (one.isNull(), one)]  # xxhash64 passes over NULL
    complete = fn.col(names.OUTCOME) == stages.OK
    for one in given:
        complete = complete & one.isNotNull()
    place = [fn.col(names.TOPIC), fn.col(names.PARTITION), fn.col(names.OFFSET)]
    sent = fn.unix_millis(names.TIMESTAMP)
    at = sent if dedup.at is None else fn.coalesce(fn.unix_millis(fn.col(f"`{dedup.at}`").cast("timestamp")), sent)
    return rows.withColumns(
        {
            _KEYS[0]: fn.when(complete, fn.xxhash64(fn.lit("a"), *parts)).otherwise(fn.xxhash64(*place)),
            _KEYS[1]: fn.when(complete, fn.xxhash64(fn.lit("b"), *parts)).otherwise(fn.xxhash64(fn.lit("c"), *place)),
            _AT: fn.when(complete, fn.coalesce(at, fn.lit(0))),
        }
    )


def _is_of(part: Part, key: BatchKey) -> bool:
    return (part.query, part.batch) == (key.query_id, key.batch_id)
