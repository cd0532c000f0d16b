"""Batches written for tests, and a reader of them that shares nothing with the code under test but the format."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from moldau.wire.batch import build


def crc32c(data: bytes) -> int:
    """The checksum, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def fields(data: bytes) -> tuple[int, int, int, int, bool]:
    """Base offset, last offset, epoch, checksum of a batch, and whether that is right."""
    base, _, epoch, _, crc, _, delta = struct.unpack(">qiibIhi", data[:27])
    return base, base + delta, epoch, crc, crc32c(data[21:]) == crc


def batch_of(base: int, values: Sequence[bytes], epoch: int = 0, codec: int = 0, at_ms: int = 1000) -> bytes:
    """A batch of records with keys k0, k1, ..."""
    records = [(at_ms + n, b"k%d" % n, value, [("h", b"x")]) for n, value in enumerate(values)]
    return build(records, base_offset=base, leader_epoch=epoch, codec=codec)


def replica(home: Path, broker: int, partition: str, batches: Sequence[bytes], *, high: int | None = None) -> Path:
    """A partition's folder with one segment, in a log directory of a broker."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "meta.properties").write_text(f"version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\nnode.id={broker}\n")
    folder = home / partition
    folder.mkdir(exist_ok=True)
    base = struct.unpack(">q", batches[0][:8])[0] if batches else 0
    file = folder / f"{base:020d}.log"
    file.write_bytes(b"".join(batches))
    if high is not None:
        marks = home / "replication-offset-checkpoint"
        before = marks.read_text().splitlines()[2:] if marks.exists() else []
        topic, _, number = partition.rpartition("-")
        lines = [*before, f"{topic} {number} {high}"]
        marks.write_text("\n".join(["0", str(len(lines)), *lines]) + "\n")
    return file
