"""Reads a pipeline from a file: every problem with its line and column, unknown names with the nearest known one.

No Spark, no network: a file is read in milliseconds. What the parts mean together (SQL, columns, policies without a
place for dead letters) is looked at in lint.py.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from moldau.pipeline.durations import is_duration
from moldau.pipeline.maintain_options import wrong_maintain
from moldau.pipeline.places import FilePosition, FileProblem, NotYaml, Value, parse
from moldau.pipeline.schedule import parse_schedule
from moldau.pipeline.spec import (
    KEPT_OF_RECORDS,
    Check,
    DeadLetters,
    Decode,
    Dedup,
    Deletes,
    Late,
    Maintain,
    OnError,
    Pipeline,
    SchemaChange,
    Sink,
    Source,
    Step,
    TableFeed,
    TableSink,
    TopicSink,
    ValueFormat,
)

T = TypeVar("T")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_OF_OTHERS = (".replay", ".backfill")
"""How the names end under which a pipeline writes besides its own (``books.names_of``): two pipelines of one table
would have one line in its ledger, and each other's dead letters."""
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_COMPARED_MOST = 1000
_NAMED_MOST = 100
FEED_STARTS = ("snapshot", "earliest", "latest")
TABLE_FORMATS = ("delta", "parquet", "iceberg")


class ParsedFile(NamedTuple):
    """What a file says; ``draft`` is the pipeline as far as it could be read, None where there is none at all."""

    draft: Pipeline | None
    problems: list[FileProblem]
    places: Mapping[str, FilePosition]
    """Where the parts stand, by path: ``check[0].rule``, ``transform[1].sql``, ``sinks[0]``."""

    @property
    def pipeline(self) -> Pipeline | None:
        """The pipeline, None where errors keep the text from being one."""
        return None if any(one.error for one in self.problems) else self.draft


class PipelineError(Exception):
    """A file that is no pipeline; the message has one line for each error."""


def load(path: str | Path, variables: Mapping[str, str] | None = None) -> Pipeline:
    """The pipeline of a file; PipelineError with every error in it. Warnings are the linter's."""
    found = read_file(path, variables)
    if found.pipeline is None:
        raise PipelineError("\n".join(one.to_text(str(path)) for one in found.problems if one.error))
    return found.pipeline


def read_file(path: str | Path, variables: Mapping[str, str] | None = None) -> ParsedFile:
    """What a file says. OSError when it cannot be opened; relative folders are beside the file."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        return ParsedFile(
            None, [FileProblem(FilePosition(1, 1), f"not UTF-8 text: byte {error.start} ({error.reason})")], {}
        )
    return read_text(text, variables, folder=path.parent)


def read_text(text: str, variables: Mapping[str, str] | None = None, folder: Path | None = None) -> ParsedFile:
    """What a text says; ``variables`` fill ``${NAME}`` (default: the environment)."""
    try:
        root, problems = parse(text, os.environ if variables is None else variables)
    except NotYaml as error:
        return ParsedFile(None, [error.problem], {})
    reader = _Reader(problems, folder or Path())
    draft = reader.pipeline(root)
    return ParsedFile(draft, sorted(problems, key=lambda one: one.place), reader.places)


class _Reader:
    """Goes through a document; each method reads one kind of part and gives None, or a default, for what is wrong."""

    def __init__(self, problems: list[FileProblem], folder: Path) -> None:
        self.problems, self.folder = problems, folder
        self.places: dict[str, FilePosition] = {}

    def wrong(self, place: FilePosition, message: str) -> None:
        self.problems.append(FileProblem(place, message))

    # --- parts of a pipeline

    def pipeline(self, root: Value) -> Pipeline | None:
        names = ("pipeline", "cluster", "folder", "source", "decode", "check", "dedup", "transform", "sinks", "dlq",
                 "late", "every", "schedule", "publish_group")  # fmt: skip
        found = self.mapping(root, "a pipeline", names)
        if found is None:
            return None
        for name in ("pipeline", "source", "sinks"):
            if name not in found:
                self.wrong(root.place, f"{name!r} is missing")
        name = self.matching(found.get("pipeline"), "pipeline", _NAME, "letters, digits, '.', '_' and '-'") or ""
        for end in _OF_OTHERS:
            if name.endswith(end):
                of = f"the {end[1:]}s of a pipeline {name.removesuffix(end)!r}"
                why = f"pipeline: {name!r} is how tables call {of}: give it another name"
                self.wrong(found["pipeline"].place, why)
        folder = self.text(found.get("folder"), "folder") or name
        every = self.text(found.get("every"), "every") or "10s"
        if not is_duration(every):
            self.wrong(found["every"].place, f"every: {every!r} is not a duration: 500ms, 10s, 5m, 1h, 1d")
        return Pipeline(
            name=name,
            folder=self.beside(folder),
            cluster=self.text(found.get("cluster"), "cluster"),
            source=self.source(found.get("source")),
            decode=self.decode(found.get("decode")),
            checks=tuple(self.each(found.get("check"), "check", self.check)),
            dedup=self.dedup(found.get("dedup")),
            steps=tuple(self.each(found.get("transform"), "transform", self.step)),
            sinks=tuple(self.each(found.get("sinks"), "sinks", self.sink)),
            dead_letters=self.dead_letters(found.get("dlq")),
            late=self.late(found.get("late")),
            every=every,
            schedule=self.schedule(found.get("schedule")),
            publish_group=self.text(found.get("publish_group"), "publish_group"),
        )

    def schedule(self, value: Value | None) -> str | None:
        found = self.text(value, "schedule")
        if value is not None and found is not None:
            try:
                parse_schedule(found)
            except ValueError as error:
                self.wrong(value.place, f"schedule: {error}")
        return found

    def source(self, value: Value | None) -> Source:
        if value is not None:
            self.places["source"] = value.place
            if isinstance(value.data, Mapping) and "table" in value.data:
                return self.feed(value)
        names = ("topics", "pattern", "start", "on_loss", "max_records", "max_bytes", "options")
        found = self.mapping(value, "source", names) or {}
        topics = tuple(
            name
            for one in self.items(found.get("topics"))
            if (name := self.matching(one, "topics", _TOPIC, "letters, digits, '.', '_' and '-'")) is not None
        )
        pattern = self.text(found.get("pattern"), "pattern")
        if value is not None and bool(topics) == bool(pattern):
            self.wrong(value.place, "source: one of 'topics' and 'pattern', or a 'table', says what is read")
        start = found.get("start")
        return Source(
            topics=topics,
            pattern=pattern,
            start=self.start(start),
            on_loss=self.one_of(found.get("on_loss"), "on_loss", ("fail", "skip")) or "fail",
            max_records=self.count(found.get("max_records"), "max_records"),
            max_bytes=self.text(found.get("max_bytes"), "max_bytes"),
            options=self.words(found.get("options"), "options"),
        )

    def feed(self, value: Value) -> Source:
        """A table whose changes are read."""
        names = ("table", "format", "start", "max_records", "keys", "deletes", "schema_change", "options")
        found = self.mapping(value, "a source that is a table", names) or {}
        deletes = self.one_of(found.get("deletes"), "deletes", tuple(one.value for one in Deletes)) or "refuse"
        change = self.one_of(found.get("schema_change"), "schema_change", tuple(one.value for one in SchemaChange))
        start = self.text(found.get("start"), "start") or "snapshot"
        if start not in FEED_STARTS and not start.isdecimal():
            self.wrong(
                found["start"].place, f"start: {start!r} is not snapshot, earliest, latest or a version's number"
            )
        feed = TableFeed(
            table=self.beside(self.needed(value, found, "table", "source.table")),
            format=self.one_of(found.get("format"), "format", ("delta", "iceberg")) or "delta",
            keys=self.names(found.get("keys"), "keys"),
            deletes=Deletes(deletes) if deletes in {one.value for one in Deletes} else Deletes.REFUSE,
            schema_change=SchemaChange(change) if change in {one.value for one in SchemaChange} else SchemaChange.FAIL,
            options=self.words(found.get("options"), "options"),
        )
        return Source(feed=feed, start=start, max_records=self.count(found.get("max_records"), "max_records"))

    def start(self, value: Value | None) -> str:
        if value is not None and isinstance(value.data, Mapping):
            import json

            return json.dumps(value.plain())
        return self.text(value, "start") or "earliest"

    def decode(self, value: Value | None) -> Decode:
        if value is not None:
            self.places["decode"] = value.place
        names = ("format", "fields", "registry", "subject", "version", "schema_file", "message", "on_error")
        found = self.mapping(value, "decode", names) or {}
        format = self.one_of(found.get("format"), "format", tuple(one.value for one in ValueFormat)) or "json"
        file = self.text(found.get("schema_file"), "schema_file")
        return Decode(
            format=ValueFormat(format) if format in {one.value for one in ValueFormat} else ValueFormat.JSON,
            fields=None if "fields" not in found else self.words(found["fields"], "fields"),
            registry=self.text(found.get("registry"), "registry"),
            subject=self.text(found.get("subject"), "subject"),
            version=self.count(found.get("version"), "version"),
            schema_file=None if file is None else self.beside(file),
            message=self.text(found.get("message"), "message"),
            on_error=self.policy(found.get("on_error")),
        )

    def check(self, value: Value, path: str) -> Check | None:
        found = self.mapping(value, "a check", ("name", "rule", "on_error"))
        if found is None:
            return None
        rule = self.needed(value, found, "rule", f"{path}.rule")
        name = self.text(found.get("name"), "name") or rule
        return Check(name=name, rule=rule, on_error=self.policy(found.get("on_error")))

    def dedup(self, value: Value | None) -> Dedup | None:
        if value is None:
            return None
        self.places["dedup"] = value.place
        found = self.mapping(value, "dedup", ("by", "within", "at", "on_duplicate")) or {}
        by = self.names(found.get("by"), "by")
        if not by:
            self.wrong(value.place, "dedup: 'by' names the columns of the key")
        within = self.text(found.get("within"), "within") or "1d"
        if not is_duration(within):
            self.wrong(found["within"].place, f"within: {within!r} is not a duration: 500ms, 10s, 5m, 1h, 1d")
        policy = self.one_of(found.get("on_duplicate"), "on_duplicate", ("skip", "dlq", "fail")) or "skip"
        known = policy in ("skip", "dlq", "fail")
        at = self.text(found.get("at"), "at")
        return Dedup(by=by, within=within, at=at, on_duplicate=OnError(policy) if known else OnError.SKIP)

    def step(self, value: Value, path: str) -> Step | None:
        found = self.mapping(value, "a step", ("sql", "python"))
        if found is None:
            return None
        if len(found) != 1:
            self.wrong(value.place, "a step is one of 'sql' and 'python'")
            return None
        kind = next(iter(found))
        text = self.needed(value, found, kind, f"{path}.{kind}")
        if kind == "python" and not re.fullmatch(r"[\w.]+:\w+", text):
            self.wrong(found[kind].place, f"python: {text!r} is not module:function")
        return Step(sql=text) if kind == "sql" else Step(python=text)

    def sink(self, value: Value, path: str) -> Sink | None:
        self.places[path] = value.place
        if not isinstance(value.data, Mapping) or ("table" in value.data) == ("topic" in value.data):
            self.wrong(value.place, "a sink is one of 'table' and 'topic'")
            return None
        return self.table(value, path) if "table" in value.data else self.topic(value)

    def table(self, value: Value, path: str) -> TableSink | None:
        names = ("table", "format", "partition_by", "evolve", "keys", "order_by", "delete_when", "options",
                 "maintain")  # fmt: skip
        found = self.mapping(value, "a table", names)
        if found is None:
            return None
        table = TableSink(
            table=self.beside(self.needed(value, found, "table", f"{path}.table")),
            format=self.one_of(found.get("format"), "format", TABLE_FORMATS) or "delta",
            partition_by=self.names(found.get("partition_by"), "partition_by"),
            evolve=self.truth(found.get("evolve"), "evolve"),
            keys=self.names(found.get("keys"), "keys"),
            order_by=self.names(found.get("order_by"), "order_by"),
            delete_when=self.text(found.get("delete_when"), "delete_when"),
            options=self.words(found.get("options"), "options"),
            maintain=self.maintain(found.get("maintain")),
        )
        if bool(table.keys) != bool(table.order_by):
            self.wrong(value.place, "a table of the latest rows needs both 'keys' and 'order_by'")
        if table.delete_when is not None and not table.keys:
            self.wrong(found["delete_when"].place, "delete_when is for a table with keys")
        if table.keys and (table.format != "delta" or table.partition_by):
            self.wrong(value.place, "a table with keys is a Delta table without partition_by")
        return table

    def maintain(self, value: Value | None) -> Maintain | None:
        """How a table is maintained; None for ``off``."""
        if value is None or isinstance(value.data, bool):
            return Maintain() if value is None or value.data else None
        if not isinstance(value.data, Mapping):
            self.wrong(value.place, "maintain is off, or a mapping of 'every', 'target' and 'retention'")
            return Maintain()
        found = self.mapping(value, "maintain", ("every", "target", "retention")) or {}
        given = {name: self.text(one, f"maintain.{name}") for name, one in found.items()}
        made = Maintain(**{name: text for name, text in given.items() if text is not None})
        for name, why in wrong_maintain(made):
            self.wrong(found[name].place, f"maintain: {name}: {why}")
        return made

    def topic(self, value: Value) -> TopicSink | None:
        found = self.mapping(value, "a topic", ("topic", "cluster", "key", "value", "keep", "groups", "options"))
        if found is None:
            return None
        topic = self.matching(found.get("topic"), "topic", _TOPIC, "letters, digits, '.', '_' and '-'") or ""
        keep = tuple(
            name
            for one in self.items(found.get("keep"))
            if (name := self.one_of(one, "keep", tuple(KEPT_OF_RECORDS))) in KEPT_OF_RECORDS
        )
        return TopicSink(
            topic=topic,
            cluster=self.text(found.get("cluster"), "cluster"),
            keep=keep,
            groups=self.names(found.get("groups"), "groups"),
            key=self.text(found.get("key"), "key"),
            value=self.text(found.get("value"), "value"),
            options=self.words(found.get("options"), "options"),
        )

    def dead_letters(self, value: Value | None) -> DeadLetters:
        if value is None:
            return DeadLetters()
        self.places["dlq"] = value.place
        found = self.mapping(value, "dlq", ("table", "topic")) or {}
        if not found:
            self.wrong(value.place, "dlq: a 'table', a 'topic', or both")
        table = self.text(found.get("table"), "table")
        topic = None
        if "topic" in found:
            topic = self.matching(found["topic"], "topic", _TOPIC, "letters, digits, '.', '_' and '-'")
        return DeadLetters(table=None if table is None else self.beside(table), topic=topic)

    def late(self, value: Value | None) -> Late | None:
        if value is None:
            return None
        self.places["late"] = value.place
        found = self.mapping(value, "late", ("column", "after", "ahead", "on_error")) or {}
        column = self.needed(value, found, "column", "late.column")
        after = self.needed(value, found, "after", "late.after")
        ahead = self.text(found.get("ahead"), "ahead")
        for name, text in (("after", after), ("ahead", ahead)):
            if text and not is_duration(text):
                self.wrong(found[name].place, f"{name}: {text!r} is not a duration: 500ms, 10s, 5m, 1h, 1d")
        if "on_error" in found and "ahead" not in found:
            why = "says what becomes of records that are further 'ahead' than is allowed: late rows are only counted"
            self.wrong(found["on_error"].place, f"on_error: {why}")
        return Late(column=column, after=after, ahead=ahead, on_error=self.policy(found.get("on_error")))

    # --- kinds of values

    def mapping(self, value: Value | None, what: str, known: Iterable[str]) -> Mapping[str, Value] | None:
        """The entries of a mapping that are known; others are named with what they may have been meant to be."""
        if value is None:
            return None
        if not isinstance(value.data, Mapping):
            self.wrong(value.place, f"{what} is a mapping: name: value")
            return None
        known = tuple(known)
        for name in value.data:
            if name not in known:
                self.wrong(value.keys[name], f"{name!r} is not known here. {did_you_mean(name, known)}")
        return {name: one for name, one in value.data.items() if name in known and one.data is not None}

    def items(self, value: Value | None) -> tuple[Value, ...]:
        """The items of a list; a single value is a list of one."""
        if value is None:
            return ()
        return value.data if isinstance(value.data, tuple) else (value,)

    def each(self, value: Value | None, what: str, read: Callable[[Value, str], T | None]) -> list[T]:
        if value is not None and not isinstance(value.data, tuple):
            self.wrong(value.place, f"{what} is a list: lines that begin with '- '")
            return []
        found = (read(one, f"{what}[{at}]") for at, one in enumerate(self.items(value)))
        return [one for one in found if one is not None]

    def text(self, value: Value | None, what: str) -> str | None:
        if value is None:
            return None
        if isinstance(value.data, (tuple, Mapping)) or value.data is None or value.data == "":
            self.wrong(value.place, f"{what} is a text")
            return None
        self.places.setdefault(what, value.place)
        found = str(value.data).lower() if isinstance(value.data, bool) else value.written
        if "\0" in found or any("\ud800" <= one <= "\udfff" for one in found):
            character = "a zero byte" if "\0" in found else "half of a character (a surrogate)"
            self.wrong(value.place, f"{what}: {character} is in no name and no text")
            return None
        return found

    def needed(self, parent: Value, found: Mapping[str, Value], name: str, path: str) -> str:
        if name not in found:
            self.wrong(parent.place, f"{name!r} is missing")
            return ""
        self.places[path] = found[name].place
        return self.text(found[name], name) or ""

    def matching(self, value: Value | None, what: str, pattern: re.Pattern[str], allowed: str) -> str | None:
        found = self.text(value, what)
        if value is None or found is None:
            return None
        found = value.written
        if not pattern.fullmatch(found) or found in (".", ".."):
            self.wrong(value.place, f"{what}: {found!r} is no name: {allowed}")
            return None
        return found

    def one_of(self, value: Value | None, what: str, allowed: tuple[str, ...]) -> str | None:
        found = self.text(value, what)
        if value is None or found is None or found in allowed:
            return found
        self.wrong(value.place, f"{what}: {found!r} is not known. {did_you_mean(found, allowed)}")
        return None

    def policy(self, value: Value | None) -> OnError:
        return OnError(self.one_of(value, "on_error", tuple(one.value for one in OnError)) or "pause")

    def truth(self, value: Value | None, what: str) -> bool:
        if value is None:
            return False
        if not isinstance(value.data, bool):
            self.wrong(value.place, f"{what} is true or false")
            return False
        return value.data

    def count(self, value: Value | None, what: str) -> int | None:
        if value is None:
            return None
        if not isinstance(value.data, int) or isinstance(value.data, bool) or value.data < 1:
            self.wrong(value.place, f"{what} is a number above 0")
            return None
        return value.data

    def words(self, value: Value | None, what: str) -> dict[str, str]:
        if value is None:
            return {}
        if not isinstance(value.data, Mapping):
            self.wrong(value.place, f"{what} is a mapping: name: value")
            return {}
        found = {}
        for name, one in value.data.items():
            self.places[f"{what}.{name}"] = one.place
            text = self.text(one, f"{what}.{name}")
            if text is not None:
                found[name] = text
        return found

    def names(self, value: Value | None, what: str) -> tuple[str, ...]:
        return tuple(name for one in self.items(value) if (name := self.text(one, what)) is not None)

    def beside(self, place: str) -> str:
        """A relative path is beside the file; a URI or an absolute path stays as it is."""
        if not place or "://" in place or place.startswith("file:") or Path(place).is_absolute():
            return place
        return str((self.folder / place).absolute())


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """What the word may have been meant to be, else all that it could be."""
    known = list(known)
    near = difflib.get_close_matches(word, known[:_COMPARED_MOST], 1)
    if near:
        return f"Did you mean {near[0]!r}?"
    more = f", and {len(known) - _NAMED_MOST:,} more" if len(known) > _NAMED_MOST else ""
    return f"Known are: {', '.join(known[:_NAMED_MOST])}{more}."
