"""The bugs of Kafka's history, each as the smallest change to a right machine. Some law must catch every one.

``test_world.py`` runs each through the seeded world. A mutant that survives means that a law is missing or blind.
"""

from __future__ import annotations

from moldau.replication.effects import NOTHING, Effect, Effects, Follow, HighWatermark, Truncate
from moldau.replication.facts import Assignment, FetchAnswer, FollowerFetch, IsrAnswer, Verdict
from moldau.replication.follower import Next
from moldau.replication.partition import Partition
from moldau.replication.progress import Progress
from moldau.replication.roles import Role
from moldau.terms import Code


class TruncatesToWatermark(Partition):
    """Before KIP-101: a new follower cuts to its own watermark, and nobody compares epochs."""

    def _follow(self, said: Assignment) -> Effects:
        effects: list[Effect] = list(super()._follow(said))
        if any(isinstance(effect, Follow) for effect in effects):
            effects += self._cut(self.high_watermark)
        return tuple(effects)

    def position(self) -> tuple[int, int]:
        return super().position()[0], -1


class TruncatesByEndAlone(Partition):
    """KIP-101 without KIP-279: the answered end is believed whatever epoch it belongs to, and asked for once."""

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
        return Next.REFETCH, self._cut(min(answer.diverging[1], self._log.log_end_offset))


class JoinsBeforeEpochStart(Partition):
    """KAFKA-7128: reaching the watermark is enough to join the ISR."""

    def _may_join(self, broker: int, progress: Progress) -> bool:
        return progress.fetched and progress.leo >= self.high_watermark and self._eligible(broker, progress)


class WatermarkOverIsr(Partition):
    """KIP-497 misread: a follower whose joining is under way does not bound the watermark."""

    def _watched(self) -> frozenset[int]:
        return frozenset(self.isr)

    def _eligible(self, broker: int, progress: Progress) -> bool:
        return self.proposal is None and super()._eligible(broker, progress)


class WatermarkOverProposal(Partition):
    """The same for leaving: a member whose leaving is not agreed yet does not bound the watermark."""

    def _watched(self) -> frozenset[int]:
        return frozenset(self.isr if self.proposal is None else self.proposal.isr)


class WatermarkBeforeTruncation(Partition):
    """KAFKA-14704: the leader's watermark is taken while the log still has records that are not the leader's."""

    def fetch_answered(self, answer: FetchAnswer) -> tuple[Next, Effects]:
        then, effects = super().fetch_answered(answer)
        if answer.diverging is None or then is not Next.REFETCH:
            return then, effects
        high = min(answer.high_watermark, self._log.log_end_offset)
        self.high_watermark = max(self.high_watermark, high)
        return then, (HighWatermark(high), *effects)


class HearsLateAnswers(Partition):
    """KAFKA-7786: an answer sent under an older leader epoch is applied, if its offset is where our log ends."""

    def fetch_answered(self, answer: FetchAnswer) -> tuple[Next, Effects]:
        position = self.position()
        same = answer.sent_from[0] == position[0]
        sent_from = position if same else answer.sent_from
        return super().fetch_answered(answer._replace(sent_epoch=self.leader_epoch, sent_from=sent_from))


class IgnoresPosition(Partition):
    """An answer for a position where our log no longer ends is applied."""

    def fetch_answered(self, answer: FetchAnswer) -> tuple[Next, Effects]:
        return super().fetch_answered(answer._replace(sent_from=self.position()))


class ComparesOffsetAlone(Partition):
    """An answer for our offset is applied, though our log was cut and grew back to it since."""

    def fetch_answered(self, answer: FetchAnswer) -> tuple[Next, Effects]:
        offset, epoch = self.position()
        same = answer.sent_from[0] == offset
        return super().fetch_answered(answer._replace(sent_from=(offset, epoch)) if same else answer)


class ServesAnyEpoch(Partition):
    """Before KIP-320: a fetch is served whatever leader epoch it was sent under."""

    def follower_fetched(self, fetch: FollowerFetch) -> Verdict:
        return super().follower_fetched(fetch._replace(current_leader_epoch=-1))


class ForgetsMinIsr(Partition):
    """KAFKA-15583: the watermark moves under an ISR that is too small."""

    @property
    def effective_min_isr(self) -> int:
        return 1 if self.role is Role.LEADER and self._log.log_end_offset % 2 else super().effective_min_isr


class TrustsOldBrokerEpoch(Partition):
    """KAFKA-15221: a fetch sent before a restart lets the restarted broker in."""

    def _eligible(self, broker: int, progress: Progress) -> bool:
        return self._brokers.may_join_isr(broker)

    def _member_epoch(self, broker: int) -> int:
        return -1


class LetsFencedIn(Partition):
    """KIP-841: anybody who has caught up may join."""

    def _eligible(self, broker: int, progress: Progress) -> bool:
        return True

    def _member_epoch(self, broker: int) -> int:
        return -1


class ShowsWatermarkEarly(Partition):
    """Before KIP-207: a new leader shows a watermark that may lie below what was shown before."""

    def latest(self) -> int | None:
        return self.high_watermark


class NeverAsksAgain(Partition):
    """KAFKA-14010: a retriable error ends the asking, and the proposal stays open for ever."""

    def isr_answered(self, answer: IsrAnswer, now_ms: int) -> Effects:
        if answer.code in (Code.NETWORK_EXCEPTION, Code.NOT_CONTROLLER):
            return NOTHING
        return super().isr_answered(answer, now_ms)


class WritesNoEmptyEpoch(Partition):
    """KAFKA-7415: an election without records leaves no mark in the epoch table."""

    def _lead(self, said: Assignment, now_ms: int) -> Effects:
        return tuple(e for e in super()._lead(said, now_ms) if type(e).__name__ != "AssignEpoch")


class LeaderTruncates(Partition):
    """A leader cuts its own log to its watermark when elected."""

    def _lead(self, said: Assignment, now_ms: int) -> Effects:
        return (*super()._lead(said, now_ms), Truncate(self.high_watermark))


MUTANTS: list[type[Partition]] = [
    TruncatesToWatermark, TruncatesByEndAlone, JoinsBeforeEpochStart, WatermarkOverIsr, WatermarkOverProposal,
    WatermarkBeforeTruncation, HearsLateAnswers, IgnoresPosition, ComparesOffsetAlone, ServesAnyEpoch, ForgetsMinIsr,
    TrustsOldBrokerEpoch, LetsFencedIn, ShowsWatermarkEarly, NeverAsksAgain, LeaderTruncates, WritesNoEmptyEpoch,
]  # fmt: skip
