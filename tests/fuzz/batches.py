"""Batches that no honest producer sends, with sound checksums, and whoever reads them: fetch, list offsets, commit."""

from __future__ import annotations

import gzip
import struct
from contextlib import suppress
from random import Random

from moldau.wire.batch import HEADER_SIZE, build
from moldau.wire.crc import crc32c
from moldau.wire.messages.k00_produce import ProduceRequest
from moldau.wire.messages.k01_fetch import FetchRequest
from moldau.wire.messages.k02_list_offsets import ListOffsetsRequest
from tests.fuzz.messages import number
from tests.fuzz.target import PARTITIONS, TOPICS, Line, Target

FIELDS = ((0, "q", "int64"), (8, "i", "int32"), (12, "i", "int32"), (16, "b", "int8"), (21, "h", "int16"),
          (23, "i", "int32"), (27, "q", "int64"), (35, "q", "int64"), (43, "q", "int64"), (51, "h", "int16"),
          (53, "i", "int32"), (57, "i", "int32"))  # fmt: skip
"""Where each field of a batch's header stands, its letter and type; 17 is the checksum."""
WAIT_S = 5.0


class BatchFuzzer:
    """One round is a produce request with a few strange batches, and a look at what is stored."""

    def __init__(self, target: Target, rng: Random) -> None:
        self.target = target
        self.rng = rng

    def round(self) -> int:
        """Send and read; how many batches were sent."""
        topic, partition = self.rng.choice(list(TOPICS)), self.rng.randrange(PARTITIONS)
        batches = [self._batch() for _ in range(self.rng.choice((1, 1, 1, 2)))]
        with (
            suppress(OSError, LookupError, ValueError),
            Line(self.target.leader_address(topic, partition), WAIT_S) as line,
        ):
            self._produce(line, topic, partition, b"".join(batches))
            if self.rng.random() < 0.3:
                self._look(line, topic, partition)
        return len(batches)

    def close(self) -> None:
        """Nothing is kept."""

    def _batch(self) -> bytes:
        rng = self.rng
        if rng.random() < 0.03:
            return self._bomb()
        now = 1_790_000_000_000
        stamp = rng.choice((now, 0, -1, (1 << 62), -(1 << 63) + 10, (1 << 63) - 100))
        records = []
        for _ in range(rng.choice((1, 2, 5, 300))):
            key = rng.choice((None, b"", b"k%d" % rng.randrange(50)))
            value = rng.choice((None, b"", rng.randbytes(rng.choice((1, 100, 3_000)))))
            headers = [("h", b"x")] if rng.random() < 0.1 else []
            records.append((stamp + rng.choice((0, 1, 90)), key, value, headers))
        producer = rng.choice((-1, -1, -1, 1, 4_000, (1 << 63) - 1))
        batch = bytearray(
            build(
                records, codec=rng.randrange(5), producer_id=producer, producer_epoch=rng.choice((-1, 0, 5)),
                base_sequence=rng.choice((-1, 0, 7, (1 << 31) - 1)),
            )
        )  # fmt: skip
        for _ in range(rng.choice((0, 0, 1, 1, 2, 4))):
            if rng.random() < 0.5:
                at, letter, kind = rng.choice(FIELDS)
                struct.pack_into(f">{letter}", batch, at, number(rng, kind))
            elif len(batch) > HEADER_SIZE:
                batch[rng.randrange(HEADER_SIZE, len(batch))] = rng.choice((0, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        if rng.random() < 0.9:
            struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
        return bytes(batch)

    def _bomb(self) -> bytes:
        """A batch that unpacks to some hundred times its size."""
        if self.rng.random() < 0.5:
            return build([(0, b"k", None, [])] * 100_000, codec=self.rng.randrange(1, 5))
        record = self.rng.choice((b"\x0c\x00\x00\x00\x01\x01\x00", b"\x0e\x00\x00\x00\x02k\x01\x00"))
        count = self.rng.choice((10_000, 1_000_000, 5_000_000))
        body = gzip.compress(record * count, 9)
        head = bytearray(HEADER_SIZE)
        struct.pack_into(">qiibIhiqqqhii", head, 0, 0, 49 + len(body), -1, 2, 0, 1, count - 1, 0, 0, -1, -1, -1, count)
        struct.pack_into(">I", head, 17, crc32c(body, crc32c(memoryview(head)[21:])))
        return bytes(head) + body

    def _produce(self, line: Line, topic: str, partition: int, records: bytes) -> None:
        kind = ProduceRequest
        one = kind.PartitionProduceData(index=partition, records=records)
        data = [kind.TopicProduceData(name=topic, partition_data=[one])]
        line.ask(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=data), 9)

    def _look(self, line: Line, topic: str, partition: int) -> None:
        asked = ListOffsetsRequest.ListOffsetsPartition(
            partition_index=partition, timestamp=self.rng.choice((-3, -2, -1, 0, 1_790_000_000_000, (1 << 62)))
        )
        topics = [ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[asked])]
        line.ask(ListOffsetsRequest(replica_id=-1, topics=topics), 7)
        wanted = FetchRequest.FetchPartition(
            partition=partition, fetch_offset=self.rng.choice((0, 1, 50)), partition_max_bytes=1 << 20
        )
        fetched = [FetchRequest.FetchTopic(topic=topic, partitions=[wanted])]
        line.ask(FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=fetched), 11)
