"""The file that a new pipeline begins with: it can be linted and run as it is written."""

from __future__ import annotations

import json
import re

from moldau.pipeline.sampling import Sample
from moldau.pipeline.spec import ValueFormat

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_NOT_TEXT = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
"""Words that YAML reads as something else than a text."""

_TEMPLATE = """\
pipeline: {name}
cluster: {cluster}
# folder: {name}  # checkpoint and books
source:
  topics: [{topic}]
  start: earliest  # where there is no checkpoint; latest, -10m, group:ID, {{{topic}: {{0: 23}}}}
decode:
  format: {format}  # json, avro, protobuf, text, raw
{fields}  on_error: dlq  # pause (default), fail, skip
check: []
#  - {{name: known, rule: {column} IS NOT NULL, on_error: dlq}}
transform: []
#  - sql: SELECT * FROM records
sinks:
  - table: {table}  # Delta; format: parquet | iceberg
#  - topic: {clean}
dlq:
  table: {dead}
every: 10s
"""


def template(name: str, topic: str, cluster: str, sample: Sample) -> str:
    """The text of a file for what was found in a topic."""
    lines = [f"    {quoted_name(one)}: {quoted(kind)}\n" for one, kind in sample.fields.items()]
    lines += [f"    # {json.dumps(one, ensure_ascii=True)}: left out, {why}\n" for one, why in sample.left_out.items()]
    fields = ("  fields:\n" if sample.fields else "") + "".join(lines)
    if sample.has_registry_prefix:
        fields += "  # the values look like a schema registry's; then: format: avro, registry: http://HOST:8081\n"
    columns = [one for one in sample.fields if _PLAIN.fullmatch(one)]
    return _TEMPLATE.format(
        name=quoted(name),
        topic=quoted(topic),
        clean=quoted(f"{topic}-clean"),
        cluster=quoted(cluster),
        format=sample.format.value,
        fields=fields,
        column=(*columns, "value" if sample.format is not ValueFormat.JSON else "_key")[0],
        table=quoted(f"tables/{name}"),
        dead=quoted(f"tables/{name}-dead"),
    )


def quoted(text: str) -> str:
    """A text as a value that is read back as it is: ``${`` would begin a variable."""
    return quoted_name(text.replace("${", "$${"))


def quoted_name(text: str) -> str:
    """A text as the name in ``name: value``, in quotes where YAML would take it for something else."""
    if text.lower() not in _NOT_TEXT and _PLAIN.fullmatch(text):
        return text
    return json.dumps(text, ensure_ascii=False)
