"""The file that `pipeline init` writes, whatever records a topic has: it is read back as meant, without an error."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.admin.pipeline import pipeline as commands
from moldau.cluster.nodes import free_ports
from moldau.pipeline.decode.plan import plan_decode
from moldau.pipeline.lint import lint
from moldau.pipeline.reading import read_text
from moldau.pipeline.sampling import sample_of
from moldau.pipeline.spec import Pipeline, ValueFormat
from moldau.pipeline.template import template

CLUSTER = "localhost:9092,localhost:9093"


def written(values: list[bytes | None], name: str = "orders", topic: str = "orders") -> Pipeline:
    """The pipeline that the template of these records is; every problem of it, warnings too, fails the test."""
    text = template(name, topic, CLUSTER, sample_of(values))
    read = read_text(text, {})
    assert read.pipeline is not None, [one.message for one in read.problems]
    problems = [*read.problems, *lint(read.pipeline, read)]
    assert not problems, [one.to_text(text) for one in problems]
    assert (read.pipeline.name, read.pipeline.source.topics, read.pipeline.cluster) == (name, (topic,), CLUSTER)
    return read.pipeline


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["2026-11-23T00:00:00Z", "2026-13-99T00:00:00Z", "null", "${X}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abAB-") , inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
NAMES = st.sampled_from(["id", "ID", "yes", "null", "1", "a b", "a: b", "#", "${x}", "_topic", "", "é", "a`b", "\n"])


@settings(deadline=None, max_examples=150)
@given(st.lists(st.dictionaries(NAMES, VALUES, max_size=4), min_size=1, max_size=5))
def test_whatever_objects_a_topic_has_the_template_is_sound_and_takes_them(objects: list[dict[str, object]]) -> None:
    values = [json.dumps(one).encode() for one in objects]
    found = written([*values, None])
    decoded = plan_decode(found.decode, found.source.topics).open().decode(pa.array(values, pa.binary()))
    assert decoded.errors.null_count == len(values), decoded.errors


def test_types_hold_all_that_was_seen_and_what_no_type_holds_is_left_out_with_the_reason() -> None:
    objects = [
        {"id": 1, "amount": 1, "at": "2026-11-23T00:00:00Z", "tags": [], "to": {"city": "x"}, "any": 1, "big": 1 << 64},
        {"id": 2, "amount": 2.5, "at": "2026-11-23 01:00", "tags": ["a"], "to": {"zip": 7}, "any": "x", "big": 1},
    ]
    sample = sample_of([json.dumps(one).encode() for one in objects])
    assert sample.fields == {
        "id": "long", "amount": "double", "at": "timestamp", "tags": "array<string>",
        "to": "struct<city: string, zip: long>", "big": "decimal(38,0)",
    }  # fmt: skip
    assert list(sample.left_out) == ["any"]


@pytest.mark.parametrize(
    ("values", "format"),
    [
        ([], ValueFormat.RAW),
        ([None], ValueFormat.RAW),
        ([b"one", b"two\n"], ValueFormat.TEXT),
        ([b"[1, 2]"], ValueFormat.TEXT),
        ([b"\xff"], ValueFormat.RAW),
        ([b"\0\0\0\0\1x"], ValueFormat.RAW),
        ([b"{}"], ValueFormat.TEXT),
    ],
)
def test_a_topic_without_objects_is_kept_as_text_or_bytes(values: list[bytes | None], format: ValueFormat) -> None:
    assert written(values).decode.format is format


@pytest.mark.parametrize("name", ["true", "1.10", "no", "a.b-c_d"])
def test_names_that_yaml_would_read_as_something_else_stay_texts(name: str) -> None:
    written([b'{"id": 1}'], name=name, topic=name)
    text = template(name, name, CLUSTER, sample_of([b'{"id": 1}']))
    offered = text.replace("#  - topic:", "  - topic:")
    assert offered != text
    read = read_text(offered, {})
    assert read.pipeline is not None, [one.message for one in read.problems]
    assert [sink.name for sink in read.pipeline.sinks][1:] == [f"{name}-clean"]


def test_a_file_that_is_there_is_not_overwritten_nor_is_a_cluster_asked_for_it(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text("mine")
    found = CliRunner().invoke(commands, ["init", "orders", "-b", "localhost:1", "--out", str(file)])
    assert (found.exit_code, file.read_text()) == (1, "mine")
    assert "is there already" in found.output


def test_a_cluster_that_nobody_is_at_is_told_as_by_other_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was tried for a minute in silence."""
    monkeypatch.setattr("moldau.admin.asking.NOBODY_S", 0.1)
    file, (port,) = tmp_path / "orders.yaml", free_ports(1)
    found = CliRunner().invoke(commands, ["init", "orders", "-b", f"localhost:{port}", "--out", str(file)])
    assert (found.exit_code, file.exists()) == (1, False)
    assert f"localhost:{port}: nobody listens there; `moldau up` starts a cluster" in found.output
