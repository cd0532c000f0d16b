"""A ``__transaction_state`` that Apache Kafka wrote, and what Kafka's own tool says of it, record by record."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka_peer import KafkaPeer, java_tool, wait_until
from tests.golden.transaction_log import STATES
from tests.golden.transaction_log import TOPIC as STATE

from moldau.wire import batch

TOPIC = "orders"
PARTITIONS = 2
EXPIRY = "transactional.id.expiration.ms"
SOON = {
    f"transaction.{what}.transaction.cleanup.interval.ms": 200 for what in ("abort.timed.out", "remove.expired")
}  # fmt: skip
ENDED = {STATES.index(name) for name in ("Empty", "CompleteCommit", "CompleteAbort")}


def write_with_kafka(folder: Path) -> Path:
    """The data of an Apache Kafka broker that has stopped: transactional ids in every state that it leaves in a log,
    one that was removed, values of both versions, producers of both kinds (KIP-890)."""
    peer = KafkaPeer(1, {"transaction.state.log.num.partitions": PARTITIONS, EXPIRY: 1000} | SOON, folder)
    try:
        peer.start()
        admin = AdminClient({"bootstrap.servers": peer.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(120)
        transact(producer_of(peer, "removed"), "commit")
        wait_until(lambda: newest(peer)["removed"] is None, "a transactional id is removed")
        peer.stop_node(1)
        settings = peer.config_file(1)
        settings.write_text(settings.read_text().replace(f"{EXPIRY}=1000", f"{EXPIRY}=604800000"))
        peer.start()
        write_all(peer)
        still_open = producer_of(peer, "open")
        transact(still_open, "")
        wait_until(lambda: is_at_rest(peer), "one transaction is open, and all others have ended")
        peer.stop_node(1)
    finally:
        peer.stop()
    return peer.data_dir(1)


def write_all(peer: KafkaPeer) -> None:
    """Transactions that are committed, aborted by their producer and by the coordinator, and of both protocols."""
    producer_of(peer, "idle")
    for name, ends in (
        ("committed", ("abort", "commit")),
        ("aborted", ("commit", "abort")),
        ("ünïcode ☃", ("commit",)),
    ):
        producer = producer_of(peer, name)
        for end in ends:
            transact(producer, end)
    transact(producer_of(peer, "late", timeout_ms=1000), "")
    wait_until(lambda: status(newest(peer)["late"]) == STATES.index("CompleteAbort"), "an old transaction is aborted")
    told = ["--num-records", 6, "--record-size", 10, "--throughput", 20]
    java_tool(
        "kafka-producer-perf-test", "--topic", TOPIC, "--bootstrap-server", peer.bootstrap_servers,
        *told, "--transactional-id", "java", "--transaction-duration-ms", 50,
    )  # fmt: skip
    peer.tool("kafka-features", "downgrade", "--feature", "transaction.version=0")
    for end in ("commit", "abort"):
        transact(producer_of(peer, f"before KIP-890: {end}"), end)


def producer_of(peer: KafkaPeer, name: str, timeout_ms: int = 600_000) -> Producer:
    settings = {"transactional.id": name, "transaction.timeout.ms": timeout_ms}
    producer = Producer({"bootstrap.servers": peer.bootstrap_servers} | settings)
    producer.init_transactions(120)
    return producer


def transact(producer: Producer, end: str) -> None:
    """A transaction of two partitions; ended by "commit" or "abort", or left open."""
    producer.begin_transaction()
    for partition in (1, 0):
        producer.produce(TOPIC, b"x", partition=partition)
    producer.flush(120)
    if end == "commit":
        producer.commit_transaction(120)
    elif end == "abort":
        producer.abort_transaction(120)


def files(data: Path, partition: int) -> list[Path]:
    return sorted((data / f"{STATE}-{partition}").glob("*.log"))


def newest(peer: KafkaPeer) -> dict[str, bytes | None]:
    """The newest value of each transactional id, as the bytes stand there now."""
    found: dict[str, bytes | None] = {}
    for partition in range(PARTITIONS):
        for file in files(peer.data_dir(1), partition):
            data = file.read_bytes()
            for place, _ in batch.headers(data):
                for record in batch.records(data, place):
                    found[bytes(record.key or b"")[4:].decode()] = None if record.value is None else bytes(record.value)
    return found


def is_at_rest(peer: KafkaPeer) -> bool:
    """A coordinator writes that a transaction has ended after its answer."""
    found = newest(peer)
    others = {status(value) for id, value in found.items() if id != "open" and value is not None}
    return others <= ENDED and status(found.get("open")) == STATES.index("Ongoing")


def status(value: bytes | None) -> int:
    """Version, producer id, epoch and timeout stand before it, in either version."""
    return -1 if value is None else value[2 + 8 + 2 + 4]


def dumped(data: Path, partition: int) -> str:
    """What Kafka's own tool says of a partition of the topic."""
    names = ",".join(map(str, files(data, partition)))
    return java_tool("kafka-dump-log", "--transaction-log-decoder", "--files", names).stdout
