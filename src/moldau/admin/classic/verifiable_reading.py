"""How kafka-verifiable-consumer.sh reads: polls, commits what it has told of, and goes on until a signal or a limit."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.admin.classic.console_consumer_options import FOREVER, ConsoleOptions
from moldau.admin.classic.console_formatters import Seen
from moldau.admin.classic.console_properties import log, tell_unused
from moldau.admin.classic.consumer_config import USED, consumer_options
from moldau.admin.classic.java import JavaError
from moldau.admin.classic.java_values import java_text
from moldau.admin.classic.kafka_errors import kafka_error
from moldau.admin.classic.options import GivenOptions
from moldau.admin.classic.record_reader import Reader, consumer_session, demand_group, no_offset
from moldau.admin.classic.session import ToolSession, empty_servers
from moldau.admin.classic.verifiable import event
from moldau.admin.signals import Raised, Signals, caught_signals
from moldau.client.client import Refused
from moldau.client.consumer import Consumer, NoOffset
from moldau.client.lines import UnsupportedApi
from moldau.model import Code, TopicPartition
from moldau.wire.compression import BatchError

TOOL = "org.apache.kafka.tools.VerifiableConsumer"
ONCE_MS = 500
ONCE_RECORDS = 500
"""max.poll.records of Kafka's consumer."""


def read(properties: Mapping[str, str], topic: str, limit: int, *, verbose: bool) -> int:
    """Read so many records (negative: until a signal comes) and tell of them; the exit status."""
    if not properties["bootstrap.servers"].strip():
        raise empty_servers()
    settings = consumer_options(properties)
    demand_group(properties)
    tell_unused(properties, USED, TOOL)
    options = ConsoleOptions(GivenOptions((), []), topic, None, None, 0, FOREVER, dict(properties), "", {})
    with caught_signals() as signals, consumer_session(properties) as session:
        consumer = Consumer(session.cluster.client, settings)
        consumer.on_assigned = lambda given: event("partitions_assigned", partitions=_listed(given))
        consumer.on_revoked = lambda gone: event("partitions_revoked", partitions=_listed(gone))
        run = _Run(session, consumer, limit, signals, verbose=verbose)
        reader: Reader | None = None
        with signals.raised(Raised.WHEN_REPEATED):
            event("startup_complete")
            try:
                reader = Reader(session.cluster, consumer, options)
                run.read(reader)
            except KeyboardInterrupt:
                event("shutdown_requested")
                _close(reader)
                raise
            except (JavaError, Refused, UnsupportedApi, BatchError, OSError) as refused:
                error = no_offset(refused) if isinstance(refused, NoOffset) else refused
                log("ERROR", f"Error during processing, terminating consumer process: {error}", TOOL)
            _close(reader)
            event("shutdown_requested")
    return 0


def _close(reader: Reader | None) -> None:
    if reader is not None:
        reader.close()
    event("shutdown_complete")


class _Run:
    """Reads until the limit."""

    def __init__(
        self, session: ToolSession, consumer: Consumer, limit: int, signals: Signals, *, verbose: bool
    ) -> None:
        self._session = session
        self._consumer = consumer
        self._limit = limit
        self._signals = signals
        self._verbose = verbose
        self._count = 0

    @property
    def finished(self) -> bool:
        """Whether so many were read as are wanted."""
        return 0 <= self._limit <= self._count

    def read(self, reader: Reader) -> None:
        """Read, tell and commit; a signal is raised where nothing is read that was not told of."""
        commits = self._consumer.options.auto_commit_interval_ms is None
        while not self.finished:
            with self._signals.raised(Raised.AT_ONCE):
                found = reader.some(ONCE_MS, ONCE_RECORDS)
            if not found:
                continue
            offsets = self._tell(reader, found)
            if commits:
                self._commit(offsets)

    def _tell(self, reader: Reader, found: list[Seen]) -> dict[TopicPartition, int]:
        """Tell of records; the offsets to be committed."""
        by_partition: dict[TopicPartition, list[Seen]] = {}
        for seen in found:
            by_partition.setdefault(seen.partition, []).append(seen)
        offsets, told = {}, []
        for place, records in by_partition.items():
            records = records if self._limit < 0 else records[: self._limit - self._count]
            first, last = records[0].record.offset, records[-1].record.offset
            offsets[place] = last + 1
            told.append(_place(place) | {"count": len(records), "minOffset": first, "maxOffset": last})
            for seen in records:
                reader.seen(seen)
                if self._verbose:
                    texts = {"key": _text(seen.record.key), "value": _text(seen.record.value)}
                    event("record_data", **texts, **_place(place), offset=seen.record.offset)
            self._count += len(records)
            if self.finished:
                break
        event("records_consumed", count=len(found), partitions=told)
        return offsets

    def _commit(self, offsets: dict[TopicPartition, int]) -> None:
        codes = self._session.cluster.run(self._consumer.commit(offsets))
        bad = next((code for code in codes.values() if code is not Code.NONE), None)
        listed = [_place(place) | {"offset": offset} for place, offset in offsets.items()]
        error = {} if bad is None else {"error": kafka_error(bad).said}
        event("offsets_committed", offsets=listed, **error, success=bad is None)


def _listed(partitions: frozenset[TopicPartition]) -> list[dict[str, str | int]]:
    return [_place(place) for place in sorted(partitions)]


def _place(place: TopicPartition) -> dict[str, str | int]:
    return {"topic": place.topic, "partition": place.partition}


def _text(data: bytes | None) -> str | None:
    return None if data is None else java_text(data)
