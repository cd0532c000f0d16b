"""Packs and unpacks the payload of a record batch: gzip, snappy, lz4, zstd, each as Kafka's clients frame it.

Decides how large an unpacked payload may grow at most. Knows nothing of records.
The codec wheels are imported on first use: a broker that only moves batches never loads them.
Framings: gzip (RFC 1952), snappy in snappy-java's ("xerial") blocks, LZ4 frames with independent blocks, zstd.
Read next: batch.py.
"""

from __future__ import annotations

from enum import IntEnum

Buffer = bytes | bytearray | memoryview

MAX_OUTPUT_BYTES = 256 << 20
"""No batch unpacks to more than this. It is the bound of whoever reads a log, too: with one below what a leader takes
(``storage/log_validator.py``) a client's batch was called corrupt, and its log compacted no more."""

PIECE_BYTES, PIECES = 1 << 20, 32
"""What comes out of a gzip payload is gathered in pieces of this size, or in so many: zlib copies each of them, and
meanwhile no other thread goes on."""

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + (1).to_bytes(4, "big") + (1).to_bytes(4, "big")
_XERIAL_BLOCK = 32 << 10
_SNAPPY_MAX_RATIO = 22  # a three-byte copy element yields at most 64 bytes


class Codec(IntEnum):
    """The compression type in the low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class BatchError(ValueError):
    """A record batch that cannot be read: truncated, malformed, or packed in a way that is refused."""


class UnpacksToTooMuch(BatchError):
    """A payload that unpacks to more than the caller allows."""


def compress(codec: int, data: Buffer) -> bytes:
    """``data`` packed with ``codec``; BatchError when the codec is not one of Codec."""
    if codec == Codec.NONE:
        return bytes(data)
    if codec == Codec.GZIP:
        import zlib

        return zlib.compress(data, wbits=31)
    if codec == Codec.SNAPPY:
        return _snappy_pack(data)
    if codec == Codec.LZ4:
        import lz4.frame

        packed: bytes = lz4.frame.compress(data, block_linked=False, store_size=False)
        return packed
    if codec == Codec.ZSTD:
        import zstandard

        return zstandard.ZstdCompressor(level=3).compress(data)
    raise BatchError(f"no compression codec has the number {codec}")


def decompress(codec: int, data: Buffer, cap: int = MAX_OUTPUT_BYTES) -> bytes:
    """``data`` unpacked with ``codec``: at most ``cap`` bytes.

    BatchError when the stream is broken, cut short, trailed by other bytes, or unpacks to more than the cap; never
    more than about the cap is allocated before that is known.
    """
    if codec == Codec.NONE:
        plain = bytes(data)
    elif codec == Codec.GZIP:
        plain = _gzip_unpack(data, cap)
    elif codec == Codec.SNAPPY:
        plain = _snappy_unpack(data, cap)
    elif codec == Codec.LZ4:
        plain = _lz4_unpack(data, cap)
    elif codec == Codec.ZSTD:
        plain = _zstd_unpack(data, cap)
    else:
        raise BatchError(f"no compression codec has the number {codec}")
    if len(plain) > cap:
        raise _too_large(codec, len(data), cap)
    return plain


def _too_large(codec: int, packed_size: int, cap: int) -> UnpacksToTooMuch:
    return UnpacksToTooMuch(f"{packed_size} bytes of {Codec(codec).name.lower()} unpack to more than the {cap} allowed")


def _gzip_unpack(data: Buffer, cap: int) -> bytes:
    import zlib

    out: list[bytes] = []
    room = cap + 1
    rest: Buffer = data
    most = max(PIECE_BYTES, cap // PIECES)
    while rest:  # members may follow one another (RFC 1952, 2.2)
        unpacker = zlib.decompressobj(wbits=31)
        while not unpacker.eof:
            try:
                part = unpacker.decompress(rest, min(most, room))
            except zlib.error as error:
                raise BatchError(f"broken gzip payload: {error}") from None
            out.append(part)
            room -= len(part)
            if room <= 0:
                raise _too_large(Codec.GZIP, len(data), cap)
            rest = unpacker.unconsumed_tail
            if len(part) < most and not unpacker.eof:
                raise BatchError("a gzip payload is cut short")
        rest = unpacker.unused_data
    return b"".join(out)


def _lz4_unpack(data: Buffer, cap: int) -> bytes:
    import lz4.frame

    out: list[bytes] = []
    room = cap + 1
    rest: Buffer = data
    while rest:
        unpacker = lz4.frame.LZ4FrameDecompressor()
        try:
            part = unpacker.decompress(rest, max_length=room)
        except (RuntimeError, ValueError, EOFError) as error:
            raise BatchError(f"broken lz4 payload: {error}") from None
        out.append(part)
        room -= len(part)
        if room <= 0:
            raise _too_large(Codec.LZ4, len(data), cap)
        if not unpacker.eof:
            raise BatchError("an lz4 payload is cut short")
        rest = unpacker.unused_data or b""
    return b"".join(out)


def _zstd_unpack(data: Buffer, cap: int) -> bytes:
    import zstandard

    try:
        if zstandard.frame_content_size(bytes(memoryview(data)[:18])) > cap:
            raise _too_large(Codec.ZSTD, len(data), cap)
        # a frame that does not tell its size is unpacked into one buffer of the cap: untouched pages cost nothing
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=cap, allow_extra_data=False)
    except zstandard.ZstdError as error:
        if _zstd_exceeds(data, cap):  # the library's error does not tell that from a frame that is cut short
            raise _too_large(Codec.ZSTD, len(data), cap) from None
        raise BatchError(f"broken zstd payload: {error}") from None


def _zstd_exceeds(data: Buffer, cap: int) -> bool:
    """Whether a frame unpacks to more than ``cap`` bytes, or would if it went on as it began."""
    import zstandard

    left = cap + 1
    try:
        with zstandard.ZstdDecompressor().stream_reader(data) as reader:
            while left > 0:
                part = reader.read(min(left, 1 << 17))
                if not part:
                    return False
                left -= len(part)
    except zstandard.ZstdError:
        return False
    return True


def _snappy_pack(data: Buffer) -> bytes:
    from cramjam import snappy

    view = memoryview(data)
    out = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        out += (len(block).to_bytes(4, "big"), block)
    return b"".join(out)


def _snappy_unpack(data: Buffer, cap: int) -> bytes:
    view = memoryview(data)
    if view[:8] != _XERIAL_MAGIC:
        return _snappy_block(view, cap)  # librdkafka and others write one bare block
    out: list[bytes] = []
    room, pos, end = cap, len(_XERIAL_HEADER), len(view)
    if end < pos:
        raise BatchError("a snappy payload is cut short in its stream header")
    while pos < end:
        if view[pos : pos + 8] == _XERIAL_MAGIC:  # streams may follow one another
            pos += len(_XERIAL_HEADER)
            continue
        size = int.from_bytes(view[pos : pos + 4], "big")
        pos += 4
        if pos + size > end:
            raise BatchError(f"a snappy block of {size} bytes is cut short")
        part = _snappy_block(view[pos : pos + size], room)
        out.append(part)
        room -= len(part)
        pos += size
    return b"".join(out)


def _snappy_block(view: memoryview, cap: int) -> bytes:
    from cramjam import DecompressionError, snappy

    size, shift = 0, 0
    for byte in view[:5]:
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    if size > cap:
        raise _too_large(Codec.SNAPPY, len(view), cap)
    if size > _SNAPPY_MAX_RATIO * len(view):
        raise BatchError(f"a snappy block of {len(view)} bytes claims {size}")
    try:
        return bytes(snappy.decompress_raw(view))
    except DecompressionError as error:
        raise BatchError(f"broken snappy payload: {error}") from None
