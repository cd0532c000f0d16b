"""The start rules, exhaustively: every election state on record, against every log end."""

from __future__ import annotations

from itertools import product

import pytest

from moldau.quorum import (
    At,
    Candidate,
    ElectionState,
    Follower,
    Leader,
    LogView,
    OffsetAndEpoch,
    Quorum,
    ReplicaKey,
    Resigned,
    Role,
    Unattached,
    Voter,
    VoterLog,
    VoterSet,
    start,
    step,
)
from moldau.quorum import effects as do
from moldau.quorum.events import RequestReceived
from moldau.quorum.messages import BeginEpochRequest, RaftVoteRequest, RaftVoteResponse

ME, OTHER, STRANGER = 1, 2, 9
EPOCH = 3


def started(me: int, election: ElectionState, log_epoch: int, voters: VoterSet) -> tuple[Quorum, list[do.Effect]]:
    log = LogView().appended(5, log_epoch).flushed_to(5) if log_epoch else LogView()
    blank = Quorum(me=ReplicaKey(me), voters=voters, role=Unattached(0), log=log, flushes=me in voters.ids)
    return start(blank, election, At(1000, 7))


def expected(voter: bool, leader: int | None, voted: int | None, log_epoch: int) -> type[Role]:
    """The rules in the order of the specification, in the dullest way possible."""
    if log_epoch > EPOCH:
        return Unattached
    if voter and leader == ME:
        return Resigned
    if leader == OTHER:
        return Follower
    if voter and voted == ME:
        return Candidate
    return Unattached


@pytest.mark.parametrize("voter", [True, False])
@pytest.mark.parametrize(
    ("leader", "voted", "log_epoch"), list(product([None, ME, OTHER, STRANGER], [None, ME, OTHER], [0, 2, 3, 4]))
)
def test_the_state_at_start_follows_from_record_and_log(
    voter: bool, leader: int | None, voted: int | None, log_epoch: int
) -> None:
    voters = VoterSet.of(1, 2, 3) if voter else VoterSet.of(2, 3, 4)
    key = None if voted is None else ReplicaKey(voted)
    before = ElectionState(EPOCH, leader, key)
    quorum, effects = started(ME, before, log_epoch, voters)
    assert type(quorum.role) is expected(voter, leader, voted, log_epoch)
    assert quorum.role.epoch == max(EPOCH, log_epoch)
    if isinstance(quorum.role, Resigned):
        assert quorum.election == ElectionState(EPOCH, ME), "as Kafka's: who led gives no vote in its epoch"
    if log_epoch <= EPOCH:
        assert quorum.role.voted == key or isinstance(quorum.role, Resigned), "a vote on record is never forgotten"
        assert quorum.role.leader == leader or isinstance(quorum.role, Candidate)
    else:
        assert (quorum.role.leader, quorum.role.voted) == (None, None)
    persisted = [effect.election for effect in effects if isinstance(effect, do.Persist)]
    assert persisted == ([] if quorum.election == before else [quorum.election])
    assert not any(isinstance(effect, do.BecameActive | do.Commit) for effect in effects)


def test_a_candidate_at_start_asks_again_in_the_epoch_it_had_voted_in() -> None:
    quorum, effects = started(ME, ElectionState(EPOCH, None, ReplicaKey(ME)), 2, VoterSet.of(1, 2, 3))
    requests = [effect.request for effect in effects if isinstance(effect, do.SendRequest)]
    assert [getattr(request, "epoch", None) for request in requests] == [EPOCH, EPOCH]
    assert not any(isinstance(effect, do.Persist) for effect in effects), "it is on record already"
    assert isinstance(quorum.role, Candidate)


def with_disk(election: ElectionState) -> Quorum:
    """A static voter that has a directory id, as all have, and a log of epoch 2."""
    log = LogView().appended(5, 2).flushed_to(5)
    blank = Quorum(me=on_disk(ME), voters=VoterSet.of(ME, OTHER, 3), role=Unattached(0), log=log)
    return start(blank, election, At(1000, 7))[0]


def on_disk(id: int, disk: int = 1) -> ReplicaKey:
    return ReplicaKey(id, bytes([disk]) * 16)


def asked(quorum: Quorum, candidate: ReplicaKey, end: int) -> tuple[bool, list[do.Effect]]:
    """Whether a candidate whose log ends there gets a vote, and all effects."""
    request = RaftVoteRequest(EPOCH, candidate, quorum.me, OffsetAndEpoch(end, 2 if end else 0), pre_vote=False)
    _, effects = step(quorum, RequestReceived(None, request), At(1000, 7))
    (answer,) = [effect.answer for effect in effects if isinstance(effect, do.SendResponse)]
    assert isinstance(answer, RaftVoteResponse)
    return answer.granted, effects


def test_a_vote_read_back_without_directory_is_the_same_vote() -> None:
    """Static voters' file (version 0) has ids only: its own vote, and that for another whose log is as new."""
    assert isinstance(with_disk(ElectionState(EPOCH, None, ReplicaKey(ME))).role, Candidate)
    quorum = with_disk(ElectionState(EPOCH, None, ReplicaKey(OTHER)))
    assert [asked(quorum, on_disk(id), 5)[0] for id in (OTHER, 3)] == [True, False]
    assert not asked(quorum, on_disk(OTHER, disk=2), 0)[0], "another disk, with less than we have"


@pytest.mark.parametrize("static", [True, False])
def test_a_vote_is_given_again_only_to_a_log_that_is_still_as_new(static: bool) -> None:
    """A candidate asks before its log is flushed. After a power cut it stands again in its epoch, with less: elected,
    it would take back what the others have committed."""
    voters = VoterSet.of(ME, OTHER, 3) if static else VoterSet(tuple(Voter(on_disk(id)) for id in (ME, OTHER, 3)))
    past = VoterLog() if static else VoterLog().appended(-1, voters, VoterSet(()))
    log = LogView().appended(5, 2).flushed_to(5)
    blank = Quorum(me=on_disk(ME), voters=voters, voter_log=past, role=Unattached(0), log=log)
    quorum, _ = start(blank, ElectionState(EPOCH - 1), At(1000, 7))
    for end, granted in ((5, True), (5, True), (4, False), (5, True)):
        request = RaftVoteRequest(EPOCH, on_disk(OTHER), quorum.me, OffsetAndEpoch(end, 2), pre_vote=False)
        quorum, effects = step(quorum, RequestReceived(None, request), At(1000, 7))
        (answer,) = [effect.answer for effect in effects if isinstance(effect, do.SendResponse)]
        assert isinstance(answer, RaftVoteResponse)
        assert answer.granted == granted
    assert quorum.role.voted == (ReplicaKey(OTHER) if static else on_disk(OTHER)), "the vote itself stays"


def test_a_vote_among_static_voters_is_kept_by_id() -> None:
    """So that it is the same before and after a restart."""
    granted, effects = asked(with_disk(ElectionState(EPOCH - 1)), on_disk(OTHER), 5)
    assert granted
    assert effects[0] == do.Persist(ElectionState(EPOCH, None, ReplicaKey(OTHER)))


@pytest.mark.parametrize("voted", [None, ReplicaKey(ME)])
def test_a_leader_on_record_gives_no_vote_in_its_epoch_after_a_restart(voted: ReplicaKey | None) -> None:
    """Kafka's file of a leader has no vote, and one that an older version of ours wrote has its own."""
    quorum = with_disk(ElectionState(EPOCH, ME, voted))
    assert [asked(quorum, on_disk(id), 5)[0] for id in (OTHER, 3)] == [False, False]


def test_a_follower_keeps_its_vote_with_the_leader_it_has_found() -> None:
    """As Kafka 4's: its vote for one that lost is still the only one of the epoch when the leader is forgotten."""
    quorum, _ = started(ME, ElectionState(EPOCH - 1), 2, VoterSet.of(ME, OTHER, 3))
    request = RaftVoteRequest(EPOCH, ReplicaKey(3), quorum.me, OffsetAndEpoch(5, 2), pre_vote=False)
    quorum, _ = step(quorum, RequestReceived(None, request), At(1000, 7))
    quorum, effects = step(quorum, RequestReceived(None, BeginEpochRequest(EPOCH, OTHER, quorum.me)), At(1000, 7))
    assert effects[0] == do.Persist(ElectionState(EPOCH, OTHER, ReplicaKey(3)))


def test_the_only_voter_leads_as_soon_as_its_time_comes_but_decides_only_after_its_flush() -> None:
    from moldau.quorum import deadline_ms, step
    from moldau.quorum.events import Flushed, Tick

    quorum, _ = started(ME, ElectionState(), 0, VoterSet.of(ME))
    due = deadline_ms(quorum)
    assert due is not None
    quorum, effects = step(quorum, Tick(), At(due, 0))
    assert isinstance(quorum.role, Leader)
    assert isinstance(effects[0], do.Persist)
    assert quorum.active_epoch is None
    quorum, effects = step(quorum, Flushed(1), At(due, 0))
    assert quorum.active_epoch == 1
    assert effects == [do.Commit(1), do.BecameActive(1)]
