"""Tests run in an order of chance that can be repeated; a file's stay together, and live ones stay as they are."""

from __future__ import annotations

from itertools import pairwise

from tests.order import shuffled

NODE_IDS = [
    *(f"tests/live/test_a.py::test_{n}" for n in range(4)),
    *(f"tests/packages/p/test_{file}.py::test_{n}" for file in "abcdef" for n in range(9)),
    "tests/tidy/test_z.py::test_0",
]


def in_order(seed: str) -> list[str]:
    return [NODE_IDS[place] for place in shuffled(NODE_IDS, seed)]


def test_an_order_is_another_for_each_seed_and_the_same_for_the_same() -> None:
    assert in_order("1") == in_order("1")
    assert in_order("1") != in_order("2")
    assert sorted(in_order("1")) == sorted(NODE_IDS), "none is lost, none twice"


def test_a_file_s_tests_stay_together_and_live_ones_as_they_are() -> None:
    order = in_order("1")
    assert order[:4] == NODE_IDS[:4]
    assert order[-1] == NODE_IDS[-1]
    files = [node_id.partition("::")[0] for node_id in order]
    assert len(set(files)) == sum(one != other for one, other in pairwise(files)) + 1
    assert order[4:-1] != sorted(order[4:-1])


def test_the_order_does_not_hang_on_the_order_of_before() -> None:
    """Each of several processes collects for itself."""
    turned = NODE_IDS[::-1]
    assert [turned[place] for place in shuffled(turned, "1")][1:-4] == in_order("1")[4:-1]
