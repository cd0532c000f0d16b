"""JSON in a znode, read with suspicion and written byte for byte as Kafka does.

A reader names the znode and what is wrong with it; it ignores keys that it does not know and their order. Numbers and
texts are taken only as far as a request can carry them, for whoever takes one from here passes it on: 32 bits, and
texts of at most 32,767 bytes of UTF-8. Written JSON is compact; where Kafka's order of keys comes from a hash table,
``in_table_order`` gives the same. Next: znodes.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
EPOCH_MAX = INT_MAX - 2**20
"""The largest epoch that is taken from a znode: whoever goes on from there still has a million before the last one that
a request can carry. No cluster comes near it by itself."""
ZNODE_MAX = 700_000
"""Bytes that are put into one znode, and into one transaction: ZooKeeper takes a megabyte by default (jute.maxbuffer),
with what each operation adds."""
TEXT_MAX = 2**15 - 1
"""Bytes of a text in the requests' older versions."""

_DIGITS = re.compile(r"-?[0-9]{1,19}\Z")


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
        """A number of 32 bits."""
        return as_integer(self.path, key, self._get(key, default))

    def long(self, key: str, default: int | None = None) -> int:
        """A number of 64 bits."""
        return as_long(self.path, key, self._get(key, default))

    def epoch(self, key: str, default: int | None = None) -> int:
        """A number of 32 bits that others will count on from."""
        found = self.integer(key, default)
        if found > EPOCH_MAX:
            raise BadZnode(self.path, f"{key} is {found}, so near to the last epoch that there is that none can follow")
        return found

    def text(self, key: str, default: str | None = None) -> str:
        """A text that a request can carry."""
        found = self._get(key, default)
        if not isinstance(found, str):
            raise BadZnode(self.path, f"{key} is {_shown(found)}, not a text")
        return as_text(self.path, key, found)

    def digits(self, key: str) -> int:
        """A number that is written as a text, as Kafka does with longs."""
        return as_digits(self.path, key, self.text(key))

    def integers(self, key: str) -> tuple[int, ...]:
        """Numbers of 32 bits."""
        return as_integers(self.path, key, self._get(key, None))

    def longs(self, key: str) -> tuple[int, ...]:
        """Numbers of 64 bits."""
        return tuple(as_long(self.path, key, each) for each in self.items(key))

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
    return _whole(path, what, found, INT_MAX)


def as_long(path: str, what: str, found: Any) -> int:
    return _whole(path, what, found, LONG_MAX)


def _whole(path: str, what: str, found: Any, largest: int) -> int:
    if not isinstance(found, int) or isinstance(found, bool):
        raise BadZnode(path, f"{what} is {_shown(found)}, not a whole number")
    if not -largest - 1 <= found <= largest:
        raise BadZnode(path, f"{what} is {_shown(found)}, out of range")
    return found


def as_digits(path: str, what: str, text: str) -> int:
    """The number of 64 bits that a text spells in ASCII digits."""
    if not _DIGITS.match(text):
        raise BadZnode(path, f"{what} is {_shown(text)}, not a number in a text")
    return as_long(path, what, int(text))


def as_text(path: str, what: str, found: str) -> str:
    """The same text; BadZnode when no request can carry it: half a surrogate pair, or too long."""
    try:
        size = len(found.encode())
    except UnicodeEncodeError:
        raise BadZnode(path, f"{what} is {_shown(found)}, which is no text: half of a surrogate pair") from None
    if size > TEXT_MAX:
        raise BadZnode(path, f"{what} has {size} bytes; {TEXT_MAX} at most are expected")
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
