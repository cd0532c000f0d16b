"""Offsets that are committed in a transaction: written at once, read when the marker commits them."""

from __future__ import annotations

import pytest

from moldau.groups.facts import (
    Append,
    AppendCommitted,
    AppendInTransaction,
    AppendRefused,
    CommitItem,
    DeleteGroup,
    FetchOffsets,
    Now,
    OffsetCommit,
    Reply,
    TransactionalWriter,
    TransactionEnded,
    TxnCommit,
)
from moldau.groups.records import OffsetRecord, StoredOffset
from moldau.groups.shard import Shard
from moldau.model import Code, TopicPartition
from moldau.simulator.machines.groups_world import GroupSimulation

T0 = TopicPartition("t", 0)
WRITER = TransactionalWriter(7, 3)


def txn_commit(
    offset: int, member_id: str = "", generation: int = -1, producer: TransactionalWriter = WRITER
) -> TxnCommit:
    return TxnCommit("g", member_id, None, generation, (CommitItem("t", 0, offset, -1, ""),), producer)


class Life:
    """A shard whose appends are committed when a test says so."""

    def __init__(self, shard: Shard | None = None) -> None:
        self.shard = shard or Shard(GroupSimulation().config)
        self.appends: list[Append | AppendInTransaction] = []
        self.heard: list[object] = []
        if shard is None:
            self.shard.loaded(Now(0, 0))

    def step(self, event: object, token: object = None) -> None:
        for effect in self.shard.step(event, Now(0, 0), token):  # type: ignore[arg-type]
            if isinstance(effect, (Append, AppendInTransaction)):
                self.appends.append(effect)
            elif isinstance(effect, Reply):
                self.heard.append(effect.value)

    def commit(self, offset: int, **fields: object) -> list[Code]:
        """The codes of a transactional commit whose records are on all in-sync replicas."""
        self.step(txn_commit(offset, **fields), "asker")  # type: ignore[arg-type]
        while self.appends:
            self.step(AppendCommitted((self.appends.pop(0).seq,)))
        return list(self.heard.pop().codes)  # type: ignore[attr-defined]

    def offset(self, *, stable: bool = False) -> int | Code | None:
        self.step(FetchOffsets("g", (T0,), stable), "asker")
        item = self.heard.pop().items[0]  # type: ignore[attr-defined]
        if item.code is not Code.NONE:
            return Code(item.code)
        return None if item.stored is None else int(item.stored.offset)


@pytest.mark.parametrize("commits", [True, False])
def test_an_offset_is_the_group_s_when_its_transaction_is_committed(commits: bool) -> None:
    life = Life()
    assert life.commit(5) == [Code.NONE]
    assert life.offset() is None
    assert life.offset(stable=True) is Code.UNSTABLE_OFFSET_COMMIT
    life.step(TransactionEnded(8, True))
    assert life.offset() is None, "another producer's transaction"
    life.step(TransactionEnded(7, commits))
    assert life.offset() == life.offset(stable=True) == (5 if commits else None)
    assert bool(life.shard.groups) is commits, "a group made only for what was aborted is gone"
    life.step(TransactionEnded(7, True))
    assert life.offset() == (5 if commits else None)


def test_the_records_are_written_under_the_producer_s_transaction() -> None:
    life = Life()
    life.step(txn_commit(5), "asker")
    (append,) = life.appends
    assert isinstance(append, AppendInTransaction)
    assert append.producer == WRITER
    assert [type(record) for record in append.records] == [OffsetRecord]


def test_of_two_commits_in_a_transaction_the_later_counts() -> None:
    life = Life()
    life.commit(5)
    life.commit(6)
    life.step(TransactionEnded(7, True))
    assert life.offset(stable=True) == 6


def test_a_later_commit_outside_the_transaction_stays() -> None:
    """As in Apache Kafka: an administrator has set the offset back meanwhile."""
    life = Life()
    life.commit(5)
    life.step(OffsetCommit("g", "", None, -1, (CommitItem("t", 0, 9, -1, ""),)), "asker")
    while life.appends:
        life.step(AppendCommitted((life.appends.pop(0).seq,)))
    life.heard.clear()
    assert life.offset() == 9
    life.step(TransactionEnded(7, True))
    assert life.offset(stable=True) == 9


def test_of_two_transactions_the_offset_that_was_written_later_counts() -> None:
    life = Life()
    life.commit(5)
    life.commit(6, producer=TransactionalWriter(8, 0))
    life.step(TransactionEnded(8, True))
    life.step(TransactionEnded(7, True))
    assert life.offset(stable=True) == 6


def test_a_refused_write_holds_nothing() -> None:
    life = Life()
    life.step(txn_commit(5), "asker")
    life.step(AppendRefused(life.appends.pop().seq, Code.NOT_LEADER_OR_FOLLOWER))
    assert life.heard.pop().codes == (Code.NOT_COORDINATOR,)  # type: ignore[attr-defined]
    life.step(TransactionEnded(7, True))
    assert life.offset() is None


def test_a_coordinator_that_takes_over_knows_of_open_transactions() -> None:
    shard = Shard(GroupSimulation().config)
    shard.apply(OffsetRecord("g", "t", 0, StoredOffset(4, -1, "", 0)))
    shard.apply_open(7, [OffsetRecord("g", "t", 0, StoredOffset(9, -1, "", 0))])
    shard.loaded(Now(0, 0))
    life = Life(shard)
    assert (life.offset(), life.offset(stable=True)) == (4, Code.UNSTABLE_OFFSET_COMMIT)
    life.step(TransactionEnded(7, True))
    assert life.offset(stable=True) == 9


def test_a_group_that_is_deleted_meanwhile_is_made_again_by_what_is_committed() -> None:
    life = Life()
    life.commit(5)
    life.step(DeleteGroup("g"), "asker")
    while life.appends:
        life.step(AppendCommitted((life.appends.pop(0).seq,)))
    assert not life.shard.groups
    life.step(TransactionEnded(7, True))
    assert life.offset(stable=True) == 5


def test_all_that_a_transaction_commits_counts_though_its_group_is_deleted_meanwhile() -> None:
    """The second offset was looked for among those on their way of the group that the first had made: KeyError."""
    life = Life()
    life.commit(5)
    life.commit(6)
    delete_group(life)
    life.step(TransactionEnded(7, True))
    assert life.offset(stable=True) == 6


@pytest.mark.parametrize("commits", [True, False])
def test_a_group_that_is_made_anew_knows_of_transactions_that_hold_offsets_of_it(commits: bool) -> None:
    """It did not, and the end of one was a KeyError that took the transaction's other groups along."""
    life = Life()
    life.commit(5)
    life.step(TxnCommit("other", "", None, -1, (CommitItem("t", 0, 8, -1, ""),), WRITER), "asker")
    life.step(AppendCommitted((life.appends.pop(0).seq,)))
    delete_group(life)
    life.step(OffsetCommit("g", "", None, -1, (CommitItem("u", 0, 9, -1, ""),)), "asker")
    life.step(AppendCommitted((life.appends.pop(0).seq,)))
    life.heard.clear()
    assert life.offset(stable=True) is Code.UNSTABLE_OFFSET_COMMIT
    life.step(TransactionEnded(7, commits))
    assert life.offset(stable=True) == (5 if commits else None)
    assert ("other" in life.shard.groups) is commits
    assert not any(group.in_flight for group in life.shard.groups.values())


def delete_group(life: Life) -> None:
    life.step(DeleteGroup("g"), "asker")
    while life.appends:
        life.step(AppendCommitted((life.appends.pop(0).seq,)))
    assert "g" not in life.shard.groups
    life.heard.clear()


def test_members_are_checked_and_clients_that_name_none_are_not() -> None:
    world = GroupSimulation()
    member = world.stable_group("a")["a"]
    life = Life(world.shard)
    assert life.commit(5, member_id=member.member_id, generation=member.generation + 1) == [Code.ILLEGAL_GENERATION]
    assert life.commit(5, member_id="another", generation=member.generation) == [Code.UNKNOWN_MEMBER_ID]
    assert life.commit(5, member_id=member.member_id, generation=member.generation) == [Code.NONE]
    assert life.commit(6) == [Code.NONE]
    life.step(TransactionEnded(7, True))
    assert life.offset() == 6
