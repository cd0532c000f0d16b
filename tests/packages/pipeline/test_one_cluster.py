"""Topics at two addresses that are of one cluster are one topic, as its ids tell."""

from __future__ import annotations

import pytest

from moldau.pipeline import one_cluster
from moldau.pipeline.one_cluster import elsewhere, refuse_one_cluster
from moldau.pipeline.reading import read_text
from moldau.pipeline.same_place import SamePlaceError
from moldau.pipeline.spec import Pipeline

Ids = dict[str, tuple[str, bytes] | None]
ONE: Ids = {"b:1": ("one", b"1"), "b:2": ("one", b"1"), "b:3": ("one", b"1")}
COPY = "{topic: t, cluster: 'b:2'}"


def pipeline_of(sinks: str, source: str = "topics: t", more: str = "") -> Pipeline:
    found = read_text(f"pipeline: p\ncluster: b:1\nsource: {{{source}}}\nsinks: [{sinks}]\n{more}", {}).pipeline
    assert found is not None
    return found


def answer(patched: pytest.MonkeyPatch, ids: Ids) -> None:
    patched.setattr(one_cluster, "_id_of", lambda cluster, topic: ids[cluster])


@pytest.mark.parametrize("source", ["topics: t", "pattern: t", "pattern: '.*'"])
def test_a_copy_into_the_cluster_that_it_is_read_from_is_refused(monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    """By another broker's address it read what it had written, again and again, and the books balanced."""
    answer(monkeypatch, ONE)
    with pytest.raises(SamePlaceError, match=r"topic t@b:2 is what the pipeline reads, since b:2 and b:1 are of one"):
        refuse_one_cluster(pipeline_of(COPY, source), "b:1")


def test_two_addresses_of_one_topic_are_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, ONE)
    pipeline = pipeline_of("{topic: x, cluster: 'b:2'}, {topic: x, cluster: 'b:3'}")
    with pytest.raises(SamePlaceError, match="written by two parts of the pipeline: it is the same topic as x@b:2"):
        refuse_one_cluster(pipeline, "b:1")


@pytest.mark.parametrize("there", [("other", b"1"), ("one", b"2")])
def test_another_cluster_or_another_topic_is_another_place(
    monkeypatch: pytest.MonkeyPatch, there: tuple[str, bytes]
) -> None:
    """A cluster may have been made with the id of another one; ids of topics are made by chance."""
    answer(monkeypatch, {**ONE, "b:2": there})
    assert refuse_one_cluster(pipeline_of(COPY), "b:1")


def test_who_does_not_answer_is_asked_again_with_the_next_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, {**ONE, "b:2": None})
    assert not refuse_one_cluster(pipeline_of(COPY), "b:1")


@pytest.mark.parametrize("sinks", ["{topic: other}", "{topic: other, cluster: 'b:2'}", "{table: t}"])
def test_nobody_is_asked_where_no_name_is_read_and_written(sinks: str) -> None:
    assert elsewhere(pipeline_of(sinks), "b:1") == []
