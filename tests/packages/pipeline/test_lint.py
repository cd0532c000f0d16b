"""The linter: what the parts of a pipeline mean together, without Spark and without a cluster."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

from moldau.admin.pipeline import pipeline
from moldau.pipeline.lint import lint_file, output_columns
from moldau.pipeline.lint_parts import CHANGING
from moldau.pipeline.reading import load
from moldau.pipeline.trial import read_cases

FILE = """\
pipeline: orders
source: {{topics: orders{source}}}
decode: {{format: json, fields: {{id: long, amount: double, at: timestamp}}, on_error: {on_error}}}
check: [{check}]
transform: [{transform}]
sinks: [{sinks}]
{more}
"""


def said(tmp_path: Path, *, source: str = "", on_error: str = "pause", check: str = "", transform: str = "",
         sinks: str = "{table: t}", more: str = "") -> list[str]:  # fmt: skip
    """The problems of a file that has these parts."""
    path = tmp_path / "orders.yaml"
    path.write_text(
        FILE.format(source=source, on_error=on_error, check=check, transform=transform, sinks=sinks, more=more)
    )
    return [f"{one.place.line} {'error' if one.error else 'warning'} {one.message}" for one in lint_file(path, {})]


def test_a_sound_pipeline_has_no_problem(tmp_path: Path) -> None:
    assert said(
        tmp_path,
        on_error="dlq",
        check="{rule: amount > 0 AND at IS NOT NULL}",
        transform="{sql: 'SELECT id, amount * 2 AS two FROM records'}, {sql: SELECT id FROM records WHERE two > 1}",
        sinks="{table: t, partition_by: id}, {topic: clean, key: id, value: to_json(struct(*))}",
        more="dlq: {table: dead}\nlate: {column: at, after: 10m}",
    ) == []  # fmt: skip


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ({"check": "{rule: amont > 0}"}, "4 error check 'amont > 0': there is no column 'amont'. Did you mean"),
        ({"check": "{rule: amount >}"}, "4 error check 'amount >': "),
        ({"check": "{rule: 'TO_NUMBER (id, 9) > 0'}"}, "9) > 0': to_number stops the batch where"),
        ({"transform": "{sql: 'SELECT id AS raw FROM records'}", "sinks": "{table: t, partition_by: row}"}, "'row'"),
        ({"check": "{rule: sum(amount) > 0}"}, "an aggregate is over many rows; this looks at one"),
        ({"check": "{rule: id > 0}, {rule: id > 0}"}, "a second check 'id > 0'"),
        ({"check": "{name: dedup, rule: id > 0}"}, "'dedup' is a stage of its own"),
        ({"more": "dedup: {by: idd}"}, "7 error dedup: there is no column 'idd'. Did you mean 'id'"),
        ({"more": "dedup: {by: id, at: att}"}, "7 error dedup: there is no column 'att'"),
        ({"more": "dedup: {within: 1d}"}, "7 error dedup: 'by' names the columns of the key"),
        ({"more": "dedup: {by: id, within: soon}"}, "7 error within: 'soon' is not a duration"),
        ({"more": "dedup: {by: id, on_duplicate: pause}"}, "7 error on_duplicate: 'pause' is not known"),
        ({"more": "dedup: {by: id, on_duplicate: dlq}"}, "on_error: dlq of dedup needs the section 'dlq'"),
        ({"transform": "{sql: SELECT x FROM records}"}, "5 error transform: there is no column 'x'"),
        ({"transform": "{sql: SELECT id FROM recods}"}, "there is no 'recods' here. Did you mean 'records'?"),
        ({"transform": "{sql: DELETE FROM records}"}, "a SELECT over records is expected"),
        ({"transform": "{sql: SELEC id}"}, "5 error transform: "),
        ({"transform": "{sql: SELECT count(*) AS n FROM records}"}, "warning transform: it adds up within one batch"),
        ({"transform": "{sql: SELECT id FROM records}, {sql: SELECT amount FROM records}"}, "no column 'amount'"),
        ({"transform": "{python: 'no_such_module:f'}"}, "there is no module 'no_such_module'"),
        ({"sinks": "{table: t, partition_by: day}"}, "6 error table"),
        ({"sinks": "{table: t}, {table: t}"}, "is written by two parts of the pipeline"),
        ({"sinks": "{topic: orders}"}, "topic orders is what the pipeline reads"),
        ({"sinks": "{topic: x, keep: headers}", "transform": "{sql: SELECT id FROM records}"}, "no column '_headers'"),
        ({"sinks": "{topic: x, keep: header}"}, "keep: 'header' is not known. Did you mean 'headers'?"),
        ({"sinks": "{topic: orders, cluster: 'c:1'}", "more": "cluster: c:1"}, "topic orders@c:1 is what the pipeline"),
        ({"sinks": "{topic: clean, key: key}"}, "there is no column 'key'"),
        ({"more": "cluster: 'host:99999'"}, "7 error cluster: 'host:99999' is not an address: host:port is expected"),
        ({"more": "cluster: host"}, "7 error cluster: 'host' is not an address"),
        ({"more": "cluster: 'a:1,http://b:2'"}, "7 error cluster: 'http://b:2' is not an address"),
        ({"sinks": "{topic: clean, cluster: other}"}, "6 error topic clean: cluster: 'other' is not an address"),
        ({"transform": "{sql: 'SELECT id, id FROM records'}"}, "two columns are called 'id': it would refuse them"),
        ({"transform": "{sql: 'SELECT id, amount AS ID FROM records'}"}, "two columns are called 'id'"),
        ({"transform": "{sql: 'SELECT *, id FROM records'}"}, "two columns are called 'id'"),
        (
            {"transform": "{sql: \"SELECT id, named_struct('a', 1, 'A', 2) AS s FROM records\"}"},
            "t: 's.A' and 's.a' differ in case only: tables take them for one",
        ),
        ({"transform": "{sql: 'SELECT array(struct(id, amount AS ID)) s FROM records'}"}, "'s.element.ID' and 's.elem"),
        ({"transform": "{sql: 'SELECT CAST(1 AS struct<b: struct<x: int, X: int>>) s FROM records'}"}, "'s.b.X' and"),
        ({"transform": "{sql: \"SELECT from_json('', 'x int, X int') s FROM records\"}"}, "'s.X' and 's.x' differ"),
        (
            {"transform": "{sql: 'SELECT struct(id, at AS ID) s FROM records'}, {sql: 'SELECT s AS t FROM records'}"},
            "'s.ID' and 's.id' differ in case only",
        ),
        ({"transform": "{sql: 'SELECT struct(id, id) s FROM records'}"}, "'s.id' is there twice"),
        (
            {"transform": "{sql: 'SELECT id, amount AS id FROM records'}", "sinks": "{topic: clean}"},
            "topic clean: two columns are called 'id': its JSON would have the name twice",
        ),
        ({"sinks": "{table: t, format: iceberg}"}, "needs options.catalog"),
        (
            {"sinks": "{table: 't/{topic}', format: iceberg, options: {catalog: c, identifier: n.t}}"},
            "options.identifier names one table",
        ),
        ({"sinks": "{table: 'a/{topic}'}", "transform": "{sql: SELECT id FROM records}"}, "must keep the column"),
        (
            {"sinks": "{table: 'a/{topic}'}", "transform": "{sql: SELECT id AS topic FROM records}"},
            "must keep the column _topic",
        ),
        (
            {"sinks": "{table: 'a/{topic}'}", "transform": "{sql: 'SELECT id AS Topic, _topic FROM records'}"},
            "rows go to their tables by _topic, the topic that a record came from; 'topic' beside it is a column",
        ),
        ({"sinks": "{table: t, keys: id, order_by: when}"}, "there is no column 'when'"),
        ({"sinks": "{table: t, keys: id, order_by: at, delete_when: 'id IS (('}"}, "delete_when: "),
        ({"on_error": "dlq"}, "on_error: dlq of decode needs the section 'dlq'"),
        ({"more": "dlq: {table: d}"}, "warning dlq: no stage has on_error: dlq"),
        ({"more": "late: {column: when, after: 1m}"}, "late: there is no column 'when'"),
        ({"more": "late: {column: at, after: 1m, ahead: soon}"}, "ahead: 'soon' is not a duration"),
        ({"more": "late: {column: at, after: 1m, on_error: skip}"}, "on_error: says what becomes of records that are"),
        ({"more": "late: {column: at, after: 1m, ahead: 1h, on_error: dlq}"}, "dlq of late needs the section"),
        (
            {"check": "{name: ahead, rule: id > 0}", "more": "late: {column: at, after: 1m, ahead: 1h}"},
            "'ahead' is a stage of its own",
        ),
        ({"source": ", start: soon"}, "source: option startingOffsets is 'soon'"),
        ({"source": ", options: {maxOffsetPerTrigger: 1}"}, "maxOffsetsPerTrigger"),
        ({"source": ", options: {kafka.ssl.truststore.location: x}"}, "ssl"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_named(tmp_path: Path, parts: dict[str, str], problem: str) -> None:
    found = said(tmp_path, **parts)
    assert any(problem in one for one in found), found


@pytest.mark.parametrize(
    ("decode", "problem"),
    [
        ("{format: json}", "json needs 'fields'"),
        ("{format: json, fields: {id: lng}}", "id: "),
        ("{format: json, fields: {_topic: string}}", "'_topic' is a name of the pipeline's own"),
        ("{format: json, fields: {'a`b': string}}", "'a`b': Spark's functions take no name with a backtick"),
        ("{format: text, fields: {id: long}}", "fields: the columns of text are one, value"),
        ("{format: text, registry: 'http://r'}", "registry: only avro, protobuf and json have schemas there"),
        ("{format: json, fields: {id: long}, schema_file: a}", "schema_file: only avro and protobuf have one"),
        ("{format: avro, schema_file: a, message: M}", "message: only protobuf has messages"),
        ("{format: protobuf, schema_file: none.proto}", "none.proto cannot be read"),
        ("{format: json, fields: {id: long}, subject: s}", "subject: only a 'registry' has subjects and versions"),
        ("{format: avro}", "avro needs a 'registry' or a 'schema_file'"),
        ("{format: avro, registry: 'http://r:99999'}", "registry: the registry's URL has a port that is none: r:99999"),
        ("{format: avro, registry: r}", "registry: a registry's URL begins with http"),
        ("{format: avro, registry: 'http://r', schema_file: a.avsc}", "avro needs a 'registry' or a 'schema_file'"),
        ("{format: avro, registry: 'http://r', fields: {id: long}}", "the columns of avro come from its schema"),
        ("{format: avro, schema_file: none.avsc}", "none.avsc cannot be read"),
        ("{format: protobuf}", "protobuf needs a 'registry' or a 'schema_file'"),
    ],
)
def test_what_a_format_needs_is_asked_for(tmp_path: Path, decode: str, problem: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(f"pipeline: a\nsource: {{topics: b}}\ndecode: {decode}\nsinks: [{{table: t}}]\n")
    found = [one.message for one in lint_file(path, {})]
    assert any(problem in one for one in found), found


def test_what_a_table_does_not_give_back_as_it_was_is_named(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    fields = "decode: {format: json, fields: {id: long, ID: string, cut: 'decimal(9,2)'}}"
    path.write_text(f"pipeline: o\nsource: {{topics: o}}\n{fields}\nsinks: [{{table: t, partition_by: cut}}]\n")
    first, second = [one.message for one in lint_file(path, {})]
    assert first == "'ID' and 'id' differ in case only: tables take them for one"
    assert second.endswith("partition_by cut: a decimal(9,2) cannot be kept in a folder's name")


def test_a_check_may_be_called_ahead_where_no_bound_is(tmp_path: Path) -> None:
    check = "{name: ahead, rule: id > 0}"
    assert said(tmp_path, check=check, more="late: {column: at, after: 1m}") == []


def test_fields_within_a_column_that_differ_in_case_only_are_refused_where_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    fields = "decode:\n  format: json\n  fields:\n    id: long\n    items: 'array<struct<a: int, A: int>>'"
    path.write_text(f"pipeline: o\nsource: {{topics: o}}\n{fields}\nsinks: [{{table: t}}]\n")
    [found] = lint_file(path, {})
    assert (found.place.line, found.error) == (7, True)
    assert found.message == "items: 'A' and 'a' differ in case only: tables take them for one (at 22)"
    schema = tmp_path / "o.avsc"
    both = '[{"name": "a", "type": "int"}, {"name": "A", "type": "int"}]'
    schema.write_text(
        '{"type": "record", "name": "R", "fields": [{"name": "s", "type": {"type": "record", "name": "S", '
        f'"fields": {both}}}}}]}}'
    )
    path.write_text(
        "pipeline: o\nsource: {topics: o}\ndecode: {format: avro, schema_file: o.avsc}\nsinks: [{table: t}]\n"
    )
    [found] = lint_file(path, {})
    assert found.message == "decode: 's.A' and 's.a' differ in case only: tables take them for one"


def test_columns_of_one_name_may_stand_between_steps(tmp_path: Path) -> None:
    steps = "{sql: 'SELECT id, id, amount FROM records'}, {sql: 'SELECT amount FROM records'}"
    assert said(tmp_path, transform=steps) == []
    twice = "{sql: 'SELECT id, id FROM records'}"
    assert said(tmp_path, transform=twice, sinks="{topic: clean, value: to_json(struct(1 AS x))}") == []


@pytest.mark.parametrize("kind", ["boolean", "binary", "array<timestamp>", "map<string, date>", "struct<a: date>"])
def test_a_column_whose_type_is_never_a_time_gives_no_event_time(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.yaml"
    head = "pipeline: a\nsource: {topics: b}\nsinks: [{table: t}]\n"
    decode = f"decode: {{format: json, fields: {{a: '{kind}', b: int}}}}\n"
    path.write_text(f"{head}{decode}late: {{column: a, after: 1m}}\ndedup: {{by: b, at: a}}\n")
    found = [one.message for one in lint_file(path, {})]
    assert found == [
        f"late: a is of type {kind}, which is never a time", f"dedup: at: a is of type {kind}, which is never a time"
    ]  # fmt: skip


@pytest.mark.parametrize("name", sorted(CHANGING - {"randstr", "uniform", "shuffle"}))
def test_every_function_that_changes_is_known_by_its_name(tmp_path: Path, name: str) -> None:
    (found,) = said(tmp_path, transform=f"{{sql: 'SELECT concat(id, {name}()) AS x FROM records'}}")
    assert "gives something else when a batch that was cut off is run again" in found


LONG = {
    "columns": f"SELECT {', '.join(f'id AS c{number}' for number in range(20_000))} FROM records",
    "a sum": f"SELECT {'+'.join(['id'] * 20_000)} AS id FROM records",
    "a sum that is short enough to be read": f"SELECT {'+'.join(['id'] * 8_000)} AS id FROM records",
    "conditions, each in the next": f"SELECT id FROM records WHERE {' AND '.join(['id>1'] * 3_000)}",
}


@pytest.mark.parametrize("kind", LONG)
def test_sql_that_is_too_long_to_be_checked_is_told_and_not_looked_at(tmp_path: Path, kind: str) -> None:
    begun = time.process_time()
    (found,) = said(tmp_path, transform=f"{{sql: '{LONG[kind]}'}}")
    assert "warning transform: the SQL is too long to be checked here" in found
    assert time.process_time() - begun < 10, "what grows with the square of its length takes minutes"


def test_many_statements_are_looked_at_as_far_as_there_is_time(tmp_path: Path) -> None:
    checks = ", ".join(f"{{name: c{number}, rule: id + amount > {number}}}" for number in range(3_000))
    found = said(tmp_path, check=checks)
    assert 0 < len(found) < 3_000
    assert all("check 'c" in one and "too long to be checked here" in one for one in found)


def test_of_many_columns_that_are_not_there_the_first_are_named(tmp_path: Path) -> None:
    names = ", ".join(f"no{number}" for number in range(500))
    found = said(tmp_path, transform=f"{{sql: 'SELECT {names} FROM records'}}")
    assert len(found) == 11
    assert found[-1] == "5 error transform: nor are there 490 more of its columns"


def test_a_function_is_looked_for_beside_the_file_and_not_imported(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("raise SystemExit('imported')\n\n\ndef clean(rows):\n    return rows\n")
    assert said(tmp_path, transform="{python: 'shop:clean'}") == []
    found = said(tmp_path, transform="{python: 'shop:claen'}")
    assert found == ["5 error python: shop has no 'claen'. Did you mean 'clean'?"]


@pytest.mark.parametrize("name", ["current_timestamp()", "now()", "rand()", "uuid()", "unix_timestamp()"])
def test_what_gives_something_else_when_a_batch_is_run_again_is_warned_of(tmp_path: Path, name: str) -> None:
    (found,) = said(tmp_path, check=f"{{rule: 'CAST(at AS STRING) < CAST({name} AS STRING)'}}")
    assert "warning" in found
    assert "gives something else when a batch that was cut off is run again" in found
    (found,) = said(tmp_path, transform=f"{{sql: 'SELECT id, {name} AS x FROM records'}}")
    assert "warning transform: " in found
    assert said(tmp_path, check="{rule: unix_timestamp(at) > 0}") == []


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        ("to_dat(at)", "Did you mean 'to_date'?"),
        ("UPPERR(id)", "Did you mean 'upper'?"),
        ("strpos(id, 'x')", ""),  # which sqlglot knows, of other databases
        ("zzz(id)", ""),
    ],
)
def test_a_function_that_spark_has_not_is_warned_of(tmp_path: Path, call: str, hint: str) -> None:
    name = call.partition("(")[0].lower()
    in_check, in_step = f'{{rule: "{call} IS NULL"}}', f'{{sql: "SELECT id, {call} AS x FROM records"}}'
    for parts in ({"check": in_check}, {"transform": in_step}):
        (found,) = said(tmp_path, **parts)
        assert f"Spark has no function '{name}': a batch ends by it, unless the session has one." in found
        assert found.endswith(hint or "one.")
        assert " warning " in found


def test_what_stands_before_a_bracket_and_is_no_misspelled_function_is_let_be(tmp_path: Path) -> None:
    sql = (
        "WITH some(a) AS (SELECT id FROM records) SELECT shop.clean(a) AS b, CAST(a AS decimal(9, 2)) AS c,"
        " named_struct('x', a) AS d, a IN (1, 2) AS e, IF(a > 1, 1, 0) AS f, try_to_number('1', '9') AS g,"
        " count(*) OVER (PARTITION BY a) AS h FROM some AS t(a)"
    )
    assert [one for one in said(tmp_path, transform=f'{{sql: "{sql}"}}') if "function" in one] == []


@pytest.mark.parametrize(
    "rule", ["item.x > 0", "item.in.y.z > 0 AND id > 0", "ITEM.X > 0", "exists(many, m -> m.x > 0)"]
)
def test_fields_of_a_struct_are_looked_up_by_their_column(tmp_path: Path, rule: str) -> None:
    (tmp_path / "orders.yaml").write_text(
        "pipeline: orders\nsource: {topics: orders}\n"
        "decode: {format: json, fields: {id: long, item: 'struct<x: int, in: struct<y: struct<z: int>>>', "
        "many: 'array<struct<x: int>>'}}\n"
        f"check: [{{rule: '{rule}'}}]\n"
        "sinks: [{topic: clean, key: item.x, value: to_json(struct(item.in))}, {table: t, keys: id, order_by: id, "
        "delete_when: item.x = 0}]\n"
    )
    assert [one.message for one in lint_file(tmp_path / "orders.yaml", {})] == []
    text = (tmp_path / "orders.yaml").read_text()
    (tmp_path / "orders.yaml").write_text(text.replace("key: item.x", "key: itm.x"))
    (found,) = lint_file(tmp_path / "orders.yaml", {})
    assert found.message.startswith("topic clean: key: there is no column 'itm'. Did you mean 'item'?")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT try_cast(id AS int) AS i FROM records",
        "SELECT timestampdiff(HOUR, at, at) AS i, timestampadd(DAY, 1, at) AS j FROM records",
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY id) OVER (PARTITION BY amount) AS p FROM records",
        "SELECT /*+ BROADCAST(r) */ r.id FROM records r JOIN records s ON r.id = s.id",
        "SELECT r.id, n.id AS n FROM records r CROSS JOIN range(3) AS n",
    ],
)
def test_what_sparks_grammar_has_is_neither_a_function_nor_a_table_that_is_not_there(tmp_path: Path, sql: str) -> None:
    assert said(tmp_path, transform=f"{{sql: '{sql}'}}") == []


def test_a_package_is_looked_into_and_its_code_is_not_run(tmp_path: Path) -> None:
    package = tmp_path / "orders_steps" / "inner"
    package.mkdir(parents=True)
    (tmp_path / "orders_steps" / "__init__.py").write_text("raise RuntimeError('a lookup ran it')")
    (package / "clean.py").write_text("def fine(rows): return rows")
    assert said(tmp_path, transform="{python: 'orders_steps.inner.clean:fine'}") == []
    (found,) = said(tmp_path, transform="{python: 'orders_steps.inner.clean:fin'}")
    assert "orders_steps.inner.clean has no 'fin'. Did you mean 'fine'?" in found
    for name in ("orders_steps.gone", "orders_steps.inner.clean.f", "orders_steps..clean", "orders_steps."):
        (found,) = said(tmp_path, transform=f"{{python: '{name}:f'}}")
        assert f"there is no module '{name}' beside the file or installed" in found


def test_a_copied_file_with_the_folder_of_the_first_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "pipeline").write_text("orders")
    assert said(tmp_path, more="folder: state") == []
    (tmp_path / "state" / "pipeline").write_text("invoices")
    (found,) = said(tmp_path, more="folder: state")
    assert "error" in found
    assert "is the folder of pipeline 'invoices', not of 'orders'" in found


def test_the_columns_of_sinks_follow_from_the_steps(tmp_path: Path) -> None:
    said(
        tmp_path,
        transform="{sql: 'WITH big AS (SELECT * FROM records WHERE id > 1) SELECT id AS order_id, amount FROM big'}",
    )
    pipeline = load(tmp_path / "orders.yaml", {})
    assert pipeline.decode.fields is not None
    assert list(output_columns(pipeline, pipeline.decode.fields) or {}) == ["order_id", "amount"]


def test_linting_loads_no_spark_and_opens_no_connection(tmp_path: Path) -> None:
    said(tmp_path, check="{rule: id > 0}", transform="{sql: SELECT id FROM records}")
    program = (
        "import sys, socket\n"
        "def refuse(*a): raise AssertionError('a connection')\n"
        "socket.socket.connect = refuse\n"
        "from moldau.pipeline.lint import CHANGING, lint_file\n"
        f"assert lint_file({str(tmp_path / 'orders.yaml')!r}, {{}}) == []\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "assert not loaded & {'pyspark', 'deltalake', 'pandas', 'py4j', 'kazoo'}, loaded\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_file_that_the_docs_show_is_sound(tmp_path: Path) -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "pipelines.md"
    shown = re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)
    (tmp_path / "orders.yaml").write_text(shown[0])
    assert lint_file(tmp_path / "orders.yaml", {}) == []
    (tmp_path / "copy.yaml").write_text(f"pipeline: copy\nsource: {{topics: orders}}\n{shown[1]}")
    assert lint_file(tmp_path / "copy.yaml", {}) == []
    (tmp_path / "maintained.yaml").write_text(
        f"pipeline: maintained\nsource: {{topics: orders}}\ndecode: {{format: text}}\n{shown[2]}"
    )
    assert lint_file(tmp_path / "maintained.yaml", {}) == []
    (tmp_path / "changes.yaml").write_text(shown[3])
    assert lint_file(tmp_path / "changes.yaml", {}) == []
    (tmp_path / "orders.test.yaml").write_text(shown[4])
    assert len(read_cases(tmp_path / "orders.test.yaml")) == 1


def test_columns_of_a_schema_file_are_known(tmp_path: Path) -> None:
    (tmp_path / "o.avsc").write_text('{"type": "record", "name": "O", "fields": [{"name": "amount", "type": "long"}]}')
    path = tmp_path / "a.yaml"
    text = "pipeline: a\nsource: {{topics: b}}\ndecode: {{format: avro, schema_file: o.avsc}}\ncheck: [{{rule: {}}}]\n"
    path.write_text(text.format("amount > 0") + "sinks: [{table: t}]")
    assert lint_file(path, {}) == []
    path.write_text(text.format("amont > 0") + "sinks: [{table: t}]")
    assert "Did you mean 'amount'?" in lint_file(path, {})[0].message


def test_every_command_of_the_page_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is parsed as it stands there, with a file of that name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.yaml").touch()
    page = (Path(__file__).parents[3] / "docs" / "pipelines.md").read_text()
    lines = re.findall(r"^moldau pipeline (.*)$", page, re.MULTILINE)
    seen = set()
    for line in lines:
        words = shlex.split(line, comments=True)
        command: click.Command = pipeline
        while isinstance(command, click.Group):
            name = words.pop(0)
            seen.add(name)
            command = command.commands[name]
        command.make_context(line, words)
    assert seen == {*pipeline.commands, "list", "dlq", "replay"}


def test_a_wrong_name_is_told_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    more = f"decode: {{format: text}}\nsinks: [{{table: {Path.cwd()}/t}}]\n"
    path.write_text(f"pipeline: a/b\nsource: {{topics: t}}\n{more}")
    assert [one.place.line for one in lint_file(path, {})] == [1]


def test_a_table_whose_path_has_a_backslash_is_refused_by_name(tmp_path: Path) -> None:
    found = said(tmp_path, sinks=r'{table: "a\\q"}', on_error="dlq", more=r'dlq: {table: "d\\q"}')
    assert [one.partition(": a backslash")[0].rpartition("/")[2] for one in found] == [r"a\q", r"d\q"]


@pytest.mark.parametrize(
    ("sql", "sinks"),
    [
        ("SELECT to_json(struct(id, amount AS ID)) s FROM records", "{table: t}"),
        ("SELECT struct(id, amount AS ID).id s FROM records", "{table: t}"),
        ("SELECT struct(id, amount AS ID) s FROM records", "{topic: clean}"),
        ("SELECT struct(id, amount) s, struct(id, at) u FROM records", "{table: t}"),
    ],
)
def test_fields_that_differ_in_case_only_are_let_be_where_no_table_has_them(
    tmp_path: Path, sql: str, sinks: str
) -> None:
    assert said(tmp_path, transform=f"{{sql: '{sql}'}}", sinks=sinks) == []


def test_a_source_that_is_misspelled_is_told_as_that_and_not_by_options_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text("pipeline: a\nsorce: {topics: [b]}\ndecode: {format: raw}\nsinks: [{table: t}]\n")
    assert [one.message for one in lint_file(path, {})] == [
        "'source' is missing", "'sorce' is not known here. Did you mean 'source'?"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("folder", "told"),
    [("x" * 300, "5:9 folder: File name too long: "), ("http://[", "2:9 source: option initialOffsetsLocation is ")],
)
def test_a_folder_that_no_machine_can_have_is_told_with_its_place(tmp_path: Path, folder: str, told: str) -> None:
    path = tmp_path / "orders.yaml"
    text = "pipeline: a\nsource: {topics: b}\ndecode: {format: raw}\nsinks: [{topic: c}]\n"
    path.write_text(f"{text}folder: '{folder}'\n")
    (found,) = [one for one in lint_file(path, {}) if one.error]
    assert f"{found.place} {found.message}".startswith(told)
