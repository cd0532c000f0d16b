"""Who stays on the clients' list after a death, and for how long."""

from __future__ import annotations

from moldau.broker.metadata.cache import MetadataCache
from moldau.broker.metadata.recently_fenced import LINGER_MS, RELAPSE_MS, RecentlyFencedBrokers
from moldau.wire.records.metadata import FenceBrokerRecord, RegisterBrokerRecord, UnfenceBrokerRecord
from tests.packages.manual_clock import ManualClock


class Life:
    """One broker's comings and goings."""

    def __init__(self) -> None:
        self.clock = ManualClock(1_000)
        self.metadata = MetadataCache()
        self.recently_fenced = RecentlyFencedBrokers(self.clock, self.metadata)
        self.offset = 0
        self.say(RegisterBrokerRecord(broker_id=1, broker_epoch=5, incarnation_id=b"i" * 16, fenced=True))
        self.rise()

    def say(self, record: object) -> None:
        self.metadata.committed([record], self.offset, 1)
        self.offset += 1

    def rise(self) -> None:
        self.say(UnfenceBrokerRecord(id=1, epoch=5))

    def fall(self) -> None:
        self.say(FenceBrokerRecord(id=1, epoch=5))

    def shown(self) -> list[int]:
        return [broker.id for broker in self.recently_fenced.brokers()]


def test_a_broker_that_was_fenced_stays_on_the_list_for_a_moment() -> None:
    life = Life()
    assert life.shown() == []
    life.fall()
    assert life.shown() == [1]
    life.clock.now_ms += LINGER_MS - 1
    assert life.shown() == [1]
    life.clock.now_ms += 1
    assert life.shown() == []


def test_a_broker_that_is_back_is_not_listed_twice() -> None:
    life = Life()
    life.fall()
    life.rise()
    assert life.shown() == []


def test_a_broker_that_falls_again_soon_leaves_at_once_and_later_lingers_again() -> None:
    life = Life()
    life.fall()
    life.rise()
    life.clock.now_ms += RELAPSE_MS - 1
    life.fall()
    assert life.shown() == []
    life.rise()
    life.clock.now_ms += RELAPSE_MS
    life.fall()
    assert life.shown() == [1]
