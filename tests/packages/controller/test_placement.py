"""The striped placer: spread over racks and brokers, leaders in turn, fenced last, the same seed the same places."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.controller.facts import Problem, SeededRng
from moldau.controller.placement import Placer, place
from moldau.image import Broker, Image
from moldau.model import Code


def brokers(racks: dict[int, str | None], fenced: frozenset[int] = frozenset()) -> list[Broker]:
    return [Broker(id, id, bytes(16), rack=rack, fenced=id in fenced) for id, rack in racks.items()]


def image(racks: dict[int, str | None], fenced: frozenset[int] = frozenset()) -> Image:
    image = Image()
    image.brokers = {broker.id: broker for broker in brokers(racks, fenced)}
    return image


@given(
    seed=st.binary(max_size=8),
    racks=st.dictionaries(st.integers(0, 9), st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=9),
    factor=st.integers(1, 9),
)
def test_replicas_differ_and_use_as_many_racks_as_they_can(
    seed: bytes, racks: dict[int, str | None], factor: int
) -> None:
    factor = min(factor, len(racks))
    placer = Placer(brokers(racks), SeededRng(seed))
    for _ in range(12):
        replicas = placer.place(factor)
        assert len(set(replicas)) == factor
        assert len({racks[r] for r in replicas}) == min(factor, len(set(racks.values())))


@given(seed=st.binary(max_size=8), count=st.integers(1, 5))
def test_leads_are_dealt_out_evenly_when_racks_are_alike(seed: bytes, count: int) -> None:
    racks: dict[int, str | None] = {n: f"r{n % 3}" for n in range(9)}
    placed = place(image(racks), 9 * count, 3, SeededRng(seed))
    assert isinstance(placed, list)
    leads = Counter(replicas[0] for replicas in placed)
    assert set(leads.values()) == {count}


@given(seed=st.binary(max_size=8))
def test_fenced_brokers_never_lead_and_come_last(seed: bytes) -> None:
    racks: dict[int, str | None] = dict.fromkeys(range(5))
    placed = place(image(racks, frozenset({0, 1})), 20, 3, SeededRng(seed))
    assert isinstance(placed, list)
    assert all(set(replicas) == {2, 3, 4} for replicas in placed)
    placed = place(image(racks, frozenset({0, 1})), 20, 4, SeededRng(seed))
    assert isinstance(placed, list)
    assert all(replicas[0] in (2, 3, 4) and {2, 3, 4} < set(replicas) for replicas in placed)


def test_the_same_seed_gives_the_same_places() -> None:
    racks: dict[int, str | None] = {n: f"r{n % 2}" for n in range(6)}
    assert place(image(racks), 30, 3, SeededRng(b"s")) == place(image(racks), 30, 3, SeededRng(b"s"))
    assert place(image(racks), 30, 3, SeededRng(b"s")) != place(image(racks), 30, 3, SeededRng(b"t"))


@pytest.mark.parametrize(
    ("racks", "fenced", "factor", "words"),
    [
        ({1: None}, frozenset(), 0, "must be positive"),
        ({1: None}, frozenset(), 2, "only 1 broker"),
        ({1: None, 2: None}, frozenset({1, 2}), 1, "currently fenced"),
        ({}, frozenset(), 1, "currently fenced"),
    ],
)
def test_what_cannot_be_placed_is_refused_in_words(
    racks: dict[int, str | None], fenced: frozenset[int], factor: int, words: str
) -> None:
    problem = place(image(racks, fenced), 1, factor, SeededRng(b""))
    assert isinstance(problem, Problem)
    assert problem.code is Code.INVALID_REPLICATION_FACTOR
    assert words in (problem.message or "")


def test_ids_are_random_and_never_look_like_an_option() -> None:
    rng = SeededRng(b"ids")
    ids = [rng.uuid() for _ in range(2000)]
    assert len(set(ids)) == 2000
    assert all(id[6] >> 4 == 4 and id[0] >> 2 != 62 for id in ids)


@given(st.integers(1, 1000))
def test_chance_stays_below(n: int) -> None:
    assert all(0 <= SeededRng(bytes([k])).below(n) < n for k in range(5))
