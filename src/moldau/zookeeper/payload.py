"""JSON in a znode, read with suspicion and written byte for byte as Kafka does.

A reader names the znode and what is wrong with it; it ignores keys that it does not know and their order. Written JSON
is compact; where Kafka's order of keys comes from a hash table, ``in_table_order`` gives the same. Next: znodes.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any


class BadZnode(ValueError):
    """A znode holds what Kafka would not have written there."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"znode {path}: {why}")
        self.path = path
        self.why = why


class Payload:
    """A JSON object out of a znode; every look-up checks the kind of what it finds."""

    __slots__ = ("path", "values")

    def __init__(self, path: str, values: Any) -> None:
        if not isinstance(values, dict):
            raise BadZnode(path, f"a JSON object is expected, not {_shown(values)}")
        self.path = path
        self.values: dict[str, Any] = values

    def has(self, key: str) -> bool:
        """Whether a key is there and not null."""
        return self.values.get(key) is not None

    def integer(self, key: str, default: int | None = None) -> int:
        return as_integer(self.path, key, self._get(key, default))

    def text(self, key: str, default: str | None = None) -> str:
        found = self._get(key, default)
        if not isinstance(found, str):
            raise BadZnode(self.path, f"{key} is {_shown(found)}, not a text")
        return found

    def digits(self, key: str) -> int:
        """A number that is written as a text, as Kafka does with longs."""
        text = self.text(key)
        try:
            return int(text)
        except ValueError:
            raise BadZnode(self.path, f"{key} is {_shown(text)}, not a number in a text") from None

    def integers(self, key: str) -> tuple[int, ...]:
        return as_integers(self.path, key, self._get(key, None))

    def items(self, key: str) -> list[Any]:
        found = self._get(key, None)
        if not isinstance(found, list):
            raise BadZnode(self.path, f"{key} is {_shown(found)}, not a list")
        return found

    def inner(self, key: str) -> Payload:
        """An object in the object; an empty one when the key is missing."""
        return Payload(self.path, self.values.get(key) or {})

    def version(self, low: int, high: int | None = None) -> int:
        """The version of the payload, within what is known. Kafka adds keys without a new version being a new form."""
        version = self.integer("version")
        if version < low or (high is not None and version > high):
            raise BadZnode(self.path, f"version {version} is not known here")
        return version

    def _get(self, key: str, default: Any) -> Any:
        found = self.values.get(key)
        if found is None:
            if default is None:
                raise BadZnode(self.path, f"{key} is missing")
            return default
        return found


def parsed(path: str, data: bytes | None) -> Payload:
    """The JSON object in a znode; BadZnode when there is none."""
    if not data:
        raise BadZnode(path, "it is empty; a JSON object is expected")
    try:
        return Payload(path, json.loads(data))
    except (ValueError, RecursionError):
        raise BadZnode(path, f"{_shown(data[:80])} is no JSON") from None


def as_integer(path: str, what: str, found: Any) -> int:
    if not isinstance(found, int) or isinstance(found, bool):
        raise BadZnode(path, f"{what} is {_shown(found)}, not a whole number")
    if not -(1 << 63) <= found < 1 << 63:
        raise BadZnode(path, f"{what} is {found}, out of range")
    return found


def as_integers(path: str, what: str, found: Any) -> tuple[int, ...]:
    if not isinstance(found, list):
        raise BadZnode(path, f"{what} is {_shown(found)}, not a list of whole numbers")
    return tuple(as_integer(path, what, each) for each in found)


def written(values: object) -> bytes:
    """Compact JSON in UTF-8, keys in the order given."""
    return json.dumps(values, separators=(",", ":"), ensure_ascii=False).encode()


def in_table_order(keys: Iterable[str]) -> list[str]:
    """Keys as a hash table of the JVM shows them: by slot, then by hash.

    A table has 16 slots at least, and is 3/4 full at most. Kafka's znodes hold maps in this order: Scala's mutable and
    Java's concurrent hash maps agree on it.

    >>> in_table_order(map(str, range(12)))
    ['11', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', '10']
    """
    spread = {key: _spread(key) for key in keys}
    slots = 16
    while len(spread) >= slots * 3 // 4:
        slots *= 2
    return sorted(spread, key=lambda key: (spread[key] & (slots - 1), spread[key]))


def in_order(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same map, its keys in table order."""
    return {key: values[key] for key in in_table_order(values)}


def _spread(key: str) -> int:
    hash = 0
    for unit in memoryview(key.encode("utf-16-le")).cast("H"):
        hash = (31 * hash + unit) & 0xFFFFFFFF
    hash ^= hash >> 16
    return hash - (1 << 32) if hash >> 31 else hash


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else text[:97] + "..."
