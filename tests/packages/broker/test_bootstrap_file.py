"""What a new cluster begins with, where its folders were formatted by Apache Kafka's tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.broker.config.bootstrap_file import first_records
from moldau.broker.config.storage_format import BOOTSTRAP, METADATA_VERSION, _checkpoint
from moldau.controller.active import ActiveController
from moldau.controller.facts import Facts, Settings
from moldau.image import Image
from moldau.runtime.disk import RealDisk
from moldau.wire.records.metadata import ConfigRecord, FeatureLevelRecord, UserScramCredentialRecord
from moldau.wire.schema import Message


def level(name: str, number: int) -> FeatureLevelRecord:
    return FeatureLevelRecord(name=name, feature_level=number)


def written(folder: Path, *records: Message) -> list[Message] | None:
    (folder / BOOTSTRAP).write_bytes(_checkpoint(list(records), []))
    return first_records(str(folder), RealDisk())


USER = UserScramCredentialRecord(
    name="alice", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"k", iterations=4096
)
OF_KAFKA = [
    level("metadata.version", 30),
    level("eligible.leader.replicas.version", 1),
    level("transaction.version", 2),
]


def test_levels_and_users_of_the_format_tool_are_what_the_cluster_begins_with(tmp_path: Path) -> None:
    found = written(tmp_path, *OF_KAFKA, USER)
    assert found == [*OF_KAFKA, USER]
    controller = ActiveController(Settings(cluster_id="c", node_id=1))
    outcome = controller.claim(1, Image(), Facts(now_ms=0, next_offset=0, seed=bytes(16), observed={}), found)
    assert list(outcome.records[:-1]) == found
    agreed = outcome.records[-1]
    assert isinstance(agreed, ConfigRecord)
    assert (agreed.name, agreed.value) == ("min.insync.replicas", "1"), "all must agree on it where an ELR is kept"


def test_what_moldau_s_own_tool_wrote_adds_nothing(tmp_path: Path) -> None:
    assert first_records(str(tmp_path), RealDisk()) is None
    assert written(tmp_path, level("metadata.version", METADATA_VERSION)) is None


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert written(tmp_path, level("metadata.version", 20), USER) is None
    assert "asks for metadata.version 20" in caplog.text
    data = bytearray((tmp_path / BOOTSTRAP).read_bytes())
    data[-40] ^= 1
    (tmp_path / BOOTSTRAP).write_bytes(data)
    assert first_records(str(tmp_path), RealDisk()) is None
    assert "cannot be read" in caplog.text
