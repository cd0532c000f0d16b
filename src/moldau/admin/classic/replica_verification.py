"""``kafka-replica-verification.sh``, which Apache Kafka had until 4.0: rounds of fetches from all replicas, compared,
until it is stopped. `moldau replica verify` ends, and says more.

Brokers are asked one after the other, so that a round with nothing new takes ``--max-wait-ms`` in all.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping

from moldau.admin.classic.java import JavaError
from moldau.admin.classic.java_order import hash_order, partition_hash, string_hash
from moldau.admin.classic.options import GivenOptions, Option
from moldau.admin.classic.run import Finished, help_or_version, tell
from moldau.admin.classic.session import ToolSession, are_addresses
from moldau.admin.classic.topics_named import include_list
from moldau.client.client import ForNode
from moldau.client.reading import LATEST, list_offsets
from moldau.model import TopicPartition
from moldau.wire.batch import BatchHeader, headers
from moldau.wire.messages.k01_fetch import FetchRequest, FetchResponse

ABOUT = "Validate that all replicas for a set of topics have the same data."
VERSION = "3.9.1"
DEBUGGING_CONSUMER = -2

OPTIONS = (
    Option("broker-list", "REQUIRED: The list of hostname and port of the server to connect to.",
           "hostname:port,...,hostname:port"),
    Option("fetch-size", "The fetch size of each request.", "bytes", "Integer", "1048576"),
    Option("max-wait-ms", "The max amount of time each fetch request waits.", "ms", "Integer", "1000"),
    Option("topic-white-list", "DEPRECATED use --topics-include instead; ignored if --topics-include specified. List of"
           " topics to verify replica consistency.", "Java regex (String)", default=".*"),
    Option("topics-include", "List of topics to verify replica consistency.", "Java regex (String)", default=".*"),
    Option("time", "Timestamp for getting the initial offsets.", "timestamp/-1(latest)/-2(earliest)", "Long", "-1"),
    Option("report-interval-ms", "The reporting interval.", "ms", "Long", "30000"),
)  # fmt: skip


def main(arguments: list[str]) -> int:
    """Verify until somebody ends it, or two replicas have different offsets; the exit status."""
    try:
        given = GivenOptions(OPTIONS, arguments)
        if given.has("version") and not given.has("help"):
            print(VERSION)
            return 0
        help_or_version(given, ABOUT)
        given.require("broker-list")
        given.exclude("topics-include", ["topic-white-list"])
        servers = given.text("broker-list")
        if not are_addresses(servers):
            given.refuse("Please provide valid host:port like host1:9091,host2:9092\n")
        with ToolSession({}, servers) as session:
            return _verify(session, given)
    except JavaError as error:
        return tell(error)


def _verify(session: ToolSession, given: GivenOptions) -> int:
    session.know("listTopics", None)
    known = session.cluster.client.view.topics
    pattern = include_list(given.text("topics-include" if given.has("topics-include") else "topic-white-list"))
    names = [name for name in hash_order(known, string_hash) if pattern.fullmatch(name)]
    if not names:
        text = "[topics-include] if specified, is either filtering out all topics or there is no topic."
        print(f"No topics found. {text}", file=sys.stderr)
        return 1
    replicas = {
        TopicPartition(name, number): partition.replicas
        for name in names
        for number, partition in sorted(known[name].partitions.items())
    }
    at = given.integer("time", 64)
    asked = dict.fromkeys(replicas, LATEST if at is None else at)
    found = session.ask("listOffsets", list_offsets, asked)
    rounds = Rounds(session, replicas, {one: offset.offset for one, offset in found.items()}, given)
    print(f"{_now()}: verification process is started", flush=True)
    while True:
        rounds.once()


class Rounds:
    """The offsets up to which all replicas agree, and the rounds that move them on."""

    def __init__(
        self,
        session: ToolSession,
        replicas: Mapping[TopicPartition, list[int]],
        offsets: dict[TopicPartition, int],
        given: GivenOptions,
    ) -> None:
        self._session = session
        self._replicas = {one: replicas[one] for one in hash_order(replicas, partition_hash)}
        self._offsets = offsets
        self._size = given.integer("fetch-size") or 0
        self._wait_ms = given.integer("max-wait-ms") or 0
        self._interval_ms = given.integer("report-interval-ms", 64) or 0
        self._reported_ms = time.time() * 1000
        brokers = hash_order(sorted({id for ids in replicas.values() for id in ids}), lambda id: id)
        self._of = {id: [one for one, ids in self._replicas.items() if id in ids] for id in brokers}

    def once(self) -> None:
        """One round: fetch from every broker, compare, and report when it is time."""
        began = time.monotonic()
        got: dict[TopicPartition, dict[int, FetchResponse.PartitionData]] = {one: {} for one in self._replicas}
        for broker, partitions in self._of.items():
            for one, data in self._fetch(broker, partitions):
                got[one][broker] = data
        most, where, behind = -1, None, -1
        for one, answers in got.items():
            high = max((data.high_watermark for data in answers.values()), default=-1)
            self._compare(one, answers)
            if high - self._offsets[one] > most:
                most, where, behind = high - self._offsets[one], one, self._offsets[one]
        now_ms = time.time() * 1000
        if now_ms - self._reported_ms > self._interval_ms:
            lag = f"max lag is {most} for partition {where} at offset {behind} among {len(self._replicas)} partitions"
            print(f"{_now()}: {lag}", flush=True)
            self._reported_ms = now_ms
        if not any(answers for answers in got.values()):  # nobody is there: do not ask in a hurry
            time.sleep(max(self._wait_ms / 1000 - (time.monotonic() - began), 0))

    def _fetch(
        self, broker: int, partitions: list[TopicPartition]
    ) -> Iterator[tuple[TopicPartition, FetchResponse.PartitionData]]:
        client = self._session.cluster.client
        names = {client.view.topic_id(one.topic): one.topic for one in partitions}
        topics: dict[str, FetchRequest.FetchTopic] = {}
        for one in partitions:
            topic = topics.setdefault(
                one.topic, FetchRequest.FetchTopic(topic=one.topic, topic_id=client.view.topic_id(one.topic))
            )
            topic.partitions.append(
                FetchRequest.FetchPartition(
                    partition=one.partition,
                    fetch_offset=self._offsets[one],
                    log_start_offset=0,
                    partition_max_bytes=self._size,
                )
            )
        request = FetchRequest(
            replica_id=DEBUGGING_CONSUMER,
            replica_state=FetchRequest.ReplicaState(replica_id=DEBUGGING_CONSUMER),
            max_wait_ms=self._wait_ms // max(len(self._of), 1),
            min_bytes=1,
            topics=list(topics.values()),
        )
        try:
            answer: FetchResponse = self._session.cluster.run(
                client.ask(request, ForNode(broker), again=frozenset(), timeout_ms=30_000, request_timeout_ms=30_000)
            )
        except OSError:
            return  # it is asked again in the next round
        for part in answer.responses:
            name = part.topic or names.get(bytes(part.topic_id), "")
            for data in part.partitions:
                yield TopicPartition(name, data.partition_index), data

    def _compare(self, one: TopicPartition, answers: Mapping[int, FetchResponse.PartitionData]) -> None:
        """Go on batch by batch while every replica has the next one below its high watermark."""
        if len(answers) < len(self._replicas[one]):
            return
        walks = {id: headers(data.records or b"") for id, data in answers.items()}
        while True:
            first: tuple[int, BatchHeader] | None = None
            in_all = True
            for id in hash_order(sorted(answers), lambda id: id):
                batch = next((header for _, header in walks[id]), None)
                if batch is None or batch.last_offset >= answers[id].high_watermark:
                    in_all = False
                elif first is None:
                    first = id, batch
                else:
                    _check(one, first, (id, batch))
            if not in_all or first is None:
                return
            self._offsets[one] = first[1].next_offset


def _check(one: TopicPartition, first: tuple[int, BatchHeader], other: tuple[int, BatchHeader]) -> None:
    (id, batch), (other_id, other_batch) = first, other
    if batch.last_offset != other_batch.last_offset:
        text = f"replica {id}'s offset {batch.last_offset} doesn't match replica {other_id}'s offset"
        print(f"{_now()}: partition {one}: {text} {other_batch.last_offset}", flush=True)
        raise Finished(1)
    if batch.crc != other_batch.crc:
        text = f"replica {id}'s checksum {batch.crc}; replica {other_id}'s checksum {other_batch.crc}"
        where = f"has unmatched checksum at offset {other_batch.last_offset}"
        print(f"{_now()}: partition {one} {where}; {text}", flush=True)


def _now() -> str:
    now = time.time()
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(now))},{int(now * 1000) % 1000:03}"
