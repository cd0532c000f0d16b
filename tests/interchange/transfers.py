"""A load of transactions: each writes one number into two partitions, and one in four is aborted.

At the end a reader of committed records finds each number that was committed once in both partitions, and none that was
aborted; what the producer could not learn is in both or in neither. A broker of Apache Kafka coordinates.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.cluster.kills.load import LoadPlan

TRANSFERS = LoadPlan("transfers", 2)
TRIES = 30
CALL_S = 10.0
ABORTED_OF = 4
PAUSE_S = 0.02


class Transfers:
    """The load. ``start``, ``stop``, then ``wrong``."""

    def __init__(self, bootstrap: str, coordinators: list[int], brokers: list[int]) -> None:
        """``coordinators``: brokers of Apache Kafka, which alone have replicas of ``__transaction_state``."""
        self._bootstrap = bootstrap
        self._coordinators, self._brokers = coordinators, brokers
        self.committed: list[int] = []
        self.aborted: list[int] = []
        self.unknown: list[int] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="transfers", daemon=True)

    def start(self) -> None:
        """Make the topics, and begin."""
        state = {"cleanup.policy": "compact", "min.insync.replicas": "1"}
        topics = [
            NewTopic("__transaction_state", 1, replica_assignment=[self._coordinators], config=state),
            NewTopic(
                TRANSFERS.topic, 2, replica_assignment=[self._brokers, self._brokers[::-1]],
                config={"min.insync.replicas": "2"},
            ),
        ]  # fmt: skip
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        for made in admin.create_topics(topics).values():
            made.result(60)
        self._thread.start()

    def stop(self) -> None:
        """End the transaction that is under way, and begin no other."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._over.is_set():
            options = {"transactional.id": "transfers", "transaction.timeout.ms": 20_000}
            producer = Producer({"bootstrap.servers": self._bootstrap, **options})
            try:
                _patiently(producer.init_transactions)
                while not self._over.wait(PAUSE_S):
                    number += 1
                    self._transfer(producer, number)
            except KafkaException:
                continue  # what is open is aborted when the next producer of this id begins

    def _transfer(self, producer: Producer, number: int) -> None:
        ended = self.aborted
        try:
            producer.begin_transaction()
            for partition in range(TRANSFERS.partitions):
                producer.produce(TRANSFERS.topic, b"%d" % number, partition=partition)
            if number % ABORTED_OF:
                ended = self.unknown
                _patiently(producer.commit_transaction)
                ended = self.committed
            else:
                _patiently(producer.abort_transaction)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            ended = self.aborted  # it is what the coordinator has decided, or will
            _patiently(producer.abort_transaction)
        finally:
            ended.append(number)

    def wrong(self) -> Iterator[str]:
        """What committed records do not say as they should."""
        found = [Counter(values) for values in _read(self._bootstrap)]
        for partition, counts in enumerate(found):
            yield from (f"{number} is {times} times in {TRANSFERS.topic}-{partition}"
                        for number, times in counts.items() if times > 1)  # fmt: skip
            lost = set(self.committed) - counts.keys()
            shown = set(self.aborted) & counts.keys()
            yield from [f"committed and not in {TRANSFERS.topic}-{partition}: {sorted(lost)[:10]}"] if lost else []
            yield from [f"aborted and in {TRANSFERS.topic}-{partition}: {sorted(shown)[:10]}"] if shown else []
        halves = found[0].keys() ^ found[1].keys()
        yield from [f"in one partition of {TRANSFERS.topic} only: {sorted(halves)[:10]}"] if halves else []
        if not self.committed or not self.aborted:
            yield f"{len(self.committed)} transactions were committed, {len(self.aborted)} aborted"


def _patiently(call: Callable[[float], object]) -> None:
    """Until it is done; KafkaException when it is refused for good."""
    for left in range(TRIES, 0, -1):
        try:
            call(CALL_S)
        except KafkaException as error:
            if left == 1 or not error.args[0].retriable():
                raise
        else:
            return


def _read(bootstrap: str) -> list[list[int]]:
    """The committed numbers of each partition, to the end of what is decided."""
    options = {"group.id": "transfers", "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": bootstrap, **options})
    found: list[list[int]] = [[] for _ in range(TRANSFERS.partitions)]
    try:
        consumer.assign([TopicPartition(TRANSFERS.topic, number, 0) for number in range(TRANSFERS.partitions)])
        left = set(range(TRANSFERS.partitions))
        while left:
            message = consumer.poll(60)
            assert message is not None, "neither a record nor an end came"
            partition, value = message.partition(), message.value()
            assert partition is not None
            error = message.error()
            if error is not None:
                left -= {partition} if error.code() == KafkaError._PARTITION_EOF else set()
            elif value is not None:
                found[partition].append(int(value))
        return found
    finally:
        consumer.close()
