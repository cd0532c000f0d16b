"""The sums: what was acknowledged, what log and table hold, and whether all of them are the same flights."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from moldau.admin.demo.data import Flight, delays, id_of
from moldau.admin.demo.producing import Acks

Counts = npt.NDArray[np.int64]
_READ_TIMEOUT_S = 60.0


class FlightCounts(NamedTuple):
    """How often each flight was seen in the log and in the table, and whether the sums are those of the data."""

    produced: Counts
    in_log: Counts
    in_table: Counts
    commits: int
    batches: int
    totals_right: bool

    @property
    def lost(self) -> int:
        """Flights that were acknowledged and are not in the log, or not in the table."""
        return int(((self.produced > 0) & ((self.in_log == 0) | (self.in_table == 0))).sum())

    @property
    def duplicated(self) -> int:
        """Rows and records too many."""
        return int(np.maximum(self.in_log - 1, 0).sum() + np.maximum(self.in_table - 1, 0).sum())

    @property
    def balance(self) -> bool:
        """Whether everything was produced and is in the log and in the table exactly once."""
        once = all(bool((counts == 1).all()) for counts in (self.produced, self.in_log, self.in_table))
        return once and self.totals_right and self.commits == self.batches


def check(messages: Sequence[Flight], acks: Acks, bootstrap_servers: str, topic: str, table: Path) -> FlightCounts:
    """Read the log with a foreign client and the table with delta-rs, and compare flight by flight."""
    from deltalake import DeltaTable

    found = DeltaTable(str(table))
    ids = found.to_pyarrow_table(columns=["id"])["id"].to_numpy()
    marked = [entry["moldau.batch"] for entry in found.history() if "moldau.batch" in entry]
    return FlightCounts(
        np.frombuffer(bytes(acks.seen), np.uint8).astype(np.int64),
        _count(read_ids(bootstrap_servers, topic), len(messages)),
        _count(ids, len(messages)),
        len(marked),
        len(set(marked)),
        _totals(table) == delays(list(messages)),
    )


def records_in(bootstrap_servers: str, topic: str) -> int:
    """How many records the log has, by its partitions' first and last offsets."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "demo-count", "log_level": 0})
    numbers = consumer.list_topics(topic, _READ_TIMEOUT_S).topics[topic].partitions
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, number), _READ_TIMEOUT_S) for number in numbers]
    consumer.close()
    return sum(high - low for low, high in ends)


def read_ids(bootstrap_servers: str, topic: str) -> list[int]:
    """The ids of all records in the log, as an ordinary consumer reads them."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "demo-check", "enable.auto.commit": False,
         "enable.partition.eof": True, "auto.offset.reset": "earliest", "log_level": 0}
    )  # fmt: skip
    partitions = sorted(consumer.list_topics(topic, _READ_TIMEOUT_S).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    found: list[int] = []
    left = set(partitions)
    alive = time.monotonic()
    while left:
        records = consumer.consume(10_000, 0.2)
        if records:
            alive = time.monotonic()
        elif time.monotonic() - alive > _READ_TIMEOUT_S:
            raise TimeoutError(f"partitions {sorted(left)} of {topic} could not be read to their end")
        for record in records:
            error = record.error()
            if error is None:
                found.append(id_of(record.value() or b""))
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(record.partition())
    consumer.close()
    return found


def mean_delays(table: Path) -> dict[tuple[str, int], float]:
    """Mean departure delay in minutes by (carrier, hour), from the table."""
    return {key: minutes / left for key, (_, left, minutes) in _totals(table).items() if left}


def _totals(table: Path) -> dict[tuple[str, int], tuple[int, int, float]]:
    """Flights, departures and minutes of delay by (carrier, hour)."""
    from deltalake import DeltaTable

    rows = DeltaTable(str(table)).to_pyarrow_table(columns=["carrier", "hour", "dep_delay"])
    delay = "dep_delay"
    sums = rows.group_by(["carrier", "hour"]).aggregate([([], "count_all"), (delay, "count"), (delay, "sum")])
    return {
        (row["carrier"], row["hour"]): (row["count_all"], row[f"{delay}_count"], row[f"{delay}_sum"] or 0.0)
        for row in sums.to_pylist()
    }


def _count(ids: Sequence[int] | Counts, size: int) -> Counts:
    return np.bincount(np.asarray(ids, np.int64), minlength=size)
