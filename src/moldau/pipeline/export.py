"""Writes a pipeline as a project of Spark's Declarative Pipelines: its specification, and its stages as Python.

What a Declarative Pipeline cannot be is refused by name before anything is written. Without Spark. Read next:
exported.py (what the written code calls).
"""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from urllib.parse import urlsplit

from moldau.pipeline.lateness import checks_of
from moldau.pipeline.source_options import source_options
from moldau.pipeline.spec import OnError, Pipeline, Step, TableSink, TopicSink

SPECIFICATION = "spark-pipeline.yml"
CODE = "transformations"
RUN = "spark-pipelines run --conf spark.sql.catalogImplementation=hive"
"""How a project is run in a Spark without another catalog."""
MODULES = "modules"
SCHEMAS = "schemas"
_STORE_SETTING = "initialoffsetslocation."
"""Settings, keys among them, of a store that is none here: first positions lie in the project."""
REGISTRY = "MOLDAU_REGISTRY"
"""The variable of the environment from which a project takes a registry's URL that has a password."""
_WIDTH = 100


class _Expression(str):
    """Python that stands in the code as it is."""

    __slots__ = ()


class ExportError(Exception):
    """Why a pipeline cannot be exported; the message names each of its parts that cannot."""


def export(pipeline: Pipeline, cluster: str, target: Path, *, modules: Path, table_format: str | None = None) -> Path:
    """Write the project into the new folder ``target``; the path of its code.

    ``modules`` is the folder of the pipeline's file, from where schemas and modules of Python steps are copied.
    ``table_format`` is that of all tables, where it is not to be the file's. ExportError, FileExistsError, OSError.
    """
    if why := [*_lacks(pipeline)]:
        raise ExportError(f"{pipeline.name} cannot be a Declarative Pipeline: {'; '.join(why)}")
    target = target.absolute()
    target.mkdir(parents=True)  # FileExistsError: what is there may be somebody's work
    (target / CODE).mkdir()
    pipeline = _without_password(_with_schema(pipeline, target, modules))
    for step in pipeline.steps:
        _copy_module(step, target, modules)
    (target / SPECIFICATION).write_text(_specification(pipeline, target), encoding="utf-8")
    code = target / CODE / f"{identifier(pipeline.name)}.py"
    code.write_text(_Code(pipeline, cluster, target, table_format).text(), encoding="utf-8")
    return code


def identifier(name: str) -> str:
    """A name as SQL and Python write it without quotes."""
    found = re.sub(r"\W", "_", name.rstrip("/").rsplit("/", 1)[-1], flags=re.ASCII)
    return f"_{found}" if found[:1].isdigit() or not found else found


def _lacks(pipeline: Pipeline) -> Iterator[str]:
    """Every part that has no counterpart there, a clause each."""
    if pipeline.source.feed is not None:
        yield "its source is the change feed of a table"
    if pipeline.dedup is not None:
        yield "'dedup' remembers keys beside the books, which there are none of"
    for step in pipeline.steps:
        if step.function is not None:
            yield "a step is a function of this process; name it as 'module:function'"
    for sink in pipeline.sinks:
        if isinstance(sink, TableSink) and sink.keys:
            yield f"table {sink.table} is keyed"
        if isinstance(sink, TableSink) and "{topic}" in sink.table and not pipeline.source.topics:
            yield f"table {sink.table} is one for each topic, and 'pattern' does not name the topics"
        if isinstance(sink, TopicSink) and sink.value is None and pipeline.steps:
            yield f"topic {sink.topic} has no 'value', and what columns the transformation gives is not known there"
        if isinstance(sink, TopicSink) and sink.groups:
            yield f"topic {sink.topic} takes offsets of groups along"
    names = [name for name, _ in _targets(pipeline)]
    for name in sorted({one for one in names if names.count(one) > 1}):
        yield f"two of its tables and topics would be called {name}"


def _targets(pipeline: Pipeline) -> list[tuple[str, TableSink | TopicSink]]:
    """The name of every table and sink, and what is to be written there; a table for each topic is several."""
    found: list[tuple[str, TableSink | TopicSink]] = []
    for sink in pipeline.sinks:
        if isinstance(sink, TopicSink):
            found.append((f"to_{identifier(sink.topic)}", sink))
        elif "{topic}" in sink.table:
            found += [(identifier(sink.table.replace("{topic}", topic)), sink) for topic in pipeline.source.topics]
        else:
            found.append((identifier(sink.table), sink))
    letters = pipeline.dead_letters
    if letters.table is not None:
        found.append((identifier(letters.table), TableSink(table=letters.table)))
    if letters.topic is not None:
        found.append((f"to_{identifier(letters.topic)}", TopicSink(topic=letters.topic)))
    return found


def _with_schema(pipeline: Pipeline, target: Path, beside: Path) -> Pipeline:
    """The pipeline with its schema's file in the project, under a path that begins there."""
    if pipeline.decode.schema_file is None:
        return pipeline
    file = beside / pipeline.decode.schema_file
    (target / SCHEMAS).mkdir()
    shutil.copyfile(file, target / SCHEMAS / file.name)
    return replace(pipeline, decode=replace(pipeline.decode, schema_file=f"{SCHEMAS}/{file.name}"))


def _without_password(pipeline: Pipeline) -> Pipeline:
    """The pipeline, whose code asks the environment for a registry's URL that has a password: the file may have it from
    there itself, and a project is kept where others read it."""
    registry = pipeline.decode.registry
    if registry is None or "@" not in urlsplit(registry).netloc:
        return pipeline
    asked = _Expression(f'os.environ["{REGISTRY}"]')
    return replace(pipeline, decode=replace(pipeline.decode, registry=asked))


def _copy_module(step: Step, target: Path, beside: Path) -> None:
    """Take along a module that lies beside the pipeline's file; others are installed where Spark runs."""
    if step.python is None:
        return
    file = beside / f"{step.python.partition(':')[0].replace('.', '/')}.py"
    if file.is_file():
        to = target / MODULES / file.relative_to(beside)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, to)


def _specification(pipeline: Pipeline, target: Path) -> str:
    return (
        f"# The pipeline {pipeline.name}: in this folder, spark-pipelines dry-run, then\n"
        f"#   {RUN}\n"
        "# The option has Spark's own catalog keep its tables when Spark ends: without it, or another catalog, a\n"
        "# second run ends by LOCATION_ALREADY_EXISTS. To begin anew remove the tables and the folder of `storage`\n"
        "# together: when the tables alone are removed, what they had is not read again.\n"
        f"name: {identifier(pipeline.name)}\n"
        f"storage: {(target / 'storage').as_uri()}\n"
        "libraries:\n"
        "  - glob:\n"
        f"      include: {CODE}/**\n"
    )


@dataclass(frozen=True, slots=True)
class _Code:
    """The text of a project's code, and what each of its parts must know."""

    pipeline: Pipeline
    cluster: str
    target: Path
    table_format: str | None

    def text(self) -> str:
        pipeline, name = self.pipeline, identifier(self.pipeline.name)
        options = source_options(pipeline, self.cluster)
        options = {name: value for name, value in options.items() if not name.lower().startswith(_STORE_SETTING)}
        options["initialOffsetsLocation"] = (self.target / "storage" / "initial-offsets.json").as_uri()
        judged, rows = f"{name}_judged", f"{name}_rows"
        parts = [_head(pipeline, options), _judged(judged), _rows(judged, rows)]
        last = rows
        for at, step in enumerate(pipeline.steps, 1):
            this = f"{name}_step_{at}"
            parts.append(_step(this, last, step))
            last = this
        for called, sink in _targets(pipeline):
            is_dead = sink not in pipeline.sinks
            read = f'spark.readStream.table("{judged if is_dead else last}")'
            if isinstance(sink, TableSink):
                parts.append(self._table(called, sink, read, is_dead))
            else:
                parts.append(self._topic(called, sink, read, is_dead))
        return "\n\n".join(parts)

    def _table(self, name: str, sink: TableSink, read: str, is_dead: bool) -> str:
        options = [f'name="{name}"', f'format="{self.table_format or sink.format}"']
        if sink.partition_by:
            options.append(f"partition_cols={list(sink.partition_by)!r}".replace("'", '"'))
        if is_dead:
            read = f'dead_rows({read}, "{self.pipeline.name}")'
        elif not self.pipeline.steps:
            read += '.selectExpr("* EXCEPT (_key, _headers)")'
        if "{topic}" in sink.table:
            topics = self.pipeline.source.topics
            topic = next(one for one in topics if identifier(sink.table.replace("{topic}", one)) == name)
            read += f""".where("_topic = '{topic}'")"""
        return f"@dp.table({', '.join(options)})\ndef table_{name}():\n    return {read}\n"

    def _topic(self, name: str, sink: TopicSink, read: str, is_dead: bool) -> str:
        options = {"kafka.bootstrap.servers": sink.cluster or self.cluster, "topic": sink.topic, **sink.options}
        if "timestamp" in sink.keep:
            options["keepTimestamp"] = "true"
        what = f'letters({read}, "{self.pipeline.name}")' if is_dead else f"as_records({read}, {literal(sink)})"
        return (
            f'dp.create_sink("{name}", "moldau", {literal(options)})\n\n\n'
            f'@dp.append_flow(target="{name}")\ndef flow_{name}():\n    return {what}\n'
        )


def _head(pipeline: Pipeline, options: Mapping[str, str]) -> str:
    pauses = [one.name for one in checks_of(pipeline) if one.on_error is OnError.PAUSE]
    pauses = [*(["decode"] if pipeline.decode.on_error is OnError.PAUSE else []), *pauses]
    paused = f"\nThese stages pause in a pipeline, and end the run here: {', '.join(pauses)}." if pauses else ""
    kinds = sorted({"Decode", "Format", "OnError"} | ({"Check"} if checks_of(pipeline) else set()))
    used = (
        ["failing", "judged", "load_function"] if any(one.python for one in pipeline.steps) else ["failing", "judged"]
    )
    asked = isinstance(pipeline.decode.registry, _Expression)
    needs = f"\nThe registry's URL, with its password, is taken from the environment: {REGISTRY}.\n" if asked else ""
    letters = pipeline.dead_letters
    used += ["letters"] if letters.topic is not None else []
    used += ["dead_rows"] if letters.table is not None else []
    used += ["as_records"] if any(isinstance(one, TopicSink) for one in pipeline.sinks) else []
    kinds += ["TopicSink"] if any(isinstance(one, TopicSink) for one in pipeline.sinks) else []
    return f'''\
"""The pipeline {pipeline.name} as a Declarative Pipeline, written by `moldau pipeline export`.

A run reads what is there and ends; each table has every record once. There are no books: how many records were left
out nobody counts. Spark's ANSI mode is in force: a rule that cannot be computed for a record ends the run, where a
pipeline takes it for not met; try_cast and its like give NULL instead.{paused}

Needs pyspark[pipelines] and moldau[pipeline], on the driver and on workers.
{needs}"""

{"import os" + chr(10) if asked else ""}from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import SparkSession

from moldau.pipeline.exported import {", ".join(sorted(used))}
from moldau.pipeline.spec import {", ".join(sorted(kinds))}

HERE = Path(__file__).absolute().parents[1]
spark = SparkSession.active()

SOURCE = {literal(options)}
TOPICS = {literal(pipeline.source.topics)}
DECODE = {literal(pipeline.decode)}
CHECKS = {literal(checks_of(pipeline))}
'''


def _judged(name: str) -> str:
    return f'''\
@dp.temporary_view(name="{name}")
def {name}():
    """Every record with its fields and its outcome: ok, or the policy of the stage that could not take it."""
    records = spark.readStream.format("moldau").options(**SOURCE).load()
    return judged(records, DECODE, TOPICS, CHECKS, HERE)
'''


def _rows(judged: str, name: str) -> str:
    return f'''\
@dp.temporary_view(name="{name}")
def {name}():
    """The records that are ok. One whose stage says pause or fail ends the run, and its message names the record."""
    return failing(spark.readStream.table("{judged}"))
'''


def _step(name: str, before: str, step: Step) -> str:
    if step.sql is None:
        body = f'    return load_function("{step.python}", HERE / "{MODULES}")(spark.readStream.table("{before}"))\n'
    else:
        sql = textwrap.indent(step.sql.strip().rstrip(";"), "        ").replace("\\", "\\\\").replace('"""', '\\"""')
        body = (
            '    return spark.sql("""\n'
            f"        WITH records AS (SELECT * FROM STREAM({before}))\n"
            f'        SELECT * FROM (\n{sql}\n        )\n    """)\n'
        )
    return f'@dp.temporary_view(name="{name}")\ndef {name}():\n{body}'


def literal(value: object, indent: int = 0) -> str:
    """A value of a pipeline's file as the Python that makes it; fields that have their default are left out."""
    parts, text = _parts(value, indent + 4)
    if parts is None:
        return text
    opening, closing = text[:-1], text[-1]
    alone = "," if isinstance(value, tuple) and len(parts) == 1 else ""
    line = f"{opening}{', '.join(parts)}{alone}{closing}"
    if len(line) + indent <= _WIDTH and "\n" not in line:
        return line
    inner = "".join(f"{' ' * (indent + 4)}{part},\n" for part in parts)
    return f"{opening}\n{inner}{' ' * indent}{closing}"


def _parts(value: object, indent: int) -> tuple[Sequence[str] | None, str]:
    """What stands between a value's brackets, and the brackets; for a plain value None and the value."""
    if isinstance(value, Enum):
        return None, f"{type(value).__name__}.{value.name}"
    if isinstance(value, _Expression):
        return None, str(value)
    if isinstance(value, Mapping):
        return [f"{_text(key)}: {literal(one, indent)}" for key, one in value.items()], "{}"
    if isinstance(value, tuple):
        return [literal(one, indent) for one in value], "()"
    if is_dataclass(value) and not isinstance(value, type):
        given = [
            f"{one.name}={literal(getattr(value, one.name), indent)}"
            for one in fields(value)
            if getattr(value, one.name) != _default(one)
        ]
        return given, f"{type(value).__name__}()"
    return None, _text(value)


def _default(one: object) -> object:
    made = getattr(one, "default_factory", MISSING)
    return getattr(one, "default", MISSING) if made is MISSING else made()


def _text(value: object) -> str:
    """As ``repr``, with the quotes that formatters write."""
    found = repr(value)
    return f'"{found[1:-1]}"' if isinstance(value, str) and found[0] == "'" and '"' not in value else found
