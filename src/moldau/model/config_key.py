"""One configuration key: its name, type, default, bounds, and how a text becomes its value.

Decides only whether a text is a good value for a key. The tables of keys: ``topic_config.py``, ``broker_config.py``.
Which of several settings wins (topic over cluster over file over default) is decided by ``moldau.image.configs``.
Types and their wire numbers: Kafka's ConfigDef.Type and DescribeConfigs (KIP-569).
"""

from __future__ import annotations

import re
from enum import IntEnum
from math import isinf
from typing import Any

from moldau.model.named import NamedTuple

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

_RANGES = {"INT": (-(2**31), INT_MAX), "SHORT": (-(2**15), 2**15 - 1), "LONG": (-(2**63), LONG_MAX)}
_OVERRIDES = "max.connections.per.ip.overrides"
_OVERRIDE = re.compile(r"\s*\S+:\d{1,10}\s*\Z", re.ASCII)
_THROTTLED_REPLICA = re.compile(r"\d{1,10}:\d{1,10}\Z", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d{1,4000}\Z", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(\d{1,400}\.?\d{0,400}|\.\d{1,400})([eE][+-]?\d{1,5})?\Z", re.ASCII)
SHOWN_MAX = 200
TEXT_BYTES_MAX = 0x7FFF
"""What a text in a record or an answer may hold; Kafka's generated code writes no longer one."""


class Kind(IntEnum):
    """The type of a value; the numbers are those of a DescribeConfigs response."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigError(ValueError):
    """A value that its key does not allow; the message names key, value and what is allowed."""


def _fits(text: str) -> bool:
    """Whether it is no more than a value may have of UTF-8, in which there is no lone surrogate."""
    try:
        return len(text.encode()) <= TEXT_BYTES_MAX
    except UnicodeEncodeError:
        return False


class Synonym(NamedTuple):
    """A broker key that sets a topic key for the whole cluster; its value times ``factor`` is the topic value."""

    name: str
    factor: int = 1


class ConfigKey(NamedTuple):
    """One key. ``default`` is a parsed value (None: not set); ``low``/``high`` are inclusive bounds of a number.

    ``effect`` is False for keys that are Kafka's and accepted, but that Moldau has no use for (tiered storage, ...).
    ``internal`` keys are for tests and repair; they do not show in lists.
    """

    name: str
    kind: Kind
    default: Any
    doc: str
    importance: str = "MEDIUM"
    low: float | None = None
    high: float | None = None
    one_of: tuple[str, ...] = ()
    synonyms: tuple[Synonym, ...] = ()
    required: bool = False
    internal: bool = False
    effect: bool = True
    low_standing: float | None = None
    """The lower bound of older releases, where it was lower: a value that stands already is taken from there on."""

    def parse(self, text: str) -> Any:
        """The value that ``text`` stands for: bool, str, int, float or tuple of str. ConfigError when it is none.

        >>> ConfigKey("a.ms", Kind.INT, 1, "", low=0).parse(" 12 ")
        12
        """
        text = text.strip()
        if not _fits(text):
            what = f"at most {TEXT_BYTES_MAX} bytes of UTF-8"
            raise ConfigError(f"Invalid value {shown(text)} for configuration {self.name}: {what} are expected")
        try:
            value = _convert(self.kind, text)
        except ValueError:
            raise ConfigError(self._refusal(text)) from None
        if self.name == "process.roles":  # a role that is named twice counts once, as in Apache Kafka 4.3.1
            value = tuple(dict.fromkeys(value))
        if not self._allows(value):
            raise ConfigError(self._refusal(text))
        return value

    def is_good(self, text: str) -> bool:
        """Whether ``text``, which somebody has set already, stands for a value of this key."""
        try:
            self.parse_existing(text)
        except ConfigError:
            return False
        return True

    def parse_existing(self, text: str) -> Any:  # Any: a value has the type of its key
        """The value of a text that somebody has set already, perhaps when a release allowed more. ConfigError else."""
        if self.low_standing is None:
            return self.parse(text)
        return self._replace(low=self.low_standing, low_standing=None).parse(text)

    def text(self, value: Any) -> str | None:
        """How a parsed value is written (in responses and files); None for "not set"."""
        if value is None:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        return str(value).replace("e+", "E")  # as Java writes 1.8E308

    def allowed(self) -> str:
        """What may stand here, in words; for error messages and the reference page."""
        if self.name.endswith("replication.throttled.replicas"):
            return "* or a list of partition:broker pairs"
        if self.name == _OVERRIDES:
            return "a list of host:count pairs"
        if self.one_of:
            return ("a list of " if self.kind is Kind.LIST else "one of ") + ", ".join(self.one_of)
        words = _WORDS[self.kind]
        if self.low is not None and self.high is not None:
            return (
                f"{words} from {self.low:g} to {self.high:g}"
                if self.kind is Kind.DOUBLE
                else (f"{words} from {int(self.low)} to {int(self.high)}")
            )
        if self.low is not None:
            return f"{words} of at least {int(self.low)}"
        return words

    def _refusal(self, text: str) -> str:
        return f"Invalid value {shown(text)} for configuration {self.name}: {self.allowed()} is expected"

    def _allows(self, value: Any) -> bool:
        if self.one_of:
            members = value if self.kind is Kind.LIST else (value,)
            return all(member in self.one_of for member in members) and len(set(members)) == len(members)
        if self.name.endswith("replication.throttled.replicas"):
            return value in (("*",), ()) or all(_THROTTLED_REPLICA.match(member) for member in value)
        if self.name == _OVERRIDES:
            return not value or all(_OVERRIDE.match(member) for member in value.split(","))
        if self.kind in _NUMBERS:
            if self.name == "compression.gzip.level" and value == 0:  # 0 would mean "stored"; -1 is the codec's default
                return False
            return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)
        return True


_NUMBERS = frozenset({Kind.INT, Kind.SHORT, Kind.LONG, Kind.DOUBLE})
_WORDS = {
    Kind.BOOLEAN: "true or false",
    Kind.STRING: "a text",
    Kind.INT: "a whole number (32 bits)",
    Kind.SHORT: "a whole number (16 bits)",
    Kind.LONG: "a whole number (64 bits)",
    Kind.DOUBLE: "a number",
    Kind.LIST: "a list separated by commas",
    Kind.CLASS: "a name",
    Kind.PASSWORD: "a secret",
}


def _convert(kind: Kind, text: str) -> Any:
    if kind is Kind.BOOLEAN:
        lowered = text.lower()
        if lowered not in ("true", "false"):
            raise ValueError(text)
        return lowered == "true"
    if kind in (Kind.INT, Kind.SHORT, Kind.LONG):
        if not _WHOLE.match(text):  # int() would take "1_000", blanks inside and the digits of any script
            raise ValueError(text)
        low, high = _RANGES[kind.name]
        number = int(text)
        if not low <= number <= high:
            raise ValueError(text)
        return number
    if kind is Kind.DOUBLE:
        if not _DECIMAL.match(text) or isinf(decimal := float(text)):  # nor "nan": nothing compares with it
            raise ValueError(text)
        return decimal
    if kind is Kind.LIST:
        return tuple(member.strip() for member in text.split(",")) if text else ()
    return text


def shown(text: str) -> str:
    """A text for a message: cut where it is longer than anybody reads, or than an answer can hold.

    >>> len(shown("9" * 5000))
    221
    """
    whole = text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}... ({len(text)} characters)"
    return whole.encode(errors="backslashreplace").decode()


def table(*keys: ConfigKey) -> dict[str, ConfigKey]:
    """Keys by name; a name given twice is our mistake."""
    by_name = {key.name: key for key in keys}
    assert len(by_name) == len(keys), "a key is defined twice"
    return by_name
