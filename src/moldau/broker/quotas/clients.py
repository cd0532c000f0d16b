"""Clients kept to their quotas: what each spent, and for how long it is throttled now (KIP-13, KIP-124, KIP-599).

Watches the committed image. Who shares a quota shares one count. Counts are made when they are first needed and dropped
when they say no more than fresh ones; there are never more than ``COUNTS_MAX``, however many names clients give
themselves. Brokers count for themselves: a quota is each broker's, as in Kafka; mutations are the controller's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from moldau.broker.quotas.limits import Bound, QuotaLimits, Tags
from moldau.broker.quotas.rates import Rate, TokenBucket, Windows
from moldau.image import Delta, Image
from moldau.image.quotas import quotas, touches
from moldau.model.quota_config import CONNECTION, FETCH, MUTATION, PRODUCE, REQUEST
from moldau.ports import Clock

COUNTS_MAX = 10_000
OF_REQUESTS = (PRODUCE, FETCH, REQUEST, MUTATION)


class ClientQuotas:
    """One node's counts. ``active``: somebody has a quota that requests spend, or was given one and lost it."""

    def __init__(self, clock: Clock, setting: Callable[[str], int]) -> None:
        self._clock = clock
        self._windows = Windows(setting("quota.window.num"), 1000 * setting("quota.window.size.seconds"))
        self._windows_of_mutations = Windows(
            setting("controller.quota.window.num"), 1000 * setting("controller.quota.window.size.seconds")
        )
        self._limits = QuotaLimits()
        self._rates: OrderedDict[tuple[str, Tags], Rate] = OrderedDict()
        self._buckets: OrderedDict[Tags, TokenBucket] = OrderedDict()
        self.active = False
        self.limits_addresses = False

    def changed(self, image: Image, delta: Delta) -> None:
        """A committed batch changed something."""
        if touches(delta.opaque):
            self._limits = QuotaLimits(quotas(image))
            self.active = any(map(self._limits.limits, OF_REQUESTS))
            self.limits_addresses = self._limits.limits(CONNECTION)

    def spend(self, key: str, client_id: str | None, amount: float) -> int:
        """A client spent so much of a quota: for how many milliseconds it is throttled."""
        bound = self._limits.of_client(key, client_id)
        if bound is None:
            return 0
        now_ms = self._clock.monotonic_ms()
        rate = self._rate(key, bound.tags, now_ms)
        rate.record(amount, now_ms)
        return self._wait_ms(rate, key, bound, now_ms)

    def throttle_ms(self, key: str, client_id: str | None) -> int:
        """For how long a client is throttled if it spends nothing more."""
        bound = self._limits.of_client(key, client_id)
        if bound is None:
            return 0
        now_ms = self._clock.monotonic_ms()
        return self._wait_ms(self._rate(key, bound.tags, now_ms), key, bound, now_ms)

    def most_at_once(self, key: str, client_id: str | None) -> int | None:
        """The most that a client can spend in one go without being throttled; None: there is no limit."""
        bound = self._limits.of_client(key, client_id)
        if bound is None:
            return None
        return int(bound.limit * (self._windows.number - 1) * self._windows.size_ms / 1000)

    def mutation(self, client_id: str | None, *, strict: bool) -> MutationQuota:
        """What one request of a client may have changed. ``strict``: nothing once the quota is spent."""
        bound = self._limits.of_client(MUTATION, client_id)
        if bound is None:
            return MutationQuota(self._clock, None, 0.0, strict=strict)
        now_ms = self._clock.monotonic_ms()
        bucket = self._buckets.get(bound.tags)
        if bucket is None:
            bucket = self._buckets[bound.tags] = TokenBucket(self._windows_of_mutations, bound.limit, now_ms)
            _drop_stale(self._buckets, now_ms - self._windows_of_mutations.all_ms)
        self._buckets.move_to_end(bound.tags)
        return MutationQuota(self._clock, bucket, bound.limit, strict=strict)

    def connect_ms(self, address: str) -> int:
        """A connection was made from an address: for how long it must wait; one that waits is not counted."""
        limit = self._limits.of_address(CONNECTION, address)
        if limit is None:
            return 0
        now_ms = self._clock.monotonic_ms()
        rate = self._rate(CONNECTION, (address, ""), now_ms)
        rate.record(1, now_ms)
        wait_ms = rate.wait_ms(limit, now_ms)
        if wait_ms:
            rate.record(-1, now_ms)
        return min(wait_ms, self._windows.size_ms)

    def _wait_ms(self, rate: Rate, key: str, bound: Bound, now_ms: int) -> int:
        """Time is made up for within one window, as in Kafka: a long request must not cost minutes."""
        wait_ms = rate.wait_ms(bound.limit, now_ms)
        return min(wait_ms, self._windows.size_ms) if key == REQUEST else wait_ms

    def _rate(self, key: str, tags: Tags, now_ms: int) -> Rate:
        rate = self._rates.get((key, tags))
        if rate is None:
            rate = self._rates[key, tags] = Rate(self._windows, now_ms)
            _drop_stale(self._rates, now_ms - self._windows.all_ms)
        self._rates.move_to_end((key, tags))
        return rate


class MutationQuota:
    """What one request takes of its client's mutations: partitions created and deleted."""

    def __init__(self, clock: Clock, bucket: TokenBucket | None, limit: float, *, strict: bool) -> None:
        self._clock = clock
        self._bucket = bucket
        self._limit = limit
        self._strict = strict
        self.throttle_ms = 0
        """For how long the client is throttled by what it took."""

    def take(self, count: int) -> bool:
        """Take so many; False when the quota is spent already, and they may not be had."""
        bucket, now_ms = self._bucket, self._clock.monotonic_ms()
        if bucket is None:
            return True
        if self._strict and (wait_ms := bucket.wait_ms(self._limit, now_ms)):
            self.throttle_ms = wait_ms
            return False
        bucket.take(count, self._limit, now_ms)
        if not self._strict:
            self.throttle_ms = bucket.wait_ms(self._limit, now_ms)
        return True

    def give_back(self, count: int) -> None:
        """So many were taken and not used."""
        if self._bucket is not None:
            self._bucket.take(-count, self._limit, self._clock.monotonic_ms())


def _drop_stale(counts: OrderedDict[Any, Any], before_ms: int) -> None:  # Any: keys and counts of either kind
    """Drop what was not asked for since; then it says no more than a fresh count. Never more than so many stay."""
    while len(counts) > 1:
        key, count = next(iter(counts.items()))
        if count.last_ms > before_ms and len(counts) <= COUNTS_MAX:
            return
        del counts[key]
