"""Frames and headers: what stands around a message on a connection.

A frame is an int32 size and that many bytes: header, then body. Sizes are checked by whoever reads the socket, before
memory is taken. Source: protocol guide; KIP-482 (header versions).
"""

from __future__ import annotations

import struct
from collections.abc import Generator

from moldau.model.named import NamedTuple
from moldau.wire.apis import APIS
from moldau.wire.codec import (
    Buffer,
    Cuts,
    Malformed,
    Steps,
    decode_from,
    decode_in_slices,
    encode,
    encode_in_slices,
    put_uvarint,
    uvarint,
)
from moldau.wire.schema import Message

_REQUEST = struct.Struct(">hhi")
_SIZE = struct.Struct(">i")
_INT16 = struct.Struct(">h")
TAGS_MAX = 32
"""The most tagged fields of a header that are skipped."""


class RequestHeader(NamedTuple):
    """Who asks what. ``body`` is where the message starts in the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body: int


def read_request_header(frame: memoryview, start: int = 0) -> RequestHeader:
    """Read the header of a request frame (without the size) that is all of ``frame`` from ``start`` on.

    Malformed when it is no header at all.

    An unknown key or version is not an error here: the header's own shape up to the client id is the same in all.
    """
    size = len(frame) - start
    if size < 8:
        raise Malformed(f"a request header needs 8 bytes, the frame has {size}")
    key, version, correlation_id = _REQUEST.unpack_from(frame, start)
    api = APIS.get(key)
    kind = api.request_header(version) if api is not None else 1
    if kind == 0:
        return RequestHeader(key, version, correlation_id, None, start + 8)
    if size < 10:
        raise Malformed("the request header ends before its client id")
    (length,) = _INT16.unpack_from(frame, start + 8)
    p = start + 10 + max(length, 0)
    if p > len(frame):
        raise Malformed(f"client id of {length} bytes in a frame of {size}")
    try:
        client_id = str(frame[start + 10 : p], "utf-8") if length >= 0 else None
    except UnicodeDecodeError:
        raise Malformed("the client id is not UTF-8") from None
    if kind == 2:
        p = _skip_tags(frame, p)
    return RequestHeader(key, version, correlation_id, client_id, p)


def read_request(frame: memoryview, header: RequestHeader) -> Message:
    """The message behind a header; the caller has checked that key and version are served."""
    # Bytes after the message are ignored, as Kafka does: librdkafka asks for all topics in Metadata 13 with a count of
    # four bytes where one belongs, and has three left over.
    message, _ = decode_from(APIS[header.api_key].request, frame, header.body, header.api_version)
    return message


def read_request_in_slices(frame: memoryview, header: RequestHeader, items_max: int) -> Generator[None, None, Message]:
    """As ``read_request``, with pauses; Malformed when the request's arrays hold more than ``items_max`` items."""
    message, _ = yield from decode_in_slices(
        APIS[header.api_key].request, frame, header.body, header.api_version, Steps(items_max)
    )
    return message


def request_frame(message: Message, version: int, correlation_id: int, client_id: str | None) -> list[Buffer]:
    """A whole request frame as buffers to write one after the other."""
    return _close(message, version, _request_head(message, version, correlation_id, client_id))


def request_frame_in_slices(
    message: Message, version: int, correlation_id: int, client_id: str | None
) -> Generator[None, None, list[Buffer]]:
    """As ``request_frame``, with pauses."""
    return _close_in_slices(message, version, _request_head(message, version, correlation_id, client_id))


def _request_head(message: Message, version: int, correlation_id: int, client_id: str | None) -> bytearray:
    """Room for the size, and the header."""
    api = APIS[message.api_key]
    out = bytearray(4)
    out += _REQUEST.pack(message.api_key, version, correlation_id)
    kind = api.request_header(version)
    if kind:
        name = client_id.encode() if client_id is not None else b""
        out += _INT16.pack(len(name) if client_id is not None else -1)
        out += name
    if kind == 2:
        out.append(0)
    return out


def response_frame(message: Message, version: int, correlation_id: int) -> list[Buffer]:
    """A whole response frame as buffers to write one after the other."""
    return _close(message, version, _response_head(message, version, correlation_id))


def response_frame_in_slices(
    message: Message, version: int, correlation_id: int
) -> Generator[None, None, list[Buffer]]:
    """As ``response_frame``, with pauses."""
    return _close_in_slices(message, version, _response_head(message, version, correlation_id))


def _response_head(message: Message, version: int, correlation_id: int) -> bytearray:
    """Room for the size, and the header."""
    out = bytearray(4)
    out += _SIZE.pack(correlation_id)
    if APIS[message.api_key].response_header(version):
        out.append(0)
    return out


def read_response_body(frame: memoryview, key: int, version: int) -> Message:
    """The response in a frame whose correlation id (first four bytes) the caller has matched."""
    message, end = decode_from(APIS[key].response, frame, _response_start(frame, key, version), version)
    return _to_the_end(message, version, end, frame)


def read_response_body_in_slices(frame: memoryview, key: int, version: int) -> Generator[None, None, Message]:
    """As ``read_response_body``, with pauses. An item takes a byte at least: the frame bounds how many there are."""
    start, most = _response_start(frame, key, version), Steps(len(frame))
    message, end = yield from decode_in_slices(APIS[key].response, frame, start, version, most)
    return _to_the_end(message, version, end, frame)


def _response_start(frame: memoryview, key: int, version: int) -> int:
    return _skip_tags(frame, 4) if APIS[key].response_header(version) else 4


def _to_the_end(message: Message, version: int, end: int, frame: memoryview) -> Message:
    if end != len(frame):
        raise Malformed(f"{type(message).__name__} v{version}: {len(frame) - end} bytes left over")
    return message


def _close(message: Message, version: int, out: bytearray) -> list[Buffer]:
    cuts: Cuts = []
    encode(message, version, out, cuts)
    return _parts(out, cuts)


def _close_in_slices(message: Message, version: int, out: bytearray) -> Generator[None, None, list[Buffer]]:
    cuts: Cuts = []
    yield from encode_in_slices(message, version, out, cuts, Steps(0))
    return _parts(out, cuts)


def _parts(out: bytearray, cuts: Cuts) -> list[Buffer]:
    """The frame whose size is filled in now, with what was left out of ``out`` in its places."""
    if not cuts:
        _SIZE.pack_into(out, 0, len(out) - 4)
        return [out]
    _SIZE.pack_into(out, 0, len(out) - 4 + sum(len(piece) for _, piece in cuts))
    whole = memoryview(out)
    parts: list[Buffer] = []
    at = 0
    for position, piece in cuts:
        parts.append(whole[at:position])
        parts.append(piece)
        at = position
    if at < len(out):
        parts.append(whole[at:])
    return parts


def _skip_tags(frame: Buffer, p: int) -> int:
    try:
        count, p = uvarint(frame, p)
        if count > TAGS_MAX:
            raise Malformed(f"{count} tagged fields in the header")
        for _ in range(count):
            _, p = uvarint(frame, p)
            size, p = uvarint(frame, p)
            p += size
            if p > len(frame):
                raise Malformed("a tagged field of the header ends past the frame")
    except IndexError:
        raise Malformed("the header's tagged fields end past the frame") from None
    return p


__all__ = [
    "RequestHeader",
    "put_uvarint",
    "read_request",
    "read_request_header",
    "read_request_in_slices",
    "read_response_body",
    "read_response_body_in_slices",
    "request_frame",
    "request_frame_in_slices",
    "response_frame",
    "response_frame_in_slices",
]
