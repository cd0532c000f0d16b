"""Draws the pictures of docs/architecture.md and docs/walks.md as SVG. Run by `make docs`; a test compares the files.

The layers are those of ``.importlinter``; the sequences are written here. Plain text, no time and no randomness: the
same code draws the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from configparser import ConfigParser
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
FOLDER = Path(__file__).parent / "pictures"
FONT = 'font-family="DejaVu Sans, Helvetica, Arial, sans-serif"'
PURE, IMPURE, LINE, NOTE = "#dcebd9", "#dde6f2", "#4a5560", "#f7f0d4"
"""Fills of packages without and with I/O, strokes, and notes."""
WIDTH = 760
RULE = "a package imports from rows below its own"


class Message(NamedTuple):
    """An arrow from one actor to another, or a note at one when both are the same."""

    source: int
    target: int
    text: str


def rectangle(x: int, y: int, width: int, height: int, fill: str) -> str:
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{fill}" stroke="{LINE}"/>'


def words(x: int, y: int, text: str, *, anchor: str = "middle", size: int = 14) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}" fill="#1d2329">{escape(text)}</text>'


def drawing(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {FONT}>'
    arrow = (
        '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0L10 5L0 10z" fill="{LINE}"/></marker></defs>'
    )
    ground = f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", arrow, ground, *parts, "</svg>", ""])


def packages() -> str:
    """The layers of all packages; those without I/O in another colour."""
    whole = {name.removeprefix("moldau.") for name in _listed("forbidden", "source_modules")}
    rows = [row for row in _listed("layers", "layers", container="moldau") if not row.startswith("__")]
    parts = layers(rows, whole, step=54)
    below = 20 + len(rows) * 54
    parts += [rectangle(20, below, 18, 18, PURE), words(46, below + 14, "without I/O", anchor="start", size=12)]
    parts += [rectangle(160, below, 18, 18, IMPURE), words(186, below + 14, "with I/O", anchor="start", size=12)]
    parts.append(words(WIDTH - 20, below + 14, RULE, anchor="end", size=12))
    return drawing(WIDTH, below + 38, "The packages of moldau in layers", parts)


def broker() -> str:
    """The layers inside the broker."""
    rows = _listed("layers", "layers", container="moldau.broker")
    below = 20 + len(rows) * 40
    parts = [*layers(rows, set(), step=40), words(WIDTH - 20, below + 14, RULE, anchor="end", size=12)]
    return drawing(WIDTH, below + 38, "The packages of moldau.broker in layers", parts)


def layers(rows: Sequence[str], pure: set[str], step: int) -> list[str]:
    """One row for each layer of an import contract, the highest first; ``step`` is a row's height with its gap."""
    parts = []
    for number, row in enumerate(rows):
        names = [name.strip().removeprefix("moldau.") for name in row.split("|")]
        each = (WIDTH - 40 - 12 * (len(names) - 1)) // len(names)
        for place, name in enumerate(names):
            x, y = 20 + place * (each + 12), 20 + number * step
            parts.append(rectangle(x, y, each, step - 14, PURE if name in pure else IMPURE))
            parts.append(words(x + each // 2, y + step // 2 - 2, name))
    return parts


def _listed(kind: str, what: str, container: str = "") -> list[str]:
    """The lines of an import contract's list."""
    config = ConfigParser()
    config.read(ROOT / ".importlinter")
    for section in config.values():
        if section.get("type") == kind and section.get("containers", "") == container:
            return [line.strip() for line in section[what].split("\n") if line.strip()]
    raise LookupError(f"no contract of type {kind}")


def sequence(title: str, actors: Sequence[str], messages: Sequence[Message]) -> str:
    """Actors from left to right, messages from top to bottom."""
    gap, top, step = 280, 60, 46
    width, height = gap * len(actors), top + step * len(messages) + 40
    at = [gap * place + gap // 2 for place in range(len(actors))]
    parts = []
    for x, name in zip(at, actors, strict=True):
        parts.append(f'<path d="M{x} {top - 10}V{height - 20}" stroke="{LINE}" stroke-dasharray="3 4"/>')
        parts += [rectangle(x - 95, 14, 190, 34, IMPURE), words(x, 36, name)]
    for number, message in enumerate(messages):
        y = top + step * (number + 1) - 10
        begin, end = at[message.source], at[message.target]
        if begin == end:
            parts += [rectangle(begin - 132, y - 18, 264, 28, NOTE), words(begin, y, message.text, size=12)]
        else:
            parts.append(f'<path d="M{begin} {y}H{end}" stroke="{LINE}" stroke-width="1.5" marker-end="url(#arrow)"/>')
            parts.append(words((begin + end) // 2, y - 7, message.text, size=12))
    return drawing(width, height, title, parts)


def produce() -> str:
    client, leader, follower = 0, 1, 2
    return sequence(
        "A produce request, from the client to the acknowledgement",
        ("producer", "leader", "follower"),
        (
            Message(client, leader, "Produce (acks=all)"),
            Message(leader, leader, "may it append? header, CRC, sequence"),
            Message(leader, leader, "one vectored write to the log"),
            Message(follower, leader, "Fetch from offset n"),
            Message(leader, follower, "the batch at offset n"),
            Message(follower, follower, "append to its own log"),
            Message(follower, leader, "Fetch from offset n + 1"),
            Message(leader, leader, "high watermark passes the batch"),
            Message(leader, client, "acknowledged"),
            Message(leader, follower, "high watermark n + 1"),
        ),
    )


def failover() -> str:
    dead, controller, heir, client = 0, 1, 2, 3
    return sequence(
        "A broker's death: from the broken connection to the next produce",
        ("broker 1 (leads)", "active controller", "broker 2 (in the ISR)", "producer"),
        (
            Message(dead, dead, "kill -9"),
            Message(dead, controller, "the connection breaks"),
            Message(controller, dead, "connect again: refused"),
            Message(controller, controller, "fence 1, elect 2: one batch of records"),
            Message(controller, controller, "committed by a majority"),
            Message(controller, heir, "the committed batch"),
            Message(heir, heir, "leads under the next leader epoch"),
            Message(client, heir, "Metadata: who leads?"),
            Message(heir, client, "broker 2"),
            Message(client, heir, "Produce"),
            Message(heir, client, "acknowledged"),
        ),
    )


PICTURES: dict[Path, Callable[[], str]] = {
    FOLDER / "layers.svg": packages,
    FOLDER / "broker.svg": broker,
    FOLDER / "produce.svg": produce,
    FOLDER / "failover.svg": failover,
}
"""Each file, and what draws it."""
