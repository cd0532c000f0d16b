"""Plots as SVG text: bars and steps over batches, and bars across. No library, nothing that a browser has to load.

Titles and legends stand above a plot's frame and numbers left of it, so nothing lies over the data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

WIDTH, LEFT, RIGHT, TOP, HEIGHT, BOTTOM = 960, 90, 20, 34, 150, 30
_INNER = WIDTH - LEFT - RIGHT
_LABELS_MOST = 8
_CHARACTER = 7.2
"""About how wide a character of a label is."""


class Series(NamedTuple):
    """Values with a name and a colour, one for each batch."""

    name: str
    color: str
    values: Sequence[int]


def ticks(most: int) -> list[int]:
    """Round numbers from 0 up to at least ``most``, three to six of them.

    >>> ticks(0), ticks(7), ticks(43_210)
    ([0, 1], [0, 2, 4, 6, 8], [0, 10000, 20000, 30000, 40000, 50000])
    """
    if most <= 1:
        return [0, 1]
    power = 10 ** math.floor(math.log10(most / 4)) if most >= 4 else 1
    step = next(power * one for one in (1, 2, 5, 10) if power * one * 5 >= most)
    return [at * step for at in range(math.ceil(most / step) + 1)]


def bars(title: str, labels: Sequence[str], tips: Sequence[str], series: Sequence[Series]) -> str:
    """Bars over batches, the series of each on top of each other."""
    sums = [sum(values) for values in zip(*(one.values for one in series), strict=True)]
    up = ticks(max(sums, default=0))
    wide = _INNER / len(labels)
    drawn = []
    for at, tip in enumerate(tips):
        below = 0
        for one in series:
            value = one.values[at]
            if not value:
                continue
            y, height = _y(below + value, up), _y(below, up) - _y(below + value, up)
            told = escape(f"{tip}: {value:,} {one.name}")
            drawn.append(
                f'<rect x="{LEFT + at * wide + wide * 0.08:.2f}" y="{y:.2f}" width="{wide * 0.84:.2f}" '
                f'height="{max(height, 0.75):.2f}" fill="{one.color}"><title>{told}</title></rect>'
            )
            below += value
    return _framed(title, labels, series, up, drawn)


def steps(title: str, labels: Sequence[str], tips: Sequence[str], series: Sequence[Series]) -> str:
    """Sums over batches, as lines that go up at each."""
    up = ticks(max((value for one in series for value in one.values), default=0))
    wide = _INNER / len(labels)
    drawn = []
    for one in series:
        path: list[str] = []
        for at, value in enumerate(one.values):
            path.append(
                f"{'L' if path else 'M'}{LEFT + at * wide:.2f} {_y(value, up):.2f}H{LEFT + (at + 1) * wide:.2f}"
            )
        told = escape(f"{one.values[-1]:,} {one.name}, by {tips[-1]}")
        drawn.append(
            f'<path d="{"".join(path)}" fill="none" stroke="{one.color}" stroke-width="2"><title>{told}</title></path>'
        )
    return _framed(title, labels, series, up, drawn)


def across(rows: Sequence[tuple[str, int]], color: str) -> str:
    """A bar for each name, with its number behind it."""
    longest = max(len(name) for name, _ in rows)
    left = min(WIDTH / 3, longest * _CHARACTER + 14)
    most = max(1, *(value for _, value in rows))
    room = WIDTH - left - 110
    drawn = []
    for at, (name, value) in enumerate(rows):
        y = at * 22
        wide = value / most * room
        drawn.append(
            f'<text x="{left - 8:.1f}" y="{y + 15}" text-anchor="end">{escape(_short(name, left))}</text>'
            f'<rect x="{left:.1f}" y="{y + 3}" width="{wide:.2f}" height="16" fill="{color}"/>'
            f'<text x="{left + wide + 6:.1f}" y="{y + 15}">{value:,}</text>'
        )
    return f'<svg viewBox="0 0 {WIDTH} {len(rows) * 22 + 4}" role="img">{"".join(drawn)}</svg>'


def _short(name: str, left: float) -> str:
    most = int((left - 14) / _CHARACTER) + 1
    return name if len(name) <= most else f"{name[: most // 2 - 1]}...{name[len(name) - most // 2 + 2 :]}"


def _y(value: float, up: Sequence[int]) -> float:
    return TOP + HEIGHT * (1 - value / up[-1])


def _framed(
    title: str, labels: Sequence[str], series: Sequence[Series], up: Sequence[int], drawn: Sequence[str]
) -> str:
    """What is drawn, with its title and legend above, numbers left and times below."""
    floor = TOP + HEIGHT
    parts = [f'<text x="{LEFT}" y="16" style="font-weight: bold">{escape(title)}</text>']
    x = WIDTH - RIGHT
    for one in reversed(series) if len(series) > 1 else ():
        x -= round(len(one.name) * _CHARACTER) + 6
        parts.append(f'<text x="{x}" y="16">{escape(one.name)}</text>')
        x -= 16
        parts.append(f'<rect x="{x}" y="6" width="11" height="11" fill="{one.color}"/>')
        x -= 14
    for value in up:
        y = _y(value, up)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.2f}" y2="{y:.2f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.2f}" text-anchor="end">{value:,}</text>')
    parts += drawn
    wide = _INNER / len(labels)
    every = math.ceil(len(labels) / _LABELS_MOST)
    for at in range(0, len(labels), every):
        x_label = LEFT + (at + 0.5) * wide
        parts.append(f'<line x1="{x_label:.2f}" x2="{x_label:.2f}" y1="{floor}" y2="{floor + 5}" stroke="#888"/>')
        parts.append(f'<text x="{x_label:.2f}" y="{floor + 19}" text-anchor="middle">{escape(labels[at])}</text>')
    parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{floor}" y2="{floor}" stroke="#888"/>')
    size = f"0 0 {WIDTH} {TOP + HEIGHT + BOTTOM}"
    return f'<svg viewBox="{size}" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'
