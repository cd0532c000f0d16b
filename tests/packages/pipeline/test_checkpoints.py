"""A checkpoint that Spark could not read is told by the name of the file, before Spark is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.pipeline.checkpoints import damage
from moldau.pipeline.folder import BrokenPipelineFile
from moldau.pipeline.reading import load
from moldau.pipeline.running import Runner
from moldau.spark.tables.stores import Store, open_store

WHOLE = {
    "metadata": b'{"id": "6c8b"}',
    "offsets/8": b'v1\n{"batchWatermarkMs": 0}\n{"t": {"0": 5}}',
    "offsets/9": b'v1\n{"batchWatermarkMs": 0}\n-\n',
    "offsets/10": b'v1\n{"batchWatermarkMs": 0}\n{"t": {"0": 7}}',
    "commits/9": b'v1\n{"nextBatchWatermarkMs": 0}',
}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    found = open_store(str(tmp_path / "state"))
    for name, content in WHOLE.items():
        found.write(f"checkpoint/{name}", content)
    return found


def test_a_checkpoint_that_is_whole_or_not_there_is_sound(store: Store, tmp_path: Path) -> None:
    assert damage(store) is None
    assert damage(open_store(str(tmp_path / "elsewhere"))) is None


def test_a_source_whose_offset_has_unicodes_own_ends_of_lines_is_sound(store: Store) -> None:
    store.write("checkpoint/offsets/10", 'v1\n{"batchWatermarkMs": 0}\n{"a\u2028b\x85c": 7}'.encode())
    assert damage(store) is None


def test_metadata_that_is_gone_while_there_are_batches_is_named(store: Store) -> None:
    store.delete("checkpoint/metadata")
    assert "checkpoint/metadata is damaged (it is gone, and there are batches): restore it, or" in str(damage(store))


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("metadata", b"{", "it does not name a query"),
        ("metadata", b'{"id": 7}', "it does not name a query"),
        ("metadata", b"[]", "it does not name a query"),
        ("offsets/10", b"", "it is empty"),
        ("offsets/10", b"\xff\xfe\x00v1", "it is no text"),
        ("offsets/10", b"{}", "it does not begin with a version"),
        ("offsets/9", b"v1\n{}", "it has 2 of 3 lines"),
        ("offsets/9", b'v1\n{}\n{"t": ', "it holds something else than JSON objects"),
        ("offsets/9", b"v1\n{}\n7", "it holds something else than JSON objects"),
        ("commits/9", b"v1", "it has 1 of 2 lines"),
        ("commits/9", b"\n", "it is empty"),
    ],
)
def test_a_file_that_is_damaged_is_named_with_what_to_do(store: Store, name: str, content: bytes, why: str) -> None:
    store.write(f"checkpoint/{name}", content)
    told = damage(store)
    assert told is not None
    assert told.startswith(f"{store.uri}/checkpoint/{name} is damaged ({why}): restore it, or `moldau pipeline reset")


def test_a_file_that_spark_reads_no_more_is_not_looked_at(store: Store) -> None:
    store.write("checkpoint/offsets/8", b"")
    assert damage(store) is None


def test_a_run_is_refused_before_spark_is_started(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("pipeline: a\ncluster: c:1\nfolder: state\nsource: {topics: t}\nsinks: [{table: t}]\n")
    store.write("checkpoint/metadata", b"{")
    with pytest.raises(BrokenPipelineFile, match=r"checkpoint/metadata is damaged"):
        Runner(load(file), once=True).run()
