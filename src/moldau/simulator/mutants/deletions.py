"""Mistakes about records that are deleted (KIP-107): who has deleted them, and who is told so. Shown by whole clusters
with a client that deletes records (``simulator/deleter.py``).
"""

from __future__ import annotations

from collections.abc import Generator

from moldau.broker.replicas.follow.fetcher_manager import FetcherManager
from moldau.replication.partition import Partition
from moldau.simulator.mutants.mutant import Mutant, Patches
from moldau.simulator.scenes import DELETIONS, ZOOKEEPER
from moldau.storage.config import LogConfig
from moldau.storage.loaded import CheckpointedLog
from moldau.storage.loading import DirLoad, FoundFolder


def tells_no_leader_what_retention_moved(patches: Patches) -> None:
    def nothing(manager: FetcherManager) -> Generator[None, None, None]:
        yield from ()

    patches.set(FetcherManager, "starts_moved_in_slices", nothing)


def answers_deletions_without_its_followers(patches: Patches) -> None:
    patches.set(Partition, "low_watermark", property(lambda partition: partition._log.log_start_offset))


def takes_no_log_start_from_its_file(patches: Patches) -> None:
    known = DirLoad._known

    def without(load: DirLoad, found: FoundFolder, config: LogConfig) -> CheckpointedLog:
        return known(load, found, config)._replace(log_start_offset=None)

    patches.set(DirLoad, "_known", without)


MUTANTS = tuple(
    Mutant(bug, what, f"{ZOOKEEPER} {DELETIONS}", laws, patch, first)
    for bug, what, laws, patch, first in (
        ("own (commit 969757b)", "a follower does not tell where its own retention moved its log's start",
         ("L13",), tells_no_leader_what_retention_moved, 0),
        ("KIP-107", "records are said to be deleted when the leader has deleted them",
         ("S21",), answers_deletions_without_its_followers, 0),
        ("own (S21)", "a log begins where its first segment does, though more was deleted",
         ("S21",), takes_no_log_start_from_its_file, 0),
    )
)  # fmt: skip
