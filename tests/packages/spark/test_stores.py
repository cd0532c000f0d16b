"""Files that are written once: whoever was first is told so, also where the store's answer to that was lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyarrow import fs

from moldau.spark.tables.stores import Store, open_store


class SentAgain:
    """A client of S3 that sends each write a second time, as one does that got no answer to the first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, IfNoneMatch: str) -> object:
        file = self._folder / Bucket / Key
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(Body)
        refused = OSError("At least one of the pre-conditions you specified did not hold")
        refused.response = {"Error": {"Code": "PreconditionFailed"}}  # type: ignore[attr-defined]  # as botocore's
        raise refused


def test_a_write_to_s3_whose_answer_was_lost_is_the_writers_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store("s3://bucket/t", fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()), "bucket/t", {})
    monkeypatch.setattr(store, "_s3_client", lambda: SentAgain(tmp_path))
    assert store.put_if_absent("log/0.json", b"one")
    assert not store.put_if_absent("log/0.json", b"two")
    assert store.read("log/0.json") == b"one"


def test_a_link_that_was_made_though_nfs_says_that_there_is_one_is_the_writers_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, link = open_store(str(tmp_path)), os.link

    def sent_again(one: str, other: Path) -> None:
        link(one, other)
        raise FileExistsError(other)

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", sent_again)
        assert store.put_if_absent("log/0.json", b"one")
    assert not store.put_if_absent("log/0.json", b"one"), "another writer's, whatever it holds"
    assert store.read("log/0.json") == b"one"
