"""Command lines with subcommands as argparse4j reads them for some of Apache Kafka's tools, and its help texts.

Options and subcommands may be abbreviated; lines of help are stretched to their width, as there. Words are read in
options.py's order: what is wrong first is told first, but for options that are missing, which are told last. Facts of
argparse4j 0.7.0; how a tool's options are listed was compared with Kafka's own. Read next: argparse4j_help.py.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn

from moldau.admin.classic.argparse4j_help import error_text, help_text
from moldau.admin.classic.argparse4j_parsers import HELP, Argument, Parser
from moldau.admin.classic.options import java_integer

INTEGER, LONG, DOUBLE = "Integer", "Long", "Double"
_DECIMAL = re.compile(r"[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?)\Z")


class Rejected(Exception):
    """The words are not those of the tool: what goes to standard error; ``message`` is the part that says why."""

    def __init__(self, text: str, message: str) -> None:
        super().__init__(text)
        self.message = message


class HelpShown(Exception):
    """Help was asked for: what goes to standard output; the status is 0."""


class Words:
    """What was given: the subcommand, and the values of options by their names."""

    def __init__(self) -> None:
        self.command = ""
        self._values: dict[str, list[str]] = {}
        self._lists: dict[str, list[list[str]]] = {}

    def has(self, name: str) -> bool:
        """Whether the option was given."""
        return name in self._values

    def value(self, name: str) -> str | None:
        """The value of an option that was given, or its default."""
        found = self._values.get(name)
        return found[-1] if found else None

    def values(self, name: str) -> list[str]:
        """All values of an option."""
        return list(self._values.get(name, []))

    def integer(self, name: str) -> int:
        """The value of an option whose kind is a number, and that must be given."""
        return int(self._values[name][-1])

    def double(self, name: str) -> float:
        """The value of an option whose kind is a double, and that must be given."""
        return java_double(self._values[name][-1])

    def take(self, argument: Argument, values: Sequence[str]) -> None:
        """Keep what was given for an option."""
        kept = self._values.setdefault(argument.name, [])
        if not argument.repeats:
            kept.clear()
        kept += values


def read_words(parser: Parser, arguments: Sequence[str]) -> Words:
    """What a command line says; Rejected or HelpShown otherwise."""
    found = Words()
    _Reader(parser, list(arguments), found).read()
    return found


class _Reader:
    """Reads the words of one command line: those of the tool, then those of its subcommand."""

    def __init__(self, tool: Parser, words: list[str], found: Words) -> None:
        self.path: list[Parser] = [tool]
        self.words = words
        self.found = found
        self.at = 0
        self.separated = False
        self.missing: Rejected | None = None
        self.used: list[Argument] = []
        self._take_defaults()

    @property
    def parser(self) -> Parser:
        return self.path[-1]

    def read(self) -> None:
        while self.at < len(self.words):
            word = self.words[self.at]
            if self._is_flag(word) and word != "--":
                self._read_flag(word)
            elif word == "--" and not self.separated:
                self.separated = True
                self.at += 1
            elif not self.separated and self.parser.commands:
                self._check_required()
                self._enter(word)
            else:
                rest = " ".join(self.words[self.at :])
                self._reject(f"unrecognized arguments: '{rest}'")
        if self.parser.commands:
            self._reject("too few arguments")
        self._check_required()
        if self.missing is not None:
            raise self.missing

    def _is_flag(self, word: str) -> bool:
        return not self.separated and len(word) > 1 and word[0] == "-" and not re.fullmatch(r"-\d+", word)

    def _enter(self, word: str) -> None:
        names = [one.prog for one in self.parser.commands]
        chosen = [word] if word in names else [name for name in names if word and name.startswith(word)]
        if not chosen:
            listed = ", ".join(f"'{name}'" for name in names)
            self._reject(f"invalid choice: '{word}' (choose from {listed})", near=(word, dict.fromkeys(names, "")))
        if len(chosen) > 1:
            self._reject(f"ambiguous command: {word} could match {', '.join(sorted(chosen))}")
        self.at += 1
        self.found.command = self.found.command or chosen[0]
        self.path.append(next(one for one in self.parser.commands if one.prog == chosen[0]))
        self.used = []
        self._take_defaults()

    def _take_defaults(self) -> None:
        for argument in self.parser.arguments:
            if argument.default is not None:
                self.found.take(argument, [argument.default])

    def _read_flag(self, word: str) -> None:
        flag, equals, value = word.partition("=")
        argument = self._resolve(flag)
        embedded = value if equals else None
        if argument is None:
            argument, flag, embedded = self._read_letters(word)
        self.at += 1
        if argument is not None:
            self._take(argument, embedded)

    def _resolve(self, flag: str) -> Argument | None:
        known = {name: argument for argument in self.parser.all for name in argument.flags}
        if flag in known:
            return known[flag]
        found = sorted(name for name in known if name.startswith(flag))
        if len(found) > 1:
            self._reject(f"ambiguous option: {flag} could match {', '.join(found)}")
        return known[found[0]] if found else None

    def _read_letters(self, word: str) -> tuple[Argument | None, str, str | None]:
        """Short options in one word: the one that takes a value, with the rest of the word."""
        known = {name: argument for argument in self.parser.all for name in argument.flags}
        if not word.startswith("--"):
            for at, letter in enumerate(word[1:], 1):
                argument = known.get(f"-{letter}")
                if argument is None:
                    break
                if argument.takes is not None:
                    return argument, f"-{letter}", word[at + 1 :] or None
                self._take(argument, None)
            else:
                return None, word, None
        flags = {name: "" for name in known if len(name.lstrip("-")) > 1}
        raise self._rejected(f"unrecognized arguments: '{word}'", near=(word.lstrip("-"), flags))

    def _take(self, argument: Argument, embedded: str | None) -> None:
        self._check_mutex(argument)
        self.used.append(argument)
        if argument.takes is None:
            if embedded is not None:
                self._reject(f"argument {argument.shown}: ignore implicit argument '{embedded}'")
            if argument is HELP:
                raise HelpShown(help_text(self.path))
            self.found.take(argument, [""])
            return
        values = [] if embedded is None else [embedded]
        most = sys.maxsize if argument.several == "+" else 1
        while not values or (embedded is None and len(values) < most):
            if self.at >= len(self.words) or self._is_flag(self.words[self.at]) or self.words[self.at] == "--":
                break
            values.append(self.words[self.at])
            self.at += 1
        if not values:
            count = "at least 1 argument" if argument.several else "one argument"
            self._reject(f"argument {argument.shown}: expected {count}")
        for value in values:
            self._convert(argument, value)
        self.found.take(argument, values)

    def _convert(self, argument: Argument, value: str) -> None:
        if argument.kind:
            try:
                if argument.kind == DOUBLE:
                    java_double(value)
                else:
                    java_integer(value, 64 if argument.kind == LONG else 32)
            except ValueError as error:
                why = f"could not convert '{value}' to {argument.kind} ({error})"
                self._reject(f"argument {argument.shown}: {why}")
        if argument.choices and value not in argument.choices:
            shown = "{" + ",".join(argument.choices) + "}"
            self._reject(f"argument {argument.shown}: invalid choice: '{value}' (choose from {shown})")

    def _check_mutex(self, argument: Argument) -> None:
        for other in self.used:
            if argument.mutex and other.mutex == argument.mutex and other != argument:
                self._reject(f"argument {argument.shown}: not allowed with argument {other.shown}")

    def _check_required(self) -> None:
        if self.missing is not None:
            return
        for argument in self.parser.arguments:
            if argument.required and argument not in self.used:
                self.missing = self._rejected(f"argument {argument.shown} is required")
        if self.missing is not None:
            return
        for mutex in self.parser.required_mutexes:
            members = [argument for argument in self.parser.arguments if argument.mutex == mutex]
            if not any(argument in self.used for argument in members):
                shown = "".join(f"{argument.shown} " for argument in members)
                self.missing = self._rejected(f"one of the arguments {shown}is required")

    def _reject(self, message: str, near: tuple[str, Iterable[str]] | None = None) -> NoReturn:
        raise self._rejected(message, near)

    def _rejected(self, message: str, near: tuple[str, Iterable[str]] | None = None) -> Rejected:
        return Rejected(error_text(self.path, message, near), message)


def java_double(text: str) -> float:
    """A number as Java's Double.valueOf reads it; ValueError in its words."""
    if not _DECIMAL.match(text.strip()):
        raise ValueError("empty String" if not text.strip() else f'For input string: "{text}"')
    return float(text.strip().rstrip("fFdD") if text.strip()[-1] in "fFdD" else text)


def run_tool(parser: Parser, arguments: Sequence[str], work: Callable[[Words], int], *, helped: int = 0) -> int:
    """Read a command line and do the work; the exit status, ``helped`` when help was asked for."""
    try:
        return work(read_words(parser, arguments))
    except HelpShown as shown:
        sys.stdout.write(str(shown))
        return helped
    except Rejected as error:
        sys.stdout.flush()
        sys.stderr.write(str(error))
        return 1


def run_flat_tool(parser: Parser, arguments: Sequence[str], work: Callable[[Words], int]) -> int:
    """The same for a tool without subcommands: given nothing it prints its help; after --help it ends with 1."""
    if not arguments:
        sys.stdout.write(help_text([parser]))
        return 0
    return run_tool(parser, arguments, work, helped=1)


def reject(parser: Parser, message: str) -> NoReturn:
    """Rejected: a tool without subcommands found itself that its words cannot be."""
    raise Rejected(error_text([parser], message), message)
