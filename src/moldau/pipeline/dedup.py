"""Leaves out records whose key was seen before: in their batch, or in earlier ones within a span of event time.

What is remembered lies in the pipeline's folder, as hashes of the keys in Parquet files, one part for each batch, and
``dedup/parts.json`` names the parts. A part is written before anything else of its batch, and counts for others once
the batch is in the books: what was never written leaves nothing out. A batch that is run again is judged by its own
part, as it was the first time. Parts that are too old go, many small ones become one. Read next: batches.py.
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
from moldau.pipeline.books import Books, BrokenLine
from moldau.pipeline.durations import seconds
from moldau.pipeline.spec import DEDUP, Dedup
from moldau.spark.rows import as_json, quoted
from moldau.spark.tables import BatchKey
from moldau.spark.tables.stores import Store
from moldau.wire.varints import LONG_MIN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FOLDER = "dedup"
PARTS = f"{FOLDER}/parts.json"
MERGED_FROM = 50
"""So many parts are made one."""
_LINES = 1000
"""So many lines of the books are looked at for a batch that was not noted as one of theirs."""
_KEYS = (names.DEDUP_KEY, names.DEDUP_KEY_2)
_AT, _KEPT = names.DEDUP_AT, names.DEDUP_KEPT


class BrokenMemory(RuntimeError):
    """What was remembered cannot be read; the message names the file and what to do."""


@dataclass(frozen=True, slots=True)
class KeptKeys:
    """What one batch, or many that became one, added: the folder's name and the newest event time, in ms since 1970.

    ``booked``: the batch is in the books, so that it is never run again, and its keys count for others.
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
        self._sound: set[str] = set()
        """Parts whose files were looked at by this process."""

    def judged(self, rows: DataFrame, key: BatchKey | None = None) -> DataFrame:
        """As the function of this name, by what the books have, and what the batch itself wrote when it was tried."""
        from pyspark.sql import functions as fn

        spark, parts = rows.sparkSession, self._parts()
        booked = [one for one in parts if one.booked and not (key is not None and _is_of(one, key))]
        before = None
        if booked:
            before = self._read(spark, booked, self._oldest(booked)).where(_KEPT).select(*_KEYS)
        tried = [one for one in parts if key is not None and _is_of(one, key)]
        if not tried:
            return judged(rows, self._dedup, before)
        own = self._read(spark, tried).select(*_KEYS, _KEPT)
        if before is not None:
            before = before.join(own, [*_KEYS], "left_anti")
        left_out = own.where(~fn.col(_KEPT)).select(*_KEYS)
        return judged(rows, self._dedup, left_out if before is None else before.unionAll(left_out))

    def remember(self, rows: DataFrame, key: BatchKey) -> None:
        """Write each key of the batch, and whether a record of it goes on, in place of what an earlier try wrote."""
        from pyspark.sql import functions as fn

        now_ms = round(time.time() * 1000)  # an event time in the future would have everything else forgotten
        first = rows.where(fn.col(_AT).isNotNull() & (fn.col(names.DEDUP_NTH) == 1))
        goes_on = fn.col(names.OUTCOME) == stages.OK
        found = first.select(*_KEYS, fn.least(fn.col(_AT), fn.lit(now_ms)).alias(_AT), goes_on.alias(_KEPT))
        name = f"{key.query_id}-{key.batch_id:012d}-{now_ms}"
        found.write.mode("overwrite").parquet(self._at(name))
        others = [one for one in self._parts() if not _is_of(one, key)]
        newest = found.where(_KEPT).agg(fn.max(_AT)).collect()[0][0]
        if newest is None:
            newest = max((one.newest_ms for one in others), default=0)
        self._write([*others, KeptKeys(name, key.query_id, key.batch_id, newest)])

    def booked(self, spark: SparkSession, key: BatchKey) -> None:
        """The batch is in the books: count its keys, forget what is too old, and make many parts one."""
        parts = [replace(one, booked=True) if _is_of(one, key) else one for one in self._parts()]
        counted = [one for one in parts if one.booked]
        oldest = self._oldest(counted)
        others = [one for one in parts if not one.booked and one.newest_ms >= oldest]
        counted = [one for one in counted if one.newest_ms >= oldest]
        if len(counted) > MERGED_FROM:
            last = [one for one in counted if _is_of(one, key)]  # Spark may not know yet that it was written
            many = [one for one in counted if not _is_of(one, key)]
            name = f"merged-{key.query_id}-{key.batch_id:012d}-{round(time.time() * 1000)}"
            still = self._read(spark, many, oldest).where(_KEPT)
            still.coalesce(1).write.mode("overwrite").parquet(self._at(name))
            counted = [KeptKeys(name, "", -1, max(one.newest_ms for one in many), booked=True), *last]
        self._write([*counted, *others])
        there = {one.name for one in (*counted, *others)}
        folders = {PurePosixPath(name).parts[1] for name in self._store.names(FOLDER) if name.count("/") > 1}
        for gone in folders - there:
            with contextlib.suppress(FileNotFoundError):
                self._store.filesystem.delete_dir(self._store.at(f"{FOLDER}/{gone}"))

    def catch_up(self, kept: Books) -> None:
        """Count the keys of batches that are in the books, also where the process was killed before ``booked``: a batch
        that is not run again, as after a reset, and a replay would else be forgotten."""
        parts, last = self._parts(), kept.last()
        if last is None or all(one.booked for one in parts):
            return
        there = set()
        for number in range(last.sequence, max(-1, last.sequence - _LINES), -1):
            try:
                line = kept.line(number)
            except BrokenLine:  # only the newest line has to be sound for what comes next
                break
            if line is not None:
                there.add((line.query, line.batch))
        found = [replace(one, booked=one.booked or (one.query, one.batch) in there) for one in parts]
        if found != parts:
            self._write(found)

    def _oldest(self, parts: list[KeptKeys]) -> int:
        return max((one.newest_ms for one in parts), default=0) - self._within_ms

    def _read(self, spark: SparkSession, parts: list[KeptKeys], oldest: int = LONG_MIN) -> DataFrame:
        """The keys of the parts, none older than ``oldest``; BrokenMemory where files are missing or no Parquet."""
        for one in parts:
            self._look_at(one.name)
        found = spark.read.schema(_SCHEMA).parquet(*(self._at(one.name) for one in parts))
        return found.where(f"{_AT} >= {oldest}") if oldest != LONG_MIN else found

    def _look_at(self, name: str) -> None:
        """Spark would tell of a damaged file in a hundred lines, most of them Java's."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if name in self._sound:
            return
        files = self._store.names(f"{FOLDER}/{name}", ".parquet")
        try:
            if not files:
                raise FileNotFoundError("its files are gone")
            for file in files:
                pq.read_metadata(self._store.at(file), filesystem=self._store.filesystem)
        except (pa.ArrowInvalid, OSError) as error:
            raise BrokenMemory(
                f"{self._at(name)}: what dedup remembers of a batch cannot be read ({error}); restore it, or remove the"
                f" folder {FOLDER} to begin without what was remembered"
            ) from None
        self._sound.add(name)

    def _at(self, name: str) -> str:
        return f"{self._store.uri}/{FOLDER}/{name}"

    def _parts(self) -> list[KeptKeys]:
        found = self._store.read(PARTS)
        try:
            return [] if found is None else [KeptKeys(**one) for one in json.loads(found)]
        except (ValueError, TypeError) as error:
            raise BrokenMemory(
                f"{self._store.uri}/{PARTS}: not a list of what dedup remembers ({error}); restore it, or remove the"
                f" folder {FOLDER} to begin without what was remembered"
            ) from None

    def _write(self, parts: list[KeptKeys]) -> None:
        self._store.replace(PARTS, json.dumps([asdict(one) for one in parts]).encode())


_NESTED = ("array", "struct")
"""Types of which xxhash64 takes different values for one: it passes over NULL within them, and over how long a list
is."""
_SCHEMA = f"{_KEYS[0]} bigint, {_KEYS[1]} bigint, {_AT} bigint, {_KEPT} boolean"


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

    given = [fn.col(quoted(name)) for name in dedup.by]
    kinds = [rows.select(one).schema[0].dataType.typeName() for one in given]
    given = [as_json(one) if kind in _NESTED else one for one, kind in zip(given, kinds, strict=True)]
    parts = [part for one in given for part in (one.isNull(), one)]  # xxhash64 passes over NULL
    complete = fn.col(names.OUTCOME) == stages.OK
    for name in dedup.by:
        complete = complete & fn.col(quoted(name)).isNotNull()
    place = [fn.col(names.TOPIC), fn.col(names.PARTITION), fn.col(names.OFFSET)]
    sent = fn.unix_millis(names.TIMESTAMP)
    at = sent if dedup.at is None else fn.coalesce(fn.unix_millis(fn.col(quoted(dedup.at)).try_cast("timestamp")), sent)
    return rows.withColumns(
        {
            _KEYS[0]: fn.when(complete, fn.xxhash64(fn.lit("a"), *parts)).otherwise(fn.xxhash64(*place)),
            _KEYS[1]: fn.when(complete, fn.xxhash64(fn.lit("b"), *parts)).otherwise(fn.xxhash64(fn.lit("c"), *place)),
            _AT: fn.when(complete, fn.coalesce(at, fn.lit(0))),
        }
    )


def _is_of(part: KeptKeys, key: BatchKey) -> bool:
    return (part.query, part.batch) == (key.query_id, key.batch_id)
