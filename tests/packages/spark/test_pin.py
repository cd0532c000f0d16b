"""A first position is written once, by one of all who try, on file systems and on stores without hard links."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from moldau.model import TopicPartition
from moldau.spark.offsets import Positions
from moldau.spark.pin import FilePlace, PinError, StorePlace, WriteOnce, is_store, pinned

SOURCE = TopicPartition("orders", 0)


def file_place(folder: Path) -> WriteOnce:
    return FilePlace(folder / "checkpoint" / "initial-offsets.json")


def store_place(folder: Path) -> WriteOnce:
    """A store as delta-rs has it; this one is on the disk."""
    return StorePlace(f"file://{folder}/checkpoint/initial-offsets")


@pytest.mark.parametrize("make", [file_place, store_place])
def test_of_all_who_write_at_once_one_is_first_and_all_read_what_it_wrote(make, tmp_path):
    assert make(tmp_path).read() is None
    ready = threading.Barrier(8)
    found: list[str | None] = []

    def write(number: int) -> None:
        place = make(tmp_path)
        ready.wait()
        place.write_once(f"{number}" * 100)
        found.append(place.read())

    writers = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    make(tmp_path).write_once("late")
    assert make(tmp_path).read() == found[0]


def test_a_file_system_without_hard_links_has_a_first_writer_too(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise PermissionError(1, "no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    place = file_place(tmp_path)
    place.write_once("first")
    place.write_once("second")
    assert place.read() == "first"
    assert [each.name for each in (tmp_path / "checkpoint").iterdir()] == ["initial-offsets.json"]


def test_a_store_that_cannot_be_reached_is_named():
    nowhere = {"aws_endpoint_url": "http://127.0.0.1:1", "aws_allow_http": "true", "aws_region": "x",
               "aws_access_key_id": "x", "aws_secret_access_key": "x", "max_retries": "0"}  # fmt: skip
    with pytest.raises(PinError, match="initialOffsetsLocation s3://bucket/x cannot be read"):
        pinned("s3://bucket/x", "subscribe orders", lambda: Positions({SOURCE: 3}, {}), nowhere)


def test_stores_are_told_from_paths_by_their_scheme():
    assert is_store("s3a://b/x")
    assert is_store("hdfs://h:9000/x")
    assert not is_store("/x")
    assert not is_store("x/y:z")
