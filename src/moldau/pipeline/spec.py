"""What a pipeline is: values that a file, or a program, fills in. Nothing here reads, asks or runs anything.

Stages in their order: ``Source`` -> ``Decode`` -> ``Check``s -> ``Dedup`` -> ``Step``s of a transformation ->
``Sink``s. Each stage that can meet a record which it cannot take has an ``OnError``. Read next: reading.py (from a
file), batches.py (run).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


DECODE = "decode"
"""The stage of records whose value could not be read; checks are stages by their names."""
DEDUP = "dedup"
"""The stage of records whose key was seen before."""
AHEAD = "ahead"
"""The stage of records whose event time is further ahead of their timestamp than the pipeline allows."""
REPLACED = "replaced"
"""The stage of deleted rows of a table's feed whose key is written again in the same version."""


class OnError(Enum):
    """What becomes of a record that a stage cannot take, and of the batch that it is in."""

    PAUSE = "pause"
    """Nothing of the batch is written; it is tried again until the record can be taken or the policy is changed."""
    FAIL = "fail"
    """Nothing of the batch is written, and the pipeline ends."""
    SKIP = "skip"
    """The record is left out and counted."""
    DLQ = "dlq"
    """The record is written to the dead letters, with its raw bytes, its place and the reason."""


class ValueFormat(Enum):
    """How the value of a record is encoded."""

    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"
    TEXT = "text"
    RAW = "raw"


class Deletes(Enum):
    """What becomes of a version of a table that deletes or updates rows."""

    REFUSE = "refuse"
    """The run ends before it."""
    TOMBSTONE = "tombstone"
    """A deleted row is a record without a value, an updated one a record with the new value."""


class SchemaChange(Enum):
    """What becomes of a version of a table that has other columns than the one before."""

    FAIL = "fail"
    """The run ends before it."""
    FOLLOW = "follow"
    """It goes on with the new columns, from a batch that begins there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFeed:
    """A table whose changes are read: versions of Delta, snapshots of Iceberg.

    ``keys`` are the columns that tell rows apart where deletes become tombstones. ``options`` are those of the store
    (Delta) or the catalog (Iceberg), as for a table that is written.
    """

    table: str
    format: str = "delta"
    keys: tuple[str, ...] = ()
    deletes: Deletes = Deletes.REFUSE
    schema_change: SchemaChange = SchemaChange.FAIL
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """How rows, books and marks call the table."""
        return self.options.get("identifier") or self.table.rstrip("/").rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Topics, and where a pipeline without a checkpoint begins in them.

    ``topics`` or ``pattern`` (a Java pattern, unanchored, as in ``subscribePattern``). ``start`` is what the Spark
    source's ``startingOffsets`` takes. ``max_records`` and ``max_bytes`` bound a batch. ``options`` are further options
    of the source. ``feed`` is a table whose changes are read, in place of topics; ``start`` is then ``snapshot``,
    ``earliest``, ``latest`` or a version.
    """

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    start: str = "earliest"
    on_loss: str = "fail"
    max_records: int | None = None
    max_bytes: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    feed: TableFeed | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decode:
    """How values become columns.

    JSON has ``fields``, which maps names to types ("long", "array<string>"), or a JSON Schema in a registry. Avro and
    Protobuf have a schema: that of ``subject`` (TOPIC-value, unless it is said) in the schema registry at the URL
    ``registry``, its newest or the ``version``; or a ``schema_file`` (.avsc; .proto or a descriptor set) for values
    without a registry's prefix. ``message`` names the message of a Protobuf schema, the first unless it is said.
    """

    format: ValueFormat = ValueFormat.JSON
    fields: Mapping[str, str] | None = None
    registry: str | None = None
    subject: str | None = None
    version: int | None = None
    schema_file: str | None = None
    message: str | None = None
    on_error: OnError = OnError.PAUSE


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A condition in SQL that a decoded record must meet; one for which it is false or NULL does not."""

    name: str
    rule: str
    on_error: OnError = OnError.PAUSE


@dataclass(frozen=True, slots=True, kw_only=True)
class Dedup:
    """Leaves out a record when another with the same columns ``by`` came before it, ``within`` a span of event time.

    ``at`` is the column of the event time, the record's own timestamp unless it is said. What stands in all columns
    ``by`` is the key; a record with NULL in one of them is compared with none.
    """

    by: tuple[str, ...]
    within: str = "1d"
    at: str | None = None
    on_duplicate: OnError = OnError.SKIP


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of the transformation: SQL over the view ``records``, or a function of a DataFrame (``module:name``)."""

    sql: str | None = None
    python: str | None = None
    function: Callable[[DataFrame], DataFrame] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintain:
    """How a table is maintained: ``every`` so often small files are merged into ones of ``target`` bytes, and files and
    versions are removed that were replaced longer than ``retention`` ago."""

    every: str = "24h"
    target: str = "128m"
    retention: str = "168h"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSink:
    """A table that takes each batch once. ``keys`` makes it the latest row of each key (Delta only). ``maintain`` says
    how the pipeline maintains it, None that it does not."""

    table: str
    format: str = "delta"
    partition_by: tuple[str, ...] = ()
    evolve: bool = False
    keys: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    delete_when: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    maintain: Maintain | None = Maintain()

    @property
    def name(self) -> str:
        return self.table


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSink:
    """A topic; ``key`` and ``value`` are SQL over the rows. Records are marked, so that readers can leave out doubles.

    Without ``value`` it is the row as JSON, without the columns that begin with an underscore. ``cluster`` is another
    bootstrap list than the pipeline's. ``keep`` names what of the record that a row came from its own has as well:
    ``partition``, ``timestamp``, ``headers``. ``groups`` names consumer groups (with ``*``) whose offsets are
    translated to the copy on the other cluster.
    """

    topic: str
    groups: tuple[str, ...] = ()
    cluster: str | None = None
    keep: tuple[str, ...] = ()
    key: str | None = None
    value: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.topic if self.cluster is None else f"{self.topic}@{self.cluster}"


KEPT_OF_RECORDS = {"partition": "_partition", "timestamp": "_timestamp", "headers": "_headers"}
"""What a topic may keep of the record that a row came from, and the column that has it."""

Sink = TableSink | TopicSink


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetters:
    """Where records go whose stage says ``dlq``: a Delta table, a topic, or both."""

    table: str | None = None
    topic: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """Counts rows whose ``column`` is more than ``after`` (``10m``) behind the newest seen before.

    A record whose ``column`` is more than ``ahead`` of its own timestamp is one that the stage ``ahead`` cannot take.
    """

    column: str
    after: str
    ahead: str | None = None
    on_error: OnError = OnError.PAUSE


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A pipeline: what is read, what is done to it, where it goes.

    ``folder`` keeps the checkpoint and the books; ``cluster`` is a bootstrap list; ``every`` is how often a batch
    begins (a duration like ``10s``); ``schedule`` (as in a crontab, UTC) says when all that is there is read, instead;
    ``publish_group`` shows positions as a consumer group's commits.
    """

    name: str
    folder: str
    cluster: str | None
    source: Source
    decode: Decode
    checks: tuple[Check, ...] = ()
    dedup: Dedup | None = None
    steps: tuple[Step, ...] = ()
    sinks: tuple[Sink, ...] = ()
    dead_letters: DeadLetters = DeadLetters()
    late: Late | None = None
    every: str = "10s"
    schedule: str | None = None
    publish_group: str | None = None
