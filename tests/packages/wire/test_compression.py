"""The four codecs: framings that others write, streams that end early, and bombs."""

from __future__ import annotations

import gzip
import subprocess
import sys
import tracemalloc

import lz4.frame
import pytest
import zstandard
from cramjam import snappy
from hypothesis import given
from hypothesis import strategies as st

from moldau.wire.compression import BatchError, Codec, compress, decompress

PACKED = [codec for codec in Codec if codec]
TEXT = b'{"name": "value", "n": 12345}\n' * 5_000


@given(st.sampled_from(Codec), st.binary(max_size=5_000), st.integers(1, 20))
def test_every_payload_survives_every_codec(codec, data, times):
    assert decompress(codec, compress(codec, data * times)) == data * times
    assert decompress(codec, memoryview(compress(codec, memoryview(data)))) == data


@pytest.mark.parametrize("codec", PACKED)
def test_a_payload_cut_short_is_refused(codec):
    packed = compress(codec, TEXT[:3_000])
    for cut in range(1, len(packed)):
        if codec == Codec.SNAPPY and cut == 16:
            continue  # a stream header and no block is a stream of nothing
        with pytest.raises(BatchError):
            decompress(codec, packed[:cut])


@pytest.mark.parametrize("codec", PACKED)
def test_a_bomb_is_refused_before_its_memory_is_taken(codec):
    bomb = compress(codec, bytes(64 << 20))
    with pytest.raises(BatchError, match="more than|claims|allowed"):
        decompress(codec, bomb, 1 << 20)


@pytest.mark.parametrize("codec", [*PACKED, "bare snappy"])
def test_refusing_a_bomb_takes_little_more_memory_than_the_cap(codec):
    if codec == "bare snappy":
        codec, bomb = Codec.SNAPPY, bytes(snappy.compress_raw(bytes(64 << 20)))
    else:
        bomb = compress(codec, bytes(64 << 20))
    with pytest.raises(BatchError):
        decompress(codec, compress(codec, bytes(2 << 20)), 1 << 20)  # load the wheel before counting
    tracemalloc.start()
    try:
        with pytest.raises(BatchError):
            decompress(codec, bomb, 1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", PACKED)
def test_bytes_after_the_end_are_refused(codec):
    with pytest.raises(BatchError):
        decompress(codec, compress(codec, TEXT[:3_000]) + b"trailing junk")


@pytest.mark.parametrize("codec", PACKED)
def test_output_of_exactly_the_cap_is_allowed(codec):
    packed = compress(codec, TEXT)
    assert decompress(codec, packed, len(TEXT)) == TEXT
    with pytest.raises(BatchError):
        decompress(codec, packed, len(TEXT) - 1)


def test_zstd_frames_that_hide_their_size_are_bounded_too():
    packer = zstandard.ZstdCompressor(write_content_size=False)
    stream = packer.compressobj()
    hidden = stream.compress(TEXT) + stream.flush()
    assert decompress(Codec.ZSTD, hidden) == TEXT
    stream = packer.compressobj()
    bomb = b"".join(stream.compress(bytes(1 << 20)) for _ in range(64)) + stream.flush()
    with pytest.raises(BatchError):
        decompress(Codec.ZSTD, bomb, 1 << 20)
    for cut in range(1, len(hidden)):
        with pytest.raises(BatchError):
            decompress(Codec.ZSTD, hidden[:cut])


def test_a_zstd_frame_that_lies_about_its_size_takes_no_memory():
    lie = b"\x28\xb5\x2f\xfd\xe0" + (2**60).to_bytes(8, "little") + b"\x01\x00\x00"
    with pytest.raises(BatchError, match="more than"):
        decompress(Codec.ZSTD, lie)


def test_snappy_is_read_bare_and_in_blocks_and_in_blocks_after_blocks():
    assert decompress(Codec.SNAPPY, bytes(snappy.compress_raw(TEXT))) == TEXT
    packed = compress(Codec.SNAPPY, TEXT)
    assert packed.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    assert decompress(Codec.SNAPPY, packed + packed) == TEXT + TEXT


def test_a_snappy_block_that_claims_more_than_it_can_hold_is_refused():
    for claim in (b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x08"):
        with pytest.raises(BatchError, match="claims|more than"):
            decompress(Codec.SNAPPY, claim + b"abc")


def test_gzip_members_and_lz4_frames_may_follow_one_another():
    assert decompress(Codec.GZIP, gzip.compress(b"one") + gzip.compress(b"two")) == b"onetwo"
    assert decompress(Codec.LZ4, lz4.frame.compress(b"one") + lz4.frame.compress(b"two")) == b"onetwo"


@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("checksums", [True, False])
def test_lz4_frames_of_other_writers_are_read(linked, checksums):
    packed = lz4.frame.compress(TEXT, block_linked=linked, content_checksum=checksums, block_checksum=checksums)
    assert decompress(Codec.LZ4, packed) == TEXT


def test_lz4_frames_are_written_as_kafka_reads_them():
    """Version 1, independent blocks, no content size (the flag byte after the magic number)."""
    flags = compress(Codec.LZ4, TEXT)[4]
    assert (flags >> 6, flags >> 5 & 1, flags >> 3 & 1) == (1, 1, 0)


def test_a_codec_that_is_none_is_named():
    with pytest.raises(BatchError, match="number 5"):
        decompress(5, b"")
    with pytest.raises(BatchError, match="number 7"):
        compress(7, b"")


def test_codec_wheels_are_not_imported_until_used():
    code = (
        "import sys, moldau.wire.batch; print([m for m in ('lz4', 'cramjam', 'zstandard', 'gzip') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
