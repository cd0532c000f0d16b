"""Mistakes in the metadata quorum: elections, what counts as committed, truncation, snapshots, and the driver's order.

Facts about Kafka's bugs are from its issues by number; the code is ours.
"""

from __future__ import annotations

from typing import Any

from moldau.model.value import replace
from moldau.quorum import Candidate, LogView, OffsetAndEpoch, Quorum, election, follower, leader, moves
from moldau.quorum import effects as do
from moldau.quorum import step as step_module
from moldau.quorum.roles import Leader
from moldau.quorum.state import StepContext
from moldau.quorum.tally import reached_by_majority
from moldau.simulator.machines.quorum_world import QuorumNode, QuorumSimulation
from moldau.simulator.mutants.mutant import Mutant, Patches


def _exposes(context: StepContext, reached: int) -> None:
    role = context.role
    assert isinstance(role, Leader)
    context.update_role(high_watermark=reached)
    context.update(high_watermark=max(reached, context.quorum.high_watermark))
    context.emit(do.Commit(context.quorum.high_watermark))
    if role.high_watermark is None:
        context.emit(do.BecameActive(role.epoch))


def exposes_before_its_own_record(patches: Patches) -> None:
    def advance(context: StepContext) -> None:
        quorum, role = context.quorum, context.role
        assert isinstance(role, Leader)
        reached = reached_by_majority([quorum.log.flushed, *(voter.end_offset for voter in role.voters.values())])
        if reached > (role.high_watermark or 0):
            _exposes(context, reached)

    patches.set(leader, "_advance", advance)


def decides_before_it_has_read(patches: Patches) -> None:
    real = leader._advance

    def advance(context: StepContext) -> None:
        at = len(context.effects)
        real(context)
        if any(isinstance(effect, do.BecameActive) for effect in context.effects[at:]):
            context.effects[at:] = [effect for effect in context.effects[at:] if not isinstance(effect, do.Commit)]

    patches.set(leader, "_advance", advance)


def keeps_leading_alone(patches: Patches) -> None:
    patches.set(leader, "check_quorum_deadline_ms", lambda quorum, role: leader.FOREVER_MS)


def stands_without_asking_first(patches: Patches) -> None:
    for module in (moves, election, follower, step_module):
        if hasattr(module, "become_prospective"):
            patches.set(
                module, "become_prospective", lambda context, retries=0: moves.become_candidate(context, retries)
            )


def grants_pre_votes_although_it_hears_the_leader(patches: Patches) -> None:
    patches.set(election, "_would_vote", lambda context, request: not isinstance(context.role, Leader))


def waits_for_a_dead_leader(patches: Patches) -> None:
    real = follower.handle_fetch_failure
    patches.set(
        follower,
        "handle_fetch_failure",
        lambda context, peer, request, *, dead: real(context, peer, request, dead=False),
    )


def counts_what_is_not_flushed(patches: Patches) -> None:
    real = LogView.appended
    patches.set(LogView, "appended", lambda self, end, epoch: replace(real(self, end, epoch), flushed=end))


def fetches_before_it_has_flushed(patches: Patches) -> None:
    patches.set(follower, "may_fetch", lambda context: True)


def votes_twice_in_an_epoch(patches: Patches) -> None:
    real = election.handle_vote_request

    def vote(context: StepContext, token: Any, request: Any) -> None:  # Any: a mutant takes whatever it stands for
        if not request.pre_vote and context.role.epoch == request.epoch and not isinstance(context.role, Leader):
            context.update_role(voted=None)
        real(context, token, request)

    patches.set(election, "_may_vote", lambda quorum, request: election._log_is_as_new(quorum, request))
    patches.set(election, "handle_vote_request", vote)


def votes_for_short_logs(patches: Patches) -> None:
    patches.set(election, "_log_is_as_new", lambda quorum, request: True)


def compares_log_lengths_only(patches: Patches) -> None:
    patches.set(election, "_log_is_as_new", lambda quorum, request: request.last.offset >= quorum.log.last.offset)


def commits_before_its_log_is_proved(patches: Patches) -> None:
    real = follower._truncate

    def truncate(context: StepContext, end: int) -> None:
        real(context, end)
        follower._commit(context, 1 << 40)

    patches.set(follower, "_truncate", truncate)


def commits_what_it_does_not_hold(patches: Patches) -> None:
    def commit(context: StepContext, high_watermark: int) -> None:
        if high_watermark > context.quorum.high_watermark:
            context.update(high_watermark=high_watermark)
            context.emit(do.Commit(high_watermark))

    patches.set(follower, "_commit", commit)


def never_truncates(patches: Patches) -> None:
    real = follower.handle_fetch_response

    def fetched(context: StepContext, peer: int, request: Any, answer: Any) -> None:  # Any: whatever it stands for
        real(context, peer, request, answer._replace(diverging=None))

    patches.set(follower, "handle_fetch_response", fetched)


def truncates_below_its_watermark(patches: Patches) -> None:
    def truncate(context: StepContext, end: int) -> None:
        cut = max(context.quorum.log.start, min(end, context.quorum.high_watermark - 1))
        if cut < context.quorum.log.end:
            context.emit(do.Truncate(cut))
            context.update(log=context.quorum.log.truncated(cut))

    patches.set(follower, "_truncate", truncate)


def leads_its_own_epoch_again(patches: Patches) -> None:
    real = election.tick_resigned

    def tick(context: StepContext) -> None:
        role = context.role
        if context.at.now_ms >= role.deadline_ms:  # type: ignore[union-attr,operator]
            me = context.quorum.me
            moves._enter(context, Candidate(role.epoch, me, context.election_deadline_ms(), granted=frozenset({me.id})))
            moves.send_vote_requests(context, tuple(voter.key.id for voter in context.quorum.voters.others(me)))
        else:
            real(context)

    patches.set(election, "tick_resigned", tick)


def counts_observers(patches: Patches) -> None:
    def advance(context: StepContext) -> None:
        quorum, role = context.quorum, context.role
        assert isinstance(role, Leader)
        ends = sorted([seen.end_offset for seen in (*role.voters.values(), *role.observers.values())], reverse=True)
        reached = reached_by_majority([quorum.log.flushed, *ends[: len(role.voters)]])
        if reached > role.start_offset and reached > (role.high_watermark or -1):
            _exposes(context, reached)

    patches.set(leader, "_advance", advance)


def lets_the_watermark_go_back(patches: Patches) -> None:
    def advance(context: StepContext) -> None:
        quorum, role = context.quorum, context.role
        assert isinstance(role, Leader)
        reached = reached_by_majority([quorum.log.flushed, *(voter.end_offset for voter in role.voters.values())])
        if reached > role.start_offset and reached != role.high_watermark:
            _exposes(context, reached)

    real = leader._note

    def note(context: StepContext, replica: Any, fetch: Any = None) -> None:
        if fetch is not None and context.at.random_bits % 7 == 0:  # a fetch of long ago is believed once more
            fetch = fetch._replace(at=OffsetAndEpoch(max(0, fetch.at.offset - 3), fetch.at.epoch))
        real(context, replica, fetch)

    patches.set(leader, "_advance", advance)
    patches.set(leader, "_note", note)


def trims_without_a_snapshot(patches: Patches) -> None:
    real = LogView.trimmed

    def trimmed(self: LogView, start: int) -> LogView:
        log = real(self, start)
        return replace(log, snapshots=tuple(point for point in log.snapshots if point.offset > start))

    patches.set(LogView, "trimmed", trimmed)


def names_snapshots_off_by_one(patches: Patches) -> None:
    real = QuorumSimulation._take_snapshot

    def take(self: QuorumSimulation, node: QuorumNode, end: int, life: int) -> None:
        real(self, node, end, life)
        if len(node.disk.snapshots.get(end, ())) == end > 1:
            node.disk.snapshots[end] = node.disk.snapshots[end][:-1]

    patches.set(QuorumSimulation, "_take_snapshot", take)


def lets_observers_stand(patches: Patches) -> None:
    patches.set(Quorum, "is_voter", property(lambda self: True))
    patches.set(Quorum, "may_stand", property(lambda self: True))


def forgets_its_vote(patches: Patches) -> None:
    patches.set(QuorumSimulation, "remembered", lambda self, disk: disk.election._replace(voted=None))


def speaks_before_it_persists(patches: Patches) -> None:
    patches.set(
        QuorumSimulation, "ordered", lambda self, effects: sorted(effects, key=lambda e: isinstance(e, do.Persist))
    )


def goes_back_to_an_older_epoch(patches: Patches) -> None:
    patches.set(
        QuorumSimulation, "remembered", lambda self, disk: disk.election._replace(epoch=max(0, disk.election.epoch - 1))
    )


def _entry(bug: str, what: str, laws: str, patch: Any, *, first: int = 0) -> Mutant:
    return Mutant(bug, what, "quorum", tuple(laws.split()), patch, first)


MUTANTS = (
    _entry("KAFKA-12619", "exposes a watermark before its own record commits", "R6", exposes_before_its_own_record),
    _entry("KAFKA-15345", "decides before it was given all that is committed", "R6", decides_before_it_has_read),
    _entry("KAFKA-15489", "leads on without a majority", "R10", keeps_leading_alone),
    _entry("KIP-996", "no pre-vote: back from isolation it deposes a good leader", "L8", stands_without_asking_first),
    _entry(
        "KIP-996", "pre-votes while it hears the leader", "L8", grants_pre_votes_although_it_hears_the_leader, first=18
    ),
    _entry("own (fast death)", "waits for a leader whose process is gone", "L8", waits_for_a_dead_leader),
    _entry("KAFKA-10533", "the leader counts what it has not flushed", "R5 R3", counts_what_is_not_flushed),
    _entry("KAFKA-13884", "acknowledges what it has not flushed", "R5 R3", fetches_before_it_has_flushed),
    _entry("Raft 5.2", "votes twice in an epoch", "R1 R2", votes_twice_in_an_epoch),
    _entry("Raft 5.4.1", "votes for whoever asks", "R3 R4 R5", votes_for_short_logs),
    _entry("Raft 5.4.1", "compares logs by length, not by epoch", "R3 R4 R5", compares_log_lengths_only, first=124),
    _entry(
        "KIP-595",
        "commits before its log is proved the leader's",
        "R3 R4 R5",
        commits_before_its_log_is_proved,
        first=33,
    ),
    _entry("KAFKA-10632", "commits what it does not hold", "R3", commits_what_it_does_not_hold),
    _entry("KIP-595", "does not cut a log that diverges", "R3 R4 R5 L8", never_truncates),
    _entry("KAFKA-12460", "cuts its log below its watermark", "R4", truncates_below_its_watermark),
    _entry(
        "KAFKA-10527", "leads an epoch again that it had resigned from", "R1 R3", leads_its_own_epoch_again, first=23
    ),
    _entry("KIP-595", "counts observers towards the majority", "R5 R3", counts_observers),
    _entry("Raft 5.3", "lets an exposed watermark go back", "R4", lets_the_watermark_go_back),
    _entry("KAFKA-14240", "its log starts late and no snapshot ends there", "R7", trims_without_a_snapshot),
    _entry("KAFKA-14618", "a snapshot lacks the last record of its id", "R7", names_snapshots_off_by_one),
    _entry("KAFKA-13168's kind", "an observer takes itself for a voter", "R8", lets_observers_stand),
    _entry("Raft 5.2", "a restart forgets the vote", "R1 R2", forgets_its_vote, first=43),
    _entry("Raft 5.2", "answers votes before they are on disk", "R1 R2", speaks_before_it_persists),
    _entry("KAFKA-15412's kind", "a restart reads an older epoch", "C1 R1 R2", goes_back_to_an_older_epoch),
)
