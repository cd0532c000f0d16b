"""Where reading begins: words of ``--from`` as offsets of partitions.

Read next: consume.py.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

import click

from moldau.admin.main import fail
from moldau.admin.options import instant_ms
from moldau.admin.output import note
from moldau.model.named import NamedTuple

if TYPE_CHECKING:
    from moldau.admin.asking import Talk
    from moldau.model import TopicPartition


class StartingPoint(NamedTuple):
    """earliest, latest, offset, last (so many before the end) or time (ms), and the number."""

    kind: str
    number: int = 0


class _Place(click.ParamType[StartingPoint]):
    name = "PLACE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> StartingPoint:
        """The place that a word names."""
        if isinstance(value, StartingPoint):
            return value
        text = str(value)
        if text in ("earliest", "latest"):
            return StartingPoint(text)
        if re.fullmatch(r"\d{1,18}", text, re.ASCII):
            return StartingPoint("offset", int(text))
        if re.fullmatch(r"-\d{1,18}", text, re.ASCII):
            return StartingPoint("last", int(text[1:]))
        try:
            return StartingPoint("time", instant_ms(text))
        except ValueError:
            self.fail(
                f"{text!r} is no place; earliest, latest, an offset, -5 (the last five), -10m (ten minutes ago), "
                "2026-11-22T10:00:00 and @1700000000000 (ms) are",
                param,
                ctx,
            )


PLACE = _Place()


def offsets(
    talk: Talk,
    asked: Collection[TopicPartition],
    place: StartingPoint,
    *,
    destroys: bool = False,
    without: list[TopicPartition] | None = None,
) -> dict[TopicPartition, int]:
    """The offset of each partition at that place, no further than the partition's ends; says when it had to move. Where
    that ``destroys`` what is before, an offset beyond the end is refused: it may be meant as a time; so is -0, before
    whose last no records everything lies: it may be meant as offset 0. Partitions without a leader are put into
    ``without``, if there is such a list and there are others; else they end the command."""
    from moldau.client.group_lags import bounds, offsets_since

    if destroys and place == StartingPoint("last", 0):
        fail("-0 would leave the last 0 records: nothing is deleted. All there are is `latest`, none of them 0", 2)
    starts, ends = talk.ask(bounds, asked)
    if place.kind == "time":
        there = {one: start for one, start in starts.items() if one in ends}
        told = talk.ask(offsets_since, place.number, there, ends)
    else:
        told = ends
    missing = [one for one in asked if one not in starts or one not in told]
    if without is not None and 0 < len(missing) < len(asked):
        without += missing
        asked = [one for one in asked if one not in missing]
    elif missing:
        fail(f"offsets of {missing[0]} cannot be told: no leader answers (`moldau topic describe {missing[0].topic}`)")
    found = {}
    for one in asked:
        start, end = starts[one], ends[one]
        wanted = {
            "earliest": start,
            "latest": end,
            "offset": place.number,
            "last": max(start, end - place.number),
            "time": told[one],
        }[place.kind]
        if destroys and place.kind == "offset" and wanted > end:
            fail(f"{one} ends at {end}, and has no offset {wanted}: nothing is deleted. A time in ms is @{wanted}", 2)
        found[one] = min(max(wanted, start), end)
        if found[one] != wanted:
            has = f"has offsets {start} to {end - 1}" if end > start else "is empty"
            note(f"{one} {has}: {found[one]} is taken for {wanted}")
    return found
