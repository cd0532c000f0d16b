"""What goes through a node, counted where it passes: bytes and records by topic, requests and their times by API.

A count is one addition for a batch or a request, never for a record; sums, quantiles and names are made when somebody
asks (``metrics/traffic_figures.py``). Times are whole milliseconds, from a request's last byte to its answer's being
ready, waiting included, as Kafka's TotalTimeMs. Decides nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import Any

UP_TO_MS = (
    0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000,
)  # fmt: skip
"""Upper bounds of the buckets; one more is for what took longer."""
WINDOW_MS = 60_000
"""Quantiles are of the last one to two windows, if somebody asks in each; else of the time since the last ask."""
ALL_TIMED = 1_000
"""So many requests of an API are timed each: reading the clock twice costs more than all the rest of counting."""
FETCH, FOLLOWER = 1, -1


class Traffic:
    """Bytes and records of one topic on this broker."""

    __slots__ = ("bytes_in", "bytes_out", "records_in", "replicated_in", "replicated_out")

    def __init__(self) -> None:
        self.bytes_in = self.bytes_out = self.records_in = self.replicated_in = self.replicated_out = 0

    def add(self, other: Traffic) -> None:
        """Take another's counts over."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class TopicTraffic:
    """The counts of every topic with replicas here, and what was counted of those that are gone."""

    def __init__(self) -> None:
        self.by_topic: dict[str, Traffic] = {}
        self._gone = Traffic()

    def of(self, topic: str) -> Traffic:
        """The topic's counts, shared by its replicas."""
        return self.by_topic.setdefault(topic, Traffic())

    def forget(self, topic: str) -> None:
        """The topic is deleted: a sum must not go down because of that."""
        self._gone.add(self.by_topic.pop(topic, Traffic()))

    def total(self) -> Traffic:
        """The bytes of all topics since the start."""
        total = Traffic()
        for one in (self._gone, *self.by_topic.values()):
            total.add(one)
        return total


class ApiStats:
    """Requests of one API: how many, how they went by the code of the whole answer, and how long they took."""

    __slots__ = ("_earlier", "_later", "_later_ms", "buckets", "errors", "name", "requests", "tells", "total_ms")

    def __init__(self, name: str) -> None:
        self.name = name
        self.requests = self.total_ms = 0
        self.buckets = [0] * (len(UP_TO_MS) + 1)
        self.errors: Counter[int] = Counter()
        self.tells = True
        """Whether answers have a code of their own, as far as is known."""
        self._earlier = self._later = tuple(self.buckets)
        self._later_ms = 0

    @property
    def timed(self) -> bool:
        """Whether the request that has just come is timed: of many, one in eight is enough to know what they take."""
        return self.requests <= ALL_TIMED or not self.requests & 7

    def took(self, ms: int) -> None:
        """An answer was ready after that time."""
        self.total_ms += ms
        self.buckets[bisect_left(UP_TO_MS, ms)] += 1

    def answered(self, response: object) -> None:
        """One more answer is ready; not asked for where answers have no code of their own."""
        code = getattr(response, "error_code", None)
        if code is None:
            self.tells = False
        elif code:
            self.errors[code] += 1

    def quantiles(self, now_ms: int, *shares: float) -> list[float]:
        """For each share the time in which that part of the latest answers was ready, as its bucket's upper bound."""
        if now_ms - self._later_ms >= WINDOW_MS:
            self._earlier, self._later, self._later_ms = self._later, tuple(self.buckets), now_ms
        latest = [now - before for now, before in zip(self.buckets, self._earlier, strict=True)]
        return [_bound(latest, share) for share in shares]


def _bound(buckets: list[int], share: float) -> float:
    wanted, seen = share * sum(buckets), 0
    for bound, count in zip((*UP_TO_MS, 2 * UP_TO_MS[-1]), buckets, strict=True):
        seen += count
        if seen and seen >= wanted:
            return bound
    return 0


class RequestStats:
    """Every API's counts at one listener. Fetches of followers are an API of their own, as on Kafka's dashboards."""

    __slots__ = ("by_key",)

    def __init__(self) -> None:
        self.by_key: dict[int, ApiStats] = {}

    def count(self, key: int, request: Any) -> ApiStats:  # Any: of a fetch its fields are read
        """One more request has come."""
        if key == FETCH and (request.replica_id >= 0 or request.replica_state.replica_id >= 0):  # from 15 the latter
            key = FOLLOWER
        found = self.by_key.get(key)
        if found is None:
            name = {FETCH: "FetchConsumer", FOLLOWER: "FetchFollower"}.get(key)
            found = self.by_key[key] = ApiStats(name or type(request).__name__.removesuffix("Request"))
        found.requests += 1
        return found
