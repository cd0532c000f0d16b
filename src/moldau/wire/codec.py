"""Bytes <-> messages: one decoder and one encoder per (class, version), generated as Python source on first use.

Runs of fixed fields share one Struct; every length is checked against the bytes that remain before memory is taken
(reliability law X6). Large record fields are never copied when the caller passes ``cuts``. What a message looks like is
``moldau.wire.schema``; frames and headers are ``moldau.wire.frames``. Source: protocol guide; KIP-482.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from moldau.wire.schema import FIXED, Field, Message, Struct

Buffer = bytes | bytearray | memoryview
S = TypeVar("S", bound=Struct)
Cuts = list[tuple[int, Any]]

CUT_BYTES = 4096
"""Record fields at least this long are handed on by reference instead of being copied into the frame."""


class Malformed(ValueError):
    """Bytes that are not the message they claim to be; the text says where and why."""


def decode(cls: type[S], buffer: Buffer, version: int) -> S:
    """Decode exactly ``buffer`` as ``cls`` at ``version``; Malformed when it does not fit, or bytes are left over."""
    view = buffer if isinstance(buffer, memoryview) else memoryview(buffer)
    message, end = decode_from(cls, view, 0, version)
    if end != len(view):
        raise Malformed(f"{cls.__name__} v{version}: {len(view) - end} bytes left over after {end}")
    return message


def decode_from(cls: type[S], view: memoryview, start: int, version: int) -> tuple[S, int]:
    """Decode one ``cls`` that starts at ``start``; the message and the position after it."""
    make = cls._decoders.get(version)  # type: ignore[attr-defined]
    if make is None:
        make = _decoder_for(cls, version)
    try:
        message, end = make(view, start)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise Malformed(f"{cls.__name__} v{version}: {error}") from None
    if end > len(view):
        raise Malformed(f"{cls.__name__} v{version}: ends {end - len(view)} bytes past the frame")
    return message, end


def encode(message: Message, version: int, out: bytearray, cuts: Cuts | None) -> bytearray:
    """Append the message's bytes to ``out``.

    With ``cuts``, long record fields are left out and noted as (position in ``out``, buffer), so that a caller can send
    the pieces without copying them.
    """
    put = message._encoders.get(version)
    if put is None:
        put = _encoder_for(type(message), version)
    put(message, out, cuts)
    return out


class Packed:
    """An array's structs, encoded one after the other before the message is: for an answer that is too much for one
    turn of a loop. Stands for the list in a struct that ``packs``, for the message and version that it is made for."""

    __slots__ = ("_put", "count", "data")

    def __init__(self, element: type[Struct], message: type[Message], version: int) -> None:
        self._put = _packer(element, version, version >= message.flexible)  # type: ignore[arg-type]  # a class has a hash
        self.data = bytearray()
        self.count = 0

    def add(self, item: Struct) -> None:
        """Encode one more."""
        self._put(item, self.data, None)
        self.count += 1

    def __len__(self) -> int:
        return self.count


@cache
def _packer(element: type[Struct], version: int, flexible: bool) -> Any:
    return _encoder(element, version, flexible)


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


def make_init(cls: type[Struct]) -> Callable[..., None]:
    """The ``__init__`` of a message class: keywords only, fresh lists and structs."""
    env: dict[str, Any] = {}
    args, body = [], []
    for i, field in enumerate(cls.fields):
        if isinstance(field.default, type):
            env[f"D{i}"] = field.default
            args.append(f"{field.name}=None")
            # A struct left out is a default one; None stays None only where the field's own default is None.
            body.append(f"self.{field.name} = D{i}() if {field.name} is None else {field.name}")
        elif field.default == ():
            env[f"D{i}"] = _LEFT_OUT
            args.append(f"{field.name}=D{i}")
            body.append(f"self.{field.name} = [] if {field.name} is D{i} else {field.name}")
        else:
            env[f"D{i}"] = field.default
            args.append(f"{field.name}=D{i}")
            body.append(f"self.{field.name} = {field.name}")
    star = "*, " if args else ""
    source = f"def __init__(self, {star}{', '.join(args)}):\n    " + ("\n    ".join(body) or "pass")
    exec(source, env)
    return env["__init__"]  # type: ignore[no-any-return]


_LEFT_OUT = object()


def _runs(cls: type[Struct], version: int) -> list[list[Field] | Field]:
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


def _tagged(cls: type[Struct], version: int) -> list[Field]:
    return sorted(
        (f for f in cls.fields if f.present(version) and f.is_tagged(version)),
        key=lambda f: f.tag if f.tag is not None else 0,
    )


def _smallest(type: Any, version: int, flexible: bool) -> int:
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
                else _smallest(f.type, version, flexible)
            )
    return max(total, 1)


class _Source:
    """Source text under construction: lines, indentation, and the names the text refers to."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.packs = False
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


def _decoder_for(cls: type[Struct], version: int) -> Any:
    decoder = _decoder(cls, version, version >= cls.flexible)
    cls._decoders[version] = decoder  # type: ignore[attr-defined]
    return decoder


def _decoder(cls: type[Struct], version: int, flexible: bool) -> Any:
    src = _Source(version, flexible)
    new = src.bind("new", cls.__new__)
    klass = src.bind("C", cls)
    src.add(f"m = {new}({klass})")
    for field in cls.fields:
        if not field.present(version) or field.is_tagged(version):
            if isinstance(field.default, type):
                src.add(f"m.{field.name} = {src.bind('D', field.default)}()")
            elif field.default == ():
                src.add(f"m.{field.name} = []")
    for run in _runs(cls, version):
        if isinstance(run, list):
            layout = struct.Struct(">" + "".join(FIXED[f.type][0] for f in run))
            targets = ", ".join(f"m.{f.name}" for f in run)
            src.add(f"{targets}, = {src.bind('S', layout.unpack_from)}(b, p); p += {layout.size}")
        else:
            _decode_field(src, run, f"m.{run.name}")
    if flexible:
        _decode_tagged(src, _tagged(cls, version))
    src.add("return m, p")
    return src.build("def decode(b, p):", "decode", f"decode {cls.__name__}")


def _decode_length(src: _Source, wide: bool) -> None:
    """``n`` becomes a length or count, -1 for null."""
    if src.flexible:
        src.add("n = b[p]; p += 1", "if n > 127: n, p = uvarint(b, p - 1)", "n -= 1")
    else:
        layout = struct.Struct(">i" if wide else ">h")
        src.add(f"n, = {src.bind('S', layout.unpack_from)}(b, p); p += {layout.size}")


def _decode_field(src: _Source, field: Field, target: str) -> None:
    nullable = field.is_nullable(src.version)
    if field.element is not None:
        _decode_array(src, field.element, target, nullable)
    elif isinstance(field.type, str):
        _decode_bytes(src, field.type, target, nullable or field.type == "records")
    elif nullable:
        decoder = src.bind("d", _decoder(field.type, src.version, src.flexible))
        src.add("p += 1", f"if b[p - 1] == 255: {target} = None", f"else: {target}, p = {decoder}(b, p)")
    else:
        decoder = src.bind("d", _decoder(field.type, src.version, src.flexible))
        src.add(f"{target}, p = {decoder}(b, p)")


def _decode_bytes(src: _Source, type: str, target: str, nullable: bool) -> None:
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
    src.add(
        "else:",
        "    q = p + n",
        f"    if q > len(b): raise Malformed({name!r} + f' needs {{n}} bytes, {{len(b) - p}} remain')",
    )
    src.add(f"    {target} = {value}", "    p = q")


def _decode_array(src: _Source, element: Any, target: str, nullable: bool) -> None:
    _decode_length(src, wide=True)
    name = target.removeprefix("m.")
    src.add("if n < 0:")
    src.add(f"    {target} = None" if nullable else f"    raise Malformed({name!r} + ' is null')")
    src.add("else:")
    src.depth += 1
    least = _smallest(element, src.version, src.flexible)
    src.add(
        f"if n * {least} > len(b) - p: raise Malformed({name!r} + f' claims {{n}} items, {{len(b) - p}} bytes remain')"
    )
    if isinstance(element, str) and element in FIXED:
        letter, size = FIXED[element]
        unpack = src.bind("U", struct.unpack_from)
        item = f"'>%d{letter}' % n" if element != "uuid" else "'>' + '16s' * n"
        src.add(f"{target} = list({unpack}({item}, b, p)); p += n * {size}")
    else:
        src.add("items = []")
        if isinstance(element, str):
            src.add("for _ in range(n):")
            src.depth += 1
            _decode_bytes(src, element, "item", False)
            src.add("items.append(item)")
            src.depth -= 1
        else:
            decoder = src.bind("d", _decoder(element, src.version, src.flexible))
            src.add("for _ in range(n):", f"    item, p = {decoder}(b, p)", "    items.append(item)")
        src.add(f"{target} = items")
    src.depth -= 1


def _decode_tagged(src: _Source, fields: list[Field]) -> None:
    src.add("k = b[p]; p += 1", "if k:")
    src.depth += 1
    src.add("if k > 127: k, p = uvarint(b, p - 1)")
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


def _encoder_for(cls: type[Struct], version: int) -> Any:
    low, high = cls.versions  # type: ignore[attr-defined]
    if not low <= version <= high:
        raise ValueError(f"{cls.__name__} has versions {low} to {high}, not {version}")
    encoder = _encoder(cls, version, version >= cls.flexible)
    cls._encoders[version] = encoder  # type: ignore[attr-defined]
    return encoder


def _encoder(cls: type[Struct], version: int, flexible: bool) -> Any:
    src = _Source(version, flexible)
    src.packs = cls.packs
    for run in _runs(cls, version):
        if isinstance(run, list):
            layout = struct.Struct(">" + "".join(FIXED[f.type][0] for f in run))
            src.add(f"o += {src.bind('S', layout.pack)}({', '.join(f'm.{f.name}' for f in run)})")
        else:
            _encode_field(src, run, f"m.{run.name}")
    if flexible:
        _encode_tagged(src, _tagged(cls, version))
    if not src.lines:
        src.add("pass")
    return src.build("def encode(m, o, c):", "encode", f"encode {cls.__name__}")


def _encode_length(src: _Source, value: str, wide: bool) -> None:
    """Write ``value`` (a length or count expression)."""
    if src.flexible:
        src.add(f"n = {value} + 1", "if n < 128: o.append(n)", "else: put_uvarint(o, n)")
    else:
        src.add(f"o += {src.bind('S', struct.Struct('>i' if wide else '>h').pack)}({value})")


def _encode_null(src: _Source, wide: bool) -> None:
    null = b"\xff" * (4 if wide else 2)
    src.add("o.append(0)" if src.flexible else f"o += {null!r}")


def _encode_field(src: _Source, field: Field, value: str) -> None:
    nullable = field.is_nullable(src.version)
    struct_type = not isinstance(field.type, (str, list))
    wide = field.type != "string"
    if not (nullable or field.type == "records"):
        if struct_type:
            src.add(f"{src.bind('e', _encoder(field.type, src.version, src.flexible))}({value}, o, c)")
        else:
            _encode_value(src, field, value)
        return
    src.add(f"v = {value}", "if v is None:")
    src.depth += 1
    if struct_type:
        src.add("o.append(255)")
    else:
        _encode_null(src, wide)
    src.depth -= 1
    src.add("else:")
    src.depth += 1
    if struct_type:
        src.add("o.append(1)", f"{src.bind('e', _encoder(field.type, src.version, src.flexible))}(v, o, c)")
    else:
        _encode_value(src, field, "v")
    src.depth -= 1


def _encode_value(src: _Source, field: Field, value: str) -> None:
    if field.element is not None:
        _encode_array(src, field.element, value)
    elif field.type in FIXED:
        src.add(f"o += {src.bind('S', struct.Struct('>' + FIXED[field.type][0]).pack)}({value})")
    else:
        _encode_bytes(src, field.type, value)


def _encode_bytes(src: _Source, type: str, value: str) -> None:
    if type == "string":
        src.add(f"s = {value}.encode()")
        _encode_length(src, "len(s)", wide=False)
        src.add("o += s")
        return
    src.add(f"s = {value}")
    _encode_length(src, "len(s)", wide=True)
    if type == "records":
        src.add(f"if c is not None and len(s) >= {CUT_BYTES}: c.append((len(o), s))", "else: o += s")
    else:
        src.add("o += s")


def _encode_array(src: _Source, element: Any, value: str) -> None:
    src.add(f"a = {value}")
    _encode_length(src, "len(a)", wide=True)
    if isinstance(element, str) and element in FIXED:
        letter, _ = FIXED[element]
        pack = src.bind("P", struct.pack)
        item = f"'>%d{letter}' % len(a)" if element != "uuid" else "'>' + '16s' * len(a)"
        src.add(f"o += {pack}({item}, *a)")
    elif isinstance(element, str):
        src.add("for x in a:")
        src.depth += 1
        _encode_bytes(src, element, "x")
        src.depth -= 1
    else:
        encoder = src.bind("e", _encoder(element, src.version, src.flexible))
        if src.packs:
            src.add(f"if type(a) is {src.bind('K', Packed)}: o += a.data; a = ()")
        src.add(f"for x in a: {encoder}(x, o, c)")


def _encode_tagged(src: _Source, fields: list[Field]) -> None:
    """Tagged fields that differ from their defaults, in tag order (KIP-482)."""
    if not fields:
        src.add("o.append(0)")
        return
    src.add("tags = []")
    for field in fields:
        default = field.default() if isinstance(field.default, type) else ([] if field.default == () else field.default)
        name = src.bind("D", default)
        src.add(f"if m.{field.name} != {name}:")
        src.depth += 1
        src.add("whole = o; o = bytearray()")
        _encode_field(src, field, f"m.{field.name}")
        src.add(f"tags.append(({field.tag}, o)); o = whole")
        src.depth -= 1
    src.add("put_uvarint(o, len(tags))")
    src.add("for t, s in tags: put_uvarint(o, t); put_uvarint(o, len(s)); o += s")
