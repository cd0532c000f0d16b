"""Generates decoders: from a message class and a version to a function from bytes to the message.

In two forms: a function that decodes at once, and a generator that pauses after every few hundred items of arrays and
refuses more of them than it may meet, for requests large enough to matter. Read next: ``codec.py``.
"""

from __future__ import annotations

import struct
from typing import Any

from moldau.wire.schema import FIXED, Field, Struct
from moldau.wire.source import STRING_BYTES_MAX, SourceText, holds_arrays, runs, smallest, tagged_fields

TAGS_MAX = 32
"""The most tagged fields of one struct that are read: no message of Kafka has ten."""
CHUNK = 256
"""Items between two looks at whether a decoder in slices should pause; numbers go by eight times as many."""


def decoder(cls: type[Struct], version: int, flexible: bool, *, slices: bool = False) -> Any:
    """``decode(buffer, position)``: the struct and the position after it. With ``slices`` a generator of the same,
    ``decode(buffer, position, steps)``."""
    src = SourceText(version, flexible, slices)
    new = src.bind("new", cls.__new__)
    klass = src.bind("C", cls)
    src.add(f"m = {new}({klass})")
    for field in cls.fields:
        if not field.present(version) or field.is_tagged(version):
            if isinstance(field.default, type):
                src.add(f"m.{field.name} = {src.bind('D', field.default)}()")
            elif field.default == ():
                src.add(f"m.{field.name} = []")
    for run in runs(cls, version):
        if isinstance(run, list):
            layout = struct.Struct(">" + "".join(FIXED[f.type][0] for f in run))
            targets = ", ".join(f"m.{f.name}" for f in run)
            src.add(f"{targets}, = {src.bind('S', layout.unpack_from)}(b, p); p += {layout.size}")
        else:
            _decode_field(src, run, f"m.{run.name}")
    if flexible:
        _decode_tagged(src, tagged_fields(cls, version))
    if slices:
        src.add("yield from ()")  # a generator even if there is nothing to pause for
    src.add("return m, p")
    return src.build(f"def decode(b, p{', g' if slices else ''}):", "decode", f"decode {cls.__name__}")


def _decode_length(src: SourceText, wide: bool) -> None:
    """``n`` becomes a length or count, -1 for null."""
    if src.flexible:
        src.add("n = b[p]; p += 1", "if n > 127: n, p = uvarint(b, p - 1)", "n -= 1")
    else:
        layout = struct.Struct(">i" if wide else ">h")
        src.add(f"n, = {src.bind('S', layout.unpack_from)}(b, p); p += {layout.size}")


def _decode_field(src: SourceText, field: Field, target: str) -> None:
    nullable = field.is_nullable(src.version)
    if field.element is not None:
        _decode_array(src, field.element, target, nullable)
    elif isinstance(field.type, str):
        _decode_bytes(src, field.type, target, nullable or field.type == "records")
    elif nullable:
        value = _struct_value(src, field.type)
        if field.is_tagged(src.version):
            src.add("n, p = uvarint(b, p)", f"if n == 0: {target} = None", f"else: {target}, p = {value}")
        else:
            src.add("p += 1", f"if b[p - 1] > 127: {target} = None", f"else: {target}, p = {value}")
    else:
        src.add(f"{target}, p = {_struct_value(src, field.type)}")


def _struct_value(src: SourceText, type: type[Struct]) -> str:
    """The expression that decodes a struct."""
    if src.slices and holds_arrays(type, src.version):
        return f"yield from {src.bind('d', decoder(type, src.version, src.flexible, slices=True))}(b, p, g)"
    return f"{src.bind('d', decoder(type, src.version, src.flexible))}(b, p)"


def _decode_bytes(src: SourceText, type: str, target: str, nullable: bool) -> None:
    if type in FIXED:
        letter, size = FIXED[type]
        src.add(f"{target}, = {src.bind('S', struct.Struct('>' + letter).unpack_from)}(b, p); p += {size}")
        return
    _decode_length(src, wide=type != "string")
    # Only records stay views: other bytes may outlive the receive buffer (a parked JoinGroup keeps its metadata).
    value = {"string": "str(b[p:q], 'utf-8')", "bytes": "bytes(b[p:q])"}.get(type, "b[p:q]")
    name = target.removeprefix("m.")
    src.add("if n < 0:")
    src.add(f"    {target} = None" if nullable else f"    raise Malformed({name!r} + ' is null')")
    if type == "string" and src.flexible:
        src.add(f"elif n > {STRING_BYTES_MAX}: raise Malformed({name!r} + f' has {{n}} bytes, too many for a string')")
    src.add(
        "else:",
        "    q = p + n",
        f"    if q > len(b): raise Malformed({name!r} + f' needs {{n}} bytes, {{len(b) - p}} remain')",
    )
    src.add(f"    {target} = {value}")
    if type == "records":  # a view does not tell where it begins
        src.add(f"    {target}_at = p")
    src.add("    p = q")


def _decode_array(src: SourceText, element: str | type[Struct], target: str, nullable: bool) -> None:
    _decode_length(src, wide=True)
    name = target.removeprefix("m.")
    src.add("if n < 0:")
    src.add(f"    {target} = None" if nullable else f"    raise Malformed({name!r} + ' is null')")
    src.add("else:")
    src.depth += 1
    least = smallest(element, src.version, src.flexible)
    src.add(
        f"if n * {least} > len(b) - p: raise Malformed({name!r} + f' claims {{n}} items, {{len(b) - p}} bytes remain')"
    )
    if src.slices:
        src.add(f"g.admit(n, {name!r})")
        _decode_items_in_slices(src, element, target)
    else:
        _decode_items(src, element, target)
    src.depth -= 1


def _decode_items(src: SourceText, element: str | type[Struct], target: str) -> None:
    if isinstance(element, str) and element in FIXED:
        unpack, layout, size = _numbers(src, element, "n")
        src.add(f"{target} = list({unpack}({layout}, b, p)); p += n * {size}")
        return
    src.add("items = []", "for _ in range(n):")
    _decode_item(src, element)
    src.add(f"{target} = items")


def _decode_items_in_slices(src: SourceText, element: str | type[Struct], target: str) -> None:
    """``n`` items, with a pause whenever it is time for one."""
    if isinstance(element, str) and element in FIXED:
        unpack, layout, size = _numbers(src, element, "k")
        src.add(
            f"{target} = items = []",
            "while n > 0:",
            f"    k = min(n, {8 * CHUNK}); n -= k",
            f"    items += {unpack}({layout}, b, p); p += k * {size}",
            "    if g.spend(k >> 3): yield",
        )
    elif isinstance(element, str) or not holds_arrays(element, src.version):
        src.add("items = []; left = n", "while left > 0:", f"    k = min(left, {CHUNK}); left -= k")
        src.add("    for _ in range(k):")
        src.depth += 1
        _decode_item(src, element)
        src.depth -= 1
        src.add("    if g.spend(k): yield", f"{target} = items")
    else:
        src.add("items = []", "for _ in range(n):")
        _decode_item(src, element)
        src.add("    if g.spend(1): yield", f"{target} = items")


def _numbers(src: SourceText, element: str, count: str) -> tuple[str, str, int]:
    """The name of ``unpack_from``, the expression of ``count`` items' layout, and one item's size."""
    letter, size = FIXED[element]
    layout = f"'>%d{letter}' % {count}" if element != "uuid" else f"'>' + '16s' * {count}"
    return src.bind("U", struct.unpack_from), layout, size


def _decode_item(src: SourceText, element: str | type[Struct]) -> None:
    """The body of a loop: one more for ``items``."""
    src.depth += 1
    if isinstance(element, str):
        _decode_bytes(src, element, "item", False)
    else:
        src.add(f"item, p = {_struct_value(src, element)}")
    src.add("items.append(item)")
    src.depth -= 1


def _decode_tagged(src: SourceText, fields: list[Field]) -> None:
    src.add("k = b[p]; p += 1", "if k:")
    src.depth += 1
    src.add("if k > 127: k, p = uvarint(b, p - 1)")
    src.add(f"if k > {TAGS_MAX}: raise Malformed(f'{{k}} tagged fields in one struct')")
    if not fields:
        src.add("for _ in range(k):", "    t, p = uvarint(b, p)", "    n, p = uvarint(b, p)", "    p += n")
        src.add("    if p > len(b): raise Malformed(f'tagged field {t} ends past the frame')")
        src.depth -= 1
        return
    src.add("for _ in range(k):")
    src.depth += 1
    src.add("t, p = uvarint(b, p)", "size, p = uvarint(b, p)", "end = p + size")
    src.add("if end > len(b): raise Malformed(f'tagged field {t} ends past the frame')")
    for i, field in enumerate(fields):
        src.add(f"{'if' if i == 0 else 'elif'} t == {field.tag}:")
        src.depth += 1
        _decode_field(src, field, f"m.{field.name}")
        src.add(f"if p != end: raise Malformed('tagged field {field.name} has another size than it says')")
        src.depth -= 1
    src.add("p = end")
    src.depth -= 2
