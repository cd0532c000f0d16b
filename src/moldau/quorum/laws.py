"""Laws of the metadata quorum: invariants, checked after every event of a simulation.

Ids R1..R10 and C1 are those of docs/laws.md. ``QuorumHistory`` is what the checker remembers of the whole cluster; it
is not part of any replica. Each law looks at the one replica that has just moved. Voters are those that this replica
counts by, or (R5) those by which the last commit was counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from moldau.model.named import NamedTuple
from moldau.quorum import effects as do
from moldau.quorum.election_state import ElectionState
from moldau.quorum.messages import RaftVoteResponse
from moldau.quorum.roles import Candidate, Leader, Prospective, Resigned
from moldau.quorum.state import Quorum
from moldau.quorum.tally import reached_by_majority
from moldau.quorum.voters import ReplicaKey, VoterSet

Entry = tuple[int, Any]  # Any: what a world takes for the content of a record; compared only
"""A record as the checker sees it: its epoch and content."""


class Sight(NamedTuple):
    """One replica just after an event: its machine (None: down), its disk, and the effects of the event."""

    id: int
    quorum: Quorum | None
    persisted: ElectionState
    flushed: int
    entry: Callable[[int], Entry]
    snapshots: Mapping[int, list[Entry]]
    effects: list[do.Effect]
    now_ms: int
    awake_ms: int


@dataclass
class QuorumHistory:
    """What has been seen so far. ``committed`` is the truth: entry by offset, as first exposed by a leader."""

    voters: tuple[int, ...]
    fetch_timeout_ms: int
    committed: list[Entry] = field(default_factory=list)
    leaders: dict[int, int] = field(default_factory=dict)
    votes: dict[tuple[int, int], ReplicaKey] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    flushed: dict[int, int] = field(default_factory=dict)
    fetched_ms: dict[tuple[int, int, int], int] = field(default_factory=dict)
    elected_ms: dict[int, int] = field(default_factory=dict)
    leading: dict[int, int | None] = field(default_factory=dict)
    exposed: tuple[int, int] = (0, 0)
    counted: tuple[int, ...] = ()
    changed_ms: dict[int, int] = field(default_factory=dict)
    decided: dict[int, VoterSet] = field(default_factory=dict)


def one_leader_per_epoch(history: QuorumHistory, seen: Sight) -> None:
    """R1: at most one leader per epoch, over persisted state."""
    epoch, leader, _ = seen.persisted
    if leader is not None:
        first = history.leaders.setdefault(epoch, leader)
        assert first == leader, f"R1: epoch {epoch} is led by {first} and by {leader} (as {seen.id} has it)"


def a_vote_is_never_changed(history: QuorumHistory, seen: Sight) -> None:
    """R2: within an epoch a persisted vote stays what it is. That of a leader was for itself, and is not written."""
    epoch, leader, voted = seen.persisted
    before = history.votes.get((seen.id, epoch))
    if leader == seen.id and voted is None:
        voted = ReplicaKey(leader) if before is None or before.id != leader else before
    assert before is None or before == voted, f"R2: {seen.id} voted for {before} in epoch {epoch}, now for {voted}"
    if voted is not None:
        history.votes[seen.id, epoch] = voted


def a_vote_is_spoken_after_it_is_persisted(
    persisted: ElectionState, answer: RaftVoteResponse, candidate: ReplicaKey
) -> None:
    """R2: at the moment a granted vote leaves, it is on disk. Called where the response is delivered."""
    if answer.granted:
        on_disk = (persisted.epoch, persisted.voted)
        assert on_disk == (answer.epoch, candidate), f"R2: a vote for {candidate} in {answer.epoch} left, not {on_disk}"


def epochs_never_go_back(history: QuorumHistory, seen: Sight) -> None:
    """C1: a replica's epoch never decreases, on disk or in memory."""
    epoch = seen.persisted.epoch if seen.quorum is None else seen.quorum.role.epoch
    assert epoch >= history.epochs.get(seen.id, 0), f"C1: {seen.id} went back to epoch {epoch}"
    assert seen.persisted.epoch <= epoch, f"C1: {seen.id} persisted epoch {seen.persisted.epoch} and acts in {epoch}"
    history.epochs[seen.id] = max(epoch, seen.persisted.epoch)


def an_epoch_is_opened_once(history: QuorumHistory, seen: Sight) -> None:
    """R1, S13: no replica begins to lead an epoch that was led before, not even by itself before a restart.

    It would write other records at places where the first time some may have been committed.
    """
    quorum = seen.quorum
    leads = quorum.role.epoch if quorum is not None and isinstance(quorum.role, Leader) else None
    if leads is not None and history.leading.get(seen.id) != leads:
        assert leads not in history.elected_ms, f"R1: epoch {leads} is opened a second time, by {seen.id}"
    history.leading[seen.id] = leads


def a_leader_holds_all_that_is_committed(history: QuorumHistory, seen: Sight) -> None:
    """R3: the newest leader's log holds every committed record (checked when it is elected; it never truncates)."""
    quorum = seen.quorum
    if quorum is None or not isinstance(quorum.role, Leader) or quorum.role.epoch in history.elected_ms:
        return
    newest = max(history.elected_ms, default=0)
    history.elected_ms[quorum.role.epoch] = seen.now_ms
    if quorum.role.epoch < newest:
        return
    end = len(history.committed)
    assert quorum.log.end >= end, f"R3: leader {seen.id} of {quorum.role.epoch} ends at {quorum.log.end}, not {end}"
    for offset in range(max(quorum.log.start, end - 50), end):
        assert seen.entry(offset) == history.committed[offset], f"R3: leader {seen.id} has another record at {offset}"


def the_exposed_high_watermark_never_goes_back(history: QuorumHistory, seen: Sight) -> None:
    """R4: what the newest leader exposes never decreases, across leaders too."""
    quorum = seen.quorum
    if quorum is None or not isinstance(quorum.role, Leader) or quorum.role.high_watermark is None:
        return
    epoch, exposed = history.exposed
    now = (quorum.role.epoch, quorum.role.high_watermark)
    if now[0] >= epoch:
        assert now[1] >= exposed, f"R4: leader {seen.id} exposes {now} (epoch, offset) after {history.exposed}"
        history.exposed = now


def nothing_committed_is_truncated(history: QuorumHistory, seen: Sight) -> None:
    """R4: no truncation below what the replica knows committed."""
    for effect in seen.effects:
        if isinstance(effect, do.Truncate) and seen.quorum is not None:
            known = seen.quorum.high_watermark
            assert effect.end >= known, f"R4: {seen.id} cuts its log to {effect.end}, {known} is committed"


def committed_is_the_same_everywhere(history: QuorumHistory, seen: Sight) -> None:
    """R3, C3: what a replica delivers as committed is what all others deliver at that offset."""
    quorum = seen.quorum
    if quorum is None:
        return
    for effect in seen.effects:
        if isinstance(effect, do.Commit):
            end = effect.high_watermark
            assert end <= quorum.log.end, f"R3: {seen.id} commits up to {end}, beyond its log"
            checked = min(end, len(history.committed)) - 50  # a window: what lies before was compared when it was new
            for offset in range(max(quorum.log.start, checked), end):
                entry = seen.entry(offset)
                if offset < len(history.committed):
                    assert entry == history.committed[offset], f"R3: {seen.id} commits {entry} at {offset}"
                else:
                    assert offset == len(history.committed), f"R3: {seen.id} commits with a gap before {offset}"
                    history.committed.append(entry)


def _flushed_by_majority(history: QuorumHistory, voters: tuple[int, ...], end: int) -> bool:
    return reached_by_majority(history.flushed.get(voter, 0) for voter in voters) >= end


def a_majority_has_flushed_what_is_committed(history: QuorumHistory, seen: Sight) -> None:
    """R5: at every moment a majority of the voters has everything committed on disk."""
    history.flushed[seen.id] = seen.flushed
    quorum = seen.quorum
    told = [effect for effect in seen.effects if isinstance(effect, do.Commit | do.AppendVoters)]
    leads = quorum is not None and isinstance(quorum.role, Leader | Resigned)  # its own removal makes it resign at once
    if quorum is not None and leads and any(isinstance(one, do.Commit) for one in told):
        changed_after = isinstance(told[-1], do.AppendVoters)
        history.counted = (quorum.voter_log.before if changed_after else quorum.voters).ids
    end = len(history.committed)
    if quorum is not None and quorum.high_watermark == end and any(isinstance(one, do.Commit) for one in seen.effects):
        decided = quorum.voter_log.at(end)  # a commit became known whose leader died before it was seen to count
        if decided is not None and not _flushed_by_majority(history, history.counted or history.voters, end):
            history.counted = decided.ids
    voters = history.counted or history.voters
    reached = reached_by_majority(history.flushed.get(voter, 0) for voter in voters)
    assert reached >= end, f"R5: {end} is committed, a majority has flushed only {reached}: {history.flushed}"


def nothing_is_exposed_before_the_leaders_own_record(history: QuorumHistory, seen: Sight) -> None:
    """R6: no high watermark and no right to decide before the LeaderChange record of the leader's own epoch commits."""
    quorum = seen.quorum
    if quorum is None:
        return
    role = quorum.role
    if isinstance(role, Leader) and role.high_watermark is not None:
        assert role.high_watermark > role.start_offset, f"R6: {seen.id} exposes {role.high_watermark} too early"
    for effect in seen.effects:
        if isinstance(effect, do.BecameActive):
            assert quorum.active_epoch == effect.epoch, f"R6: {seen.id} decides in {effect.epoch} too early"
            committed = [done for done in seen.effects if isinstance(done, do.Commit)]
            assert committed, f"R6: {seen.id} decides in {effect.epoch} before what is committed was delivered"


def a_log_that_starts_late_has_its_snapshot(history: QuorumHistory, seen: Sight) -> None:
    """R7: log start above 0 only with a snapshot that ends there and equals what it replaces; leaders load none."""
    quorum = seen.quorum
    if quorum is None:
        return
    start = quorum.log.start
    if start > 0:
        points = [point.offset for point in quorum.log.snapshots]
        assert start in points, f"R7: {seen.id} starts at {start}, snapshots end at {points}"
        assert start in seen.snapshots, f"R7: {seen.id} has lost the snapshot that ends at {start}"
    for effect in seen.effects:
        if isinstance(effect, do.InstallSnapshot):
            assert not isinstance(quorum.role, Leader), f"R7: leader {seen.id} loads a snapshot"
            held = seen.snapshots[effect.snapshot.offset]
            assert held == history.committed[: effect.snapshot.offset], f"R7: {seen.id} loads a false snapshot"


def observers_never_vote(history: QuorumHistory, seen: Sight) -> None:
    """R8: an observer never stands or counts; it votes only where a log may know of it what its own does not yet."""
    quorum = seen.quorum
    if quorum is None:
        return
    role, voters = quorum.role, set(quorum.voters.ids)
    if not quorum.voters.holds(quorum.me):  # computed here, not asked of the machine
        if quorum.has_fixed_voters or not quorum.flushes:
            assert role.voted is None, f"R8: observer {seen.id} voted"
        stands = isinstance(role, Candidate | Prospective)
        assert not stands or _is_being_removed(quorum), f"R8: observer {seen.id} is {role}"
    if isinstance(role, Leader):
        assert set(role.voters) == voters - {seen.id}, f"R8: {seen.id} counts {set(role.voters)}, not {voters}"


def _is_being_removed(quorum: Quorum) -> bool:
    """Whether the set before the newest has this replica, and the newest is not known to be committed."""
    return quorum.voter_log.offset >= quorum.high_watermark and quorum.voter_log.before.holds(quorum.me)


def voters_change_one_at_a_time(history: QuorumHistory, seen: Sight) -> None:
    """R9: neighbouring voter sets differ in one voter, and each offset decides one set, everywhere the same.

    A leader appends one only when the one before it and a record of its own epoch are committed.
    """
    quorum = seen.quorum
    if quorum is None:
        return
    entries = quorum.voter_log.entries
    told_by_snapshots = {point.offset - 1 for point in quorum.log.snapshots}  # they leave out what came and went before
    for older, newer in pairwise(entries):
        if newer.offset >= quorum.log.start and newer.offset not in told_by_snapshots:
            changed = {voter.key for voter in older.voters.voters} ^ {voter.key for voter in newer.voters.voters}
            assert len(changed) <= 1, f"R9: {seen.id} goes from {older} to {newer} in one step"
    for offset, voters in entries:
        if offset < min(quorum.high_watermark, quorum.log.end):
            first = history.decided.setdefault(offset, voters)
            assert first == voters, f"R9: {offset} decides {first.ids}, and for {seen.id} {voters.ids}"
    for effect in seen.effects:
        if isinstance(effect, do.AppendVoters):
            role = quorum.role
            assert isinstance(role, Leader), f"R9: {seen.id} changes voters and does not lead"
            assert role.high_watermark is not None, f"R9: {seen.id} changes voters too early"
            open_ones = [entry for entry in entries if entry.offset >= role.high_watermark]
            assert len(open_ones) <= 1, f"R9: {seen.id} begins a change over an uncommitted one: {open_ones}"


def what_the_log_decides_counts_at_once(history: QuorumHistory, seen: Sight) -> None:
    """R9: the voters are the newest set in the log, committed or not; a set that was cut off counts no more."""
    quorum = seen.quorum
    if quorum is None or not quorum.voter_log.entries:
        return
    newest = quorum.voter_log.entries[-1]
    assert quorum.voters == newest.voters, f"R9: {seen.id} counts by {quorum.voters.ids}, its log says {newest}"
    assert newest.offset < quorum.log.end, f"R9: {seen.id} counts by a set at {newest.offset}, beyond its log"


def a_removed_leader_steps_down(history: QuorumHistory, seen: Sight) -> None:
    """R9: no replica leads once its own removal is committed; until then it does not count itself."""
    quorum = seen.quorum
    if quorum is None or not isinstance(quorum.role, Leader) or quorum.is_voter:
        return
    exposed, removal = quorum.role.high_watermark or 0, quorum.voter_log.offset
    assert exposed <= removal, f"R9: {seen.id} still leads, its removal at {removal} is committed ({exposed})"
    assert seen.id not in quorum.role.voters, f"R9: {seen.id} counts itself"


def a_leader_without_a_majority_resigns(history: QuorumHistory, seen: Sight) -> None:
    """R10: no replica still leads when a majority has not fetched for the fetch timeout (KAFKA-15489).

    While paused (until ``awake_ms``) it cannot. ``history.fetched_ms`` is written where messages are delivered:
    (leader, epoch, voter) -> when a fetch, or a request for a piece of a snapshot, last arrived.
    """
    quorum = seen.quorum
    if quorum is None or not isinstance(quorum.role, Leader):
        return
    epoch, voters = quorum.role.epoch, quorum.voters.ids
    # A voter just added counts from the moment of its addition.
    since = max(history.elected_ms.get(epoch, seen.now_ms), history.changed_ms.get(quorum.voter_log.offset, 0))
    if quorum.voter_log.entries and quorum.voter_log.offset not in history.changed_ms:
        since = history.changed_ms[quorum.voter_log.offset] = seen.now_ms
    heard = [history.fetched_ms.get((seen.id, epoch, voter), since) for voter in voters if voter != seen.id]
    own = [seen.now_ms] if quorum.is_voter else []
    last_ms = reached_by_majority([*own, *heard])
    silent_ms = seen.now_ms - max(last_ms, seen.awake_ms)
    assert silent_ms <= history.fetch_timeout_ms, f"R10: {seen.id} leads {epoch}, a majority is silent for {silent_ms}"


LAWS = (
    one_leader_per_epoch,
    a_vote_is_never_changed,
    epochs_never_go_back,
    an_epoch_is_opened_once,
    a_leader_holds_all_that_is_committed,
    committed_is_the_same_everywhere,
    the_exposed_high_watermark_never_goes_back,
    nothing_committed_is_truncated,
    a_majority_has_flushed_what_is_committed,
    nothing_is_exposed_before_the_leaders_own_record,
    a_log_that_starts_late_has_its_snapshot,
    observers_never_vote,
    voters_change_one_at_a_time,
    what_the_log_decides_counts_at_once,
    a_removed_leader_steps_down,
    a_leader_without_a_majority_resigns,
)
"""All laws, in the order in which the checker's memory is built up."""


def check(history: QuorumHistory, seen: Sight) -> None:
    """Run every law on what a replica has just done."""
    for law in LAWS:
        law(history, seen)
