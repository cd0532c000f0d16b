"""What a Delta table keeps of its past: how long its log, which files, and whose lines in it grow old.

Source: the Delta protocol, "Table Properties" and "Vacuum". Read next: own_files.py, delta.py (which maintains).
"""

from __future__ import annotations

import itertools
import json
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pyarrow as pa
from deltalake import DeltaTable, PostCommitHookProperties
from deltalake.exceptions import CommitFailedError, DeltaError

from moldau.spark.tables.files import now_ms
from moldau.spark.tables.ledger import LINE, LedgerEntry, LedgerError, Raced, TableError
from moldau.spark.tables.own_files import own, within
from moldau.spark.tables.stores import Store

KEEP_LOG = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)
"""What each commit is given: ``maintain`` alone expires the log, once what stays has each pipeline's last line."""
RETENTION = "moldau.retention"
"""The property that says how long a table was told to keep its log, beside Delta's own that follow it."""
_RETENTIONS = ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration")


class TableCommit(NamedTuple):
    """A version of a table, and what its commit says of itself: JSON, of whatever program."""

    version: int
    said: Mapping[str, object]


def keep_no_longer(table: DeltaTable, hours: int) -> Mapping[str, str]:
    """The properties that have the table keep its log, and what it knows of removed files, so long, as far as it has
    others now; a user's own setting stays."""
    there, interval = table.metadata().configuration, f"interval {hours} hours"
    ours = there.get(RETENTION)
    wanted = {name: interval for name in _RETENTIONS if there.get(name, ours) == ours != interval}
    return {**wanted, RETENTION: interval} if wanted else {}


def idle(store: Store, table: DeltaTable, hours: int) -> Sequence[str]:
    """The pipelines whose newest line in the log is older than half of the hours for which that is kept, by the
    writer's clock or by the folder's, by which the log expires; all where the table has a user's own time for it.

    Any program that checkpoints the table may expire its log, so not only what is about to go counts.
    """
    there = table.metadata().configuration
    is_ours = there.get(_RETENTIONS[0], there.get(RETENTION)) == there.get(RETENTION)
    before_ms = now_ms() - (hours * 3_600_000 // 2 if is_ours else 0)
    table.update_incremental()
    newest: dict[str, tuple[int, int]] = {}
    for commit in commits(store, table):
        if isinstance(line := commit.said.get(LINE), str):
            at_ms = int(str(commit.said.get("timestamp", 0)))
            newest.setdefault(LedgerEntry.from_json(line).pipeline, (commit.version, at_ms))
    return [
        name
        for name, (version, at_ms) in newest.items()
        if min(at_ms, store.written_ms(commit_file(version), at_ms)) < before_ms
    ]


def commits(store: Store, table: DeltaTable, limit: int | None = None) -> Sequence[TableCommit]:
    """The newest commits up to the version that is open, newest first: of the newest ``limit`` versions, or all that
    the log has. A commit may say nothing, and is left out.

    delta-rs (1.6) only counts versions down from the open one: they are others' where a commit says nothing, or where
    another writer came since the table was opened. Its answer is right where the ends of it are.
    """
    found = [TableCommit(int(one["version"]), _plain(one)) for one in table.history(limit)]
    if found and all(_said(store, one.version) == one.said for one in (found[0], found[-1])):
        return found
    return list(itertools.islice(_commits_by_file(store, table.version()), limit))


def _commits_by_file(store: Store, version: int) -> Iterator[TableCommit]:
    while version >= 0 and store.size(commit_file(version)) is not None:
        if said := _said(store, version):
            yield TableCommit(version, said)
        version -= 1


def _said(store: Store, version: int) -> Mapping[str, object]:
    """What the commit of a version says of itself, nothing where it is gone."""
    for line in (store.read(commit_file(version)) or b"").splitlines():
        if b'"commitInfo"' in line and isinstance(said := json.loads(line).get("commitInfo"), dict):
            return _plain(said)
    return {}


def _plain(said: Mapping[str, object]) -> Mapping[str, object]:
    """Without what is not said, and without the version, which is not the commit's to say."""
    return {name: value for name, value in said.items() if name != "version" and value is not None}


def commit_file(version: int) -> str:
    """The name of a version's file in the table's log."""
    return f"_delta_log/{version:020d}.json"


def paths_of(table: DeltaTable) -> list[str]:
    """The files of the version that is open, as its log names them."""
    return [str(path) for path in pa.table(table.get_add_actions())["path"].to_pylist()]


def deleted(table: DeltaTable) -> Mapping[str, int]:
    """How many rows of which file, by its URI, are deleted by a deletion vector: the file still holds them."""
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return {}
    found = pa.table(table.deletion_vectors()).to_pylist()
    return {one["filepath"]: one["selection_vector"].count(False) for one in found}


def refuse_clone(store: Store, table: DeltaTable) -> None:
    """TableError where the table has files of another one, as a shallow clone has: delta-rs looks for them in this
    folder, and calls them missing."""
    if any(name.startswith("/") or "://" in name for name in paths_of(table)):
        raise TableError(
            f"{store}: it is a shallow clone, with files of another table, which delta-rs can neither merge nor read: "
            "have Spark copy it (a deep clone), or say `maintain: off`"
        )


def refuse_escapes(store: Store) -> None:
    """TableError where a table is to be made in a place whose name has an escaped character, as ``%20``: delta-rs (1.6)
    looks for its checkpoints under the name that this stands for, and reads the table no more once it has one."""
    if urllib.parse.unquote(store.uri) != store.uri:
        raise TableError(
            f"{store}: no Delta table can be in a place whose name has %XX in it, which delta-rs takes for "
            "the character that it stands for: name the folder otherwise"
        )


def used(table: DeltaTable) -> set[str]:
    """The files of the newest version, as the folder has them."""
    table.update_incremental()
    return set(map(urllib.parse.unquote, paths_of(table)))


def restore(store: Store, table: DeltaTable, version: int) -> None:
    """Take the table back to a version; Raced where another writer came since it was opened, LedgerError where files of
    that version were removed meanwhile."""
    try:
        table.restore(version, post_commithook_properties=KEEP_LOG)
    except CommitFailedError as error:
        raise Raced(str(error)) from error
    except DeltaError as error:
        raise LedgerError(
            f"{store}: version {version} cannot be gone back to: {error} The table is as it was."
        ) from error
    table.update_incremental()


def old_files(store: Store, table: DeltaTable, retention_hours: int) -> Sequence[str]:
    """The files that no version since the retention began has, and that are the table's: as its log says, or by their
    names. delta-rs itself would remove whatever lies there, and what links lead to."""
    kept = _kept_version(store, retention_hours)

    def unknown(*, full: bool) -> list[str]:
        return table.vacuum(
            retention_hours, dry_run=True, enforce_retention_duration=False, full=full, keep_versions=kept
        )

    logged = set(within(store, unknown(full=False)))
    by_name = own(store, unknown(full=True), table.metadata().partition_columns)
    return sorted(logged.union(by_name))


def _kept_version(store: Store, retention_hours: int) -> list[int] | None:
    """The version with which the retention begins. Its files are named to delta-rs, since a checkpoint forgets what
    was replaced after a week, or as the table says (``delta.deletedFileRetentionDuration``); those that came since are
    young."""
    if not retention_hours:
        return None
    try:
        then = DeltaTable(store.uri, storage_options=store.options or None)
        then.load_as_version(datetime.now(UTC) - timedelta(hours=retention_hours))
    except DeltaError:  # the log has no version that old
        return None
    return [then.version()]
