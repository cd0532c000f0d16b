"""How far the clocks of nodes are apart, as far as their state-change logs tell.

A broker starts with a state of a partition, which its leader epoch and partition epoch name, after a controller decided
just that state; it handles a request between the controller's sending and its "Received response". Each such pair
bounds how far the broker's clock is ahead of the controller's; the tightest bounds of all pairs count. Without answers
there is a bound from above only: it proves that a clock is behind, when it is below zero, but not that one is ahead.

Only lines about one and the same decision or request are a pair. A leader epoch alone names none: the ISR changes under
it, each by a decision of its own. Names of topics that were made more than once name none either, nor do correlation
ids that came again with another connection.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime

from moldau.clusterdata.state_changes.eras import Event, topic_id
from moldau.model.named import NamedTuple

SAME_MS = 1_000
"""Lines of one node about one correlation id that are further apart are about two exchanges."""
_REQUEST = re.compile(r"for request (LEADER_AND_ISR|UPDATE_METADATA|STOP_REPLICA) ")
_ASKED = {"LEADER_AND_ISR": "LeaderAndIsr", "UPDATE_METADATA": "UpdateMetadata", "STOP_REPLICA": "StopReplica"}


class Skew(NamedTuple):
    """A broker's clock against a controller's: how many milliseconds it is ahead, at least and at most."""

    broker: int
    controller: int
    low_ms: int | None
    high_ms: int
    pairs: int

    @property
    def is_consistent(self) -> bool:
        """Whether one difference fits all pairs."""
        return self.low_ms is None or self.low_ms <= self.high_ms

    @property
    def is_proved(self) -> bool:
        """Whether the clocks are apart for certain."""
        return self.is_consistent and (self.high_ms < 0 or (self.low_ms or 0) > 0)

    @property
    def verdict(self) -> str:
        """In words."""
        if not self.is_consistent:
            return "not known: pairs of lines contradict each other, as when a clock was set"
        if self.high_ms < 0:
            return f"behind by at least {-self.high_ms} ms"
        if self.low_ms is not None and self.low_ms > 0:
            return f"ahead by at least {self.low_ms} ms"
        return "no skew seen"


def milliseconds(time: str) -> int | None:
    """A log's time as a number; None when there is no such date, 30 February or 25 o'clock."""
    try:
        return round(datetime.strptime(time, "%Y-%m-%d %H:%M:%S,%f").timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def skews(events: Iterable[Event], on_bad_time: Callable[[Event], object] = lambda _: None) -> list[Skew]:
    """For every pair of a controller and another node that the logs connect. ``on_bad_time`` is called with each entry
    whose time is no date; it is no part of a pair."""
    bounds = _Bounds(on_bad_time)
    for event in events:
        bounds.made(event)
        if event.event == "partition" and event.role == "Controller" and event.state == "OnlinePartition":
            bounds.decided(event)
        elif event.event in ("leader", "follower", "response", "LeaderAndIsr", "UpdateMetadata", "StopReplica"):
            bounds.arrived(event)
    return bounds.skews()


class _Bounds:
    """How far a broker's clock is behind and ahead of a controller's, by pairs of them. It takes all lines first:
    what comes later may tell that two of them are no pair."""

    def __init__(self, on_bad_time: Callable[[Event], object]) -> None:
        self._on_bad_time = on_bad_time
        self._ids: dict[str, str] = {}
        self._made: set[tuple[str, int]] = set()
        """Partitions that were made, or deleted, up to here."""
        self._remade: set[str] = set()
        self._decided: dict[_State, tuple[int, int]] = {}
        self._started: dict[tuple[int, _State], int] = {}
        self._handled: dict[_Exchange, list[tuple[int, str]]] = {}
        self._answered: dict[_Exchange, list[tuple[int, str]]] = {}
        self._high: dict[tuple[int, int], int] = {}
        self._low: dict[tuple[int, int], int] = {}
        self._pairs: dict[tuple[int, int], int] = {}

    def made(self, event: Event) -> None:
        """Which topics have one name: those of two ids, and those that were made again after they were deleted."""
        if (found := topic_id(event)) is not None:
            topic, id = found
            if self._ids.setdefault(topic, id) != id:
                self._remade.add(topic)
        elif event.event == "partition" and event.role == "Controller":
            if event.state == "NonExistentPartition":
                self._made.update(event.partitions)
            elif " from NewPartition to " in event.text:
                self._remade.update(topic for topic, number in event.partitions if (topic, number) in self._made)
                self._made.update(event.partitions)

    def decided(self, event: Event) -> None:
        """A controller made a state of a partition: no broker can have started with it before. That it took a replica
        out of the ISR is no such line: Kafka's controller writes it also when the replica had been out long before."""
        if event.node is None:
            return
        if (now := milliseconds(event.time)) is None:
            self._on_bad_time(event)
            return
        for state in _states(event):
            who, first = self._decided.setdefault(state, (event.node, now))
            if who == event.node:  # another's clock is another one
                self._decided[state] = who, min(first, now)

    def arrived(self, event: Event) -> None:
        """A broker started with a state or handled a request of a controller, or a controller has its answer."""
        if event.node is None:
            return
        if (now := milliseconds(event.time)) is None:
            self._on_bad_time(event)
            return
        if event.event in ("leader", "follower"):
            for state in _states(event):  # a broker that starts again tells it again: the last time is late enough
                key = event.node, state
                self._started[key] = max(now, self._started.get(key, now))
        elif event.event == "response":
            asked = _REQUEST.search(event.text)
            exchange = _exchange(event, event.to_broker, event.node)
            if asked is not None and exchange is not None and event.to_broker != event.node:
                self._answered.setdefault(exchange, []).append((now, _ASKED[asked[1]]))
        elif event.role == "Broker" and (exchange := _exchange(event, event.node, event.controller)) is not None:
            self._handled.setdefault(exchange, []).append((now, event.event))

    def skews(self) -> list[Skew]:
        """What is known of each pair that decisions connect."""
        for (broker, state), now in self._started.items():
            whose = self._decided.get(state)
            if whose is not None and whose[0] != broker and state[0] not in self._remade:
                self._at_most(broker, whose[0], now - whose[1])
        for exchange, answers in self._answered.items():
            handled = self._handled.get(exchange, [])
            kinds = {kind for _, kind in (*handled, *answers)}
            if handled and len(answers) == len(kinds) == 1 and _is_at_once(handled):
                pair = exchange[0], exchange[1]
                bound = max(time for time, _ in handled) - answers[0][0]
                self._low[pair] = max(bound, self._low.get(pair, bound))
        found = sorted(self._high.items())
        return [Skew(*pair, self._low.get(pair), ms, self._pairs[pair]) for pair, ms in found]

    def _at_most(self, broker: int, controller: int, ms: int) -> None:
        key = broker, controller
        self._pairs[key] = self._pairs.get(key, 0) + 1
        self._high[key] = min(ms, self._high.get(key, ms))


_State = tuple[str, int, int, int]
"""Topic, partition, leader epoch and partition epoch."""
_Exchange = tuple[int, int, int, int]
"""Broker, controller, its epoch, and correlation id."""


def _states(event: Event) -> list[_State]:
    """The states that a line names; none where it does not name the partition epoch."""
    if event.leader_epoch is None or event.partition_epoch is None:
        return []
    return [(topic, number, event.leader_epoch, event.partition_epoch) for topic, number in event.partitions]


def _is_at_once(lines: list[tuple[int, str]]) -> bool:
    times = [time for time, _ in lines]
    return max(times) - min(times) <= SAME_MS


def _exchange(event: Event, broker: int | None, controller: int | None) -> _Exchange | None:
    """What a request and its answer have in common; None when a line does not say all of it."""
    if broker is None or controller is None or event.controller_epoch is None or event.correlation_id is None:
        return None
    return broker, controller, event.controller_epoch, event.correlation_id
