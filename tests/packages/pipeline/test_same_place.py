"""Two parts of a pipeline that name one place are refused, however each spells it: by the linter and by a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from moldau.pipeline.lint import lint_file
from moldau.pipeline.reading import load, read_file
from moldau.pipeline.running import Runner
from moldau.pipeline.same_place import SamePlaceError, clashes, identity
from moldau.pipeline.spec import DeadLetters, Decode, Pipeline, Source, TableSink, ValueFormat

HEAD = "pipeline: p\ncluster: 'a:1,b:2'\nfolder: state\ndecode: {format: raw, on_error: dlq}\n"
SOURCE = "source: {topics: [t, u]}\n"
DEAD = "dlq: {table: dead}\n"


def said(tmp_path: Path, rest: str, head: str = HEAD) -> list[str]:
    """What the linter says of a file of these parts, without the folder that it lies in."""
    path = tmp_path / "p.yaml"
    path.write_text(head + rest)
    return [one.message.replace(f"{tmp_path}/", "") for one in lint_file(path, {})]


def spelled(tmp_path: Path) -> dict[str, str]:
    """The folder ``t`` beside the file in every spelling."""
    (tmp_path / "real").mkdir(exist_ok=True)
    for name, target in (("t", "real/t"), ("linked", "real")):
        if not (tmp_path / name).is_symlink():
            (tmp_path / name).symlink_to(target)
    return {
        "slash": "t/", "dots": "./x/.././t", "doubled": "real//t", "absolute": f"{tmp_path}/t", "link": "linked/t",
        "uri": f"file://{tmp_path}/real/t", "short uri": f"file:{tmp_path}/t/",
    }  # fmt: skip


@pytest.mark.parametrize("how", ["slash", "dots", "doubled", "absolute", "link", "uri", "short uri"])
def test_one_folder_in_two_spellings_is_refused_wherever_it_stands(tmp_path: Path, how: str) -> None:
    other = spelled(tmp_path)[how]
    (found,) = said(tmp_path, f"{SOURCE}sinks: [{{table: t}}, {{table: '{other}'}}]\n{DEAD}")
    assert "a sink: " in found
    assert "is written by two parts of the pipeline" in found
    (found,) = said(tmp_path, f"{SOURCE}sinks: [{{table: t}}]\ndlq: {{table: '{other}'}}\n")
    assert found.startswith("dlq: "), found
    (found,) = said(tmp_path, f"{SOURCE}sinks: [{{table: '{other}/'}}]\n{DEAD}", HEAD.replace("state", "t"))
    assert "is the pipeline's own folder" in found
    (found,) = said(tmp_path, f"{SOURCE}sinks: [{{table: '{other}/checkpoint'}}]\n{DEAD}", HEAD.replace("state", "t"))
    assert "lies in the pipeline's own folder t" in found
    (found,) = said(tmp_path, f"{SOURCE}sinks: [{{table: t}}]\n{DEAD}", HEAD.replace("state", f"'{other}/state'"))
    assert "the pipeline's own folder" in found
    assert "lies in the table t" in found
    feed = f"source: {{table: '{other}'}}\nsinks: [{{topic: x}}]\ncheck: [{{rule: id > 0, on_error: dlq}}]\n"
    found = said(tmp_path, f"{feed}dlq: {{table: t}}\n", "pipeline: p\nfolder: state\n")[0]
    assert "table t is what the pipeline reads" in found


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("s3://bucket/t", "s3a://bucket/t/", True),
        ("gs://bucket/t", "gcs://bucket/t", True),
        ("s3://bucket/a/../t", "s3://bucket/t", False),
        ("s3://bucket/a//t", "s3://bucket/a/t", False),
        ("s3://bucket/T", "s3://bucket/t", False),
        ("hdfs://n:1/t", "hdfs://m:1/t", False),
    ],
)
def test_uris_of_stores_are_the_same_where_that_is_sure(one: str, other: str, same: bool) -> None:
    assert (identity(one) == identity(other)) is same


def test_one_uri_behind_two_endpoints_is_two_places() -> None:
    near, far = {"AWS_ENDPOINT_URL": "http://near:9000"}, {"AWS_ENDPOINT_URL": "http://far:9000"}
    assert identity("s3://b/t", near) != identity("s3a://b/t", far)
    assert identity("s3://b/t", near) == identity("s3a://b/t/", {"AWS_ENDPOINT_URL": "http://near:9000/"})


@pytest.mark.parametrize(
    ("rest", "problem"),
    [
        ("sinks: [{table: 'a/{topic}'}, {table: a/u}]\n", "a/u is written by two parts"),
        ("sinks: [{table: 'a/{topic}'}]\n", None),
        ("sinks: [{table: 'a/{topic}'}, {table: a/other}]\n", None),
        ("sinks: [{table: 'sta{topic}'}, {table: other}]\n", None),
        ("sinks: [{table: '{topic}/state'}, {table: t}]\n", "t/state lies in the table t: a vacuum"),
        ("sinks: [{topic: x}, {topic: x, cluster: 'B:2'}]\n", "x@B:2 is written by two parts of the pipeline"),
        ("sinks: [{topic: x}, {topic: x, cluster: 'c:2'}]\n", None),
        ("sinks: [{topic: u, cluster: 'b:2'}]\n", "topic u@b:2 is what the pipeline reads"),
        ("sinks: [{topic: x, cluster: 'localhost:3'}, {topic: x, cluster: '127.0.0.1:3'}]\n", "the same topic as"),
        (
            "sinks: [{table: a/t, format: iceberg, options: {catalog: c}},"
            " {table: b/t, format: iceberg, options: {catalog: c}}]\n",
            "b/t is written by two parts of the pipeline: it is the same table as a/t",
        ),
        (
            "sinks: [{table: a/t, format: iceberg, options: {catalog: c}},"
            " {table: b/t, format: iceberg, options: {catalog: d}}]\n",
            None,
        ),
        (
            "sinks: [{table: 'a/{topic}', format: iceberg, options: {catalog: c, identifier: x.y}}]\n",
            "its options.identifier names one table, {topic} many",
        ),
    ],
)
def test_what_a_name_stands_for_is_compared_and_not_the_name(tmp_path: Path, rest: str, problem: str | None) -> None:
    found = said(tmp_path, f"{SOURCE}{rest}{DEAD}")
    assert (found == []) if problem is None else any(problem in one for one in found), found


@pytest.mark.parametrize(
    ("pattern", "rest", "problem"),
    [
        ("ord-.*", "sinks: [{topic: ord-clean}]\n", "a sink: topic ord-clean is what the pipeline reads"),
        ("ord", "sinks: [{topic: my-orders}]\n", "by its pattern 'ord' (which is searched for anywhere in a name)"),
        ("ord-.*", "sinks: [{table: x}]\ndlq: {topic: ord-dead}\n", "dlq: topic ord-dead is what the pipeline reads"),
        ("^ord-[a-z]$", "sinks: [{topic: ord-clean}]\ndlq: {topic: ord-dead}\n", None),
        ("ord-.*", "sinks: [{topic: ord-clean, cluster: 'c:2'}]\n", None),
    ],
)
def test_a_topic_that_the_pattern_of_the_source_matches_is_refused_as_one_that_is_read(
    tmp_path: Path, pattern: str, rest: str, problem: str | None
) -> None:
    """What was written was read again by the next batch, with each of which rows stood in tables once more."""
    found = said(tmp_path, f"source: {{pattern: '{pattern}'}}\n{rest}{'' if 'dlq' in rest else DEAD}")
    assert (found == []) if problem is None else any(problem in one for one in found), found


def test_a_table_for_each_topic_of_a_pattern_is_that_of_a_topic_which_matches(tmp_path: Path) -> None:
    source = "source: {pattern: 'ord.*'}\n"
    (found,) = said(tmp_path, f"{source}sinks: [{{table: 'a/{{topic}}'}}, {{table: ./a/orders}}]\n{DEAD}")
    assert "a/orders is written by two parts of the pipeline" in found
    assert said(tmp_path, f"{source}sinks: [{{table: 'a/{{topic}}'}}, {{table: a/other}}]\n{DEAD}") == []
    within = HEAD.replace("state", "a/orders/state")
    (found,) = said(tmp_path, f"{source}sinks: [{{table: 'a/{{topic}}'}}]\n{DEAD}", within)
    assert "the pipeline's own folder a/orders/state lies in the table a/{topic}" in found
    assert said(tmp_path, f"source: {{pattern: '(['}}\nsinks: [{{table: 'a/{{topic}}'}}]\n{DEAD}") != []


def made(tmp_path: Path) -> Pipeline:
    """A pipeline that no file declares."""
    return Pipeline(
        name="p", folder=str(tmp_path / "state"), cluster="127.0.0.1:1", source=Source(topics=("t",)),
        decode=Decode(format=ValueFormat.RAW), sinks=(TableSink(table=str(tmp_path / "t")),),
    )  # fmt: skip


def test_a_run_of_a_pipeline_made_in_python_is_refused_before_anything_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sound = made(tmp_path)
    assert clashes(sound) == []
    for wrong in (
        replace(sound, sinks=(*sound.sinks, TableSink(table="x/../t/"))),
        replace(sound, dead_letters=DeadLetters(table=f"file://{tmp_path}/t")),
        replace(sound, folder="t/state"),
        replace(sound, sinks=(TableSink(table="state/checkpoint"),)),
    ):
        runner = Runner(wrong, session=lambda pipeline: pytest.fail("Spark is not asked"))
        with pytest.raises(SamePlaceError, match="pipeline p: "):
            runner.run()
        assert list(tmp_path.iterdir()) == []


def test_a_place_that_begins_with_file_is_no_path_beside_the_file(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(f"{HEAD}{SOURCE}sinks: [{{table: 'file:/srv/t'}}]\n{DEAD}")
    assert load(path, {}).sinks[0].name == "file:/srv/t"
    assert read_file(path, {}).problems == []
