"""What is wrong with a pipeline before anything runs: no Spark, no network, well under a second.

SQL is parsed in Spark's dialect (by sqlglot), and its columns are looked up in what the stage before gives, as far as
that is known: a function in Python, or a registry, ends what can be known here; ``plan`` and ``dry-run`` go further.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.optimizer.qualify import qualify

from moldau.pipeline.columns import PLACES, TOPIC, refused_names
from moldau.pipeline.lint_parts import (
    CHANGING,
    LISTED_MOST,
    fields_of_one_name,
    listed,
    name_of,
    repeated,
    steps_up,
    tables_of,
    unknown_functions,
    words,
    wrong_function,
)
from moldau.pipeline.owner import OWNER, other_owner
from moldau.pipeline.places import FilePosition, FileProblem
from moldau.pipeline.reading import ParsedFile, did_you_mean, read_file
from moldau.pipeline.same_place import clashes
from moldau.pipeline.spec import (
    AHEAD,
    DECODE,
    DEDUP,
    KEPT_OF_RECORDS,
    REPLACED,
    Decode,
    Deletes,
    OnError,
    Pipeline,
    TableFeed,
    TableSink,
    TopicSink,
    ValueFormat,
)

RECORDS = "records"
"""The view over which a transformation's SQL is written."""

Columns = Mapping[str, str]
"""Names and SQL types; a type that is not known is an empty text."""

_START = FilePosition(1, 1)
SQL_MOST = 30_000
"""How many characters of SQL, and columns below it, are looked at in a file: a look takes less than a second."""
_STEPS_MOST = 200_000
_HAS_POINT = re.compile(r"decimal\(\d+,0*[1-9]")
"""A decimal with digits behind the point, which Delta's partitions do not give back when it is negative."""
_RAISES = re.compile(r"(?<![\w.])(to_number|url_decode|parse_json|element_at)\s*\(", re.IGNORECASE)
"""Functions that stop a batch for a value that they cannot take, ANSI mode or not; each has a ``try_`` form."""


_NO_TIMES = ("boolean", "binary", "array", "map", "struct")
"""How types begin that Spark takes for no time, whatever the value."""


def lint_file(path: str | Path, variables: Mapping[str, str] | None = None) -> list[FileProblem]:
    """Every problem of a file, by line: errors keep it from running, warnings are worth a look."""
    found = read_file(path, variables)
    if found.draft is None:
        return found.problems
    problems = [*found.problems, *_of_folder(found.draft, found), *lint(found.draft, found, Path(path).parent)]
    return sorted(dict.fromkeys(problems), key=lambda one: one.place)


def lint(pipeline: Pipeline, read: ParsedFile | None = None, folder: Path | None = None) -> list[FileProblem]:
    """The problems of a pipeline; ``folder`` is where modules of Python steps are looked for first."""
    found = _Linter(pipeline, {} if read is None else read.places, folder)
    found.run()
    return found.problems


def output_columns(pipeline: Pipeline, fields: Columns) -> Columns | None:
    """The columns that sinks get, when the decoded fields are these; None after a step in Python or wrong SQL."""
    columns: Columns | None = {**fields, **PLACES}
    linter = _Linter(pipeline, {}, None)
    for at, step in enumerate(pipeline.steps):
        columns = linter.step(step.sql, columns, f"transform[{at}].sql") if step.sql is not None else None
    return columns


class _Linter:
    """One look at one pipeline."""

    def __init__(self, pipeline: Pipeline, places: Mapping[str, FilePosition], folder: Path | None) -> None:
        self.pipeline, self.places, self.folder = pipeline, places, folder
        self.problems: list[FileProblem] = []
        self.left = SQL_MOST
        self.twice: list[str] = []
        """Names that the newest step gives to two columns."""
        self.within: dict[str, str] = {}
        """Columns of the newest step with two fields that differ in case only, and which."""
        self._known: tuple[Columns | None, frozenset[str]] = None, frozenset()

    def say(self, path: str, message: str, *, error: bool = True) -> None:
        self.problems.append(FileProblem(self.places.get(path, _START), message, error))

    def run(self) -> None:
        feed = self.pipeline.source.feed
        fields = None
        if feed is None:
            fields = self.decode(self.pipeline.decode)
        else:
            self.feed(feed)
        columns: Columns | None = None if fields is None else {**fields, **PLACES}
        for at, check in enumerate(self.pipeline.checks):
            self.condition(check.rule, columns, f"check[{at}].rule", f"check {check.name!r}")
        self.names_of_checks()
        self.dedup(columns)
        if self.pipeline.late is not None and columns is not None:
            self.demand((self.pipeline.late.column,), columns, "late.column", "late")
            self.demand_time(self.pipeline.late.column, columns, "late.column", "late")
        for at, step in enumerate(self.pipeline.steps):
            self.twice = []
            if step.sql is not None:
                columns = self.step(step.sql, columns, f"transform[{at}].sql")
            elif step.python is not None:
                self.function(step.python, f"transform[{at}].python")
                columns = None
            else:
                columns = None
            if columns is None:
                self.within = {}
        for at, sink in enumerate(self.pipeline.sinks):
            if isinstance(sink, TableSink):
                self.table(sink, columns, f"sinks[{at}]")
            else:
                self.topic(sink, columns, f"sinks[{at}]")
        self.dead_letters()
        self.places_of()
        self.source()

    # --- stages

    def feed(self, feed: TableFeed) -> None:
        """Look at a pipeline over a table; its columns are not known without the table."""
        pipeline = self.pipeline
        given = {"decode": pipeline.decode != Decode(), "dedup": pipeline.dedup is not None}
        for name in (name for name, there in given.items() if there):
            self.say(name, f"{name}: is for pipelines that read topics; rows of a table are decoded")
        if pipeline.publish_group is not None:
            self.say("publish_group", "publish_group: only positions in topics can be a group's")
        if feed.deletes is Deletes.TOMBSTONE and not feed.keys:
            self.say("source", "source: deletes: tombstone needs 'keys', the columns that tell rows apart")
        if feed.format == "iceberg":
            if "catalog" not in feed.options:
                self.say("source", "source: an Iceberg table needs options.catalog, the name of its catalog")
            if feed.deletes is Deletes.TOMBSTONE:
                self.say("source", "source: of Iceberg only appended rows are read; deletes: tombstone is for Delta")
        for at, sink in enumerate(pipeline.sinks):
            if isinstance(sink, TableSink):
                self.say(f"sinks[{at}]", "a table's feed goes to topics; a table is read by Spark as it is")
                continue
            if feed.deletes is Deletes.TOMBSTONE and sink.key is None:
                self.say(f"sinks[{at}]", f"topic {sink.topic}: a tombstone needs a 'key'")
            for name in ("partition", "headers"):
                if name in sink.keep:
                    self.say(f"sinks[{at}]", f"topic {sink.topic}: keep: a row of a table has no {name}")

    def decode(self, decode: Decode) -> Columns | None:
        """The decoded fields with their types, None where they are not known."""
        kind = decode.format
        has_schema = kind in (ValueFormat.AVRO, ValueFormat.PROTOBUF)
        if decode.fields is not None and kind is not ValueFormat.JSON:
            what = "come from its schema" if has_schema else "are one, value"
            self.say("decode", f"fields: the columns of {kind.value} {what}")
        if decode.registry is not None and not has_schema and kind is not ValueFormat.JSON:
            self.say("decode", "registry: only avro, protobuf and json have schemas there")
        if decode.schema_file is not None and not has_schema:
            self.say("decode", "schema_file: only avro and protobuf have one")
        if decode.message is not None and kind is not ValueFormat.PROTOBUF:
            self.say("decode", "message: only protobuf has messages")
        for name in ("subject", "version"):
            if getattr(decode, name) is not None and decode.registry is None:
                self.say("decode", f"{name}: only a 'registry' has subjects and versions")
        if has_schema or decode.registry is not None:
            return self.schema(decode)
        if kind is not ValueFormat.JSON:
            return {"value": "string" if kind is ValueFormat.TEXT else "binary"}
        if not decode.fields:
            self.say("decode", "decode: json needs 'fields' (name: type)")
            return None
        return self.fields(decode.fields)

    def schema(self, decode: Decode) -> Columns | None:
        """The columns of a schema file; those of a registry are not known without asking it."""
        if (decode.registry is None) == (decode.schema_file is None):
            needs = f"decode: {decode.format.value} needs a 'registry' or a 'schema_file' (one of them)"
            self.say("decode", needs)
            return None
        topics = self.pipeline.source.topics
        if decode.registry is not None:
            if decode.subject is None and len(topics) != 1:
                self.say("decode", "decode: which 'subject' gives the columns? There is not one topic alone")
            self.registry(decode.registry)
            return None if decode.fields is None else self.fields(decode.fields)
        from moldau.pipeline.decode import DecodeError
        from moldau.pipeline.decode.plan import plan_decode

        try:
            found = plan_decode(decode, topics).schema
        except DecodeError as error:
            self.say("decode", str(error))
            return None
        return dict.fromkeys(found.names, "")

    def registry(self, url: str) -> None:
        """Say what is wrong with the URL of a registry, without asking it."""
        from moldau.pipeline.registry.client import Registry, RegistryError

        try:
            Registry(url)
        except RegistryError as error:
            self.say("registry", f"registry: {error}")

    def fields(self, fields: Columns) -> Columns:
        """The columns that the file names."""
        from moldau.pipeline.decode.types import TypeWordError, parse_type

        self.reserved(fields)
        for name, word in fields.items():
            try:
                parse_type(word)
            except TypeWordError as error:
                self.say(f"fields.{name}", f"{name}: {error}")
        return dict(fields)

    def reserved(self, names: Iterable[str]) -> None:
        for name, why in refused_names(names):
            self.say(f"fields.{name}", why)

    def fits(self, sql: str, path: str, what: str, columns: int = 0) -> bool:
        """Whether SQL over so many columns can be looked at in the time that all of a file's may take."""
        if len(sql) + columns > self.left:
            self.too_long(path, what, f"{len(sql):,} characters over {columns:,} columns")
            return False
        self.left -= len(sql) + columns
        return True

    def too_long(self, path: str, what: str, why: str) -> None:
        short = what if len(what) <= 80 else f"{what[:77]}..."
        self.say(path, f"{short}: the SQL is too long to be checked here ({why}); Spark takes it as it is", error=False)

    def condition(self, sql: str, columns: Columns | None, path: str, what: str) -> None:
        """Look at an expression over the columns."""
        if not self.fits(sql, path, what):
            return
        try:
            found = sqlglot.parse_one(f"SELECT {sql} AS x", dialect="spark", error_level=ErrorLevel.RAISE)
        except (SqlglotError, RecursionError) as error:
            self.say(path, f"{what}: {words(error)}")
            return
        if not isinstance(found, exp.Select) or found.args.get("from_") or len(found.expressions) != 1:
            self.say(path, f"{what}: one expression is expected, without FROM")
        elif columns is not None:
            self.demand((one.parts[0].name for one in found.find_all(exp.Column)), columns, path, what)
        self.functions(found, sql, path, what)
        for name in dict.fromkeys(match.group(1).lower() for match in _RAISES.finditer(sql)):
            instead = f"{name} stops the batch where it cannot be computed; try_{name} does not"
            self.say(path, f"{what}: {instead}", error=False)
        if found.find(exp.AggFunc):
            self.say(path, f"{what}: an aggregate is over many rows; this looks at one")

    def functions(self, found: exp.Expr, sql: str, path: str, what: str) -> None:
        """Warn of functions that Spark has not, and of those that give something else when a batch is run again."""
        for why in unknown_functions(found, sql):
            self.say(path, f"{what}: {why}", error=False)
        there = {name_of(one) for one in found.find_all(exp.Func)} & CHANGING
        for name in sorted(there):
            why = f"{name}() gives something else when a batch that was cut off is run again"
            self.say(path, f"{what}: {why}; what the record has (_timestamp, a field) does not", error=False)

    def names_of_checks(self) -> None:
        seen: set[str] = set()
        own = () if self.pipeline.late is None or self.pipeline.late.ahead is None else (AHEAD,)
        for at, check in enumerate(self.pipeline.checks):
            if check.name in (*own, DECODE, DEDUP, REPLACED):
                self.say(f"check[{at}].rule", f"{check.name!r} is a stage of its own: call the check something else")
            if check.name in seen:
                self.say(f"check[{at}].rule", f"a second check {check.name!r}: the books would count both as one")
            seen.add(check.name)

    def dedup(self, columns: Columns | None) -> None:
        dedup = self.pipeline.dedup
        if dedup is None or columns is None:
            return
        self.demand((*dedup.by, *(() if dedup.at is None else (dedup.at,))), columns, "dedup", "dedup")
        if dedup.at is not None:
            self.demand_time(dedup.at, columns, "dedup", "dedup: at")
        for name in dedup.by:
            if "map<" in columns.get(name, "").replace(" ", "").lower():
                self.say("dedup", f"dedup: {name} is a map, which cannot be compared")

    def step(self, sql: str, columns: Columns | None, path: str) -> Columns | None:
        """The columns that a SELECT gives; None when they cannot be known."""
        if not self.fits(sql, path, "transform", 0 if columns is None else len(columns)):
            return None
        try:
            found = sqlglot.parse_one(sql, dialect="spark", error_level=ErrorLevel.RAISE)
        except (SqlglotError, RecursionError) as error:
            self.say(path, f"transform: {words(error)}")
            return None
        if not isinstance(found, exp.Query):
            self.say(path, "transform: a SELECT over records is expected")
            return None
        defined = {one.alias_or_name.lower() for one in found.find_all(exp.CTE)}
        for table in tables_of(found):
            name = table.name.lower()
            if name != RECORDS and name not in defined:
                hint = did_you_mean(name, (RECORDS, *sorted(defined)))
                self.say(path, f"transform: there is no {table.sql('spark')!r} here. {hint}")
                return None
        self.functions(found, sql, path, "transform")
        if found.find(exp.Group, exp.AggFunc) and not found.find(exp.Window):
            self.say(path, "transform: it adds up within one batch, not over batches", error=False)
        if columns is None:
            return None
        if steps_up(found) > _STEPS_MOST:
            self.too_long(path, "transform", "expressions within expressions")
            return None
        try:
            whole = qualify(found.copy(), schema={RECORDS: dict.fromkeys(columns, "unknown")}, dialect="spark",
                            quote_identifiers=False, validate_qualify_columns=False)  # fmt: skip
        except (SqlglotError, RecursionError) as error:
            self.say(path, f"transform: {words(error)}")
            return None
        known = self.known(columns)
        unknown = [one.name for one in whole.find_all(exp.Column) if not one.table and one.name.lower() not in known]
        if unknown and not any(found.find_all(exp.Lateral)):
            self.demand(unknown, columns, path, "transform")
            return None
        assert isinstance(whole, exp.Query), "a query stays one"
        names = whole.named_selects
        self.twice = repeated(names)
        self.within = fields_of_one_name(found, self.within)
        return None if "*" in names else {name: columns.get(name, "") for name in names}

    def function(self, name: str, path: str) -> None:
        if (why := wrong_function(name, self.folder)) is not None:
            self.say(path, f"python: {why}")

    def table(self, sink: TableSink, columns: Columns | None, path: str) -> None:
        if self.twice:
            self.say(path, f"table {sink.table}: two columns are called {listed(self.twice)}: it would refuse them")
        for why in list(self.within.values())[:LISTED_MOST]:
            self.say(path, f"table {sink.table}: {why}")
        if columns is not None:
            named = (*sink.partition_by, *sink.keys, *sink.order_by)
            self.demand(named, columns, path, f"table {sink.table}")
            for name in sink.partition_by:
                kind = columns.get(name, "").replace(" ", "").lower()
                if kind == "binary" or (_HAS_POINT.match(kind) and sink.format == "delta"):
                    why = f"partition_by {name}: a {kind} cannot be kept in a folder's name"
                    self.say(path, f"table {sink.table}: {why}")
            if "{topic}" in sink.table and TOPIC not in columns:
                why = f"the transformation must keep the column {TOPIC} for {{topic}}, as it is: tables call it topic"
                self.say(path, f"table {sink.table}: {why}")
            elif "{topic}" in sink.table and (own := [one for one in columns if one.lower() == "topic"]):
                why = f"by {TOPIC}, the topic that a record came from; {own[0]!r} beside it is a column like others"
                self.say(path, f"table {sink.table}: rows go to their tables {why}", error=False)
        if sink.delete_when is not None:
            self.condition(sink.delete_when, None, path, f"table {sink.table}: delete_when")
        if "{topic}" in sink.table and sink.keys:
            self.say(path, f"table {sink.table}: {{topic}} is for tables without keys")
        if sink.format == "iceberg" and "catalog" not in sink.options:
            self.say(path, f"table {sink.table}: an Iceberg table needs options.catalog, the name of its catalog")
        if sink.format == "iceberg" and "{topic}" in sink.table and "identifier" in sink.options:
            self.say(path, f"table {sink.table}: options.identifier names one table, {{topic}} in the path many")

    def topic(self, sink: TopicSink, columns: Columns | None, path: str) -> None:
        if self.twice and sink.value is None:
            why = "its JSON would have the name twice; 'value' says otherwise"
            self.say(path, f"topic {sink.topic}: two columns are called {listed(self.twice)}: {why}")
        if sink.value is not None:
            self.condition(sink.value, columns, path, f"topic {sink.topic}: value")
        if sink.key is not None:
            self.condition(sink.key, columns, path, f"topic {sink.topic}: key")
        if columns is not None:
            self.demand((KEPT_OF_RECORDS[name] for name in sink.keep), columns, path, f"topic {sink.topic}: keep")
        if sink.groups:
            self.groups(sink, path)

    def groups(self, sink: TopicSink, path: str) -> None:
        """Offsets can be translated where a topic is copied partition by partition, in order."""
        source, what = self.pipeline.source, f"topic {sink.topic}: groups"
        if sink.cluster is None:
            self.say(path, f"{what}: they are translated to another cluster, which 'cluster' names")
        if "partition" not in sink.keep:
            self.say(path, f"{what}: a copy needs keep: [partition]")
        if len(source.topics) != 1:
            self.say(path, f"{what}: a source of one topic is needed, so that an offset is of one topic")
        if "minPartitions" in source.options:
            self.say(path, f"{what}: minPartitions writes a partition out of order")

    def dead_letters(self) -> None:
        pipeline = self.pipeline
        uses = [f"check {one.name!r}" for one in pipeline.checks if one.on_error is OnError.DLQ]
        uses += ["dedup"] if pipeline.dedup is not None and pipeline.dedup.on_duplicate is OnError.DLQ else []
        uses += ["late"] if pipeline.late is not None and pipeline.late.on_error is OnError.DLQ else []
        uses += ["decode"] if pipeline.decode.on_error is OnError.DLQ else []
        there = pipeline.dead_letters.table is not None or pipeline.dead_letters.topic is not None
        if uses and not there:
            self.say("dlq", f"on_error: dlq of {', '.join(uses)} needs the section 'dlq' with a table or a topic")
        if there and not uses:
            self.say("dlq", "dlq: no stage has on_error: dlq, so nothing will be written there", error=False)

    def places_of(self) -> None:
        """Say which places are those of two parts, and which clusters have no address."""
        pipeline = self.pipeline
        for path, message, error in clashes(pipeline):
            self.say(path, message, error=error)
        tables = [(f"sinks[{at}]", one.table) for at, one in enumerate(pipeline.sinks) if isinstance(one, TableSink)]
        for path, place in (*tables, ("dlq", pipeline.dead_letters.table or "")):
            if "\\" in place:
                self.say(
                    path, f"table {place}: a backslash in a path is taken for a slash by Delta: name it without one"
                )
        if pipeline.cluster is not None:
            self.addresses(pipeline.cluster, "cluster", "cluster")
        for at, sink in enumerate(pipeline.sinks):
            if isinstance(sink, TopicSink) and sink.cluster is not None:
                self.addresses(sink.cluster, f"sinks[{at}]", f"topic {sink.topic}: cluster")
        if not pipeline.sinks:
            self.say("sinks", "sinks: there is none")

    def addresses(self, bootstrap: str, path: str, what: str) -> None:
        """Say what the client cannot connect to."""
        from moldau.client.addresses import addresses

        try:
            addresses(bootstrap)
        except ValueError as error:
            self.say(path, f"{what}: {error}")

    def source(self) -> None:
        """Ask the source itself what it thinks of its options."""
        source = self.pipeline.source
        if source.feed is not None or not (source.topics or source.pattern):  # that there is none is told already
            return
        from moldau.pipeline.source_options import source_options
        from moldau.spark.given import OptionError
        from moldau.spark.options import parse

        try:
            found = parse(source_options(self.pipeline, "localhost:9092"), "stream")
        except OptionError as error:
            self.say("source", f"source: {error}")
            return
        for text in found.warnings:
            self.say("source", f"source: {text}", error=False)

    def demand(self, names: Iterable[str], columns: Columns, path: str, what: str) -> None:
        """Say of each name that is no column what it may have been meant to be; of many, of the first ones."""
        known = self.known(columns)
        unknown = [name for name in dict.fromkeys(names) if name.lower() not in known]
        for name in unknown[:LISTED_MOST]:
            self.say(path, f"{what}: there is no column {name!r}. {did_you_mean(name, columns)}")
        if len(unknown) > LISTED_MOST:
            self.say(path, f"{what}: nor are there {len(unknown) - LISTED_MOST:,} more of its columns")

    def known(self, columns: Columns) -> frozenset[str]:
        """The names of the columns as SQL compares them."""
        if self._known[0] is not columns:
            self._known = columns, frozenset(name.lower() for name in columns)
        return self._known[1]

    def demand_time(self, name: str, columns: Columns, path: str, what: str) -> None:
        """Say of a column that its type can be no time."""
        kind = columns.get(name, "").strip().lower()
        if kind.startswith(_NO_TIMES):
            self.say(path, f"{what}: {name} is of type {kind[:60]}, which is never a time")


def _of_folder(pipeline: Pipeline, read: ParsedFile) -> list[FileProblem]:
    """The problem of a folder that is another pipeline's, as of a file that was copied; [] where there is none."""
    place, at = Path(pipeline.folder) / OWNER, read.places.get("folder", _START)
    try:
        if "://" in pipeline.folder or not place.is_file():
            return []
        owner = place.read_text(encoding="utf-8", errors="replace")
    except OSError as error:  # a name that is too long, a folder that may not be read
        return [FileProblem(at, f"folder: {error.strerror}: {pipeline.folder[:100]}", True)]
    if owner.strip() in ("", pipeline.name):
        return []
    return [FileProblem(at, other_owner(pipeline.folder, owner, pipeline.name), True)]
