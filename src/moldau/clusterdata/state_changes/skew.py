"""How far the clocks of nodes are apart, as far as their state-change logs tell.

What a controller decides or sends, a broker tells of later; a broker's part of an exchange with a correlation id lies
between the controller's sending and its "Received response". Each such pair bounds how far the broker's clock is
ahead of the controller's; the tightest bounds of all pairs count. Without answers there is a bound from above only: it
proves that a clock is behind, when it is below zero, but not that one is ahead.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from moldau.clusterdata.state_changes.eras import Event
from moldau.model.named import NamedTuple

SAME_MS = 1_000
"""Lines of one broker about one correlation id that are further apart are about two exchanges."""


class Skew(NamedTuple):
    """A broker's clock against a controller's: how many milliseconds it is ahead, at least and at most."""

    broker: int
    controller: int
    low_ms: int | None
    high_ms: int
    pairs: int

    @property
    def verdict(self) -> str:
        """In words."""
        if self.high_ms < 0:
            return f"behind by at least {-self.high_ms} ms"
        if self.low_ms is not None and self.low_ms > 0:
            return f"ahead by at least {self.low_ms} ms"
        return "no skew seen"


def milliseconds(time: str) -> int:
    """A log's time as a number."""
    return round(datetime.strptime(time, "%Y-%m-%d %H:%M:%S,%f").timestamp() * 1000)


def skews(events: Iterable[Event]) -> list[Skew]:
    """For every pair of a controller and another node that the logs connect."""
    bounds = _Bounds()
    later: list[Event] = []
    for event in events:
        if event.event == "partition" and event.role == "Controller":
            bounds.decided(event)
        elif event.event in ("leader", "follower", "response", "LeaderAndIsr", "UpdateMetadata", "StopReplica"):
            later.append(event)
    for event in later:
        bounds.arrived(event)
    for event in later:
        if event.event == "response":
            bounds.answered(event)
    return bounds.skews()


class _Bounds:
    """How far a broker's clock is behind and ahead of a controller's, by pairs of them. It takes all decisions first,
    then what arrived at brokers, then the answers."""

    def __init__(self) -> None:
        self._decided: dict[tuple[str, int, int], tuple[int, int]] = {}
        self._handled: dict[tuple[int, int, int, int], list[int]] = {}
        self._high: dict[tuple[int, int], int] = {}
        self._low: dict[tuple[int, int], int] = {}
        self._pairs: dict[tuple[int, int], int] = {}

    def decided(self, event: Event) -> None:
        """A controller made a leader epoch: no broker can have heard of it before."""
        if event.leader_epoch is None:
            return
        assert event.node is not None
        for topic, number in event.partitions:
            key = topic, number, event.leader_epoch
            self._decided.setdefault(key, (event.node, milliseconds(event.time)))

    def arrived(self, event: Event) -> None:
        """A broker heard of a decision, or handled a request of a controller."""
        if event.node is None:
            return
        now = milliseconds(event.time)
        if event.event in ("leader", "follower") and event.leader_epoch is not None:
            for topic, number in event.partitions:
                whose = self._decided.get((topic, number, event.leader_epoch))
                if whose is not None and whose[0] != event.node:
                    self._at_most(event.node, whose[0], now - whose[1])
        elif event.role == "Broker" and (key := _exchange(event, event.node, event.controller)) is not None:
            self._handled.setdefault(key, []).append(now)

    def answered(self, event: Event) -> None:
        """A controller has a broker's answer: the broker handled the request before."""
        if event.to_broker == event.node:
            return
        times = self._handled.get(_exchange(event, event.to_broker, event.node) or (-1, -1, -1, -1), [])
        if times and max(times) - min(times) <= SAME_MS:  # numbers begin again with each connection
            assert event.to_broker is not None
            assert event.node is not None
            pair = event.to_broker, event.node
            bound = max(times) - milliseconds(event.time)
            self._low[pair] = max(bound, self._low.get(pair, bound))

    def skews(self) -> list[Skew]:
        """What is known of each pair that decisions connect."""
        found = sorted(self._high.items())
        return [Skew(*pair, self._low.get(pair), ms, self._pairs[pair]) for pair, ms in found]

    def _at_most(self, broker: int, controller: int, ms: int) -> None:
        key = broker, controller
        self._pairs[key] = self._pairs.get(key, 0) + 1
        self._high[key] = min(ms, self._high.get(key, ms))


def _exchange(event: Event, broker: int | None, controller: int | None) -> tuple[int, int, int, int] | None:
    """What a request and its answer have in common; None when a line does not say all of it."""
    if broker is None or controller is None or event.controller_epoch is None or event.correlation_id is None:
        return None
    return broker, controller, event.controller_epoch, event.correlation_id
