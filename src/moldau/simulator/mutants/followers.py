"""Mistakes about what a follower gives to readers (KIP-392). Shown by whole clusters in racks (``plan_racks.py``)."""

from __future__ import annotations

from collections.abc import Callable

from moldau.broker.replicas.fetch import read
from moldau.broker.replicas.fetch.partition import Data, FetchPartition
from moldau.broker.replicas.replica import Replica
from moldau.replication.roles import Role
from moldau.simulator.mutants.mutant import Mutant, Patches
from moldau.simulator.scenes import FOLLOWERS, ZOOKEEPER


def _followers_give(patches: Patches, up_to: Callable[[Replica, bool, int], int]) -> None:
    """A follower gives consumers what is below ``up_to(replica, committed only, what is right)``."""
    real = read._add_records

    def add_records(data: Data, asked: FetchPartition, end: int | None, limit: int, *, first: bool) -> None:
        if end is not None and asked.replica is not None and asked.replica.machine.role is Role.FOLLOWER:
            end = up_to(asked.replica, asked.reader.params.committed, end)
        real(data, asked, end, limit, first=first)

    patches.set(read, "_add_records", add_records)


def gives_all_that_a_followers_log_has(patches: Patches) -> None:
    _followers_give(patches, lambda replica, committed, end: end if committed else replica.log.log_end_offset)


def takes_the_end_of_a_followers_log_for_its_watermark(patches: Patches) -> None:
    gives_all_that_a_followers_log_has(patches)
    real = read._told

    def told(asked: FetchPartition, replica: Replica, committed: bool) -> Data:
        data = real(asked, replica, committed)
        if replica.machine.role is Role.FOLLOWER and not committed:
            data.high_watermark = replica.log.log_end_offset
        return data

    patches.set(read, "_told", told)


def gives_what_a_follower_holds_for_undecided(patches: Patches) -> None:
    _followers_give(patches, lambda replica, committed, end: replica.machine.high_watermark if committed else end)


def tells_no_reader_of_a_follower_what_was_aborted(patches: Patches) -> None:
    real = read._add_records

    def add_records(data: Data, asked: FetchPartition, end: int | None, limit: int, *, first: bool) -> None:
        real(data, asked, end, limit, first=first)
        if data.aborted_transactions and asked.replica is not None and asked.replica.machine.role is Role.FOLLOWER:
            data.aborted_transactions = []

    patches.set(read, "_add_records", add_records)


MUTANTS = tuple(
    Mutant(bug, what, f"{ZOOKEEPER} {FOLLOWERS}", laws, patch, first)
    for bug, what, laws, patch, first in (
        ("KIP-392", "a follower gives readers what is not below its watermark", ("S6",),
         gives_all_that_a_followers_log_has, 0),
        ("KIP-392", "a follower tells readers of the end of its log as of its watermark", ("S6",),
         takes_the_end_of_a_followers_log_for_its_watermark, 0),
        ("KIP-392", "a follower gives readers of committed records what is not decided", ("S17",),
         gives_what_a_follower_holds_for_undecided, 0),
        ("KIP-392", "a follower tells no reader what was aborted", ("S17",),
         tells_no_reader_of_a_follower_what_was_aborted, 0),
    )
)  # fmt: skip
