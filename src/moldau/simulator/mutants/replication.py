"""Mistakes in partition replication: Kafka's ladder from KIP-101 to KIP-320, the ISR, the watermark, the controller.

Most are a machine that is wrong in one method, put into the simulation in place of the right one. Facts about Kafka's
bugs are from its issues by number; the code is ours.
"""

from __future__ import annotations

from typing import Any

from moldau.model import Code
from moldau.replication.effects import NOTHING, Effect, Effects, Follow, HighWatermark, Truncate
from moldau.replication.facts import Assignment, FetchAnswer, FollowerFetch, IsrAnswer, Verdict
from moldau.replication.follower import Next
from moldau.replication.partition import Partition
from moldau.replication.progress import Progress
from moldau.replication.roles import Role
from moldau.simulator.machines.replication_model import ModelController, ModelLog
from moldau.simulator.machines.replication_world import ReplicationSimulation
from moldau.simulator.mutants.mutant import Mutant, Patches


class TruncatesToWatermark(Partition):
    """A new follower cuts to its own watermark, and nobody compares epochs."""

    def _follow(self, said: Assignment) -> Effects:
        effects: list[Effect] = list(super()._follow(said))
        if any(isinstance(effect, Follow) for effect in effects):
            effects += self._cut(self.high_watermark, self._log.log_start_offset)
        return tuple(effects)

    def position(self) -> tuple[int, int]:
        return super().position()[0], -1


class TruncatesByEndAlone(Partition):
    """The answered end is believed whatever epoch it belongs to, and asked for once."""

    __slots__ = ("asked",)

    def _follow(self, said: Assignment) -> Effects:
        self.asked = False
        return super()._follow(said)

    def position(self) -> tuple[int, int]:
        offset, epoch = super().position()
        return offset, -1 if self.asked else epoch

    def fetch_answered(self, answer: FetchAnswer) -> tuple[Next, Effects]:
        current = self.role is Role.FOLLOWER and answer.sent_epoch == self.leader_epoch
        if answer.diverging is None or not current:
            return super().fetch_answered(answer)
        self.asked = True
        return Next.REFETCH, self._cut(min(answer.diverging[1], self._log.log_end_offset), answer.log_start_offset)


class JoinsBeforeEpochStart(Partition):
    """Reaching the watermark is enough to join the ISR."""

    def _may_join(self, broker: int, progress: Progress) -> bool:
        return progress.fetched and progress.leo >= self.high_watermark and self._eligible(broker, progress)


class JoinsOnOldFetches(Partition):
    """What followers fetched in an older epoch counts in this one."""

    def _lead(self, said: Assignment, now_ms: int) -> Effects:
        known = self.followers
        effects = super()._lead(said, now_ms)
        self.followers = {broker: known.get(broker) or progress for broker, progress in self.followers.items()}
        return effects


class KeepsIsrAheadOfWatermark(Partition):
    """A follower below the watermark joins: any that fetches is good enough."""

    def _may_join(self, broker: int, progress: Progress) -> bool:
        return progress.fetched and self._eligible(broker, progress)


class WatermarkOverIsr(Partition):
    """A follower whose joining is under way does not bound the watermark."""

    def _watched(self) -> frozenset[int]:
        return frozenset(self.isr)

    def _eligible(self, broker: int, progress: Progress) -> bool:
        return self.proposal is None and super()._eligible(broker, progress)


class WatermarkOverProposal(Partition):
    """A member whose leaving is not agreed yet does not bound the watermark."""

    def _watched(self) -> frozenset[int]:
        return frozenset(self.isr if self.proposal is None else self.proposal.isr)


class WatermarkBeforeTruncation(Partition):
    """The leader's watermark is taken while the log still has records that are not the leader's."""

    def fetch_answered(self, answer: FetchAnswer) -> tuple[Next, Effects]:
        then, effects = super().fetch_answered(answer)
        if answer.diverging is None or then is not Next.REFETCH:
            return then, effects
        high = min(answer.high_watermark, self._log.log_end_offset)
        self.high_watermark = max(self.high_watermark, high)
        return then, (HighWatermark(high), *effects)


class WatermarkOfTheLeader(Partition):
    """A follower takes the leader's watermark, beyond the end of its own log."""

    def appended_from_leader(self, leader_high_watermark: int, leader_log_start: int) -> Effects:
        super().appended_from_leader(leader_high_watermark, leader_log_start)
        self.high_watermark = max(self.high_watermark, leader_high_watermark)
        return NOTHING


class WatermarkIsTheLeadersEnd(Partition):
    """A leader alone decides what is committed."""

    def _watched(self) -> frozenset[int]:
        return frozenset({self.me})

    def _eligible(self, broker: int, progress: Progress) -> bool:
        return super()._eligible(broker, progress) and progress.leo >= self._log.log_end_offset


class WatermarkMovesOnFetchesOnly(Partition):
    """The watermark is not looked at again when the ISR shrinks: produces wait for who has left."""

    __slots__ = ("fetched_from",)

    def follower_fetched(self, fetch: FollowerFetch) -> Verdict:
        self.fetched_from = True
        verdict = super().follower_fetched(fetch)
        self.fetched_from = False
        return verdict

    def _advance(self, now_ms: int) -> Effects:
        return super()._advance(now_ms) if getattr(self, "fetched_from", False) else NOTHING


class HearsLateAnswers(Partition):
    """An answer sent under an older leader epoch is applied, if its offset is where our log ends."""

    def fetch_answered(self, answer: FetchAnswer) -> tuple[Next, Effects]:
        position = self.position()
        same = answer.sent_from[0] == position[0]
        sent_from = position if same else answer.sent_from
        return super().fetch_answered(answer._replace(sent_epoch=self.leader_epoch, sent_from=sent_from))


class IgnoresPosition(Partition):
    """An answer for a position where our log no longer ends is applied."""

    def fetch_answered(self, answer: FetchAnswer) -> tuple[Next, Effects]:
        return super().fetch_answered(answer._replace(sent_from=self.position()))


class AnswersWhatItHas(Partition):
    """A produce with acks=all is answered when the leader itself has it."""

    def acknowledged(self, next_offset: int) -> Code | None:
        code = super().acknowledged(next_offset)
        return Code.NONE if code is None and self._log.log_end_offset >= next_offset else code


class ServesAnyEpoch(Partition):
    """A fetch is served whatever leader epoch it was sent under."""

    def follower_fetched(self, fetch: FollowerFetch) -> Verdict:
        return super().follower_fetched(fetch._replace(current_leader_epoch=-1))


class ForgetsMinIsr(Partition):
    """The watermark moves under an ISR that is too small."""

    @property
    def effective_min_isr(self) -> int:
        return 1 if self.role is Role.LEADER and self._log.log_end_offset % 2 else super().effective_min_isr


class TrustsOldBrokerEpoch(Partition):
    """A fetch sent before a restart lets the restarted broker in."""

    def _eligible(self, broker: int, progress: Progress) -> bool:
        return self._brokers.may_join_isr(broker)

    def _member_epoch(self, broker: int) -> int:
        return -1


class LetsFencedIn(Partition):
    """Anybody who has caught up may join."""

    def _eligible(self, broker: int, progress: Progress) -> bool:
        return True

    def _member_epoch(self, broker: int) -> int:
        return -1


class ShowsWatermarkEarly(Partition):
    """A new leader shows a watermark that may lie below what was shown before."""

    def latest(self) -> int | None:
        return self.high_watermark


class NeverAsksAgain(Partition):
    """A retriable error ends the asking, and the proposal stays open for ever."""

    def isr_answered(self, answer: IsrAnswer, now_ms: int) -> Effects:
        if answer.code in (Code.NETWORK_EXCEPTION, Code.NOT_CONTROLLER):
            return NOTHING
        return super().isr_answered(answer, now_ms)


class TakesADenialForTheOldState(Partition):
    """Told that it is stale, a leader goes back to the ISR of before, which the controller may have changed already."""

    def isr_answered(self, answer: IsrAnswer, now_ms: int) -> Effects:
        stale = answer.code in (Code.INVALID_UPDATE_VERSION, Code.NETWORK_EXCEPTION)
        if stale and self.proposal is not None and answer.serial == self._serial:
            self.proposal = None
            self.maximal_isr = frozenset(self.isr)
            return self._advance(now_ms)
        return super().isr_answered(answer, now_ms)


class WritesNoEmptyEpoch(Partition):
    """An election without records leaves no mark in the epoch table."""

    def _lead(self, said: Assignment, now_ms: int) -> Effects:
        return tuple(e for e in super()._lead(said, now_ms) if type(e).__name__ != "AssignEpoch")


class LeaderTruncates(Partition):
    """A leader cuts its own log to its watermark when elected."""

    def _lead(self, said: Assignment, now_ms: int) -> Effects:
        return (*super()._lead(said, now_ms), Truncate(self.high_watermark))


def removes_without_a_new_epoch(patches: Patches) -> None:
    """The controller drops a replica and brings it back in one breath, under the same leader epoch."""

    def drop(self: ModelController, broker: int) -> bool:
        state = self.state
        isr = tuple(b for b in state.isr if b != broker)
        if broker not in state.replicas or state.leader == broker or state.leader not in isr:
            return False
        self.change(replicas=tuple(b for b in state.replicas if b != broker), isr=isr)
        return True

    patches.set(ModelController, "drop", drop)


def trusts_a_tail_that_is_gone(patches: Patches) -> None:
    """A broker back from a power cut keeps its place in the ISR."""

    def fence(self: ModelController, broker: int) -> None:
        self.brokers.fenced |= {broker}
        if self.state.leader == broker:
            self.elect(self.state.isr)
        else:
            self.publish()

    patches.set(ModelController, "fence", fence)


def forgets_to_cut_the_epoch_table(patches: Patches) -> None:
    """A truncation leaves the epochs of what was cut in the table."""

    def truncate(self: ModelLog, offset: int) -> None:
        del self.entries[offset:]
        self.flushed = min(self.flushed, offset)

    patches.set(ModelLog, "truncate", truncate)


def _machine(bug: str, laws: str, machine: type[Partition], first: int = 0) -> Mutant:
    def patch(patches: Patches) -> None:
        patches.set(ReplicationSimulation, "machine", machine)

    patch.__name__ = "".join(f"_{c.lower()}" if c.isupper() else c for c in machine.__name__).lstrip("_")
    what = (machine.__doc__ or "").rstrip(".")
    return Mutant(bug, what[:1].lower() + what[1:], "replication", tuple(laws.split()), patch, first)


def _around(bug: str, laws: str, patch: Any, first: int = 0) -> Mutant:
    what = (patch.__doc__ or "").rstrip(".")
    return Mutant(bug, what[:1].lower() + what[1:], "replication", tuple(laws.split()), patch, first)


MUTANTS = (
    _machine("KIP-101", "S12 S4 S2 S3", TruncatesToWatermark),
    _machine("KIP-279 KAFKA-6361", "S4 S2 S3 S12 L3", TruncatesByEndAlone),
    _machine("KIP-320 KAFKA-7395", "S4 S2 S3 S8 S9 S10 S14 X7", ServesAnyEpoch),
    _machine("KAFKA-7128", "S3 S10 S2", JoinsBeforeEpochStart),
    _machine("Vanlightly 6.5.4", "S3 S8 S10 S2", JoinsOnOldFetches, first=27),
    _machine("KAFKA-7128's kind", "S3 S10 S2", KeepsIsrAheadOfWatermark),
    _machine("KIP-497", "S8 S3 S2 S9", WatermarkOverIsr, first=300),
    _machine("KIP-497", "S8 S3 S2 S9", WatermarkOverProposal),
    _machine("KAFKA-14704", "S4 S8 S2 S3 S6 S12", WatermarkBeforeTruncation),
    _machine("own (watermark)", "S8", WatermarkOfTheLeader),
    _machine("Jepsen 2013", "S8 S3 S2", WatermarkIsTheLeadersEnd),
    _machine("KAFKA-13091", "L2 L3", WatermarkMovesOnFetchesOnly, first=54),
    _machine("KAFKA-7786", "S4 S12 S2 S3 S14 X7", HearsLateAnswers, first=204),
    _machine("KAFKA-7786's kind", "S4 S12 S2 S3 S14 X7", IgnoresPosition),
    _machine("own (S1)", "S1", AnswersWhatItHas),
    _machine("KAFKA-15583", "S8 L3", ForgetsMinIsr),
    _machine("KAFKA-15221", "S10 S3", TrustsOldBrokerEpoch),
    _machine("KIP-841 KAFKA-13916", "S10 S3", LetsFencedIn),
    _machine("KIP-207", "S7", ShowsWatermarkEarly),
    _machine("KAFKA-14010", "L3 L4", NeverAsksAgain, first=81),
    _machine("KAFKA-14144", "S9 S8 S3 S2", TakesADenialForTheOldState, first=24),
    _machine("KAFKA-7415", "S4 S14 S2 S12 L3", WritesNoEmptyEpoch, first=17),
    _machine("own log (S13)", "S13 S12 X7", LeaderTruncates),
    _around("KAFKA-13972", "S3 S10 S8 S2", removes_without_a_new_epoch, first=27),
    _around("KIP-966", "S2 S3 S4 S12", trusts_a_tail_that_is_gone),
    _around("KAFKA-15312's kind", "S14 S4 X7 L3", forgets_to_cut_the_epoch_table),
)
