"""How the options of a tool are listed for its users: JOpt Simple's table in 80 columns, as Kafka's tools print it.

Lines are broken where Java's line BreakIterator breaks them, which is not where a person would: after hyphens and after
marks that end a word. tests/live/test_classic_tools.py compares tables with those that Kafka prints.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from moldau.admin.classic.options import Option

WIDTH = 80
BETWEEN = 2
INDENT = "  "

_BEFORE = r'[$"(\[{]'
_AFTER = r'[)\]}!"%.,:;?]'
_INSIDE = r"""[^\s$"'(\[{)\]}!%.,:;?\-]"""
_NUMBER = r'[$"(\[{\-]*\d+(?:[.,]\d+)*'
_WORDS = [re.compile(rf"{_BEFORE}*(?:{core})(?:-+|{_AFTER}*)") for core in (f"{_INSIDE}*", _NUMBER)]
"""What is never broken apart: a word or a number with the marks around it. The longer of both wins."""
_GLUE, _BLANKS = re.compile("'+"), re.compile(" *\t?")


def table(options: Iterable[Option]) -> str:
    """The list of options, sorted by name, each line as wide as the widest."""
    listed = sorted(options, key=lambda option: option.names[0])
    rows = [("Option", "Description"), ("------", "-----------")]
    if any(option.required for option in listed):
        rows = [("Option (* = required)", "Description"), ("---------------------", "-----------")]
    rows += [(_name(option), _description(option)) for option in listed]
    left = min((WIDTH - BETWEEN) // 2, max(len(name) for name, _ in rows))
    right = min(WIDTH - left - BETWEEN, max(len(text) for _, text in rows))
    lines = [line for name, text in rows for line in _beside(_fit(name, left), _fit(text, right))]
    left = min((WIDTH - BETWEEN) // 2, max(len(name) for name, _ in lines))
    right = min(WIDTH - left - BETWEEN, max(len(text) for _, text in lines))
    return "".join(f"{name:{left}}{' ' * BETWEEN}{text:{right}}\n" for name, text in lines)


def _name(option: Option) -> str:
    names = ", ".join(("--" if len(name) > 1 else "-") + name for name in option.names)
    text = f"* {names}" if option.required else names
    if option.takes is None:
        return text
    takes = f"{option.type}: {option.takes}" if option.takes else option.type
    return f"{text} [{takes}]" if option.optional_value else f"{text} <{takes}>"


def _description(option: Option) -> str:
    if option.default is None:
        return option.description
    return f"{option.description} (default: {option.default})".strip()


def _beside(left: list[str], right: list[str]) -> list[tuple[str, str]]:
    height = max(len(left), len(right))
    return list(zip(left + [""] * (height - len(left)), right + [""] * (height - len(right)), strict=True))


def _fit(text: str, width: int) -> list[str]:
    """The lines of a text that is to be at most so wide; a word that is wider stands alone."""
    lines = []
    for given in text.strip().split("\n"):
        line = ""
        for piece in pieces(given):
            if len(line) + len(piece) > width:
                lines.append(line.rstrip())
                line = INDENT + piece
            else:
                line += piece
        if line:
            lines.append(line)
    return lines


def pieces(text: str) -> list[str]:
    """A text cut wherever its line may be broken: after blanks and marks, but never beside an apostrophe."""
    found, start = [], 0
    while start < len(text):
        end = _end_of_word(text, start)
        while (glue := _GLUE.match(text, end)) is not None:
            end = _end_of_word(text, glue.end())
        blanks = _BLANKS.match(text, end)
        end = max(blanks.end() if blanks is not None else end, start + 1)
        found.append(text[start:end])
        start = end
    return found


def _end_of_word(text: str, start: int) -> int:
    return max(match.end() for word in _WORDS if (match := word.match(text, start)))
