"""Bytes <-> messages: one decoder and one encoder per (class, version), generated as Python source on first use.

Runs of fixed fields share one Struct; every length is checked against the bytes that remain before memory is taken
(law X6). Large record fields are never copied when the caller passes ``cuts``. What a message looks like is
``moldau.wire.schema``; frames and headers are ``moldau.wire.frames``. What is too much for one turn of a loop is
decoded and encoded in slices. Source: protocol guide; KIP-482. Read next: ``decoder.py``, ``encoder.py``.
"""

from __future__ import annotations

import struct
from collections.abc import Generator
from functools import cache
from typing import Any, TypeVar

from moldau.wire.decoder import decoder
from moldau.wire.encoder import CUT_BYTES, Packed, encoder
from moldau.wire.schema import Buffer, Message, Struct, use
from moldau.wire.source import STRING_BYTES_MAX, Malformed, Steps, put_uvarint, uvarint

S = TypeVar("S", bound=Struct)
Cuts = list[tuple[int, Any]]


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
        make = cls._decoders[version] = decoder(cls, version, version >= cls.flexible)  # type: ignore[attr-defined]
    try:
        message, end = make(view, start)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise Malformed(f"{cls.__name__} v{version}: {error}") from None
    if end > len(view):
        raise Malformed(f"{cls.__name__} v{version}: ends {end - len(view)} bytes past the frame")
    return message, end


def decode_in_slices(
    cls: type[S], view: memoryview, start: int, version: int, steps: Steps
) -> Generator[None, None, tuple[S, int]]:
    """As ``decode_from``, with pauses; Malformed too when arrays hold more items in all than ``steps`` admits."""
    try:
        message, end = yield from _sliced_decoder(cls, version)(view, start, steps)  # type: ignore[arg-type]
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise Malformed(f"{cls.__name__} v{version}: {error}") from None
    if end > len(view):
        raise Malformed(f"{cls.__name__} v{version}: ends {end - len(view)} bytes past the frame")
    return message, end


@cache
def _sliced_decoder(cls: type[Struct], version: int) -> Any:
    return decoder(cls, version, version >= cls.flexible, slices=True)


def encode(message: Message, version: int, out: bytearray, cuts: Cuts | None) -> bytearray:
    """Append the message's bytes to ``out``.

    With ``cuts``, long record fields are left out and noted as (position in ``out``, buffer), so that a caller can send
    the pieces without copying them. Malformed when the version has no room for what a field holds.
    """
    put = message._encoders.get(version)
    if put is None:
        cls = type(message)
        _check_version(cls, version)
        put = cls._encoders[version] = encoder(cls, version, version >= cls.flexible)
    try:
        put(message, out, cuts)
    except (struct.error, ValueError) as error:
        raise Malformed(f"{type(message).__name__} v{version} cannot hold it: {error}") from None
    return out


def encode_in_slices(
    message: Message, version: int, out: bytearray, cuts: Cuts, steps: Steps
) -> Generator[None, None, None]:
    """As ``encode``, with pauses."""
    try:
        yield from _sliced_encoder(type(message), version)(message, out, cuts, steps)  # type: ignore[arg-type]
    except (struct.error, ValueError) as error:
        raise Malformed(f"{type(message).__name__} v{version} cannot hold it: {error}") from None


@cache
def _sliced_encoder(cls: type[Message], version: int) -> Any:
    _check_version(cls, version)
    return encoder(cls, version, version >= cls.flexible, slices=True)


def _check_version(cls: type[Message], version: int) -> None:
    low, high = cls.versions
    if not low <= version <= high:
        raise ValueError(f"{cls.__name__} has versions {low} to {high}, not {version}")


__all__ = [
    "CUT_BYTES",
    "STRING_BYTES_MAX",
    "Buffer",
    "Cuts",
    "Malformed",
    "Packed",
    "Steps",
    "decode",
    "decode_from",
    "decode_in_slices",
    "encode",
    "encode_in_slices",
    "put_uvarint",
    "uvarint",
]

use(decode, encode)
