"""A pipeline's file: what it says, and every mistake in it with its place and what would be right."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.pipeline.books import names_of
from moldau.pipeline.durations import seconds
from moldau.pipeline.places import NotYaml, parse
from moldau.pipeline.reading import PipelineError, load, read_text
from moldau.pipeline.spec import Check, OnError, Step, TableSink, TopicSink, ValueFormat

WHOLE = """\
pipeline: orders
cluster: host:9092
folder: /data/orders
source: {topics: [orders, more], start: {orders: {0: 23}}, max_records: 500, max_bytes: 64m, on_loss: skip,
         options: {kafka.isolation.level: read_committed}}
decode: {format: json, fields: {id: long, amount: "decimal(9,2)"}, on_error: dlq}
check:
  - {name: positive, rule: amount > 0, on_error: skip}
transform:
  - sql: SELECT id FROM records
  - python: shop.clean:clean
sinks:
  - {table: /data/t, format: parquet, partition_by: id, evolve: true}
  - {topic: clean, key: id, value: to_json(struct(id))}
  - {table: /data/latest, keys: [id], order_by: [_offset], delete_when: new.id IS NULL}
dlq: {table: /data/dead, topic: dead}
late: {column: at, after: 10m}
every: 30s
publish_group: shown
"""
LEAST = "pipeline: a\nsource: {topics: b}\nsinks: [{table: /t}]\n"


def said(text: str, variables: dict[str, str] | None = None) -> list[str]:
    return [f"{one.place} {one.message}" for one in read_text(text, variables or {}).problems]


def test_a_file_with_every_part_is_read_as_it_stands() -> None:
    found = read_text(WHOLE, {})
    assert found.problems == []
    pipeline = found.pipeline
    assert pipeline is not None
    assert (pipeline.name, pipeline.cluster, pipeline.folder, pipeline.every) == (
        "orders", "host:9092", "/data/orders", "30s",
    )  # fmt: skip
    assert pipeline.source.topics == ("orders", "more")
    assert pipeline.source.start == '{"orders": {"0": 23}}'
    assert (pipeline.source.max_records, pipeline.source.max_bytes, pipeline.source.on_loss) == (500, "64m", "skip")
    assert pipeline.decode.format is ValueFormat.JSON
    assert pipeline.decode.fields == {"id": "long", "amount": "decimal(9,2)"}
    assert pipeline.checks == (Check(name="positive", rule="amount > 0", on_error=OnError.SKIP),)
    assert pipeline.steps == (Step(sql="SELECT id FROM records"), Step(python="shop.clean:clean"))
    table, topic, latest = pipeline.sinks
    assert table == TableSink(table="/data/t", format="parquet", partition_by=("id",), evolve=True)
    assert topic == TopicSink(topic="clean", key="id", value="to_json(struct(id))")
    assert latest == TableSink(table="/data/latest", keys=("id",), order_by=("_offset",), delete_when="new.id IS NULL")
    assert pipeline.dead_letters.table == "/data/dead"
    assert pipeline.late is not None
    assert pipeline.late.after == "10m"


@pytest.mark.parametrize("kind", ["replay", "backfill"])
def test_no_pipeline_is_called_as_tables_call_the_replays_of_another(kind: str) -> None:
    """In a table that both fill each would go on where the other is, and replay the other's dead letters."""
    text = "pipeline: orders.{}\nsource: {{topics: t}}\nsinks: [{{table: t}}]\n"
    (problem,) = said(text.format(kind))
    assert problem == (
        f"1:11 pipeline: 'orders.{kind}' is how tables call the {kind}s of a pipeline 'orders': give it another name"
    )
    assert f"orders.{kind}" in names_of("orders")
    assert said(text.format(f"{kind}s")) == []


def test_what_is_not_said_has_defaults_and_relative_folders_are_beside_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("pipeline: a\nsource: {topics: b}\nsinks: [{table: t}, {table: 's3://bucket/t'}]\n")
    pipeline = load(path, {})
    assert pipeline.folder == str(tmp_path / "a")
    assert [sink.name for sink in pipeline.sinks] == [str(tmp_path / "t"), "s3://bucket/t"]
    assert pipeline.decode.on_error is OnError.PAUSE
    assert pipeline.source.start == "earliest"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "1:1 a pipeline is a mapping: name: value"),
        ("- a", "1:1 a pipeline is a mapping: name: value"),
        ("pipeline: a\n  b: c", "2:4 not YAML: mapping values are not allowed here"),
        ("a: [", "1:5 not YAML"),
        ("a: &x [*x]", "too deep or too large"),
        (LEAST + "sources: 1", "4:1 'sources' is not known here. Did you mean 'source'?"),
        (LEAST + "pipeline: c", "4:1 'pipeline' stands here a second time (first in line 1)"),
        (LEAST + "every: soon", "4:8 every: 'soon' is not a duration"),
        (LEAST + "every: 99999999999999999999d", "4:8 every: '99999999999999999999d' is not a duration"),
        (LEAST + 'folder: "a\\0b"', "4:9 folder: a zero byte is in no name"),
        (LEAST + 'folder: "\\ud800"', "4:9 folder: half of a character (a surrogate) is in no name"),
        (LEAST + "dlq: {}", "4:6 dlq: a 'table', a 'topic', or both"),
        (LEAST + "check: {rule: a}", "4:8 check is a list"),
        (LEAST + "check: [{name: x}]", "4:9 'rule' is missing"),
        (LEAST + "check: [{rule: a, on_error: dql}]", "4:29 on_error: 'dql' is not known. Did you mean 'dlq'?"),
        (LEAST + "transform: [{sql: a, python: 'b:c'}]", "4:13 a step is one of 'sql' and 'python'"),
        (LEAST + "transform: [{python: b}]", "4:22 python: 'b' is not module:function"),
        (LEAST + "decode: {format: jsn}", "4:18 format: 'jsn' is not known. Did you mean 'json'?"),
        (LEAST + "cluster: ${NOT_SET}", "4:10 the environment has no NOT_SET"),
        (LEAST + "cluster: ${NOT_SET", "4:10 '${NOT_SET' is not closed or names no variable"),
        (LEAST + "cluster: ${NOT_SET:-a:1", "4:10 '${NOT_SET:-a:1' is not closed"),
        (LEAST + "cluster: ${}:1", "4:10 '${}' is not closed or names no variable"),
        (LEAST + "cluster: ${A:x}:1", "4:10 '${A:x}' is not closed or names no variable"),
        (LEAST + "cluster: ${1A}", "4:10 '${1A}' is not closed or names no variable"),
        ("pipeline: a b\nsource: {topics: b}\nsinks: []", "1:11 pipeline: 'a b' is no name"),
        ("pipeline: a\nsource: {topics: b, pattern: c}\nsinks: []", "2:9 source: one of 'topics' and 'pattern'"),
        ("pipeline: a\nsource: {topics: ['a/b']}\nsinks: []", "2:19 topics: 'a/b' is no name"),
        ("pipeline: a\nsource: {topics: b}", "1:1 'sinks' is missing"),
        ("pipeline: a\nsource: {topics: b}\nsinks: [{}]", "3:9 a sink is one of 'table' and 'topic'"),
        ("pipeline: a\nsource: {topics: b}\nsinks: [{table: t, keys: [a]}]", "3:9 a table of the latest rows"),
        ("pipeline: a\nsource: {topics: b}\nsinks: [{table: t, evolve: 1}]", "3:28 evolve is true or false"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_place(text: str, problem: str) -> None:
    assert any(problem in one for one in said(text)), said(text)
    assert read_text(text, {}).pipeline is None


def test_variables_are_filled_in_and_keep_the_kind_of_their_value() -> None:
    pipeline = read_text(LEAST + "cluster: ${HOST:-localhost}:9092\nevery: ${EVERY}\n", {"EVERY": "5s"}).pipeline
    assert pipeline is not None
    assert (pipeline.cluster, pipeline.every) == ("localhost:9092", "5s")
    limit = "pipeline: a\nsource:\n  topics: b\n  max_records: {}\n  max_bytes: $$x\nsinks: [{{table: /t}}]"
    pipeline = read_text(limit.format("${N}"), {"N": "3"}).pipeline
    assert pipeline is not None
    assert (pipeline.source.max_records, pipeline.source.max_bytes) == (3, "$x")
    assert said(limit.format("'${N}'"), {"N": "3"}) == ["4:16 max_records is a number above 0"], "quoted, it is text"


def test_every_error_of_a_file_is_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("pipeline: a b\nsource: {topic: b}\nsinks: []\nevry: 1s\n")
    with pytest.raises(PipelineError) as caught:
        load(path, {})
    lines = str(caught.value).splitlines()
    assert [line.removeprefix(f"{path}:").partition(":")[0] for line in lines] == ["1", "2", "2", "4"]
    path.write_bytes(b"pipeline: \xff")
    with pytest.raises(PipelineError, match="not UTF-8"):
        load(path, {})


@given(st.text() | st.sampled_from([WHOLE, LEAST]).flatmap(
    lambda text: st.tuples(st.integers(0, len(text)), st.text(max_size=5)).map(
        lambda cut: text[: cut[0]] + cut[1] + text[cut[0] + len(cut[1]) :]
    )
))  # fmt: skip
def test_no_text_makes_reading_fail_otherwise_than_by_problems(text: str) -> None:
    for problem in read_text(text, {}).problems:
        assert problem.place.line >= 1


def test_a_billion_laughs_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    with pytest.raises(NotYaml, match="too deep or too large"):
        parse("\n".join(lines), {})


def test_durations_have_a_unit() -> None:
    assert [seconds(one) for one in ("500ms", "10s", "5m", "1h", "1d")] == [0.5, 10, 300, 3600, 86400]
    with pytest.raises(ValueError, match="not a duration"):
        seconds("10")


def test_a_name_that_yaml_takes_for_a_number_stays_as_it_is_written() -> None:
    pipeline = read_text(
        "pipeline: 007\nsource:\n  topics:\n    - 1.10\n    - 0x1F\n    - ${T}\n    - Yes\nsinks: [{table: /t}]\n",
        {"T": "2.50"},
    )
    assert pipeline.pipeline is not None, pipeline.problems
    assert pipeline.pipeline.name == "007"
    assert pipeline.pipeline.source.topics == ("1.10", "0x1F", "2.50", "Yes")


@pytest.mark.parametrize("value", ["!!timestamp x", "!!bool x", "!!int ''", "!!float ''", "!!int x", "!!binary 'ä'"])
def test_a_value_that_is_none_of_the_kind_that_is_said_is_told_with_its_place(value: str) -> None:
    (found,) = read_text(f"pipeline: a\nsource: {{topics: b}}\nsinks: [{{table: t}}]\nfolder: {value}\n", {}).problems
    assert str(found.place) == "4:9"
    assert "is not a value of the kind tag:yaml.org,2002:" in found.message
