"""How argparse4j writes usage, help and errors: lines of 75 columns, stretched with blanks between their words.

Source: argparse4j 0.7.0. Lines are broken where Java's BreakIterator breaks them (usage.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from moldau.admin.classic.argparse4j_parsers import Argument, OptionGroup, Parser
from moldau.admin.classic.usage import pieces

WIDTH = 75
INDENT = 25
_LONGEST_TITLE = 21
_LONGEST_PROG = 30
_NEAR_ENOUGH = 7
_SWAP, _SUBSTITUTE, _ADD, _DELETE = 0, 2, 1, 3


def help_text(path: Sequence[Parser]) -> str:
    """What --help prints of the last of a tool and its subcommands."""
    parser = path[-1]
    parts = [usage_text(path)]
    if parser.description:
        parts.append(f"\n{stretched(parser.description)}\n")
    if parser.commands:
        listed = "{" + ",".join(one.prog for one in parser.commands) + "}"
        rows = [entry(listed, "")] + [entry(f"  {one.prog}", one.help) for one in parser.commands]
        parts.append("\npositional arguments:\n" + "".join(rows))
    parts.append("\noptional arguments:\n")
    parts += [_listed(parser, argument) for argument in parser.all if not argument.group]
    for title in dict.fromkeys(argument.group for argument in parser.arguments if argument.group):
        known = next((group for group in parser.groups if group.name == title), OptionGroup(title, title, ""))
        parts.append(f"\n{known.title}:\n" if known.title else "\n")
        if known.about:
            parts.append(f"  {stretched(known.about, 2)}\n\n")
        parts += [_listed(parser, argument) for argument in parser.arguments if argument.group == title]
    return "".join(parts)


def error_text(path: Sequence[Parser], message: str, near: tuple[str, Iterable[str]] | None = None) -> str:
    """What is said of a rejected command line; ``near``: an unknown word, and those that may have been meant."""
    said = usage_text(path) + stretched(f"{path[0].prog}: error: {message}\n")
    return said + (_did_you_mean(*near) if near is not None else "")


def usage_text(path: Sequence[Parser]) -> str:
    """How a tool or its subcommand is called."""
    parser, head = path[-1], f"usage: {path[0].prog}"
    words: list[str] = []
    for at, upper in enumerate(path[:-1]):
        words += [upper.prog] if at else []
        words += [_short(one) for one in upper.arguments if one.required and not one.mutex]
        for mutex in upper.required_mutexes:
            words += _choice(upper, mutex)
    words += [parser.prog] if len(path) > 1 else []
    words += [_short(one) for one in parser.all if not one.mutex]
    for mutex in dict.fromkeys(one.mutex for one in parser.arguments if one.mutex):
        words += _choice(parser, mutex)
    if parser.commands:
        words += ["{" + ",".join(one.prog for one in parser.commands) + "}", "..."]
    if len(head) > _LONGEST_PROG:
        text, indent = f"{head}\n      ", " " * 6
    else:
        text, indent = head, " " * len(head)
    width = len(indent)
    for at, word in enumerate(words):
        if at and width + len(word) + 1 > WIDTH:
            text += f"\n{indent}"
            width = len(indent)
        text += f" {word}"
        width += 1 + len(word)
    return f"{text}\n"


def _choice(parser: Parser, mutex: str) -> list[str]:
    start, end = ("(", ")") if mutex in parser.required_mutexes else ("[", "]")
    words = [_bare(one) for one in parser.arguments if one.mutex == mutex]
    if len(words) == 1:
        return words if mutex in parser.required_mutexes else [f"[{words[0]}]"]
    words = [part for word in words for part in (word, "|")][:-1]
    return [start + words[0], *words[1:-1], words[-1] + end]


def _short(argument: Argument) -> str:
    return _bare(argument) if argument.required else f"[{_bare(argument)}]"


def _bare(argument: Argument) -> str:
    return f"{argument.flags[0]} {_metavar(argument)}".rstrip()


def _metavar(argument: Argument) -> str:
    if argument.takes is None:
        return ""
    name = argument.takes or argument.name.replace("-", "_").upper()
    if argument.choices and not argument.takes:
        name = "{" + ",".join(argument.choices) + "}"
    return f"{name} [{name} ...]" if argument.several == "+" else name


def _listed(parser: Parser, argument: Argument) -> str:
    title = ", ".join(f"{flag} {_metavar(argument)}".rstrip() for flag in argument.flags)
    default = argument.default
    if parser.shows_defaults and argument.takes is None and argument.name != "help":
        default = "false"
    text = argument.help
    if parser.shows_defaults and default is not None:
        text = f"{text} (default: {default})".strip()
    return entry(title, text)


def entry(title: str, text: str) -> str:
    """A line of help: a title and what there is to say of it, beside or below."""
    if not text:
        return f"  {title}\n"
    head = f"  {title:{INDENT - 2}}" if len(title) <= _LONGEST_TITLE else f"  {title}\n{' ' * INDENT}"
    return f"{head}{stretched(text, INDENT)}\n"


def stretched(text: str, indent: int = 0) -> str:
    """A text in lines of 75 columns, all but the last of which are filled with blanks between their words."""
    lines, line, width = [], "", indent
    for piece in _with_ends(pieces(text)):
        width += len(piece)
        if width > WIDTH:
            lines.append(_filled(line, WIDTH - (width - len(piece))))
            line, width = "", indent + len(piece)
        line += piece
        if piece.endswith("\n"):
            lines.append(line.removesuffix("\n"))
            line, width = "", indent
    return f"\n{' ' * indent}".join([*lines, line])


def _with_ends(found: Iterable[str]) -> list[str]:
    """Pieces with the ends of lines at those before them."""
    joined: list[str] = []
    for piece in found:
        if joined and piece.startswith("\n"):
            joined[-1] += "\n"
            piece = piece[1:]
        joined += [piece] if piece else []
    return joined


def _filled(line: str, room: int) -> str:
    """A line with so many blanks more, and those of its ends, between its words: most in the middle."""
    words = line.strip(" ").split(" ")
    room += len(line) - len(line.strip(" "))
    gaps = len(words) - 1
    if gaps <= 0:
        return line.strip(" ")
    each, rest = divmod(room, gaps)
    first = (gaps - rest + 1) // 2
    text = words[0]
    for at, word in enumerate(words[1:]):
        text += " " * (1 + each + (first <= at < first + rest)) + word
    return text


def _did_you_mean(word: str, names: Iterable[str]) -> str:
    found = sorted((0 if (body := name.lstrip("-")).startswith(word) else distance(word, body), name) for name in names)
    if not found or found[0][0] >= _NEAR_ENOUGH or len(word) < 2:
        return ""
    return "\nDid you mean:\n" + "".join(f"\t{name}\n" for far, name in found if far == found[0][0])


def distance(word: str, other: str) -> int:
    """How far two words are apart (Damerau and Levenshtein, with git's costs)."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, letter in enumerate(word, 1):
        now = [at]
        for to, mark in enumerate(other, 1):
            cost = row[to - 1] + (0 if letter == mark else _SUBSTITUTE)
            swapped = at > 1 and to > 1 and letter != mark and word[at - 2] == mark and letter == other[to - 2]
            if swapped:
                cost = min(cost, before[to - 2] + _SWAP)
            now.append(min(cost, row[to] + _DELETE, now[to - 1] + _ADD))
        before, row = row, now
    return row[-1]
