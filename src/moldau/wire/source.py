"""What the generators of decoders and encoders share: varints, the fields of a version, source text being written.

Read next: ``decoder.py``, ``encoder.py``; what they are for is ``codec.py``.
"""

from __future__ import annotations

from typing import Any

from moldau.wire.schema import FIXED, Buffer, Field, Struct

STRING_BYTES_MAX = 0x7FFF
"""The longest string of the protocol, in both of its forms, as in Kafka's generated code."""
STEP_ITEMS = 512
"""Items of arrays after which a decoder or encoder in slices pauses: about a millisecond of work."""


class Malformed(ValueError):
    """Bytes that are not the message they claim to be; the text says where and why."""


class Steps:
    """Where decoding or encoding in slices pauses, and how many items of arrays it may meet in all."""

    __slots__ = ("_items_left", "_items_max", "_work")

    def __init__(self, items_max: int) -> None:
        self._items_left = self._items_max = items_max
        self._work = 0

    def admit(self, count: int, name: str) -> None:
        """Count an array's items before anything is made of them; Malformed when they are too many in all."""
        self._items_left -= count
        if self._items_left < 0:
            before = self._items_max - self._items_left - count
            most = f"{self._items_max} are the most in one message"
            raise Malformed(f"{name} has {count} items, after {before} in other arrays: {most}")

    def spend(self, items: int) -> bool:
        """Count items that were worked on; whether it is time to pause."""
        self._work += items
        if self._work < STEP_ITEMS:
            return False
        self._work = 0
        return True


def uvarint(view: Buffer, p: int) -> tuple[int, int]:
    """An unsigned varint at ``p``: (value, next position). At most five bytes, 32 bits."""
    value = shift = 0
    while True:
        byte = view[p]
        p += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                raise Malformed("unsigned varint of more than 32 bits")
            return value, p
        shift += 7
        if shift > 28:
            raise Malformed("unsigned varint longer than 5 bytes")


def put_uvarint(out: bytearray, value: int) -> None:
    """Append an unsigned varint."""
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)


def runs(cls: type[Struct], version: int) -> list[list[Field] | Field]:
    """The untagged fields present in a version, neighbours of fixed size joined into runs."""
    runs: list[list[Field] | Field] = []
    for field in cls.fields:
        if not field.present(version) or field.is_tagged(version):
            continue
        if isinstance(field.type, str) and field.type in FIXED:
            if runs and isinstance(runs[-1], list):
                runs[-1].append(field)
            else:
                runs.append([field])
        else:
            runs.append(field)
    return runs


def tagged_fields(cls: type[Struct], version: int) -> list[Field]:
    return sorted(
        (f for f in cls.fields if f.present(version) and f.is_tagged(version)),
        key=lambda f: f.tag if f.tag is not None else 0,
    )


def smallest(type: Any, version: int, flexible: bool) -> int:
    """The least number of bytes a value of this type can take: bounds an array before it is built."""
    if isinstance(type, str):
        return FIXED[type][1] if type in FIXED else (1 if flexible else (2 if type == "string" else 4))
    if isinstance(type, list):
        return 1 if flexible else 4
    total = 1 if flexible else 0
    for f in type.fields:
        if f.present(version) and not f.is_tagged(version):
            total += (
                1
                if f.is_nullable(version) and not isinstance(f.type, (str, list))
                else smallest(f.type, version, flexible)
            )
    return max(total, 1)


class SourceText:
    """Source text under construction: lines, indentation, and the names the text refers to."""

    def __init__(self, version: int, flexible: bool, slices: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.slices = slices
        self.packs = False
        self.field = ""
        """The field that is being written about."""
        self.lines: list[str] = []
        self.depth = 1
        self.env: dict[str, Any] = {"Malformed": Malformed, "uvarint": uvarint, "put_uvarint": put_uvarint}
        self.count = 0

    def add(self, *lines: str) -> None:
        self.lines.extend("    " * self.depth + line for line in lines)

    def bind(self, prefix: str, value: Any) -> str:
        self.count += 1
        name = f"{prefix}{self.count}"
        self.env[name] = value
        return name

    def build(self, head: str, name: str, what: str) -> Any:
        text = head + "\n" + "\n".join(self.lines) + "\n"
        exec(compile(text, f"<{what} v{self.version}>", "exec"), self.env)
        return self.env[name]


def holds_arrays(type: Any, version: int) -> bool:
    """Whether values of this type can hold arrays in this version: only those are worth slicing."""
    if isinstance(type, str):
        return False
    if isinstance(type, list):
        return True
    return any(field.present(version) and holds_arrays(field.type, version) for field in type.fields)
