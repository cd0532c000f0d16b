"""Many topics into many tables: ``foreachBatch(Tables("/data/{topic}"))``, each topic's rows into a table of its own.

A topic's table keeps the ledger of that topic's offsets alone, so a batch without records of a topic leaves its table
untouched and the next one still follows. Read next: table.py, ledger.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from moldau.spark.tables.checkpoint import key_of
from moldau.spark.tables.ledger import BatchKey, Offsets, TableError
from moldau.spark.tables.table import Table, Written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class Tables:
    """A table for each topic of a stream. ``template`` holds ``{topic}``; rows have a column ``topic``.

    ``open_table`` makes the table of a place (``Table`` unless given), so that format, partitions and store are yours.
    """

    def __init__(
        self, template: str, *, open_table: Callable[[str], Table] = Table, checkpoint: str | None = None
    ) -> None:
        if "{topic}" not in template:
            raise TableError(f"{template}: {{topic}} must stand where the topic's name goes")
        self.template, self.checkpoint, self._open_table = template, checkpoint, open_table
        self._tables: dict[str, Table] = {}

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        self.append(rows, key_of(rows, batch_id, checkpoint=self.checkpoint))

    def append(self, rows: DataFrame, key: BatchKey) -> dict[str, Written]:
        """Add each topic's rows to its table; what became of each topic of the batch.

        A crash between two tables is mended by the batch's next run: each table skips what it has.
        """
        from pyspark.sql import functions as fn

        rows = rows.persist()
        try:
            found = {row.topic for row in rows.select("topic").distinct().collect()}
            done = {}
            for topic in sorted(found | moved(key), key=str):
                table = self.table(topic)
                part = narrowed(key, topic)
                if topic in found:
                    done[topic] = table.append(rows.where(fn.col("topic") == topic), part)
                elif table.last(key.query_id) is not None:  # records of this topic were read, and none was kept
                    done[topic] = table.add([], part)
            return done
        finally:
            rows.unpersist()

    def table(self, topic: str | None) -> Table:
        """The table of a topic; TableError when the name could not be a topic's."""
        if topic is None or not _NAME.fullmatch(topic) or topic in (".", ".."):
            raise TableError(f"{self.template}: {topic!r} is not the name of a topic, and no folder is made for it")
        if topic not in self._tables:
            self._tables[topic] = self._open_table(self.template.replace("{topic}", topic))
            self._tables[topic].begins_late = True  # with the first batch that has records of the topic
        return self._tables[topic]


def moved(key: BatchKey) -> set[str]:
    """The topics whose offsets the batch moves on; empty where offsets are not known."""
    return {topic for topic in _topics(key.end) if narrowed(key, topic).start != narrowed(key, topic).end}


def narrowed(key: BatchKey, topic: str) -> BatchKey:
    """The key with the offsets of one topic; as it is where offsets are not by topic."""
    if key.end is None or topic not in _topics(key.end):
        return key._replace(start=None, end=None)
    return key._replace(start=_of(key.start, topic), end=_of(key.end, topic))


def _of(offsets: Offsets | None, topic: str) -> Offsets | None:
    if offsets is None:
        return None
    for each in offsets:
        found = json.loads(each)
        if isinstance(found, Mapping) and topic in found:
            ids = {name: id for name, id in found.get("#topicIds", {}).items() if name == topic}
            kept = {topic: found[topic], **({"#topicIds": ids} if ids else {})}
            return (json.dumps(kept, sort_keys=True),)
    return None  # a topic that is new in this batch


def _topics(offsets: Offsets | None) -> set[str]:
    found: set[str] = set()
    for each in offsets or ():
        place = json.loads(each)
        if isinstance(place, Mapping) and all(isinstance(value, Mapping) for value in place.values()):
            found |= {name for name in place if not name.startswith("#")}
    return found
