"""Command line options as JOpt Simple reads them for Apache Kafka's tools, abbreviations switched off.

``--name value``, ``--name=value`` and ``-name value`` are one; an option that must have a value takes the next word
whatever it looks like; words that belong to no option are ignored by all tools. A value is converted when it is asked
for, not before, as there. How options are listed for users: usage.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NoReturn

from moldau.admin.classic.java import JavaError
from moldau.model.named import NamedTuple


class Option(NamedTuple):
    """An option: ``takes`` names the value that it takes ("" for one without a name, None: it takes none).

    ``type`` is Java's word for the value's type, as users see it; ``default`` the value of an option that is not given;
    ``available_if`` names options of which one must be given beside it.
    """

    name: str
    description: str
    takes: str | None = None
    type: str = "String"
    default: str | None = None
    optional_value: bool = False
    required: bool = False
    aliases: tuple[str, ...] = ()
    repeats_with: str = ""
    available_if: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All its names: long ones after short ones, each kind in the order of the alphabet."""
        return tuple(sorted((self.name, *self.aliases), key=lambda name: (len(name) > 1, name)))

    @property
    def shown(self) -> str:
        """How messages of Kafka name it: ``[topic]``."""
        return f"[{', '.join(self.names)}]"


HELP = Option("help", "Print usage information.")
VERSION = Option("version", "Display Kafka version.")


class ToolOptionError(JavaError):
    """The words of a command line are not those of its options."""

    def __init__(self, kind: str, message: str, cause: JavaError | None = None) -> None:
        super().__init__(f"joptsimple.{kind}", message, cause)


class ToolUsageError(Exception):
    """What was asked for cannot be: the message and the list of options go to standard error, and the status is 1."""

    def __init__(self, options: Sequence[Option], message: str) -> None:
        super().__init__(message)
        self.options = options


class GivenOptions:
    """The options of one command line, by the names in ``options``."""

    def __init__(
        self, options: Sequence[Option], arguments: Sequence[str], *, common: Sequence[Option] = (HELP, VERSION)
    ) -> None:
        """Read ``arguments``; ToolOptionError when they are not of these options or the common ones."""
        self.options = (*options, *common)
        self.arguments = list(arguments)
        self.rest: list[str] = []
        self.order: list[str] = []
        """The options as they were given, each as often as it was."""
        self._named = {name: option for option in self.options for name in option.names}
        self._found: dict[str, list[str]] = {}
        self._read(list(arguments))

    # -- asking

    def has(self, name: str) -> bool:
        """Whether the option was given."""
        return name in self._found

    def names(self) -> list[str]:
        """The options that were given, in their order."""
        return list(self._found)

    def value(self, name: str) -> str | None:
        """The one value of an option, or its default; ToolOptionError when it was given more than one."""
        values = self.values(name)
        if len(values) > 1:
            found = ", ".join(self._named[name].names)
            text = f"Found multiple arguments for option {found}, but you asked for only one"
            raise ToolOptionError("MultipleArgumentsForOptionException", text)
        return values[0] if values else None

    def text(self, name: str) -> str:
        """The value of an option that has one for certain: it was given, or has a default."""
        value = self.value(name)
        assert value is not None, f"--{name} was not given"
        return value

    def values(self, name: str) -> list[str]:
        """All values of an option in their order, or its default."""
        values = self._found.get(name, [])
        default = self._named[name].default
        return list(values) if values or default is None else [default]

    def integer(self, name: str, bits: int = 32) -> int | None:
        """The value of an option as a number of Java; ToolOptionError when it is none."""
        value = self.value(name)
        return None if value is None else self._converted(name, value, bits)

    def integers(self, name: str, bits: int = 32) -> list[int]:
        """All values of an option as numbers."""
        return [self._converted(name, value, bits) for value in self.values(name)]

    def _converted(self, name: str, value: str, bits: int) -> int:
        try:
            return java_integer(value, bits)
        except ValueError as error:
            wrong = JavaError("java.lang.NumberFormatException", str(error))
            why = JavaError("joptsimple.internal.ReflectionException", str(wrong), wrong)
            raise self.unreadable(name, value, why) from None

    def unreadable(self, name: str, value: str, why: JavaError) -> ToolOptionError:
        """What is said of a value that is not of the option's type."""
        text = f"Cannot parse argument '{value}' of option {_listed(self._named[name].names)}"
        return ToolOptionError("OptionArgumentConversionException", text, why)

    # -- what Kafka's tools check of any command line

    def refuse(self, message: str) -> NoReturn:
        """End with the message and the list of options."""
        raise ToolUsageError(self.options, message)

    def require(self, *names: str) -> None:
        """Refuse when one of the options is missing."""
        for name in names:
            if not self.has(name):
                self.refuse(f'Missing required argument "{self._named[name].shown}"')

    def exclude(self, name: str, others: Iterable[str]) -> None:
        """Refuse any of the other options beside this one."""
        if self.has(name):
            for other in others:
                if self.has(other):
                    shown = (self._named[name].shown, self._named[other].shown)
                    self.refuse(f'Option "{shown[0]}" can\'t be used with option "{shown[1]}"')

    def shown(self, name: str) -> str:
        """How messages of Kafka name the option: ``[topic]``."""
        return self._named[name].shown

    # -- reading

    def _read(self, words: list[str]) -> None:
        words.reverse()
        while words:
            word = words.pop()
            if word == "--":
                self.rest += reversed(words)
                break
            if word.startswith("--"):
                name, equals, value = word[2:].partition("=")
                if name not in self._named:
                    raise _unrecognized(name)
                self._take(self._named[name], value if equals else None, words)
            elif word.startswith("-") and word != "-":
                self._read_short(word[1:], words)
            else:
                self.rest.append(word)
        missing = [option for option in self.options if option.required and not self.has(option.name)]
        if missing and not self.has("help") and not self.has("version"):
            names = ", ".join(_listed(option.names) for option in missing)
            several = "s" if len(missing) > 1 else ""
            raise ToolOptionError("MissingRequiredOptionsException", f"Missing required option{several} {names}")
        lonely = [name for name in self._found if not self._is_available(self._named[name])]
        if lonely and not self.has("help"):
            names = ", ".join(name for option in lonely for name in self._named[option].names)
            why = f"Option(s) [{names}] are unavailable given other options on the command line"
            raise ToolOptionError("UnavailableOptionException", why)

    def _is_available(self, option: Option) -> bool:
        return not option.available_if or any(self.has(name) for name in option.available_if)

    def _read_short(self, text: str, words: list[str]) -> None:
        name, equals, value = text.partition("=")
        if name in self._named:
            self._take(self._named[name], value if equals else None, words)
            return
        for letter in text:
            if letter not in self._named:
                raise _unrecognized(letter)
        for at, letter in enumerate(text):
            option = self._named[letter]
            if option.takes is not None and at + 1 < len(text):
                self._take(option, text[at + 1 :], words)
                return
            self._take(option, None, words)

    def _take(self, option: Option, value: str | None, words: list[str]) -> None:
        """Note an option; without a value beside it (an empty one is one) it may take the next word."""
        self.order.append(option.name)
        found = self._found.setdefault(option.name, [])
        if option.takes is None:
            return
        if value is None:
            if option.optional_value and (not words or self._looks_like_an_option(words[-1])):
                return
            if not words:
                text = f"Option {_listed(option.names)} requires an argument"
                raise ToolOptionError("OptionMissingRequiredArgumentException", text)
            value = words.pop()
        tokens = [one for one in value.split(option.repeats_with) if one] if option.repeats_with else []
        found += tokens or [value]  # as Java's StringTokenizer, which passes over what is empty

    def _looks_like_an_option(self, word: str) -> bool:
        return word.startswith("-") and word != "-"


def _unrecognized(name: str) -> ToolOptionError:
    return ToolOptionError("UnrecognizedOptionException", f"{name} is not a recognized option")


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"[{', '.join(names)}]"


def asks_zookeeper(arguments: Iterable[str]) -> bool:
    """Whether a command line has --zookeeper: it is one for the tools of Kafka 2.8.2."""
    return any(word.partition("=")[0] in ("--zookeeper", "-zookeeper") for word in arguments)


_INTEGER = re.compile(r"[+-]?\d+\Z")


def java_integer(text: str, bits: int = 32) -> int:
    """A number as Java reads one of so many bits; ValueError when it is none, or does not fit."""
    if not _INTEGER.match(text):
        raise ValueError(f'For input string: "{text}"')
    number = int(text)
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError(f'For input string: "{text}"')
    return number
