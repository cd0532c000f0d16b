"""A number with its noun."""

from __future__ import annotations

import pytest

from moldau.model.counted import counted


@pytest.mark.parametrize(
    ("count", "told"), [(0, "0 partitions"), (1, "1 partition"), (2, "2 partitions"), (1_200, "1,200 partitions")]
)
def test_one_thing_has_the_singular_and_none_or_several_the_plural(count: int, told: str) -> None:
    assert counted(count, "partition") == told


def test_what_goes_along_with_the_noun_is_told_for_both() -> None:
    has = ("partition has", "partitions have")
    assert (counted(1, *has), counted(3, *has)) == ("1 partition has", "3 partitions have")
