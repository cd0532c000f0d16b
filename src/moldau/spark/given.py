"""Reads options one at a time: found without regard to case, refused by name, value and what is allowed.

What options there are, and what they mean together, is ``options.py``'s and ``sink.py``'s business.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from moldau.client.addresses import addresses

T = TypeVar("T")

_FORBIDDEN = {
    "auto.offset.reset": "startingOffsets says where to start",
    "key.deserializer": "keys are read as bytes; use DataFrame operations to decode them",
    "value.deserializer": "values are read as bytes; use DataFrame operations to decode them",
    "key.serializer": "keys are bytes; use DataFrame operations to encode them",
    "value.serializer": "values are bytes; use DataFrame operations to encode them",
    "enable.auto.commit": "Spark keeps positions in its checkpoint; publishGroup shows them to group tools",
    "interceptor.classes": "no interceptors run in this source",
}
KAFKA_NUMBERS = {
    "request.timeout.ms": 1, "default.api.timeout.ms": 1, "retry.backoff.ms": 0, "retry.backoff.max.ms": 0,
    "fetch.max.wait.ms": 0, "fetch.min.bytes": 0, "max.partition.fetch.bytes": 1, "connections.max.idle.ms": 1,
    "metadata.max.age.ms": 0, "socket.connection.setup.timeout.ms": 1,
}  # fmt: skip
KAFKA_CHOICES = {
    "isolation.level": ("read_uncommitted", "read_committed"),
    "check.crcs": ("true", "false"),
    "security.protocol": ("PLAINTEXT",),
}
UNIT_MS = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_UNIT_BYTES = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30}


class OptionError(ValueError):
    """An option that cannot be honoured; the message names it, its value and what is allowed."""

    def __init__(self, name: str, value: str | None, allowed: str) -> None:
        given = "is missing" if value is None else f"is {value!r}"
        super().__init__(f"option {name} {given}: {allowed}")
        self.name = name


class Given:
    """The options as they came, found without regard to case and complained about under their own name."""

    def __init__(self, raw: Mapping[str, str]) -> None:
        self.values = {name.lower(): value for name, value in raw.items()}

    def get(self, name: str) -> str | None:
        value = self.values.get(name.lower())
        return None if value is None else value.strip()

    def refuse(self, name: str, why: str) -> None:
        value = self.get(name)
        if value is not None:
            raise OptionError(name, value, why)

    def under(self, prefix: str) -> dict[str, str]:
        """The options whose names begin so, without that beginning, in lower case."""
        start = prefix.lower()
        return {name.removeprefix(start): value for name, value in self.values.items() if name.startswith(start)}

    def refuse_unknown(self, names: Collection[str], *prefixes: str) -> None:
        """OptionError for a name that is not among ``names``, not one of ``kafka.*`` and begins like no prefix."""
        known = {name.lower(): name for name in names}
        for name, value in self.values.items():
            if name in known or name.startswith(("kafka.", *(each.lower() for each in prefixes))):
                continue
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {known[near[0]]}?" if near else "allowed are " + ", ".join(names) + " and kafka.*"
            raise OptionError(name, value, f"no such option; {hint}")

    def number(self, name: str, default: int, *, at_least: int) -> int:
        value = self.get(name)
        return default if value is None else integer(name, value, at_least)

    def maybe(self, name: str, read: Callable[[str, str], T]) -> T | None:
        value = self.get(name)
        return None if value is None else read(name, value)

    def choice(self, name: str, default: str, allowed: tuple[str, ...]) -> str:
        value = (self.get(name) or default).lower()
        if value not in allowed:
            raise OptionError(name, self.get(name), "allowed are " + ", ".join(allowed))
        return value

    def flag(self, name: str, default: bool) -> bool:
        return self.choice(name, str(default).lower(), ("true", "false")) == "true"


def kafka_options(given: Given) -> dict[str, str]:
    """The ``kafka.*`` options without their prefix, of which those that have an effect are checked."""
    kafka = {name[6:]: value.strip() for name, value in given.values.items() if name.startswith("kafka.")}
    for name, why in _FORBIDDEN.items():
        if name in kafka:
            raise OptionError(f"kafka.{name}", kafka[name], f"not supported: {why}")
    check_addresses(kafka.get("bootstrap.servers"))
    for name, allowed in KAFKA_CHOICES.items():
        if kafka.get(name, allowed[0]) not in allowed:
            raise OptionError(f"kafka.{name}", kafka[name], "allowed are " + ", ".join(allowed))
    for name, at_least in KAFKA_NUMBERS.items():
        if name in kafka:
            integer(f"kafka.{name}", kafka[name], at_least)
    return kafka


def check_addresses(servers: str | None) -> None:
    """OptionError unless these are addresses of brokers."""
    if not servers:
        raise OptionError("kafka.bootstrap.servers", servers, "host:port[,host:port...] is required")
    try:
        addresses(servers)
    except ValueError as error:
        raise OptionError("kafka.bootstrap.servers", servers, str(error)) from None


def json_object(name: str, value: str, allowed: str) -> dict[str, object]:
    """The JSON object in ``value``."""
    try:
        found = json.loads(value)
    except ValueError:
        raise OptionError(name, value, allowed) from None
    if not isinstance(found, dict):
        raise OptionError(name, value, allowed)
    return found


def integer(name: str, value: str, at_least: int) -> int:
    if not re.fullmatch(r"-?\d+", value) or not at_least <= int(value) < 1 << 63:
        raise OptionError(name, value, f"a whole number, {at_least} or above, is expected")
    return int(value)


def positive(name: str, value: str) -> int:
    return integer(name, value, 1)


def timestamp(name: str, value: str) -> int:
    if not re.fullmatch(r"\d+", value):
        raise OptionError(name, value, "a timestamp in ms since the epoch is expected")
    return int(value)


def duration_ms(name: str, value: str) -> int:
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", value.lower())
    if not match or match[2] not in UNIT_MS:
        raise OptionError(name, value, "a duration like 500ms, 30s, 15m, 1h or 1d is expected")
    return int(match[1]) * UNIT_MS[match[2]]


def size_bytes(name: str, value: str) -> int:
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", value.lower())
    if not match or match[2] not in _UNIT_BYTES or not int(match[1]):
        raise OptionError(name, value, "a size like 1048576, 512k, 64m or 1g is expected")
    return int(match[1]) * _UNIT_BYTES[match[2]]
