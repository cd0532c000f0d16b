"""How answers are printed: tables for people, JSON, YAML and tabs for scripts; colour only on a terminal.

Rows are mappings; a script sees every field of them, a table those that are named. Nothing is ever cut off.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

Row = Mapping[str, object]

FORMATS = ("text", "wide", "json", "yaml", "tsv")
TABLES = ("text", "wide")
"""Formats for people, in which nothing need stand for no rows: for a script an empty list, or the names alone, do."""
_BARE = re.compile(r"[A-Za-z/_][A-Za-z0-9_./:+@-]*\Z")
_WORDS_OF_YAML = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "infinity"})
_COLOURS = {"red": "31", "yellow": "33", "green": "32", "bold": "1"}
_ALARMS = {
    "red": frozenset({"offline", "gone", "error", "failed", "under-min-isr", "DIVERGED", "MISSING", "UNREACHABLE"}),
    "yellow": frozenset({"under-replicated", "at-min-isr", "fenced", "warning", "moving", "LAGGING", "Empty", "stopped",
                         "starting", "not answering"}),
}  # fmt: skip


def show(rows: Sequence[Row], output: str, columns: Iterable[str], wide: Iterable[str] = ()) -> None:
    """Rows as a table (``wide``: with more columns), as JSON or YAML (a list), or with tabs between.

    Lists in cells are joined with commas.
    """
    if output == "json":
        print(json.dumps(list(rows), indent=2))
    elif output == "yaml":
        print(yaml(list(rows)))
    else:
        names = [*columns, *(wide if output == "wide" else ())]
        print(table(rows, names) if output != "tsv" else tabs(rows, names))


def show_one(thing: Row, output: str) -> bool:
    """Print a thing that is no list of rows, as JSON or YAML; False when the format is for tables."""
    if output == "json":
        print(json.dumps(thing, indent=2))
    elif output == "yaml":
        print(yaml(thing))
    else:
        return False
    return True


def tabs(rows: Iterable[Row], names: Sequence[str]) -> str:
    """A line for each row, with tabs between cells, below a line of names."""
    lines = [[_head(name) for name in names], *([cell(row.get(name)) for name in names] for row in rows)]
    return "\n".join(map("\t".join, lines))


def table(rows: Iterable[Row], names: Sequence[str]) -> str:
    """Rows below each other, each column as wide as its widest cell; numbers are set to the right."""
    columns: list[list[str]] = []
    numbers: list[bool] = []
    rows = list(rows)
    for name in names:
        values = [row.get(name) for row in rows]
        columns.append([_head(name), *map(cell, values)])
        numbers.append(any(_is_number(one) for one in values) and all(one is None or _is_number(one) for one in values))
    widths = [max(map(len, column)) for column in columns]
    coloured = is_coloured()
    lines = []
    for at, line in enumerate(zip(*columns, strict=True)):
        cells = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numbers, strict=True)
        ]
        text = "  ".join(cells).rstrip()
        lines.append(_painted(text, line, at == 0) if coloured else text)
    return "\n".join(lines)


def cell(value: object) -> str:
    """A value in a table, in one line; what would move a terminal's cursor is escaped."""
    return printable(_cell(value))


def printable(text: str) -> str:
    """A name or a value that others chose, in one line: what would move a terminal's cursor, or end the line, is
    escaped."""
    return text if text.isprintable() else "".join(map(_printable, text))


def _printable(one: str) -> str:
    return one if one.isprintable() else one.encode("unicode_escape").decode()


def _cell(value: object) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value)) or "-"
    if isinstance(value, dict):
        return ",".join(f"{key}={one}" for key, one in value.items()) or "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def note(text: str) -> None:
    """Progress and advice: for people, so not among what a script reads."""
    take_bar_away()
    print(lines_printable(text), file=sys.stderr, flush=True)


def say(text: str) -> None:
    """An answer in words, told as it comes about, while a bar may be drawn. All that is no table and no JSON is told by
    this or by ``note``: names and values in it are what anybody gave them."""
    take_bar_away()
    print(lines_printable(text), flush=True)


def lines_printable(text: str) -> str:
    """A text with what would move a terminal's cursor escaped, but for tabs and the ends of its lines."""
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))


_drawn = False  # whether a bar stands in the terminal's last line: there is one terminal, whoever writes to it


def draw_bar(line: str) -> None:
    """Draw a line over the one that was drawn last (``progress.py``), no longer than the terminal is wide."""
    global _drawn
    try:
        width = os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):  # what looks like a terminal, and is none that the system knows
        width = 80
    sys.stderr.write(f"\r{printable(line)[: width - 1]}\x1b[K")
    sys.stderr.flush()
    _drawn = True


def take_bar_away() -> None:
    """Leave the line free on which a bar is drawn, if one is."""
    global _drawn
    if _drawn:
        _drawn = False
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def is_coloured() -> bool:
    """Whether to colour: on a terminal that can, unless NO_COLOR says otherwise."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


DONE = object()
"""What ``draw`` returns when there is nothing more to watch."""


def watch(draw: Callable[[], object], every_s: float | None) -> None:
    """Draw once; or, with seconds given, again and again on a cleared screen until ``DONE``. A look that fails after
    one that did not is told, and the next is tried: the cluster may be away for a while. Ctrl-C ends it as any
    command."""
    if every_s is None:
        draw()
        return
    seen = False
    while True:
        if sys.stdout.isatty():
            sys.stdout.write("\x1b[H\x1b[2J")
            print(f"{time.strftime('%H:%M:%S')}, every {every_s:g} s; Ctrl-C ends", flush=True)
        drawn: object = None
        try:
            drawn = draw()
            seen = True
        except SystemExit as ended:
            if not seen or ended.code != 1:
                raise
        sys.stdout.flush()
        if drawn is DONE:
            return
        time.sleep(every_s)


KEY_LENGTH = 1_000
"""YAML takes no more than 1,024 characters for a key without a mark."""


def yaml(value: object, indent: str = "") -> str:
    """A value of JSON's kinds as YAML, in block style."""
    if isinstance(value, Mapping):
        lines = [f"{indent}{_key(str(key), indent)}:{_below(one, indent)}" for key, one in value.items()]
        return "\n".join(lines) or f"{indent}{{}}"
    if isinstance(value, (list, tuple)):
        lines = []
        for one in value:
            block = yaml(one, f"{indent}  ")
            lines.append(f"{indent}- {block[len(indent) + 2 :]}")
        return "\n".join(lines) or f"{indent}[]"
    return indent + _scalar(value)


def _key(text: str, indent: str) -> str:
    """A key; with the mark that YAML wants before one that it would not look for the end of."""
    word = _word(text)
    return word if len(word) <= KEY_LENGTH else f"? {word}\n{indent}"


def _below(value: object, indent: str) -> str:
    if isinstance(value, (Mapping, list, tuple)) and value:
        deeper = indent if isinstance(value, (list, tuple)) else f"{indent}  "
        return "\n" + yaml(value, deeper)
    return " " + yaml(value)


def _scalar(value: object) -> str:
    return _word(value) if isinstance(value, str) else json.dumps(value)


def _word(text: str) -> str:
    if _BARE.match(text) and text.lower() not in _WORDS_OF_YAML and text[-1] != ":":
        return text
    return _ESCAPED.sub(_of_yaml, json.dumps(text))


_ESCAPED = re.compile(r"\\u(d[89ab]..)\\u(d[c-f]..)|\\u....|\\.|\x7f")


def _of_yaml(found: re.Match[str]) -> str:
    """An escape of JSON as YAML has it, where two that stand for one character are two characters."""
    if found[0] == "\x7f":  # JSON leaves it as it is
        return "\\x7f"
    if found[1] is None:
        return found[0]
    return f"\\U{0x10000 + (int(found[1], 16) - 0xD800 << 10) + int(found[2], 16) - 0xDC00:08x}"


def _head(name: str) -> str:
    return name.replace("_", "-").upper()


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _painted(text: str, cells: Iterable[str], head: bool) -> str:
    words = set(cells)
    colour = "bold" if head else next((name for name, alarms in _ALARMS.items() if words & alarms), None)
    return text if colour is None else f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def drop_output() -> None:
    """Forget what could not be written, so that the interpreter does not fail at it again when it ends."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # it is no file
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
