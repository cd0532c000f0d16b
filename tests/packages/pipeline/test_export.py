"""The project that a pipeline is exported as: what is written, and what is refused before anything is."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from click.testing import CliRunner

from moldau.admin.pipeline import pipeline as commands
from moldau.pipeline import spec
from moldau.pipeline.export import RUN, SPECIFICATION, ExportError, export, identifier, literal
from moldau.pipeline.reading import load
from moldau.pipeline.spec import Check, Decode, OnError, Pipeline, TopicSink, ValueFormat

WHOLE = """\
pipeline: shop-orders
cluster: 127.0.0.1:1
source: {topics: [orders, returns], max_records: 100}
decode: {format: avro, schema_file: order.avsc, on_error: dlq}
check:
  - {name: positive, rule: "amount > 0 AND said <> '\\"x\\"'"}
transform:
  - sql: SELECT * FROM records WHERE said LIKE '%\\d\"\"\"%'
  - python: steps.clean:tidied
sinks:
  - {table: "s3://lake/{topic}-rows", partition_by: [day]}
  - {topic: clean, key: _key, value: to_json(struct(id)), keep: [timestamp, headers]}
dlq: {table: tables/dead, topic: dead}
"""


def written(folder: Path, text: str) -> Pipeline:
    file = folder / "orders.yaml"
    file.write_text(text)
    return load(file, {})


def test_every_stage_is_a_view_and_every_sink_a_table_or_a_flow(tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text('{"type": "record", "name": "o", "fields": []}')
    (tmp_path / "steps").mkdir()
    (tmp_path / "steps" / "clean.py").write_text("def tidied(rows): return rows\n")

    code = export(written(tmp_path, WHOLE), "broker:9092", tmp_path / "out", modules=tmp_path, table_format="parquet")

    text = code.read_text()
    made = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    assert made == [
        "shop_orders_judged", "shop_orders_rows", "shop_orders_step_1", "shop_orders_step_2", "table_orders_rows",
        "table_returns_rows", "flow_to_clean", "table_dead", "flow_to_dead",
    ]  # fmt: skip
    assert 'format="parquet", partition_cols=["day"]' in text
    assert ".where(\"_topic = 'returns'\")" in text
    assert "end the run here: positive." in text
    assert "maxOffsetsPerTrigger" in text
    assert (tmp_path / "out" / "modules" / "steps" / "clean.py").is_file()
    assert (tmp_path / "out" / "schemas" / "order.avsc").is_file()
    assert 'schema_file="schemas/order.avsc"' in text
    texts = [str(node.value) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)]
    (step,) = [one for one in texts if "STREAM(" in one]
    assert 'LIKE \'%\\d"""%\'' in step, "the SQL is what stood in the file"


def test_a_pipeline_without_steps_has_the_columns_of_its_tables(tmp_path: Path) -> None:
    text = (
        "pipeline: p\ncluster: 127.0.0.1:1\nsource: {topics: [t]}\ndecode: {format: text}\n"
        "sinks: [{table: rows}, {topic: copy}]\n"
    )
    code = export(written(tmp_path, text), "broker:9092", tmp_path / "out", modules=tmp_path).read_text()
    assert 'spark.readStream.table("p_rows").selectExpr("* EXCEPT (_key, _headers)")' in code
    assert 'as_records(spark.readStream.table("p_rows"), TopicSink(topic="copy"))' in code


@pytest.mark.parametrize("url", ["http://${USER}:${SECRET}@127.0.0.1:8081", "http://127.0.0.1:8081"])
def test_passwords_stand_in_no_code(url: str, tmp_path: Path) -> None:
    """A pipeline's file has them from the environment, and a project is kept with other code."""
    file = tmp_path / "orders.yaml"
    file.write_text(
        "pipeline: p\ncluster: 127.0.0.1:1\nsource: {topics: [t], options: "
        "{initialOffsetsLocation.aws_secret_access_key: '${SECRET}'}}\n"
        f"decode: {{format: avro, registry: '{url}'}}\nsinks: [{{table: rows}}]\n"
    )
    pipeline = load(file, {"USER": "reader", "SECRET": "hidden"})
    code = export(pipeline, "broker:9092", tmp_path / "out", modules=tmp_path).read_text()
    assert not [one for one in (tmp_path / "out").rglob("*") if one.is_file() and "hidden" in one.read_text()]
    found = {node.targets[0].id: node.value for node in ast.parse(code).body  # type: ignore[attr-defined]  # names alone
             if isinstance(node, ast.Assign)}  # fmt: skip
    decode = found["DECODE"]
    assert isinstance(decode, ast.Call)
    (registry,) = (one.value for one in decode.keywords if one.arg == "registry")
    asks = "SECRET" in url
    assert ast.unparse(registry) == ("os.environ['MOLDAU_REGISTRY']" if asks else "'http://127.0.0.1:8081'")
    assert ("import os" in code, "MOLDAU_REGISTRY." in code) == (asks, asks)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("dedup: {by: [value]}\nsinks: [{table: t}]\n", "'dedup' remembers keys"),
        ("sinks: [{table: t, keys: [value], order_by: [_offset]}]\n", "t is keyed"),
        ("sinks: [{table: a/t}, {table: b/t}]\n", "two of its tables and topics would be called t"),
        ("sinks: [{topic: c}]\ntransform: [{sql: SELECT * FROM records}]\n", "topic c has no 'value'"),
    ],
)
def test_what_has_no_counterpart_is_refused_by_name_before_anything_is_written(
    more: str, why: str, tmp_path: Path
) -> None:
    text = f"pipeline: p\ncluster: 127.0.0.1:1\nsource: {{topics: [t]}}\ndecode: {{format: text}}\n{more}"
    pipeline = written(tmp_path, text)
    with pytest.raises(ExportError, match=why):
        export(pipeline, "broker:9092", tmp_path / "out", modules=tmp_path)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    text = "pipeline: p\ncluster: 127.0.0.1:1\nsource: {topics: [t]}\ndecode: {format: text}\nsinks: [{table: t}]\n"
    written(tmp_path, text)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("mine")
    found = CliRunner().invoke(commands, ["export", str(tmp_path / "orders.yaml"), "--to", str(tmp_path / "out")])
    assert found.exit_code == 1
    assert "is there already" in found.output
    assert [one.name for one in (tmp_path / "out").iterdir()] == ["mine"]


@pytest.mark.parametrize(
    "value",
    [
        (), ("a",), {"a": "b'\"c"}, Decode(fields={"n" * 60: "long", "m" * 60: "array<string>"}, on_error=OnError.SKIP),
        (Check(name="x", rule="a > 'b'"), Check(name="y", rule="TRUE", on_error=OnError.FAIL)),
        Decode(format=ValueFormat.AVRO, registry="http://h:8081", version=3), TopicSink(topic="t", keep=("timestamp",)),
    ],
)  # fmt: skip
def test_a_literal_is_the_value(value: object) -> None:
    assert eval(literal(value), vars(spec)) == value  # what is written is what will be run


@pytest.mark.parametrize(
    ("name", "expected"),
    [("orders", "orders"), ("s3://lake/day-rows/", "day_rows"), ("1st", "_1st"), ("größe", "gr__e"), ("/", "_")],
)
def test_names_are_written_without_quotes(name: str, expected: str) -> None:
    assert identifier(name) == expected


def test_the_project_and_the_command_name_the_run_that_keeps_its_tables(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("pipeline: a\ncluster: h:1\nsource: {topics: t}\ndecode: {format: text}\nsinks: [{table: x}]\n")
    told = CliRunner().invoke(commands, ["export", str(file), "--to", str(tmp_path / "out")]).output
    assert told.endswith(f"{RUN}\n")
    text = (tmp_path / "out" / SPECIFICATION).read_text()
    assert f"#   {RUN}\n" in text
    assert "remove the tables and the folder of `storage`\n# together" in text


def test_a_bound_of_event_times_is_a_check_of_the_project(tmp_path: Path) -> None:
    late = "late: {column: at, after: 10m, ahead: 1h, on_error: skip}"
    text = (
        "pipeline: a\nsource: {topics: t}\ndecode: {format: json, fields: {at: timestamp}}\n"
        f"sinks: [{{table: x}}]\n{late}\n"
    )
    code = export(written(tmp_path, text), "h:1", tmp_path / "out", modules=tmp_path).read_text()
    assert 'name="ahead"' in code
    assert "unix_millis(try_cast(`at` AS timestamp)) - unix_millis(_timestamp) <= 3600000" in code
