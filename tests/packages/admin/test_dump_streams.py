"""Packed payloads are unpacked a piece at a time, whatever their sizes, and no more of them than a JVM would hold."""

from __future__ import annotations

import struct
import zlib

import pytest
import zstandard
from cramjam import snappy
from hypothesis import given
from hypothesis import strategies as st

from moldau.admin.classic import dump_records
from moldau.admin.classic.dump_streams import Unpacked, unpacked
from moldau.admin.classic.java import JavaError
from moldau.wire.batch import build, read_header
from moldau.wire.compression import Codec

PARTS = st.lists(st.binary(max_size=6_000) | st.integers(1, 300_000).map(bytes), min_size=1, max_size=4)


def zstd(parts: list[bytes]) -> bytes:
    """A frame each, the second with a checksum, and one to be skipped behind the first."""
    frames = [zstandard.ZstdCompressor(write_checksum=at == 1).compress(part) for at, part in enumerate(parts)]
    return frames[0] + struct.pack("<II", 0x184D2A50, 3) + b"abc" + b"".join(frames[1:])


def framed_snappy(parts: list[bytes]) -> bytes:
    blocks = [bytes(snappy.compress_raw(part)) for part in parts]
    head = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    return head + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


@given(PARTS, st.data())
def test_what_is_taken_is_what_was_packed_however_it_is_taken(parts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(parts)
    for codec, packed in ((Codec.ZSTD, zstd(parts)), (Codec.SNAPPY, framed_snappy(parts))):
        stream, at = unpacked(codec, packed, 0), 0
        while at < len(whole):
            size = data.draw(st.integers(1, len(whole)))
            assert stream.take(size) == whole[at : at + size]
            at += size
        assert (stream.take(1), stream.byte()) == (b"", -1)


@given(st.binary(min_size=1, max_size=300) | st.just(bytes(100_000)), st.data())
def test_a_zstd_frame_that_is_cut_anywhere_is_an_error_and_no_shorter_payload(part: bytes, data: st.DataObject) -> None:
    packed = zstandard.ZstdCompressor(write_checksum=True).compress(part)
    stream = unpacked(Codec.ZSTD, packed[: data.draw(st.integers(1, len(packed) - 1))], 0)
    with pytest.raises(JavaError):
        stream.take(len(part) + 1)


def test_pieces_are_joined_once_and_what_is_left_of_one_is_kept() -> None:
    stream = Unpacked(iter([b"ab", b"cdef", b"g"]))
    assert [stream.take(1), stream.take(4), stream.take(9), stream.take(1)] == [b"a", b"bcde", b"fg", b""]


def test_records_that_are_no_more_than_a_jvm_holds_each_are_as_much_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few hundred kilobytes of batch were gigabytes in memory: each record was within the bound."""
    monkeypatch.setattr(dump_records, "HEAP_BYTES", 100_000)
    plain = build([(0, None, bytes(30_000), ()) for _ in range(5)])
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    batch = bytearray(plain[:61] + packer.compress(plain[61:]) + packer.flush())
    batch[22] = Codec.GZIP
    with pytest.raises(JavaError, match="Java heap space"):
        list(dump_records._packed_records(read_header(batch), bytes(batch[61:])))
