"""Asks both connectors the same and says in JSON lines what each answered.

``python -m tests.parity.compare BOOTSTRAP``, in .venv-parity.

An answer is the rows and the number of tasks, or that it was refused; the text of a refusal is told, not compared.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

from moldau.spark import session, until_it_stands
from tests.parity.cases import BATCH, STREAM, Case

ROOT = Path(__file__).resolve().parents[2]
FORMATS = ("kafka", "moldau")
RECORDS = 100

Answer = dict[str, Any]


def start(folder: str) -> SparkSession:
    """A session that knows both formats."""
    import pyspark

    jars = sorted(str(each) for each in (ROOT / ".jars" / f"spark-kafka-{pyspark.__version__}").glob("*.jar"))
    return session("parity", folder=folder, conf={"spark.jars": ",".join(jars), "spark.sql.shuffle.partitions": "1"})


def prepare(bootstrap: str, copies: int) -> dict[str, str]:
    """The topics, written; their names by their names in the cases."""
    mid = uuid.uuid4().hex[:8]
    names = {"t": f"parity-{mid}-t", "u": f"parity-{mid}-u", "mid": f"{mid}-t"}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    forever = {"retention.ms": "-1"}  # the records are of 1970
    new = [NewTopic(names["t"], 3, copies, config=forever), NewTopic(names["u"], 1, copies, config=forever)]
    for made in admin.create_topics(new).values():
        made.result(60)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for topic, partitions in ((names["t"], 3), (names["u"], 1)):
        for partition in range(partitions):
            for number in range(RECORDS):
                producer.produce(
                    topic, b"%d" % number, key=None if number % 7 == 0 else b"k%d" % number, partition=partition,
                    timestamp=1_000_000 + 1000 * number,
                    headers=[("h", b"%d" % number), ("h", None)] if number % 2 else None,
                )  # fmt: skip
    assert producer.flush(60) == 0
    for done in admin.delete_records([Place(names["t"], 0, 10)]).values():
        done.result(60)
    return names


def filled(case: Case, names: dict[str, str], bootstrap: str) -> dict[str, str]:
    """The options of a case, with the names of the topics."""
    options = dict(case.options)
    for name, topic in names.items():
        options = {key: value.replace("{" + name + "}", topic) for key, value in options.items()}
    return {"kafka.bootstrap.servers": bootstrap, **options}


def rows_of(rows: DataFrame) -> list[str]:
    """Rows in an order of their own, as text."""
    return sorted(str(tuple(row)) for row in rows.collect())


def refused(error: Exception) -> Answer:
    """What it said: of a Python source the line of its own error, else the first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    own = [line for line in lines if line.startswith("moldau.")]
    return {"refused": (own or lines)[0][:500]}


def ask_batch(spark: SparkSession, source: str, options: dict[str, str]) -> Answer:
    try:
        rows = spark.read.format(source).options(**options).load()
        return {"rows": rows_of(rows), "tasks": rows.rdd.getNumPartitions()}
    except Exception as error:
        return refused(error)


def ask_stream(spark: SparkSession, source: str, options: dict[str, str], checkpoint: str) -> Answer:
    """All there is now, batch by batch."""
    found: list[str] = []
    sizes: list[int] = []

    def each(rows: DataFrame, batch_id: int) -> None:
        here = rows_of(rows)
        found.extend(here)
        sizes.append(len(here))

    try:
        stream = spark.readStream.format(source).options(**options).load().writeStream
        stream = stream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        until_it_stands(stream.foreachBatch(each).start).awaitTermination(240)
        return {"rows": sorted(found), "batches": sizes}
    except Exception as error:
        return refused(error)


def is_same(one: Answer, other: Answer) -> bool:
    """Whether both gave the same rows in the same way, or both refused."""
    if "refused" in one or "refused" in other:
        return "refused" in one and "refused" in other
    if one["rows"] == other["rows"] == []:
        return True  # a Python source has one task that reads nothing where the other has none
    return one == other


def told(answer: Answer) -> str:
    """An answer in a few words."""
    if "refused" in answer:
        return f"refused: {answer['refused']}"
    how = f"{answer['tasks']} tasks" if "tasks" in answer else f"batches of {answer['batches']}"
    return f"{len(answer['rows'])} rows, {how}"


def say(case: Case, answers: dict[str, Answer]) -> None:
    line = {
        "case": case.name,
        "same": is_same(answers["kafka"], answers["moldau"]),
        "differs": case.differs,
        **{source: told(answer) for source, answer in answers.items()},
    }
    print(json.dumps(line), flush=True)


def adopt(spark: SparkSession, names: dict[str, str], bootstrap: str, folder: Path) -> None:
    """A checkpoint of the one is gone on with by the other, where it ended."""
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": names["u"], "startingOffsets": "earliest"}
    first = ask_stream(spark, "kafka", options, str(folder / "adopted"))
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(5):
        producer.produce(names["u"], b"later %d" % number, partition=0)
    assert producer.flush(60) == 0
    then = ask_stream(spark, "moldau", options, str(folder / "adopted"))
    whole = ask_batch(spark, "kafka", options)
    same = "refused" not in then and sorted(first["rows"] + then["rows"]) == whole["rows"]
    line = {"case": "a checkpoint of the other", "same": same and len(then["rows"]) == 5, "differs": "",
            "kafka": told(first), "moldau": told(then)}  # fmt: skip
    print(json.dumps(line), flush=True)


def write(spark: SparkSession, names: dict[str, str], bootstrap: str, folder: Path) -> None:
    """Spark's own sink, batch and stream, read back by the other."""
    out = {"kafka.bootstrap.servers": bootstrap, "topic": names["u"] + "-out"}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(out["topic"], 3, 1)])[out["topic"]].result(60)
    rows = spark.range(500).selectExpr("cast(id AS string) AS key", "cast(id AS string) AS value")
    rows.write.format("kafka").options(**out).save()
    stream = spark.readStream.format("kafka").options(
        **{"kafka.bootstrap.servers": bootstrap, "subscribe": names["t"], "startingOffsets": "earliest"}
    )
    query = stream.load().select("key", "value").writeStream.format("kafka").options(**out)
    query.option("checkpointLocation", str(folder / "written")).trigger(availableNow=True).start().awaitTermination(240)
    there = {"kafka.bootstrap.servers": bootstrap, "subscribe": out["topic"]}
    answers = {source: ask_batch(spark, source, there) for source in FORMATS}
    count = len(answers["moldau"].get("rows", []))
    line = {"case": "written by Spark's own sink", "same": is_same(*answers.values()) and count == 500 + 290,
            "differs": "", **{source: told(answer) for source, answer in answers.items()}}  # fmt: skip
    print(json.dumps(line), flush=True)


def main() -> None:
    """All cases against one cluster."""
    parser = argparse.ArgumentParser(prog="python -m tests.parity.compare", description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument(
        "--only", nargs="*", default=[""], help="words, of which the names of the cases to run have one"
    )
    arguments = parser.parse_args()
    names = prepare(arguments.bootstrap, arguments.copies)
    with tempfile.TemporaryDirectory() as folder:
        spark = start(folder)
        for case in BATCH:
            if any(word in case.name for word in arguments.only):
                options = filled(case, names, arguments.bootstrap)
                say(case, {source: ask_batch(spark, source, options) for source in FORMATS})
        for case in STREAM:
            if any(word in case.name for word in arguments.only):
                options = filled(case, names, arguments.bootstrap)
                where = Path(folder) / uuid.uuid4().hex
                say(case, {s: ask_stream(spark, s, options, str(where / s)) for s in FORMATS})
        if any(word in "adopt" for word in arguments.only):
            adopt(spark, names, arguments.bootstrap, Path(folder))
        if any(word in "write" for word in arguments.only):
            write(spark, names, arguments.bootstrap, Path(folder))
        spark.stop()
    print(json.dumps({"end": True}), flush=True)
    sys.exit(0)


if __name__ == "__main__":
    main()
