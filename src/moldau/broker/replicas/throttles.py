"""Throttled replication: how fast replicas on the move may copy, so that clients keep their share (KIP-73).

A topic names its throttled replicas (leader|follower.replication.throttled.replicas), a broker its two rates
(leader|follower.replication.throttled.rate); both may change at any time. Decides whether a replica must wait now.
A replica in the ISR never waits: a throttle must not cost availability. Who asks: ``replicas/fetch/read.py`` as the
leader, ``replicas/follow/fetcher.py`` as the follower.
"""

from __future__ import annotations

from moldau.broker.replicas.replica import FetchWaiter, Replica
from moldau.image import Image
from moldau.image.configs import ResourceType, broker_setting
from moldau.model.config_key import LONG_MAX
from moldau.model.topic_config import TOPIC_KEYS
from moldau.ports import Clock, Tasks

BURST_S = 1
"""What was not used of the rate is kept for this long."""
DEBT_MAX_S = 10
"""One big batch under a small rate stops a replica for so long and no longer."""
RECHECK_MS = 1000
"""Nobody waits longer without looking again: the rate may have been changed."""
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LISTS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


class Quota:
    """Bytes a second. What is sent is told afterwards, so a level below zero is a debt that time pays off."""

    __slots__ = ("_at_ms", "_clock", "_level", "rate")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.rate = LONG_MAX
        self._level = 0.0
        self._at_ms = clock.monotonic_ms()

    def set_rate(self, bytes_per_s: int) -> None:
        """A new rate begins without debt."""
        if bytes_per_s != self.rate:
            self.rate = bytes_per_s
            self._level = float(bytes_per_s) * BURST_S
            self._at_ms = self._clock.monotonic_ms()

    def spend(self, size: int) -> None:
        """So many bytes went out."""
        self._refill()
        self._level = max(self._level - size, -float(self.rate) * DEBT_MAX_S)

    @property
    def wait_ms(self) -> float:
        """How long to wait before the next byte; 0: it may go now."""
        self._refill()
        if self._level > 0:
            return 0
        return min((1 - self._level) * 1000 / self.rate, RECHECK_MS) if self.rate else RECHECK_MS

    def _refill(self) -> None:
        now_ms = self._clock.monotonic_ms()
        self._level = min(self._level + (now_ms - self._at_ms) * self.rate / 1000, float(self.rate) * BURST_S)
        self._at_ms = now_ms


class Side:
    """One of the two throttles: which of this broker's partitions it holds, and its quota.

    ``on`` is False while it holds nothing, so that the hot path asks one attribute.
    """

    __slots__ = ("_all", "_some", "on", "quota")

    def __init__(self, clock: Clock) -> None:
        self.quota = Quota(clock)
        self.on = False
        self._all: set[str] = set()
        self._some: dict[str, frozenset[int]] = {}

    def list(self, topic: str, text: str | None, me: int) -> None:
        """What the topic's setting says: ``*``, pairs ``partition:broker``, or nothing, as what is no such list."""
        self._all.discard(topic)
        self._some.pop(topic, None)
        members = [member.strip() for member in (text or "").split(",")]
        if "*" in members:
            self._all.add(topic)
            return
        pairs = [member.split(":") for member in members if ":" in member]
        mine = frozenset(int(partition) for partition, broker in pairs if int(broker) == me)
        if mine:
            self._some[topic] = mine

    def refresh(self) -> None:
        """After changes: whether there is anything to hold."""
        self.on = self.quota.rate != LONG_MAX and bool(self._all or self._some)

    def throttles(self, replica: Replica) -> bool:
        """Whether the replica's partition is listed."""
        topic, number = replica.partition
        return topic in self._all or number in self._some.get(topic, ())


class Throttles:
    """Both sides of a broker's throttled replication."""

    def __init__(self, me: int, clock: Clock, tasks: Tasks) -> None:
        self._me = me
        self._tasks = tasks
        self.leading = Side(clock)
        self.following = Side(clock)
        self._held: dict[FetchWaiter, None] = {}
        self._due = False

    def changed(self, image: Image, resources: set[tuple[int, str]]) -> None:
        """Settings of these (type, name) changed."""
        sides = (self.leading, self.following)
        if any(kind == ResourceType.BROKER for kind, _ in resources):
            for side, key in zip(sides, RATES, strict=True):
                text = broker_setting(image, self._me, key, {}).value
                side.quota.set_rate(LONG_MAX if text is None else int(text))
        for kind, topic in resources:
            if kind == ResourceType.TOPIC:
                own = image.config(ResourceType.TOPIC, topic)
                for side, key in zip(sides, LISTS, strict=True):
                    text = own.get(key)
                    side.list(topic, text if text is not None and TOPIC_KEYS[key].is_good(text) else None, self._me)
        for side in sides:
            side.refresh()

    # ---- as the leader

    def holds_back(self, waiter: FetchWaiter, replica: Replica, follower: int) -> bool:
        """Whether a follower gets nothing of this partition now; it is looked at again as soon as it may."""
        side = self.leading
        if follower in replica.machine.isr or not side.throttles(replica):
            return False
        wait_ms = side.quota.wait_ms
        if not wait_ms:
            return False
        self._held[waiter] = None
        if not self._due:
            self._due = True
            self._tasks.call_later(wait_ms, self._release)
        return True

    def sent(self, replica: Replica, size: int) -> None:
        """A follower was given so much of a partition."""
        if self.leading.throttles(replica):
            self.leading.quota.spend(size)

    def _release(self) -> None:
        self._due = False
        held, self._held = self._held, {}
        for waiter in held:
            waiter.notify()

    # ---- as a follower

    def wait_ms(self, replica: Replica) -> float:
        """How long this replica must wait before it fetches; 0: not at all."""
        side = self.following
        if self._me in replica.machine.isr or not side.throttles(replica):
            return 0
        return side.quota.wait_ms

    def received(self, replica: Replica, size: int) -> None:
        """So much was copied to this replica."""
        if self.following.throttles(replica):
            self.following.quota.spend(size)
