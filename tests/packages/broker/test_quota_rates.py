"""Rates over windows and token buckets, against what they mean; which quota binds whom."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.quotas.limits import Bound, QuotaLimits
from moldau.broker.quotas.rates import WAIT_MAX_MS, Rate, TokenBucket, Windows
from moldau.image.quotas import entity
from moldau.model.quota_config import CLIENT_ID, IP, PRODUCE, USER

WINDOWS = Windows(11, 1000)
AMOUNTS = st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 10_000)), max_size=60)


def test_what_is_within_the_quota_of_all_windows_waits_for_nothing() -> None:
    rate = Rate(WINDOWS, 0)
    rate.record(1000, 0)
    assert rate.wait_ms(100, 0) == 0, "ten windows of 100 are 1000"
    rate.record(1, 0)
    assert rate.wait_ms(100, 0) == 10, "one more is 10 ms of 100 a second"


@pytest.mark.parametrize("limit", [5e-324, 1e-300, 1e-9, 1e308])
def test_every_quota_that_may_be_set_gives_a_time_that_a_response_can_say(limit: float) -> None:
    """Who had a quota of 5e-324 bytes a second had each connection closed, and heard nothing of what was written."""
    rate, bucket = Rate(WINDOWS, 0), TokenBucket(WINDOWS, limit, 0)
    for now_ms in (0, 1, 10_000, 1 << 40):
        rate.record(1 << 30, now_ms)
        bucket.take(1 << 30, limit, now_ms)
        assert rate.wait_ms(limit, now_ms) == bucket.wait_ms(limit, now_ms) == (0 if limit > 1 else WAIT_MAX_MS)


@given(AMOUNTS, st.floats(1, 1e6))
def test_who_waits_as_long_as_told_has_at_most_twice_its_quota(steps: list[tuple[int, int]], limit: float) -> None:
    """Windows that are full and end while their client waits are forgotten: at worst it then has twice its quota."""
    rate, now_ms, spent = Rate(WINDOWS, 0), 0, 0.0
    for pause_ms, amount in steps:
        now_ms += pause_ms
        assert spent <= 2 * limit * (now_ms + WINDOWS.all_ms) / 1000
        rate.record(amount, now_ms)
        spent += amount
        while wait_ms := rate.wait_ms(limit, now_ms):
            now_ms += wait_ms


@given(AMOUNTS)
def test_a_rate_forgets_what_is_older_than_its_windows(steps: list[tuple[int, int]]) -> None:
    rate, now_ms = Rate(WINDOWS, 0), 0
    for pause_ms, amount in steps:
        now_ms += pause_ms
        rate.record(amount, now_ms)
    now_ms += WINDOWS.all_ms + WINDOWS.size_ms
    assert rate.wait_ms(1e-3, now_ms) == 0


def test_a_bucket_lends_once_and_is_paid_back_in_time() -> None:
    bucket = TokenBucket(WINDOWS, 2, 0)
    bucket.take(22, 2, 0)
    assert bucket.wait_ms(2, 0) == 0, "what all windows bring may be had at once"
    bucket.take(10, 2, 0)
    assert bucket.wait_ms(2, 0) == 5000
    assert bucket.wait_ms(2, 4000) == 1000
    bucket.take(-10, 2, 4000)
    assert bucket.wait_ms(2, 4000) == 0


@given(st.lists(st.integers(0, 100_000), max_size=30))
def test_a_bucket_never_holds_more_than_its_burst(pauses: list[int]) -> None:
    bucket, now_ms = TokenBucket(WINDOWS, 3, 0), 0
    for pause_ms in pauses:
        now_ms += pause_ms
        bucket.take(0, 3, now_ms)
    bucket.take(33, 3, now_ms)
    assert bucket.wait_ms(3, now_ms) == 0
    bucket.take(3, 3, now_ms)
    assert bucket.wait_ms(3, now_ms) == 1000


PRECEDENCE: list[list[tuple[str, str | None]]] = [
    [(USER, "u"), (CLIENT_ID, "c")],
    [(USER, "u"), (CLIENT_ID, None)],
    [(USER, "u")],
    [(USER, None), (CLIENT_ID, "c")],
    [(USER, None), (CLIENT_ID, None)],
    [(USER, None)],
    [(CLIENT_ID, "c")],
    [(CLIENT_ID, None)],
]
"""As KIP-55 has it, the first that is set binds."""


@pytest.mark.parametrize("first", range(len(PRECEDENCE)))
def test_the_most_specific_quota_binds(first: int) -> None:
    quotas = [(entity(parts), PRODUCE, 1.0 + n) for n, parts in enumerate(PRECEDENCE) if n >= first]
    of_user = any(type == USER for type, _ in PRECEDENCE[first])
    of_client = any(type == CLIENT_ID for type, _ in PRECEDENCE[first])
    bound = QuotaLimits(quotas).of_client(PRODUCE, "c", "u")
    assert bound == Bound(1.0 + first, ("u" if of_user else "", "c" if of_client else ""))


def test_who_has_no_client_id_has_the_quotas_of_its_user_only() -> None:
    quotas = [(entity(parts), PRODUCE, 1.0 + n) for n, parts in enumerate(PRECEDENCE)]
    assert QuotaLimits(quotas).of_client(PRODUCE, "", "u") == Bound(3, ("u", ""))
    assert QuotaLimits([one for one in quotas if one[0] != entity([(USER, "u")])]).of_client(
        PRODUCE, None, "u"
    ) == Bound(6, ("u", ""))
    assert QuotaLimits(quotas[6:]).of_client(PRODUCE, None, "u") is None


def test_what_makes_no_sense_binds_nobody() -> None:
    bad = [((CLIENT_ID, "c"),), ((CLIENT_ID, "d"),), ((CLIENT_ID, "e"), ("group", "x")), ((IP, "no address"),)]
    limits = QuotaLimits((of, PRODUCE, value) for of, value in zip(bad, (0.0, float("nan"), 5.0, 5.0), strict=True))
    assert not limits.limits(PRODUCE)


def test_an_address_has_its_own_quota_or_the_default() -> None:
    limits = QuotaLimits([(((IP, "10.0.0.1"),), "connection_creation_rate", 5.0)])
    assert limits.of_address("connection_creation_rate", "10.0.0.1") == 5
    assert limits.of_address("connection_creation_rate", "10.0.0.2") is None
    limits = QuotaLimits([(((IP, None),), "connection_creation_rate", 7.0)])
    assert limits.of_address("connection_creation_rate", "10.0.0.2") == 7
