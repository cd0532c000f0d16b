"""What a group is told to have left to read, and that a position beyond the end is not called the end."""

from __future__ import annotations

import pytest

from moldau.admin import group
from moldau.client.group_lags import GroupLag
from moldau.client.groups import Committed
from moldau.model import TopicPartition


def place(committed: int | None, start: int | None, end: int | None, number: int = 0) -> GroupLag:
    known = None if committed is None else Committed(committed, 4)
    return GroupLag(TopicPartition("orders", number), known, start, end, None)


@pytest.mark.parametrize(
    ("one", "lag"),
    [
        (place(5, 0, 7), 2),
        (place(7, 0, 7), 0),
        (place(2, 5, 7), 2),
        (place(1528, 0, 92), -1436),
        (place(None, 0, 7), None),
        (place(5, None, None), None),
    ],
)
def test_the_lag_is_what_is_left_and_below_zero_beyond_the_end(one: GroupLag, lag: int | None) -> None:
    """A topic was made anew, and what a consumer had committed of the old one came to it: lag 0, and none of the 92
    records was read. Apache Kafka's kafka-consumer-groups shows -1436, too."""
    assert one.lag == lag


def test_what_is_beyond_an_end_takes_nothing_from_the_lag_of_others() -> None:
    assert group._total([place(1528, 0, 92), place(5, 0, 7, 1)]) == 2


def test_positions_beyond_the_end_are_told_with_the_way_out() -> None:
    positions = [place(1528, 0, 92, 2), place(5, 0, 7, 1)]
    told = group._beyond("billing", positions)
    assert told is not None
    assert "orders-2 was committed at 1528, and ends at 92" in told
    assert "`moldau group reset billing --topic orders:2 --to earliest`" in told
    assert group._beyond("billing", positions[1:]) is None
