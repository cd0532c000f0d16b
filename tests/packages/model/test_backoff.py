"""Waits between tries: they double from the first to the limit, and never pass it."""

from __future__ import annotations

from itertools import pairwise

from moldau.model.backoff import backoff_ms, longer_ms


def test_each_wait_is_twice_as_long_as_the_one_before_up_to_the_limit() -> None:
    waits = [0]
    for _ in range(6):
        waits.append(longer_ms(waits[-1], 20, 500))
    assert waits == [0, 20, 40, 80, 160, 320, 500]
    assert longer_ms(500, 20, 500) == 500


def test_a_number_of_failures_leads_to_the_same_waits() -> None:
    waits = [backoff_ms(failures, 20, 500) for failures in range(7)]
    assert waits == [20, 40, 80, 160, 320, 500, 500]
    assert all(longer_ms(before, 20, 500) == after for before, after in pairwise(waits))


def test_no_number_of_failures_passes_the_limit() -> None:
    assert backoff_ms(1 << 40, 1, 1000) == 1000
    assert backoff_ms(3, 2000, 1000) == 1000
