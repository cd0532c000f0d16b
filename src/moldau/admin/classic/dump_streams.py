"""Packed payloads as Java's streams unpack them: a piece at a time, so that what fails, fails at the same record.

Only for payloads that `moldau.wire` refuses: what is sound is unpacked there. A piece is what one read of Java's
stream brings. Gzip is Java's own (RFC 1952), LZ4 frames are Kafka's, snappy and zstd those of their Java libraries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct

from moldau.admin.classic.java import JavaError
from moldau.wire.compression import Codec

UNDERFLOW = "java.nio.BufferUnderflowException"
KAFKA_EXCEPTION = "org.apache.kafka.common.KafkaException"
IO_ERROR, END_OF_FILE = "java.io.IOException", "java.io.EOFException"
HEAP_BYTES = 256 << 20
"""How much a tool's JVM has, unless KAFKA_HEAP_OPTS says otherwise: what claims to be longer ends it."""
_LONGEST = 0x7FFFFFFE
_GZIP_INPUT, _GZIP_OUTPUT, _SNAPPY_OUTPUT, _ZSTD_OUTPUT = 8 << 10, 16 << 10, 2 << 10, 16 << 10
_ZIP_ERROR, _ZSTD_ERROR = "java.util.zip.ZipException", "com.github.luben.zstd.ZstdIOException"
_SNAPPY = "org.xerial.snappy.Snappy"
_INT, _LITTLE, _TRAILER = Struct(">i"), Struct("<I"), Struct("<II")
_LEAST_MEMBER = 26
"""With no more bytes than these behind a member's packed ones Java looks for no other."""


class StreamError(JavaError):
    """An IOException of Java's, which readers of records wrap."""


class Unpacked:
    """What comes out of a payload, and -1 or fewer bytes at its end; StreamError where it cannot be read."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._held, self._at = b"", 0

    def byte(self) -> int:
        """The next byte, as a number from 0 to 255."""
        found = self.take(1)
        return found[0] if found else -1

    def take(self, size: int) -> bytes:
        """The next bytes: fewer than ``size`` at the end only."""
        found = [self._held[self._at : self._at + size]]
        left = size - len(found[0])
        self._at += len(found[0])
        while left and (piece := next(self._pieces, b"")):
            found.append(piece[:left])
            self._held, self._at = piece, len(found[-1])
            left -= len(found[-1])
        return b"".join(found)


def unpacked(codec: int, data: bytes, at: int) -> Unpacked:
    """The unpacked payload of a batch that begins ``at`` bytes before it; JavaError when its stream cannot be opened.

    Kafka's reader of LZ4 names places in the batch.
    """
    try:
        return Unpacked(_lz4(data, at) if codec == Codec.LZ4 else _STREAMS[codec](data))
    except JavaError as error:
        if error.kind.endswith("Error"):
            raise
        raise JavaError(KAFKA_EXCEPTION, str(error), error) from None


def out_of_memory(count: int) -> JavaError:
    """How a JVM ends that is asked for an array which is longer than its heap, or than any array."""
    why = "Requested array size exceeds VM limit" if count >= _LONGEST else "Java heap space"
    return JavaError("java.lang.OutOfMemoryError", why)


# ---- gzip


def _gzip(data: bytes) -> Iterator[bytes]:
    return _inflated(data, _gzip_header(data, 0))


def _gzip_header(data: bytes, at: int) -> int:
    """Where the packed bytes begin that the header at ``at`` announces."""
    import zlib

    def need(end: int) -> int:
        if end > len(data):
            raise StreamError(END_OF_FILE, None)
        return end

    start = at
    need(at + 2)
    if data[at : at + 2] != b"\x1f\x8b":
        raise StreamError(_ZIP_ERROR, "Not in GZIP format")
    need(at + 3)
    if data[at + 2] != 8:
        raise StreamError(_ZIP_ERROR, "Unsupported compression method")
    need(at + 4)
    flags = data[at + 3]
    at = need(at + 10)
    if flags & 4:
        need(at + 2)
        at = need(at + 2 + int.from_bytes(data[at : at + 2], "little"))
    for flag in (8, 16):
        if flags & flag:
            end = data.find(b"\0", at)
            at = need(len(data) + 1 if end < 0 else end + 1)
    if flags & 2:
        need(at + 2)
        if int.from_bytes(data[at : at + 2], "little") != zlib.crc32(data[start:at]) & 0xFFFF:
            raise StreamError(_ZIP_ERROR, "Corrupt GZIP header")
        at += 2
    return at


def _inflated(data: bytes, at: int) -> Iterator[bytes]:
    """The members of a payload of which the first one's packed bytes begin at ``at``."""
    import zlib

    waiting = b""
    while True:
        inflater, crc, written = zlib.decompressobj(wbits=-15), 0, 0
        while not inflater.eof:
            if not waiting:
                waiting = data[at : at + _GZIP_INPUT]
                at += len(waiting)
                if not waiting:
                    raise StreamError(END_OF_FILE, "Unexpected end of ZLIB input stream")
            try:
                piece = inflater.decompress(waiting, _GZIP_OUTPUT)
            except zlib.error as error:
                raise StreamError(_ZIP_ERROR, str(error).rpartition(": ")[2]) from None
            waiting = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
            crc, written = zlib.crc32(piece, crc), written + len(piece)
            if piece:
                yield piece
        trailer_at = at - len(waiting)
        _check_trailer(data[trailer_at : trailer_at + _TRAILER.size], crc, written)
        if len(waiting) <= _LEAST_MEMBER:
            return
        try:
            begin = _gzip_header(data, trailer_at + _TRAILER.size)
        except StreamError:  # what follows is no member: Java does not look at it
            return
        waiting, at = data[begin:at], max(begin, at)


def _check_trailer(trailer: bytes, crc: int, written: int) -> None:
    for at, expected in ((0, crc), (4, written & 0xFFFFFFFF)):
        if len(trailer) < at + _LITTLE.size:
            raise StreamError(END_OF_FILE, None)
        if _LITTLE.unpack_from(trailer, at)[0] != expected:
            raise StreamError(_ZIP_ERROR, "Corrupt GZIP trailer")


# ---- LZ4 frames, as Kafka reads them


def _lz4(data: bytes, origin: int) -> Iterator[bytes]:
    if len(data) < 6:
        raise StreamError(IO_ERROR, _EARLY)
    if _LITTLE.unpack_from(data)[0] != 0x184D2204:
        raise StreamError(IO_ERROR, "Stream unsupported (invalid magic bytes)")
    flags, size = data[4], data[5]
    for is_wrong, why in (
        (flags & 3, "Reserved bits must be 0"),
        (not flags & 0x20, "Dependent block stream is unsupported"),
        (flags >> 6 != 1, f"Version {flags >> 6} is unsupported"),
        (size & 15, "Reserved2 field must be 0"),
        (not size & 0x40, "Block size value must be between 4 and 7"),
        (size >> 7, "Reserved3 field must be 0"),
    ):
        if is_wrong:
            raise JavaError("java.lang.RuntimeException", why)
    at = 6
    if flags & 8:
        if len(data) - at < 8:
            raise StreamError(IO_ERROR, _EARLY)
        at += 8
    if at >= len(data):
        raise JavaError(UNDERFLOW, None)
    if data[at] != (_xxhash32(data[4:at]) >> 8) & 0xFF:
        raise StreamError(IO_ERROR, "Stream frame descriptor corrupted")
    return _lz4_blocks(data, at + 1, origin)


def _lz4_blocks(data: bytes, at: int, origin: int) -> Iterator[bytes]:
    flags, most = data[4], 1 << (8 + 2 * (data[5] >> 4))
    while True:
        if len(data) - at < 4:
            raise StreamError(IO_ERROR, _EARLY)
        (word,) = _LITTLE.unpack_from(data, at)
        at += 4
        size = word & 0x7FFFFFFF
        if not size:
            if flags & 4 and len(data) - at < 4:
                raise JavaError(UNDERFLOW, None)
            return
        if size > most:
            raise StreamError(IO_ERROR, f"Block size {size} exceeded max: {most}")
        if len(data) - at < size:
            raise StreamError(IO_ERROR, _EARLY)
        block = data[at : at + size]
        piece = block if word >> 31 else _lz4_block(block, most, origin + at)
        at += size
        if flags & 0x10:
            if len(data) - at < 4:
                raise JavaError(UNDERFLOW, None)
            if _LITTLE.unpack_from(data, at)[0] != _xxhash32(block):
                raise StreamError(IO_ERROR, "Block checksum mismatch")
            at += 4
        if piece:
            yield piece


def _lz4_block(block: bytes, most: int, at: int) -> bytes:
    import lz4.block

    try:
        unpacked: bytes = lz4.block.decompress(block, uncompressed_size=most)
    except lz4.block.LZ4BlockError as error:
        where = at + int(str(error).rpartition(" ")[2])
        cause = JavaError("net.jpountz.lz4.LZ4Exception", f"Error decoding offset {where} of input buffer")
        raise StreamError(IO_ERROR, str(cause), cause) from None
    return unpacked


_EARLY = "Stream ended prematurely"
_P1, _P2, _P3, _P4, _P5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
_M = 0xFFFFFFFF


def _xxhash32(data: bytes) -> int:
    """The checksum of LZ4's frame format (XXH32 with seed 0)."""

    def turned(value: int, by: int) -> int:
        return ((value << by) | (value >> (32 - by))) & _M

    at, size = 0, len(data)
    if size >= 16:
        sums = [(_P1 + _P2) & _M, _P2, 0, -_P1 & _M]
        while at + 16 <= size:
            for lane in range(4):
                (word,) = _LITTLE.unpack_from(data, at)
                sums[lane] = turned((sums[lane] + word * _P2) & _M, 13) * _P1 & _M
                at += 4
        found = sum(turned(one, by) for one, by in zip(sums, (1, 7, 12, 18), strict=True)) & _M
    else:
        found = _P5
    found = (found + size) & _M
    while at + 4 <= size:
        found = turned((found + _LITTLE.unpack_from(data, at)[0] * _P3) & _M, 17) * _P4 & _M
        at += 4
    for byte in data[at:]:
        found = turned((found + byte * _P5) & _M, 11) * _P1 & _M
    found = (found ^ (found >> 15)) * _P2 & _M
    found = (found ^ (found >> 13)) * _P3 & _M
    return found ^ (found >> 16)


# ---- snappy


_SNAPPY_MAGIC, _SNAPPY_HEADER = b"\x82SNAPPY\x00", 16
_SNAPPY_MOST = 512 << 20


def _snappy(data: bytes) -> Iterator[bytes]:
    head = data[:_SNAPPY_HEADER]
    if not head:
        raise StreamError(f"{_SNAPPY}IOException", "[EMPTY_INPUT] Cannot decompress empty stream")
    if len(head) < _SNAPPY_HEADER or not head.startswith(_SNAPPY_MAGIC):
        return iter([_snappy_block(data)])
    return _snappy_reads(_snappy_blocks(data, _SNAPPY_HEADER))


def _snappy_reads(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """What reads of Java's stream bring: it goes on to the next block until it has as much as was asked for."""
    held = b""
    for block in blocks:
        held += block  # less than one piece was left
        for at in range(0, len(held) - _SNAPPY_OUTPUT + 1, _SNAPPY_OUTPUT):
            yield held[at : at + _SNAPPY_OUTPUT]
        held = held[len(held) - len(held) % _SNAPPY_OUTPUT :]
    if held:
        yield held


def _snappy_blocks(data: bytes, at: int) -> Iterator[bytes]:
    while at + 4 <= len(data):
        (size,) = _INT.unpack_from(data, at)
        if data[at : at + 4] == _SNAPPY_MAGIC[:4]:
            head = data[at : at + _SNAPPY_HEADER]
            if len(head) < _SNAPPY_HEADER:
                text = "[FAILED_TO_UNCOMPRESS] Insufficient header size in a concatenated block"
                raise StreamError(f"{_SNAPPY}IOException", text)
            if not head.startswith(_SNAPPY_MAGIC):
                return
            at += _SNAPPY_HEADER
            continue
        if size < 0:
            text = f"[INVALID_CHUNK_SIZE] chunkSize is too big or negative : {size}"
            raise JavaError(f"{_SNAPPY}Error", text)
        if size > _SNAPPY_MOST:
            text = f"Received chunkSize {size:,} is greater than max configured chunk size {_SNAPPY_MOST:,}"
            raise JavaError(f"{_SNAPPY}Error", f"[FAILED_TO_UNCOMPRESS] {text}")
        at += 4
        if at + size > len(data):
            raise StreamError(IO_ERROR, "failed to read chunk")
        piece = _snappy_block(data[at : at + size])
        at += size
        if piece:
            yield piece


def _snappy_block(block: bytes) -> bytes:
    from cramjam import DecompressionError, snappy

    size, at = 0, 0
    while True:
        if at >= len(block) or at >= 5:
            raise StreamError(IO_ERROR, "PARSING_ERROR(2)")
        byte = block[at]
        size |= (byte & 127) << (7 * at)
        at += 1
        if byte < 128:
            break
    if size >> 32:
        raise StreamError(IO_ERROR, "PARSING_ERROR(2)")
    if size >> 31:
        raise JavaError("java.lang.NegativeArraySizeException", str(size - (1 << 32)))
    if size > HEAP_BYTES:
        raise out_of_memory(size)
    if size > 22 * len(block):  # no copy yields more: nothing is set aside for what cannot be
        raise StreamError(IO_ERROR, "FAILED_TO_UNCOMPRESS(5)")
    try:
        return bytes(snappy.decompress_raw(block))
    except DecompressionError:
        raise StreamError(IO_ERROR, "FAILED_TO_UNCOMPRESS(5)") from None


# ---- zstd


def _zstd(data: bytes) -> Iterator[bytes]:
    import zstandard

    rest = data
    while rest:
        try:
            end = _zstd_frame_end(rest)
            # One frame at a time: behind one without a byte the library's reader goes on into the next.
            with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(rest[:end]) as reader:
                while piece := reader.read(_ZSTD_OUTPUT):
                    yield piece
        except zstandard.ZstdError as error:
            raise StreamError(_ZSTD_ERROR, str(error).rpartition(": ")[2]) from None
        if end > len(rest):
            raise StreamError(_ZSTD_ERROR, "Truncated source")
        rest = rest[end:]


def _zstd_frame_end(data: bytes) -> int:
    """Where the first frame ends, beyond the data if it is not whole, or none begins there (RFC 8878)."""
    import zstandard

    if len(data) >= 8 and _LITTLE.unpack_from(data)[0] & 0xFFFFFFF0 == 0x184D2A50:  # a frame to be skipped
        return 8 + int(_LITTLE.unpack_from(data, 4)[0])
    try:
        at = zstandard.frame_header_size(data)
    except zstandard.ZstdError:  # whoever reads it says why
        return len(data) + 1
    while at + 3 <= len(data):
        word = int.from_bytes(data[at : at + 3], "little")
        at += 3 + (1 if word >> 1 & 3 == 1 else word >> 3)  # one byte that is repeated, or as many as it says
        if word & 1:
            return at + 4 * zstandard.get_frame_parameters(data).has_checksum
    return len(data) + 1


_STREAMS: dict[int, Callable[[bytes], Iterator[bytes]]] = {Codec.GZIP: _gzip, Codec.SNAPPY: _snappy, Codec.ZSTD: _zstd}
