"""Values that Java's serializers wrote, as Java shows them."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from math import inf, isinf, isnan
from uuid import UUID

_PACKAGE = "org.apache.kafka.common.serialization."
_READABLE = range(32, 127)


_DOUBLE = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)")
_HEX_DOUBLE = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_BLANKS = "".join(map(chr, range(33)))


_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def java_text(data: bytes) -> str:
    """Bytes as Java reads text in UTF-8: what is none becomes U+FFFD, a surrogate or its beginning one in all."""
    return _SURROGATE.sub("\ufffd".encode(), data).decode(errors="replace")


def java_double(text: str) -> float:
    """A number as Java's Double.parseDouble reads it; ValueError where it does not."""
    text = text.strip(_BLANKS)
    if (hexadecimal := _HEX_DOUBLE.fullmatch(text)) is not None:
        try:
            return float.fromhex(hexadecimal[1])
        except OverflowError:
            return -inf if text.startswith("-") else inf
    if _DOUBLE.fullmatch(text) is None:
        raise ValueError(f"{text!r} is no number of Java's")
    return float(text if text.endswith(("N", "y")) else text.rstrip("fFdD"))


def java_decimal(number: float) -> str:
    """A double as Java's Double.toString has it."""
    if isnan(number):
        return "NaN"
    if isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        text = f"{number!r}"
        if "e" in text:
            text = f"{number:.20f}".rstrip("0")
        return text if "." in text else f"{text}.0"
    digits, _, exponent = f"{number:e}".partition("e")
    digits, _, exponent = next(
        shown for size in range(1, 18) if float(shown := f"{number:.{size}e}") == number
    ).partition("e")
    whole, _, rest = digits.partition(".")
    return f"{whole}.{rest.rstrip('0') or '0'}E{int(exponent)}"


def _number(code: str) -> Callable[[bytes], str]:
    def read(data: bytes) -> str:
        try:
            return str(struct.unpack(f">{code}", data)[0])
        except struct.error:
            raise ValueError(f"Size of data received is not {struct.calcsize(code)}") from None

    return read


def _decimal(code: str) -> Callable[[bytes], str]:
    def read(data: bytes) -> str:
        try:
            (number,) = struct.unpack(f">{code}", data)
        except struct.error:
            raise ValueError(f"Size of data received by Deserializer is not {struct.calcsize(code)}") from None
        if code == "f":
            shortest = next(
                (text for size in range(1, 10) if struct.pack(">f", float(text := f"{number:.{size}g}")) == data),
                repr(number),
            )
            number = float(shortest)
        return java_decimal(number)

    return read


def _boolean(data: bytes) -> str:
    if data not in (b"\0", b"\1"):
        raise ValueError("Unexpected data received: a boolean is one byte, 0 or 1")
    return "true" if data == b"\1" else "false"


def _uuid(data: bytes) -> str:
    text = java_text(data)
    try:
        return str(UUID(text))
    except ValueError:
        raise ValueError(f"Error parsing data into UUID: {text}") from None


def _void(data: bytes) -> str:
    raise ValueError(f"Data should be null for a VoidDeserializer: {len(data)} bytes.")


def _buffer(data: bytes) -> str:
    return f"java.nio.HeapByteBuffer[pos=0 lim={len(data)} cap={len(data)}]"


def _bytes(data: bytes) -> str:
    return "".join(chr(one) if one in _READABLE and one != 92 else f"\\x{one:02X}" for one in data)


DESERIALIZERS: dict[str, Callable[[bytes], str]] = {
    f"{_PACKAGE}StringDeserializer": java_text,
    f"{_PACKAGE}ShortDeserializer": _number("h"),
    f"{_PACKAGE}IntegerDeserializer": _number("i"),
    f"{_PACKAGE}LongDeserializer": _number("q"),
    f"{_PACKAGE}FloatDeserializer": _decimal("f"),
    f"{_PACKAGE}DoubleDeserializer": _decimal("d"),
    f"{_PACKAGE}BooleanDeserializer": _boolean,
    f"{_PACKAGE}UUIDDeserializer": _uuid,
    f"{_PACKAGE}BytesDeserializer": _bytes,
    f"{_PACKAGE}ByteBufferDeserializer": _buffer,
    f"{_PACKAGE}VoidDeserializer": _void,
}
"""Kafka's class -> the text of what it reads out of bytes. ValueError when the bytes are not of that kind."""


def java_split(text: str, separator: str) -> list[str]:
    """String.split: without empty words at the end, but for a text that is empty itself."""
    words = text.split(separator)
    while len(words) > 1 and not words[-1]:
        words.pop()
    return [] if words == [""] and text else words
