"""Why a broker should not stop: each reason names its partitions."""

from __future__ import annotations

from moldau.image.leaving import PartitionReplicas, reasons_not_to_stop


def topic(name: str, *isrs: tuple[list[int], list[int]]) -> list[PartitionReplicas]:
    return [(name, number, replicas, isr) for number, (replicas, isr) in enumerate(isrs)]


def test_a_broker_may_go_where_others_are_in_sync_and_enough_of_them() -> None:
    partitions = topic("t", ([1, 2, 3], [1, 2, 3]), ([2, 3], [2, 3]), ([1, 2, 3], [2]))
    assert reasons_not_to_stop(1, partitions, lambda name: 2) == []
    assert reasons_not_to_stop(9, partitions, lambda name: 3) == []


def test_each_reason_names_its_partitions_and_counts_the_rest() -> None:
    alone, short = topic("alone", *[([1], [1])] * 7), topic("short", ([1, 2, 3], [1, 2]), ([1, 2, 3], [2, 3]))
    behind = topic("behind", ([1, 2], [1]), ([1, 2], [2]))
    told = reasons_not_to_stop(1, [*short, *behind, *alone], lambda name: 2)
    assert told == [
        "8 partitions would have no leader: nobody else is in sync:"
        " alone-0, alone-1, alone-2, alone-3, alone-4 and 3 more",
        "1 partition would refuse acks=all: min.insync.replicas: short-0",
    ]
    assert reasons_not_to_stop(1, short, lambda name: 1) == []
    waits = reasons_not_to_stop(1, [*short, *behind, *alone], lambda name: 2, only_copies=False)
    assert waits == ["1 partition would have no leader: nobody else is in sync: behind-0", told[1]]


def test_no_more_replicas_are_asked_for_than_there_are() -> None:
    assert reasons_not_to_stop(1, topic("t", ([1, 2], [1, 2])), lambda name: 5) != []
    assert reasons_not_to_stop(3, topic("t", ([1, 2], [1, 2])), lambda name: 5) == []
