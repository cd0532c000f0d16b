"""How far a migration is by the controllers' own metadata logs on this machine: the quorum's word, not a znode's.

Reads files only, also those of controllers that do not run. A majority decides: what stands in one log alone may not be
committed. Source: KIP-866 (ZkMigrationStateRecord).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from moldau.broker.kraft.batches import decided
from moldau.controller.migration import MigrationState
from moldau.model.named import NamedTuple
from moldau.storage.names import METADATA_TOPIC
from moldau.wire.records import metadata as records
from moldau.zookeeper.writing import NOT_HERE


class LoggedMigration(NamedTuple):
    """What logs say: how far the migration is, and the offset of the last batch that decides what stands in znodes (-1
    for none)."""

    state: MigrationState = MigrationState.NONE
    decision: int = -1


def of_quorum(folders: Sequence[Path]) -> LoggedMigration:
    """What a majority of these controllers' folders agrees on."""
    found = [of_controller(folder) for folder in folders]
    agreed = len(found) // 2
    if not found:
        return LoggedMigration()
    return LoggedMigration(
        sorted((each.state for each in found), reverse=True)[agreed],
        sorted((each.decision for each in found), reverse=True)[agreed],
    )


def of_controller(folder: Path) -> LoggedMigration:
    """What one controller's snapshot and log say."""
    where = folder / "data" / f"{METADATA_TOPIC}-0"
    snapshots = sorted(where.glob("*.checkpoint"))[-1:]
    known = LoggedMigration()
    for file in (*snapshots, *sorted(where.glob("*.log"))):
        try:
            known = _read(file.read_bytes(), known, in_log=file.suffix == ".log")
        except OSError:
            continue  # it was removed meanwhile, or it cannot be read
    return known


def _read(data: bytes, known: LoggedMigration, *, in_log: bool) -> LoggedMigration:
    try:
        for batch in decided(data):
            for record in batch.records:
                if isinstance(record, records.ZkMigrationStateRecord):
                    known = known._replace(state=MigrationState(record.zk_migration_state))
            if in_log and not all(isinstance(r, (*NOT_HERE, records.FeatureLevelRecord)) for r in batch.records):
                known = known._replace(decision=batch.offset)
    except ValueError:
        pass  # the rest is not written yet
    return known
