"""Look-ups over all partitions, kept as partitions change, so that a broker's death costs its own partitions only.

Holds keys, never partitions. ``image.py`` is the only writer. What they mean for an election is the controller's.
"""

from __future__ import annotations

from moldau.image.partition import Key, Partition

Keys = dict[Key, None]


class PartitionIndex:
    """Partition keys by broker and by condition: dicts without values, for a set has no order that two processes share.

    assigned: broker -> partitions with a replica there.
    in_sync: broker -> partitions with it in the ISR.
    led: broker -> partitions it leads; NO_LEADER (-1) -> leaderless ones.
    astray: partitions not led by their preferred replica.
    preferred: broker -> how many partitions it should lead.
    moving: partitions under reassignment.
    eligible: partitions with an ELR or a last known leader.
    """

    LOOK_UPS = ("assigned", "astray", "eligible", "in_sync", "led", "moving", "preferred")
    __slots__ = (*LOOK_UPS, "_own")

    def __init__(self) -> None:
        self.assigned: dict[int, Keys] = {}
        self.in_sync: dict[int, Keys] = {}
        self.led: dict[int, Keys] = {}
        self.preferred: dict[int, int] = {}
        self.astray: Keys = {}
        self.moving: Keys = {}
        self.eligible: Keys = {}
        self._own: set[int] = set()
        """Which of the brokers' keys (by ``id``) no other index has a part in: the rest is copied before it changes."""

    def copy(self) -> PartitionIndex:
        """A twin that may go its own way; what brokers have is shared until one of the two changes it."""
        twin = PartitionIndex()
        self._own.clear()
        twin.assigned, twin.in_sync, twin.led = dict(self.assigned), dict(self.in_sync), dict(self.led)
        twin.preferred = dict(self.preferred)
        twin.astray, twin.moving, twin.eligible = dict(self.astray), dict(self.moving), dict(self.eligible)
        return twin

    def update(self, before: Partition | None, after: Partition | None) -> None:
        """Account for one partition that appeared (no before), changed, or went (no after)."""
        now = after if after is not None else before
        assert now is not None, "a partition that never was"
        key = now.key
        if before is not None and after is not None and before.replicas is after.replicas:
            self._relead(key, before, after)
        else:
            if before is not None:
                self._drop(key, before)
            if after is not None:
                self._add(key, after)
        _mark(self.astray, key, after is not None and after.leader != after.replicas[0])
        _mark(self.moving, key, after is not None and bool(after.adding or after.removing))
        _mark(self.eligible, key, after is not None and bool(after.elr or after.last_known_elr))

    def add(self, one: Partition, keys: Keys) -> None:
        """Account for many new partitions that stand alike: as ``one`` of them does."""
        first = one.replicas[0]
        for broker in one.replicas:
            self._keys(self.assigned, broker).update(keys)
        for broker in one.isr:
            self._keys(self.in_sync, broker).update(keys)
        self._keys(self.led, one.leader).update(keys)
        self.preferred[first] = self.preferred.get(first, 0) + len(keys)
        if one.leader != first:
            self.astray.update(keys)
        if one.reassigning:
            self.moving.update(keys)
        if one.elr or one.last_known_elr:
            self.eligible.update(keys)

    def _relead(self, key: Key, before: Partition, after: Partition) -> None:
        if before.leader != after.leader:
            self._take(self.led, before.leader, key)
            self._keys(self.led, after.leader)[key] = None
        if before.isr is not after.isr:
            for broker in before.isr:
                if broker not in after.isr:
                    self._take(self.in_sync, broker, key)
            for broker in after.isr:
                if broker not in before.isr:
                    self._keys(self.in_sync, broker)[key] = None

    def _add(self, key: Key, partition: Partition) -> None:
        for broker in partition.replicas:
            self._keys(self.assigned, broker)[key] = None
        for broker in partition.isr:
            self._keys(self.in_sync, broker)[key] = None
        self._keys(self.led, partition.leader)[key] = None
        first = partition.replicas[0]
        self.preferred[first] = self.preferred.get(first, 0) + 1

    def _drop(self, key: Key, partition: Partition) -> None:
        for broker in partition.replicas:
            self._take(self.assigned, broker, key)
        for broker in partition.isr:
            self._take(self.in_sync, broker, key)
        self._take(self.led, partition.leader, key)
        first = partition.replicas[0]
        self.preferred[first] -= 1
        if not self.preferred[first]:
            del self.preferred[first]

    def _keys(self, table: dict[int, Keys], broker: int) -> Keys:
        """What a broker has, to be changed."""
        keys = table.get(broker)
        if keys is None or id(keys) not in self._own:
            keys = table[broker] = {} if keys is None else dict(keys)
            self._own.add(id(keys))
        return keys

    def _take(self, table: dict[int, Keys], broker: int, key: Key) -> None:
        keys = self._keys(table, broker)
        del keys[key]
        if not keys:
            self._own.discard(id(keys))
            del table[broker]


def _mark(keys: Keys, key: Key, belongs: bool) -> None:
    if belongs:
        keys[key] = None
    elif key in keys:
        del keys[key]
