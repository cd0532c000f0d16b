"""The replication of one partition on one broker: role, ISR, high watermark, and what to do next. No I/O, no clock.

Decides: whom to follow, what a follower's fetch means, when the ISR should change, when the high watermark moves, if a
produce may be taken and when it is acknowledged, where a follower truncates. Does not: hold records, send requests,
delay any. Entry points take facts and return effects in order; state is already the new one when they return.
A broker holds ten thousand of these, so the object is mutable, slotted, and has no timer: the broker calls ``sweep``.
Read next: ``facts.py`` (what comes in), ``effects.py`` (what goes out), ``laws.py`` (what must hold after every call).
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.model import Code
from moldau.replication.effects import (
    NOTHING,
    AdvanceLogStart,
    AlterIsr,
    AssignEpoch,
    Effect,
    Effects,
    Follow,
    HighWatermark,
    IsrChanged,
    Restart,
    StartedLeading,
    StopFollowing,
    StoppedLeading,
    Truncate,
)
from moldau.replication.epochs import NO_EPOCH, NO_OFFSET
from moldau.replication.facts import (
    Assignment,
    BrokerFacts,
    FetchAnswer,
    FollowerFetch,
    IsrAnswer,
    LogFacts,
    Verdict,
)
from moldau.replication.follower import AFTER_ERROR, Next, truncation_point
from moldau.replication.progress import UNKNOWN, Progress, drop
from moldau.replication.roles import NOBODY, Limits, Proposal, Role

_SERVE = Verdict(Code.NONE, None, NOTHING)


class Partition:
    """One partition on broker ``me``. ``high_watermark`` starts from the checkpoint, clipped into the log."""

    __slots__ = (
        "_brokers", "_log", "_serial", "adding", "epoch_start", "followers", "high_watermark", "isr", "leader",
        "leader_epoch", "limits", "maximal_isr", "me", "partition_epoch", "proposal", "recovering", "removing",
        "replicas", "role",
    )  # fmt: skip

    def __init__(self, me: int, log: LogFacts, brokers: BrokerFacts, limits: Limits, checkpoint: int = 0) -> None:
        """``checkpoint`` is the high watermark saved before the last stop, 0 when there is none."""
        self.me = me
        self._log = log
        self._brokers = brokers
        self.limits = limits
        self.role = Role.IDLE
        self.leader = NOBODY
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = -1
        self.isr: tuple[int, ...] = ()
        self.maximal_isr: frozenset[int] = frozenset()
        self.replicas: tuple[int, ...] = ()
        self.adding: tuple[int, ...] = ()
        self.removing: tuple[int, ...] = ()
        self.recovering = False
        self.high_watermark = max(log.log_start_offset, min(checkpoint, log.log_end_offset))
        self.epoch_start = NO_OFFSET
        self.followers: dict[int, Progress] = {}
        self.proposal: Proposal | None = None
        self._serial = 0

    # ---- assignments of the image ---------------------------------------------------------------------------------

    def relocated(self, log: LogFacts) -> None:
        """The same log lies in another directory: records, epochs and ends are as they were."""
        self._log = log

    def assign(self, said: Assignment, now_ms: int) -> tuple[Code, Effects]:
        """Adopt an assignment of the image: lead, follow, or only note new replicas and ISR.

        FENCED_LEADER_EPOCH, and no change, when the assignment is older than the known one; the same one twice is
        harmless. KAFKA_STORAGE_ERROR when the log directory has failed.
        """
        if self.role in (Role.OFFLINE, Role.REMOVED):
            return Code.KAFKA_STORAGE_ERROR, NOTHING
        if said.leader_epoch < self.leader_epoch or said.partition_epoch < self.partition_epoch:
            return Code.FENCED_LEADER_EPOCH, NOTHING
        assert set(said.isr) <= set(said.replicas), f"ISR {said.isr} exceeds {said.replicas} (KAFKA-9672)"
        if said.leader == self.me:
            return Code.NONE, self._lead(said, now_ms)
        return Code.NONE, self._follow(said)

    def remove(self) -> Effects:
        """The partition left this broker (moved away or deleted): answer delayed requests, stop fetching."""
        return self._retire(Role.REMOVED)

    def fail(self) -> Effects:
        """The log directory failed: neither lead nor follow until the broker starts again."""
        return self._retire(Role.OFFLINE)

    def _retire(self, role: Role) -> Effects:
        was = self.role
        self.role = role
        self.proposal = None
        self.followers = {}
        if was is Role.LEADER:
            return (StoppedLeading(),)
        return (StopFollowing(),) if was is Role.FOLLOWER else NOTHING

    def _note(self, said: Assignment) -> None:
        # A newer partition epoch settles a proposal, whatever became of the request. The same one does not: the
        # controller's response to an earlier proposal may have arrived first, and a new proposal be in flight.
        if said.partition_epoch > self.partition_epoch or said.leader_epoch > self.leader_epoch:
            self.proposal = None
            self.isr = said.isr
            self.maximal_isr = frozenset(said.isr)
        self.leader = said.leader
        self.leader_epoch = said.leader_epoch
        self.partition_epoch = said.partition_epoch
        self.replicas = said.replicas
        self.adding = said.adding
        self.removing = said.removing
        self.recovering = said.recovering

    def _lead(self, said: Assignment, now_ms: int) -> Effects:
        new_epoch = said.leader_epoch > self.leader_epoch or self.role is not Role.LEADER
        before, was = self.isr, self.role
        self._note(said)
        effects: list[Effect] = []
        others = [broker for broker in said.replicas if broker != self.me]
        if new_epoch:
            self.role = Role.LEADER
            self.epoch_start = self._log.log_end_offset
            # What followers fetched in older epochs proves nothing in this one, even under the same leader.
            self.followers = {broker: Progress(now_ms if broker in said.isr else None) for broker in others}
            if was is Role.FOLLOWER:
                effects.append(StopFollowing())
            effects.append(AssignEpoch(said.leader_epoch, self.epoch_start))  # even if no record follows (KAFKA-7415)
            effects.append(StartedLeading(said.leader_epoch))
        else:
            known = self.followers
            self.followers = {broker: known.get(broker) or Progress(None) for broker in others}
            if before != said.isr:
                effects.append(IsrChanged(before, said.isr))
            effects += self._expand(now_ms, dropped=drop(self.followers, before, said.isr))
        effects += self._advance(now_ms)
        return tuple(effects)

    def _follow(self, said: Assignment) -> Effects:
        new_epoch = said.leader_epoch > self.leader_epoch or self.role is not Role.FOLLOWER
        was = self.role
        self._note(said)
        if not new_epoch:
            return NOTHING
        self.role = Role.FOLLOWER
        self.followers = {}
        self.epoch_start = NO_OFFSET
        effects: list[Effect] = [StoppedLeading()] if was is Role.LEADER else []
        effects.append(StopFollowing() if said.leader == NOBODY else Follow(said.leader, said.leader_epoch))
        return tuple(effects)

    # ---- the leader: followers' fetches --------------------------------------------------------------------------

    def follower_fetched(self, fetch: FollowerFetch) -> Verdict:
        """Return the verdict on a follower's fetch, and what its progress means for ISR and watermark."""
        code = self.check_epoch(fetch.current_leader_epoch)
        if code is not Code.NONE:
            return Verdict(code, None, NOTHING)
        progress = self.followers.get(fetch.replica_id)
        if progress is None:  # same epoch, yet we do not know it as a replica: we may be behind the image
            known = fetch.current_leader_epoch != NO_EPOCH
            return Verdict(Code.UNKNOWN_LEADER_EPOCH if known else Code.NOT_LEADER_OR_FOLLOWER, None, NOTHING)
        offset, log = fetch.fetch_offset, self._log
        code, diverging = self.divergence(fetch.last_fetched_epoch, offset)
        if code is not Code.NONE or diverging is not None:
            return Verdict(code, diverging, NOTHING)
        if fetch.broker_epoch != progress.broker_epoch:
            registered = self._brokers.broker_epoch(fetch.replica_id)
            if registered is not None and fetch.broker_epoch < registered:
                # Sent before that broker restarted: what the fetch claims may be gone (KAFKA-15221).
                return Verdict(Code.NOT_LEADER_OR_FOLLOWER, None, NOTHING)
            progress.broker_epoch = fetch.broker_epoch
        end = log.log_end_offset
        progress.fetched_from(offset, fetch.log_start_offset, end, fetch.now_ms)
        effects = NOTHING
        if fetch.replica_id not in self.maximal_isr:
            effects = self._expand(fetch.now_ms, fetch.replica_id)
        if self.high_watermark < end and offset > self.high_watermark:
            effects += self._advance(fetch.now_ms)
        return _SERVE if not effects else Verdict(Code.NONE, None, effects)

    def heard_from(self, replica_id: int, end: int, at_ms: int) -> None:
        """An incremental fetch session at ``at_ms`` repeated an unchanged position without naming it (KIP-227).

        Called just after an append that began at ``end``: a follower that held everything below was caught up then,
        however long ago it last said so; else the first append after a quiet hour would look like an hour's lag. Not
        one that was dropped from the ISR since it asked: it is not waited for.
        """
        progress = self.followers.get(replica_id)
        if progress is not None and progress.leo == end and progress.last_caught_up_ms is not None:
            progress.fetched_from(end, progress.log_start, end, at_ms)

    def divergence(self, last_fetched_epoch: int, offset: int) -> tuple[Code, tuple[int, int] | None]:
        """Return how a reader's log, whose last record is of ``last_fetched_epoch``, stands to ours.

        (NONE, None) if it is a prefix of ours; (NONE, (epoch, end)) says where the logs diverge;
        OFFSET_OUT_OF_RANGE when the log does not reach that far on either side. Source: KIP-595, KIP-320.
        """
        log = self._log
        if last_fetched_epoch != NO_EPOCH:
            if offset < log.log_start_offset:
                return Code.OFFSET_OUT_OF_RANGE, None
            epoch, end = log.epochs.end_offset_for(last_fetched_epoch, log.log_end_offset)
            if epoch == NO_EPOCH:
                return Code.OFFSET_OUT_OF_RANGE, None
            if epoch < last_fetched_epoch or end < offset:
                return Code.NONE, (epoch, end)
        if not log.log_start_offset <= offset <= log.log_end_offset:
            return Code.OFFSET_OUT_OF_RANGE, None
        return Code.NONE, None

    # ---- the leader: ISR -----------------------------------------------------------------------------------------

    def _may_join(self, broker: int, progress: Progress) -> bool:
        """The join rule, S10: fetched in this epoch, up to the watermark and this epoch's start, and a live member."""
        return (
            progress.fetched
            and progress.leo >= self.high_watermark
            and progress.leo >= self.epoch_start  # else a committed record just before us may be missing (KAFKA-7128)
            and self._eligible(broker, progress)
        )

    def _eligible(self, broker: int, progress: Progress) -> bool:
        if not self._brokers.may_join_isr(broker):
            return False
        known = self._brokers.broker_epoch(broker)
        # In a migration a broker does not learn the epochs of KRaft brokers (KIP-866): the controller checks them.
        return known == progress.broker_epoch or (known == UNKNOWN and progress.broker_epoch != UNKNOWN)

    def _expand(self, now_ms: int, fetching: int = NOBODY, dropped: Sequence[int] = ()) -> Effects:
        """Propose all replicas that may join, if nothing else is proposed: the one fetching now, those not lagging
        (else one that a sweep dropped would be back at once, by an old fetch). Not those just ``dropped``.
        """
        if self.proposal is not None or len(self.isr) > len(self.followers):
            return NOTHING
        end, lag_max_ms = self._log.log_end_offset, self.limits.replica_lag_time_max_ms
        joiners = [
            broker
            for broker, progress in self.followers.items()
            if broker not in self.isr
            and broker not in dropped
            and (broker == fetching or progress.caught_up(end, now_ms, lag_max_ms))
            and self._may_join(broker, progress)
        ]
        return self._propose((*self.isr, *joiners), now_ms) if joiners else NOTHING

    def brokers_changed(self, now_ms: int) -> Effects:
        """A broker was fenced, unfenced or registered: a follower with nothing to fetch may join now; the watermark
        waits no longer for one that was about to join and is gone."""
        return self._expand(now_ms) + self._advance(now_ms) if self.role is Role.LEADER else NOTHING

    def lost_disk(self, broker: int) -> None:
        """A follower's log directory failed: what it fetched is gone, and it is not waited for (KIP-858)."""
        if broker in self.followers:
            self.followers[broker] = Progress(None)

    def sweep(self, now_ms: int) -> Effects:
        """Called for leaders every replica.lag.time.max.ms / 2: drop lagging replicas, repeat unanswered requests."""
        if self.role is not Role.LEADER:
            return NOTHING
        lag_max_ms = self.limits.replica_lag_time_max_ms
        proposal = self.proposal
        if proposal is not None:
            if proposal.waiting and now_ms - proposal.asked_ms > lag_max_ms:
                return self._alter_isr(proposal, now_ms)
            return self._advance(now_ms)
        end = self._log.log_end_offset
        stay = tuple(
            broker
            for broker in self.isr
            if broker == self.me or self.followers[broker].caught_up(end, now_ms, lag_max_ms)
        )
        if len(stay) < len(self.isr):
            return self._propose(stay, now_ms)
        return self._expand(now_ms) + self._advance(now_ms)

    def _propose(self, isr: tuple[int, ...], now_ms: int) -> Effects:
        self.proposal = Proposal(isr, now_ms)
        self.maximal_isr = frozenset(self.isr).union(isr)
        return self._alter_isr(self.proposal, now_ms)

    def _alter_isr(self, proposal: Proposal, now_ms: int) -> Effects:
        self._serial += 1
        proposal.asked_ms = now_ms
        proposal.waiting = False
        members = tuple((broker, self._member_epoch(broker)) for broker in proposal.isr)
        return (AlterIsr(self._serial, self.leader_epoch, self.partition_epoch, members),)

    def _member_epoch(self, broker: int) -> int:
        if broker == self.me:
            own = self._brokers.broker_epoch(broker)
            return -1 if own is None else own
        progress = self.followers.get(broker)
        return -1 if progress is None else progress.broker_epoch

    def isr_answered(self, answer: IsrAnswer, now_ms: int) -> Effects:
        """Handle the controller's response to an AlterIsr. Only the latest request of a still open proposal counts."""
        proposal = self.proposal
        if proposal is None or answer.serial != self._serial:
            return NOTHING  # the image, or a newer request, has settled it
        match answer.code:
            case Code.NONE:
                return self._agreed(answer, now_ms)
            case Code.INELIGIBLE_REPLICA | Code.OPERATION_NOT_ATTEMPTED:  # certainly not done: the old ISR stands
                self.proposal = None
                self.maximal_isr = frozenset(self.isr)
                return self._advance(now_ms)
            case (
                Code.INVALID_UPDATE_VERSION | Code.FENCED_LEADER_EPOCH | Code.NEW_LEADER_ELECTED | Code.INVALID_REQUEST
                | Code.UNKNOWN_TOPIC_OR_PARTITION | Code.UNKNOWN_TOPIC_ID
            ):  # fmt: skip
                # We are stale, perhaps because an earlier request was done and its response lost. The image comes, and
                # both ISRs stay possible until it comes; should it not, a sweep asks again (law L4).
                proposal.waiting = True
                return NOTHING
            case _:  # NOT_CONTROLLER, timeouts, no response: the same request again (KAFKA-14010)
                return self._alter_isr(proposal, now_ms)

    def _agreed(self, answer: IsrAnswer, now_ms: int) -> Effects:
        assert self.proposal is not None
        if answer.leader_epoch != self.leader_epoch or answer.partition_epoch < self.partition_epoch:
            self.proposal.waiting = True
            return NOTHING
        before = self.isr
        self.isr = answer.isr
        self.maximal_isr = frozenset(answer.isr)
        self.partition_epoch = answer.partition_epoch
        self.recovering = False
        self.proposal = None
        changed: Effects = (IsrChanged(before, self.isr),) if before != self.isr else NOTHING
        # Others may have caught up meanwhile; and the watermark may have waited for a shrink (KAFKA-13091).
        return changed + self._expand(now_ms) + self._advance(now_ms)

    # ---- the leader: high watermark and acknowledgement ----------------------------------------------------------

    @property
    def effective_min_isr(self) -> int:
        """min.insync.replicas, but never more than there are replicas."""
        return min(self.limits.min_insync_replicas, len(self.replicas))

    def appended(self, now_ms: int, *, flushed: bool = False) -> Effects:
        """The leader appended, or flushed (``flushed``) what waited for it: the watermark may move."""
        if len(self.maximal_isr) > 1 and not flushed:
            return NOTHING
        return self._advance(now_ms)

    def _watched(self) -> frozenset[int]:
        """Return what bounds the watermark: the maximal ISR, as a proposal may be committed already (S8)."""
        return self.maximal_isr

    def _advance(self, now_ms: int) -> Effects:
        """Move the watermark to the lowest end in the maximal ISR, if the ISR is large enough (KIP-966, KAFKA-15583).

        A follower that is caught up but not yet in the ISR is waited for as well, else under steady load the watermark
        runs ahead of it and it never reaches it to join.
        """
        if self.role is not Role.LEADER or len(self.isr) < self.effective_min_isr:
            return NOTHING
        end, low = self._log.log_end_offset, self._log.settled_end
        watched, lag_max_ms = self._watched(), self.limits.replica_lag_time_max_ms
        for broker, progress in self.followers.items():
            if progress.leo >= low:
                continue
            if broker in watched or (
                progress.fetched and progress.caught_up(end, now_ms, lag_max_ms) and self._eligible(broker, progress)
            ):
                low = progress.leo
        if low <= self.high_watermark:
            return NOTHING
        self.high_watermark = low
        return (HighWatermark(low),)

    def check_append(self, acks: int) -> Code:
        """Return the code that refuses a produce with these acks now, NONE when it may be appended."""
        if self.role is not Role.LEADER:
            return Code.KAFKA_STORAGE_ERROR if self.role is Role.OFFLINE else Code.NOT_LEADER_OR_FOLLOWER
        if acks == -1 and len(self.isr) < self.effective_min_isr:
            return Code.NOT_ENOUGH_REPLICAS
        return Code.NONE

    def acknowledged(self, next_offset: int) -> Code | None:
        """Return the code for an acks=all produce whose last record lies just below ``next_offset``; None: not yet."""
        if self.role is not Role.LEADER:
            return Code.NOT_LEADER_OR_FOLLOWER
        if self.high_watermark < next_offset:
            return None
        if len(self.isr) < self.effective_min_isr:
            return Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return Code.NONE

    # ---- any reader ----------------------------------------------------------------------------------------------

    def check_epoch(self, current_leader_epoch: int, *, leader_only: bool = True) -> Code:
        """Return the code that refuses a request under ``current_leader_epoch`` (-1: absent), or NONE (KIP-320)."""
        if current_leader_epoch not in (NO_EPOCH, self.leader_epoch):
            fenced = current_leader_epoch < self.leader_epoch
            return Code.FENCED_LEADER_EPOCH if fenced else Code.UNKNOWN_LEADER_EPOCH
        role = self.role
        if role is Role.LEADER or (role is Role.FOLLOWER and not leader_only):
            return Code.NONE
        return Code.KAFKA_STORAGE_ERROR if role is Role.OFFLINE else Code.NOT_LEADER_OR_FOLLOWER

    def epoch_end(self, current_leader_epoch: int, epoch: int) -> tuple[Code, int, int]:
        """OffsetForLeaderEpoch: (code, largest known epoch <= ``epoch``, its end), (-1, -1) when not known."""
        code = self.check_epoch(current_leader_epoch)
        if code is not Code.NONE:
            return code, NO_EPOCH, NO_OFFSET
        return Code.NONE, *self._log.epochs.end_offset_for(epoch, self._log.log_end_offset)

    def latest(self) -> int | None:
        """Return the end of what consumers may see, or None: OFFSET_NOT_AVAILABLE.

        A new leader's watermark may lie below what an older one has shown, until it covers the start of its own epoch
        (KIP-207, law S7).
        """
        if self.role is Role.LEADER and self.high_watermark < self.epoch_start:
            return None
        return self.high_watermark

    @property
    def low_watermark(self) -> int:
        """Return the lowest log start of this broker and its live followers (-1: one has not fetched yet), with which
        DeleteRecords answers."""
        low = self._log.log_start_offset
        for broker, progress in self.followers.items():
            if progress.log_start < low and self._brokers.may_join_isr(broker):
                low = progress.log_start
        return low

    # ---- the follower --------------------------------------------------------------------------------------------

    def position(self) -> tuple[int, int]:
        """(fetch offset, last fetched epoch) of the next fetch."""
        return self._log.log_end_offset, self._log.epochs.latest

    def fetch_answered(self, answer: FetchAnswer) -> tuple[Next, Effects]:
        """Decide on a fetch response. On APPEND the broker appends the records, then calls ``appended_from_leader``."""
        log = self._log
        if self.role is not Role.FOLLOWER or answer.sent_epoch != self.leader_epoch:
            return Next.DROP, NOTHING  # of an epoch that has passed (KAFKA-7786)
        if answer.sent_from != self.position():
            # Our log moved while it was in flight. The offset alone could be the same again after a truncation and
            # new appends, and an old divergence would cut committed records; with the epoch it is one history.
            return Next.DROP, NOTHING
        if answer.code is not Code.NONE:
            return AFTER_ERROR.get(answer.code, Next.BACK_OFF), NOTHING
        if answer.diverging is not None:
            if NO_OFFSET in answer.diverging:
                return Next.ASK_RANGE, NOTHING  # the leader does not know where
            # Cut first: the leader's watermark says nothing about records that are not the leader's (KAFKA-14704).
            point = truncation_point(log.epochs, log.log_end_offset, *answer.diverging)
            return Next.REFETCH, self._cut(point, answer.log_start_offset)
        return Next.APPEND, NOTHING

    def appended_from_leader(self, leader_high_watermark: int, leader_log_start: int) -> Effects:
        """The response's records (maybe none) are in our log: our watermark follows the leader's, up to our end."""
        effects = NOTHING
        high = min(leader_high_watermark, self._log.log_end_offset)
        if high > self.high_watermark:
            self.high_watermark = high
            effects = (HighWatermark(high),)
        if self._log.log_start_offset < leader_log_start <= self.high_watermark:
            effects += (AdvanceLogStart(leader_log_start),)
        return effects

    def out_of_range(self, leader_log_start: int, leader_end: int) -> Effects:
        """The leader does not hold our position: cut to its end if we are beyond, start over if we are before."""
        if self.role is not Role.FOLLOWER:
            return NOTHING
        if leader_end < self._log.log_end_offset:
            return self._cut(leader_end, leader_log_start)
        if self._log.log_end_offset < leader_log_start:
            self.high_watermark = leader_log_start  # KAFKA-9491
            return (Restart(leader_log_start),)
        return NOTHING

    def _cut(self, offset: int, leader_log_start: int) -> Effects:
        assert self.role is Role.FOLLOWER, "a leader never truncates its own log (law S13)"
        if offset < self._log.log_start_offset:  # in sync without the leader's records, we could lead without them
            self.high_watermark = offset = min(offset, max(leader_log_start, 0))
            return (Restart(offset),)
        self.high_watermark = min(self.high_watermark, offset)
        return (Truncate(offset),)
