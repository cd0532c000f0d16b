"""Look-ups over all partitions, kept as partitions change, so that a broker's death costs its own partitions only.

Holds keys, never partitions. ``image.py`` is the only writer. What they mean for an election is the controller's.
"""

from __future__ import annotations

from moldau.image.partition import Key, Partition


class Index:
    """Sets of partition keys by broker and by condition.

    assigned: broker -> partitions with a replica there.
    led: broker -> partitions it leads; NO_LEADER (-1) -> leaderless ones.
    astray: partitions not led by their preferred replica.
    preferred: broker -> how many partitions it should lead.
    moving: partitions under reassignment.
    eligible: partitions with an ELR or a last known leader.
    """

    __slots__ = ("assigned", "astray", "eligible", "led", "moving", "preferred")

    def __init__(self) -> None:
        self.assigned: dict[int, set[Key]] = {}
        self.led: dict[int, set[Key]] = {}
        self.preferred: dict[int, int] = {}
        self.astray: set[Key] = set()
        self.moving: set[Key] = set()
        self.eligible: set[Key] = set()

    def copy(self) -> Index:
        twin = Index()
        twin.assigned = {broker: set(keys) for broker, keys in self.assigned.items()}
        twin.led = {broker: set(keys) for broker, keys in self.led.items()}
        twin.preferred = dict(self.preferred)
        twin.astray, twin.moving, twin.eligible = set(self.astray), set(self.moving), set(self.eligible)
        return twin

    def update(self, before: Partition | None, after: Partition | None) -> None:
        """Account for one partition that appeared (no before), changed, or went (no after)."""
        if before is not None and after is not None and before.replicas is after.replicas:
            self._relead(before, after)
        else:
            if before is not None:
                self._drop(before)
            if after is not None:
                self._add(after)
        now = after if after is not None else before
        assert now is not None, "a partition that never was"
        key = now.key
        _mark(self.astray, key, after is not None and after.leader != after.replicas[0])
        _mark(self.moving, key, after is not None and after.reassigning)
        _mark(self.eligible, key, after is not None and bool(after.elr or after.last_known_elr))

    def _relead(self, before: Partition, after: Partition) -> None:
        if before.leader != after.leader:
            _take(self.led, before.leader, before.key)
            self.led.setdefault(after.leader, set()).add(after.key)

    def _add(self, partition: Partition) -> None:
        key = partition.key
        for broker in partition.replicas:
            self.assigned.setdefault(broker, set()).add(key)
        self.led.setdefault(partition.leader, set()).add(key)
        first = partition.replicas[0]
        self.preferred[first] = self.preferred.get(first, 0) + 1

    def _drop(self, partition: Partition) -> None:
        for broker in partition.replicas:
            _take(self.assigned, broker, partition.key)
        _take(self.led, partition.leader, partition.key)
        first = partition.replicas[0]
        self.preferred[first] -= 1
        if not self.preferred[first]:
            del self.preferred[first]


def _mark(keys: set[Key], key: Key, belongs: bool) -> None:
    if belongs:
        keys.add(key)
    else:
        keys.discard(key)


def _take(table: dict[int, set[Key]], broker: int, key: Key) -> None:
    keys = table[broker]
    keys.remove(key)
    if not keys:
        del table[broker]
