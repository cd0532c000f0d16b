"""Mistakes in changing the voters of the metadata quorum (KIP-853), hunted where voters are added and removed.

The bug of Raft's single-server changes as first published, and others of the kind; the code is ours.
"""

from __future__ import annotations

from typing import Any

from moldau.model.value import replace
from moldau.quorum import Leader, VoterSet, changes, follower, leader
from moldau.quorum import effects as do
from moldau.quorum.state import StepContext
from moldau.quorum.tally import reached_by_majority
from moldau.simulator.mutants.mutant import Mutant, Patches


def _let_pass(patches: Patches, *words: str) -> None:
    """Begin what is refused with one of these words."""
    real = changes._refusal

    def refusal(context: StepContext, ask: Any) -> Any:  # Any: a mutant takes whatever it stands for
        refused = real(context, ask)
        if refused is None or not any(word in refused[1] for word in words):
            return refused
        return changes._refusal_of_voter(context.quorum.voters, ask)

    patches.set(changes, "_refusal", refusal)


def changes_before_its_own_epoch_is_committed(patches: Patches) -> None:
    _let_pass(patches, "of its epoch")


def changes_two_voters_at_once(patches: Patches) -> None:
    _let_pass(patches, "not committed yet", "under way")


def ignores_an_uncommitted_set(patches: Patches) -> None:
    real = StepContext.appended_voters

    def appended(self: StepContext, offset: int, voters: VoterSet) -> None:
        present = self.quorum.voters
        real(self, offset, voters)
        if present.voters:
            self.update(voters=present)

    patches.set(StepContext, "appended_voters", appended)


def takes_no_set_back(patches: Patches) -> None:
    patches.set(StepContext, "truncated_voters", lambda self, end: None)


def counts_itself_though_removed(patches: Patches) -> None:
    def advance(context: StepContext) -> None:
        role = context.role
        assert isinstance(role, Leader)
        reached = reached_by_majority([context.quorum.log.flushed, *(seen.end_offset for seen in role.voters.values())])
        if reached > max(role.start_offset, role.high_watermark or 0):
            context.update(high_watermark=reached)
            context.update_role(high_watermark=reached)
            context.emit(do.Commit(reached))
            if role.high_watermark is None:
                context.emit(do.BecameActive(role.epoch))

    patches.set(leader, "_advance", advance)


def leads_on_though_removed(patches: Patches) -> None:
    patches.set(changes, "become_resigned", lambda context: None)


def counts_a_removed_voter_on(patches: Patches) -> None:
    real = changes._count_by

    def count(context: StepContext, voters: VoterSet) -> None:
        role = context.role
        assert isinstance(role, Leader)
        before = role.voters
        real(context, voters)
        after = context.role
        assert isinstance(after, Leader)
        context.update(role=replace(after, voters={**before, **after.voters}))

    patches.set(changes, "_count_by", count)


def learns_no_voters_from_snapshots(patches: Patches) -> None:
    real = follower.handle_fetch_snapshot_response

    def answered(context: StepContext, peer: int, ask: Any, answer: Any) -> None:
        real(context, peer, ask, answer._replace(voters=None))

    patches.set(follower, "handle_fetch_snapshot_response", answered)


MUTANTS = tuple(
    Mutant(bug, what, "voters", tuple(laws.split()), patch, first)
    for bug, what, laws, patch, first in (
        ("Raft, single-server changes", "a change begins before a record of the leader's own epoch is committed",
         "R9", changes_before_its_own_epoch_is_committed, 0),
        ("Raft 4.1", "two changes are under way at once", "R9", changes_two_voters_at_once, 18),
        ("Raft 4.1", "a set counts only when it is committed", "R8 R9", ignores_an_uncommitted_set, 0),
        ("Raft 4.1", "a set that was cut off counts on", "R9", takes_no_set_back, 0),
        ("Raft 4.2.2", "a leader that removed itself counts itself", "R5 R9", counts_itself_though_removed, 0),
        ("Raft 4.2.2", "a leader that was removed leads on", "R9", leads_on_though_removed, 0),
        ("KIP-853", "a voter that was removed is counted on", "R8 R9", counts_a_removed_voter_on, 0),
        ("KIP-853", "a snapshot does not say who votes", "R9 L8 R8 X7", learns_no_voters_from_snapshots, 0),
    )
)  # fmt: skip
