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
    decided: dict[tuple[str, int, int], tuple[int, int]] = {}
    handled: dict[tuple[int, int, int, int], list[int]] = {}
    high: dict[tuple[int, int], int] = {}
    low: dict[tuple[int, int], int] = {}
    pairs: dict[tuple[int, int], int] = {}

    def at_most(broker: int, controller: int, ms: int) -> None:
        key = broker, controller
        pairs[key] = pairs.get(key, 0) + 1
        high[key] = min(ms, high.get(key, ms))

    waiting: list[Event] = []
    for event in events:
        if event.event == "partition" and event.role == "Controller" and event.leader_epoch is not None:
            for topic, number in event.partitions:
                assert event.node is not None
                decided.setdefault((topic, number, event.leader_epoch), (event.node, milliseconds(event.time)))
        elif event.event in ("leader", "follower", "response", "LeaderAndIsr", "UpdateMetadata", "StopReplica"):
            waiting.append(event)
    for event in waiting:
        if event.node is None:
            continue
        now = milliseconds(event.time)
        if event.event in ("leader", "follower") and event.leader_epoch is not None:
            for topic, number in event.partitions:
                whose = decided.get((topic, number, event.leader_epoch))
                if whose is not None and whose[0] != event.node:
                    at_most(event.node, whose[0], now - whose[1])
        elif event.role == "Broker" and (key := _exchange(event, event.node, event.controller)) is not None:
            handled.setdefault(key, []).append(now)
    for event in waiting:
        if event.event != "response" or event.to_broker == event.node:
            continue
        times = handled.get(_exchange(event, event.to_broker, event.node) or (-1, -1, -1, -1), [])
        if times and max(times) - min(times) <= SAME_MS:  # numbers begin again with each connection
            assert event.to_broker is not None
            assert event.node is not None
            pair = event.to_broker, event.node
            bound = max(times) - milliseconds(event.time)
            low[pair] = max(bound, low.get(pair, bound))
    return [Skew(*pair, low.get(pair), ms, pairs[pair]) for pair, ms in sorted(high.items())]


def _exchange(event: Event, broker: int | None, controller: int | None) -> tuple[int, int, int, int] | None:
    """What a request and its answer have in common; None when a line does not say all of it."""
    if broker is None or controller is None or event.controller_epoch is None or event.correlation_id is None:
        return None
    return broker, controller, event.controller_epoch, event.correlation_id
