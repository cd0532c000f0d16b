"""How far a migration is, by the controllers' own logs: what a majority holds counts, whole or torn off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from moldau.broker.kraft.batches import proposal
from moldau.cluster.migration.metadata_logs import LoggedMigration, of_quorum
from moldau.cluster.migration.steps import _set_aside
from moldau.controller.migration import MigrationState
from moldau.wire.records.metadata import NoOpRecord, TopicRecord, ZkMigrationStateRecord

COPIED = [ZkMigrationStateRecord(zk_migration_state=2)]
FINISHED = [ZkMigrationStateRecord(zk_migration_state=3)]
TOPIC = [TopicRecord(name="t", topic_id=bytes(15) + b"\1")]
NOTHING = [NoOpRecord()]


def controller(folder: Path, *batches: list[Any], torn: int = 0) -> Path:
    where = folder / "data" / "__cluster_metadata-0"
    where.mkdir(parents=True)
    data = b"".join(proposal(batch, offset, 1, 0) for offset, batch in enumerate(batches))
    (where / f"{0:020}.log").write_bytes(data[: len(data) - torn])
    return folder


def test_the_last_decision_is_the_last_batch_that_znodes_would_hold(tmp_path: Path) -> None:
    whole = controller(tmp_path / "a", COPIED, TOPIC, NOTHING, NOTHING)
    assert of_quorum([whole]) == LoggedMigration(MigrationState.MIGRATION, 1)


def test_what_one_log_alone_holds_is_not_agreed(tmp_path: Path) -> None:
    one = controller(tmp_path / "a", COPIED, TOPIC, TOPIC, FINISHED)
    others = [controller(tmp_path / name, COPIED, TOPIC) for name in "bc"]
    assert of_quorum([one, *others]) == LoggedMigration(MigrationState.MIGRATION, 1)
    two = [controller(tmp_path / name, COPIED, TOPIC, TOPIC, FINISHED) for name in "de"]
    assert of_quorum([*two, others[0]]) == LoggedMigration(MigrationState.POST_MIGRATION, 2)


def test_a_log_whose_end_is_being_written_says_what_is_whole(tmp_path: Path) -> None:
    torn = controller(tmp_path / "a", COPIED, TOPIC, FINISHED, torn=7)
    assert of_quorum([torn]) == LoggedMigration(MigrationState.MIGRATION, 1)
    assert of_quorum([tmp_path / "none"]) == LoggedMigration()
    assert of_quorum([]) == LoggedMigration()


def test_a_folder_that_is_set_aside_keeps_what_it_holds(tmp_path: Path) -> None:
    for n in (1, 2):
        folder = controller(tmp_path / "node-101", COPIED)
        _set_aside(folder)
        assert not folder.exists()
        assert of_quorum([tmp_path / f"node-101-old-{n}"]).state is MigrationState.MIGRATION
