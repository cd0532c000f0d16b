"""Spark's own connector copies one topic into another, says when half is done, and whether in the end all is there.

``python -m tests.parity.killed BOOTSTRAP``; whoever started it kills a broker in between.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import DataFrame

from tests.parity.compare import start

RECORDS = 3000


def main() -> None:
    """Fill, copy, compare."""
    bootstrap = sys.argv[1]
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number in range(RECORDS):
        producer.produce("killed-in", b"%d" % number, key=b"%d" % number)
    assert producer.flush(120) == 0
    there = {"kafka.bootstrap.servers": bootstrap, "startingOffsets": "earliest"}
    with tempfile.TemporaryDirectory() as folder:
        spark = start(folder)
        written = [0]

        def each(rows: DataFrame, batch_id: int) -> None:
            rows.write.format("kafka").options(**there, topic="killed-out").save()
            written[0] += rows.count()
            if written[0] * 2 >= RECORDS:
                print("half", flush=True)

        stream = spark.readStream.format("kafka").options(**there, subscribe="killed-in", maxOffsetsPerTrigger="300")
        writing = stream.load().select("key", "value").writeStream.foreachBatch(each)
        writing = writing.option("checkpointLocation", str(Path(folder) / "copied")).trigger(availableNow=True)
        assert writing.start().awaitTermination(240), "the copy has ended"
        copied = spark.read.format("kafka").options(**there, subscribe="killed-out").load()
        values = {int(row.value) for row in copied.select("value").collect()}
        print("equal" if values == set(range(RECORDS)) else f"{len(values)} of {RECORDS}", flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
