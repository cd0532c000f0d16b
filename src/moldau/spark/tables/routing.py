"""Many topics into many tables: ``foreachBatch(Tables("/data/{topic}"))``, each topic's rows into a table of its own.

A topic's table keeps the ledger of that topic's offsets alone, so a batch without records of a topic leaves its table
untouched and the next one still follows. A table begins with the first batch that knows the topic, with no rows when it
has none: where a later batch goes on from offsets above zero and there is no table, it was there and is gone.
Read next: table.py, ledger.py.
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
    """A table for each topic of a stream. ``template`` holds ``{topic}``; rows say their topic in ``column``.

    ``open_table`` makes the table of a place (``Table`` unless given), so that format, partitions and store are yours.
    ``begins_late`` is for new tables under a query that runs already: without it a table that lacks what the query read
    of its topic before is refused, since it may have been removed.
    """

    def __init__(
        self,
        template: str,
        *,
        open_table: Callable[[str], Table] = Table,
        begins_late: bool = False,
        checkpoint: str | None = None,
        column: str = "topic",
    ) -> None:
        if "{topic}" not in template:
            raise TableError(f"{template}: {{topic}} must stand where the topic's name goes")
        self.template, self.checkpoint, self._open_table = template, checkpoint, open_table
        self.begins_late, self.column = begins_late, column
        self._tables: dict[str, Table] = {}

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        self.append(rows, key_of(rows, batch_id, checkpoint=self.checkpoint))

    def append(self, rows: DataFrame, key: BatchKey) -> dict[str, Written]:
        """Add each topic's rows to its table; what became of each topic of the batch.

        A crash between two tables is mended by the batch's next run: each table skips what it has. LedgerError when a
        topic that was read before has no table.
        """
        from pyspark.sql import functions as fn
        from pyspark.sql.pandas.types import to_arrow_schema

        rows = rows.persist()
        try:
            found = {row[0] for row in rows.select(self.column).distinct().collect()}
            moving = found | moved(key)
            done = {}
            for topic in sorted(moving | started(key), key=str):
                table = self.table(topic)
                part = narrowed(key, topic)
                table.begins_late = self.begins_late or part.start is None or not is_read(part.start)
                if topic in found:
                    done[topic] = table.append(rows.where(fn.col(self.column) == topic), part)
                elif topic in moving or table.last(key.query_id) is None:
                    # None of its records was kept, or it has none.
                    table.format.prepare(to_arrow_schema(rows.schema, timezone="UTC"), evolve=table.evolve)
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
        return self._tables[topic]


def moved(key: BatchKey) -> set[str]:
    """The topics whose offsets the batch moves on; empty where offsets are not known."""
    return {topic for topic in _topics(key.end) if narrowed(key, topic).start != narrowed(key, topic).end}


def started(key: BatchKey) -> set[str]:
    """The topics with records before the batch's end that the query knows since this batch; none where offsets are not
    known."""
    known = set() if key.batch_id == 0 else _topics(key.start)
    return {topic for topic in _topics(key.end) - known if is_read(narrowed(key, topic).end)}


def is_read(offsets: Offsets | None) -> bool:
    """Whether any offset of these is above zero, so that there may be records before it."""
    places = [place for each in offsets or () for place in _by_topic(each).values()]
    return any(isinstance(at, int) and at > 0 for place in places for at in place.values())


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
        found |= _by_topic(each).keys()
    return found


def _by_topic(text: str) -> Mapping[str, Mapping[str, object]]:
    """The offsets of a Kafka source by topic and partition; empty for a source of another kind."""
    place = json.loads(text)
    if not isinstance(place, Mapping) or not all(isinstance(value, Mapping) for value in place.values()):
        return {}
    return {name: value for name, value in place.items() if not name.startswith("#")}
