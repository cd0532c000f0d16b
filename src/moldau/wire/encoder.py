"""Generates encoders: from a message class and a version to a function that appends a message's bytes.

In two forms, as decoders are: at once, or as a generator that pauses after every few hundred items of arrays. Read
next: ``codec.py``.
"""

from __future__ import annotations

import struct
from functools import cache
from itertools import islice
from typing import Any

from moldau.wire.schema import FIXED, Field, Message, Struct
from moldau.wire.source import STRING_BYTES_MAX, SourceText, holds_arrays, runs, tagged_fields

CUT_BYTES = 4096
"""Record fields at least this long are handed on by reference instead of being copied into the frame."""
_INTEGERS = frozenset({"bool", "int8", "int16", "uint16", "int32", "uint32", "int64"})
CHUNK = 256
"""Items between two looks at whether an encoder in slices should pause."""


class Packed:
    """An array's structs, encoded one after the other before the message is: for an answer that is too much for one
    turn of a loop. Stands for the list in a struct that ``packs``, for the message and version that it is made for."""

    __slots__ = ("_put", "count", "data")

    def __init__(self, element: type[Struct], message: type[Message], version: int) -> None:
        self._put = packer(element, version, version >= message.flexible)  # type: ignore[arg-type]  # a class has a hash
        self.data = bytearray()
        self.count = 0

    def add(self, item: Struct) -> None:
        """Encode one more."""
        self._put(item, self.data, None)
        self.count += 1

    def add_encoded(self, item: bytes) -> None:
        """Add one that was encoded before, for the same message and version."""
        self.data += item
        self.count += 1

    def __len__(self) -> int:
        return self.count


@cache
def packer(element: type[Struct], version: int, flexible: bool) -> Any:
    """The encoder of a ``Packed``'s structs."""
    return encoder(element, version, flexible)


def encoder(cls: type[Struct], version: int, flexible: bool, *, slices: bool = False) -> Any:
    """``encode(struct, out, cuts)``. With ``slices`` a generator of the same, ``encode(struct, out, cuts, steps)``."""
    src = SourceText(version, flexible, slices)
    src.packs = cls.packs
    for run in runs(cls, version):
        if isinstance(run, list):
            layout = struct.Struct(">" + "".join(FIXED[f.type][0] for f in run))
            src.add(f"o += {src.bind('S', layout.pack)}({', '.join(f'm.{f.name}' for f in run)})")
        else:
            _encode_field(src, run, f"m.{run.name}")
    if flexible:
        _encode_tagged(src, tagged_fields(cls, version))
    if not src.lines:
        src.add("pass")
    if slices:
        src.add("yield from ()")  # a generator even if there is nothing to pause for
    return src.build(f"def encode(m, o, c{', g' if slices else ''}):", "encode", f"encode {cls.__name__}")


def _encode_length(src: SourceText, value: str, wide: bool) -> None:
    """Write ``value`` (a length or count expression)."""
    if src.flexible:
        src.add(f"n = {value} + 1", "if n < 128: o.append(n)", "else: put_uvarint(o, n)")
    else:
        src.add(f"o += {src.bind('S', struct.Struct('>i' if wide else '>h').pack)}({value})")


def _encode_null(src: SourceText, wide: bool) -> None:
    null = b"\xff" * (4 if wide else 2)
    src.add("o.append(0)" if src.flexible else f"o += {null!r}")


def _encode_field(src: SourceText, field: Field, value: str) -> None:
    src.field = field.name
    nullable = field.is_nullable(src.version)
    struct_type = not isinstance(field.type, (str, list))
    wide = field.type != "string"
    if not (nullable or field.type == "records"):
        if struct_type:
            src.add(_encode_struct(src, field.type, value))
        else:
            _encode_value(src, field, value)
        return
    src.add(f"v = {value}", "if v is None:")
    src.depth += 1
    if struct_type:
        src.add("o.append(0)" if field.is_tagged(src.version) else "o.append(255)")
    else:
        _encode_null(src, wide)
    src.depth -= 1
    src.add("else:")
    src.depth += 1
    if struct_type:
        src.add("o.append(1)", _encode_struct(src, field.type, "v"))
    else:
        _encode_value(src, field, "v")
    src.depth -= 1


def _encode_value(src: SourceText, field: Field, value: str) -> None:
    if field.element is not None:
        _encode_array(src, field.element, value)
    elif field.type in FIXED:
        src.add(f"o += {src.bind('S', struct.Struct('>' + FIXED[field.type][0]).pack)}({value})")
    else:
        _encode_bytes(src, field.type, value)


def _encode_struct(src: SourceText, type: type[Struct], value: str) -> str:
    """The statement that encodes a struct."""
    if src.slices and holds_arrays(type, src.version):
        return f"yield from {src.bind('e', encoder(type, src.version, src.flexible, slices=True))}({value}, o, c, g)"
    return f"{src.bind('e', encoder(type, src.version, src.flexible))}({value}, o, c)"


def shortened(text: bytes) -> bytes:
    """The beginning of a text that fits into a string, cut between characters."""
    return text[:STRING_BYTES_MAX].decode(errors="ignore").encode()


def _too_long(src: SourceText) -> str:
    return f"raise ValueError(f'{src.field} of {{len(s)}} bytes is too long for a string')"


def _encode_bytes(src: SourceText, type: str, value: str) -> None:
    if type == "string":
        src.add(f"s = {value}.encode()")
        # No client of Kafka's could read it. What we say ourselves of a wrong request may quote much of it.
        cut = f"s = {src.bind('shortened', shortened)}(s)" if src.field == "error_message" else _too_long(src)
        src.add(f"if len(s) > {STRING_BYTES_MAX}: {cut}")
        _encode_length(src, "len(s)", wide=False)
        src.add("o += s")
        return
    src.add(f"s = {value}")
    _encode_length(src, "len(s)", wide=True)
    if type == "records":
        src.add(f"if c is not None and len(s) >= {CUT_BYTES}: c.append((len(o), s))", "else: o += s")
    else:
        src.add("o += s")


def _encode_array(src: SourceText, element: str | type[Struct], value: str) -> None:
    src.add(f"a = {value}")
    _encode_length(src, "len(a)", wide=True)
    if isinstance(element, str) and element in FIXED:
        letter, _ = FIXED[element]
        pack = src.bind("P", struct.pack)
        item = f"'>%d{letter}' % len(a)" if element != "uuid" else "'>' + '16s' * len(a)"
        src.add(f"o += {pack}({item}, *a)")
        return
    if not isinstance(element, str) and src.packs:
        src.add(f"if type(a) is {src.bind('K', Packed)}:")
        src.add(f"    if c is not None and len(a.data) >= {CUT_BYTES}: c.append((len(o), a.data))")
        src.add("    else: o += a.data", "    a = ()")
    if not src.slices:
        src.add("for x in a:")
        _encode_item(src, element)
    elif isinstance(element, str) or not holds_arrays(element, src.version):
        src.add("left = len(a); a = iter(a)", "while left > 0:", f"    k = min(left, {CHUNK}); left -= k")
        src.add(f"    for x in {src.bind('islice', islice)}(a, k):")
        src.depth += 1
        _encode_item(src, element)
        src.depth -= 1
        src.add("    if g.spend(k): yield")
    else:
        src.add("for x in a:")
        _encode_item(src, element)
        src.add("    if g.spend(1): yield")


def _encode_item(src: SourceText, element: str | type[Struct]) -> None:
    """The body of a loop: ``x`` is appended."""
    src.depth += 1
    if isinstance(element, str):
        _encode_bytes(src, element, "x")
    else:
        src.add(_encode_struct(src, element, "x"))
    src.depth -= 1


def _differs(src: SourceText, field: Field, default: object) -> str:
    """The condition that a field is not its default. Plain numbers of a struct are compared one by one, as answers
    hold a few such structs for each partition, which are seldom filled."""
    if (
        isinstance(default, Struct)
        and not field.is_nullable(src.version)
        and all(part.type in _INTEGERS for part in default.fields)
    ):
        src.add(f"d = m.{field.name}")
        return " or ".join(f"d.{part.name} != {getattr(default, part.name)!r}" for part in default.fields)
    return f"m.{field.name} != {src.bind('D', default)}"


def _encode_tagged(src: SourceText, fields: list[Field]) -> None:
    """Tagged fields that differ from their defaults, in tag order (KIP-482)."""
    if not fields:
        src.add("o.append(0)")
        return
    src.add("tags = []")
    for field in fields:
        default = field.default() if isinstance(field.default, type) else ([] if field.default == () else field.default)
        src.add(f"if {_differs(src, field, default)}:")
        src.depth += 1
        src.add("whole = o; o = bytearray()")
        _encode_field(src, field, f"m.{field.name}")
        src.add(f"tags.append(({field.tag}, o)); o = whole")
        src.depth -= 1
    src.add("put_uvarint(o, len(tags))")
    src.add("for t, s in tags: put_uvarint(o, t); put_uvarint(o, len(s)); o += s")
