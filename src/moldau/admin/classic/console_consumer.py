"""kafka-console-consumer.sh: prints the records of topics, alone or as a member of a group, until it is ended."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from itertools import islice

from moldau.admin.classic.console_consumer_options import ConsoleOptions, read_options
from moldau.admin.classic.console_formatters import FORMATTERS, Formatter, Seen
from moldau.admin.classic.console_properties import log, tell_unused
from moldau.admin.classic.consumer_config import USED, consumer_options
from moldau.admin.classic.java import JavaError
from moldau.admin.classic.record_reader import LOGGER, Reader, call_ms, demand_group
from moldau.admin.classic.session import ToolSession
from moldau.admin.classic.streams import OutputFailed, write_records
from moldau.admin.signals import Raised, Signals, caught_signals
from moldau.admin.whole_records import Portion
from moldau.client.consumer import Consumer

NEW_PROTOCOL = (
    "The consumer rebalance protocol (KIP-848) is production-ready! Set group.protocol=consumer to try it out. "
    "See https://kafka.apache.org/documentation/#consumer_rebalance_protocol"
)


def main(arguments: list[str]) -> int:
    """Run the tool; the exit status."""
    options = read_options(arguments)
    formatter = FORMATTERS[options.formatter](options.formatter_properties)
    with caught_signals() as signals:
        try:
            return _run(options, formatter, signals)
        except JavaError as error:
            log("ERROR", f"Unknown error when running consumer: {error}", LOGGER)
            return 1


def _run(options: ConsoleOptions, formatter: Formatter, signals: Signals) -> int:
    servers, timeout_ms = options.given.text("bootstrap-server"), call_ms(options.timeout_ms)
    settings = consumer_options(options.properties)
    demand_group(options.properties)
    tell_unused(options.properties, USED, LOGGER)
    with ToolSession(options.properties, servers, client="Consumer", timeout_ms=timeout_ms) as session:
        if options.partition is None and "group.protocol" not in options.properties:
            print(NEW_PROTOCOL, file=sys.stderr)
        for name in ("topic", "include"):
            options.given.value(name)  # given twice, it is refused as late as this
        reader = Reader(session.cluster, Consumer(session.cluster.client, settings), options)
        printer = _Printer(formatter, signals, skip=options.given.has("skip-message-on-error"))
        with signals.raised(Raised.WHEN_REPEATED):
            try:
                limit = options.given.integer("max-messages") if options.given.has("max-messages") else None
                printer.print(reader, -1 if limit is None else limit)
            except OutputFailed:
                print("Unable to write to standard out, closing consumer.", file=sys.stderr)
            finally:
                _close(reader, printer, events=options.given.has("enable-systest-events"))
    return 0


def _close(reader: Reader, printer: _Printer, *, events: bool) -> None:
    is_ended_by_signal = isinstance(sys.exception(), KeyboardInterrupt)
    try:
        reader.close()
    finally:
        print(f"Processed a total of {printer.count} messages", file=sys.stderr)
        if events and is_ended_by_signal:
            print("shutdown_complete")


class _Printer:
    """Prints and counts records."""

    def __init__(self, formatter: Formatter, signals: Signals, *, skip: bool) -> None:
        self.count = 0
        self._formatter = formatter
        self._signals = signals
        self._skip = skip

    def print(self, reader: Reader, limit: int) -> None:
        """Print so many records (-1: all); returns when no more come. JavaError for one that cannot be shown.

        A signal is raised between two records, and what it finds printed is counted and does not come again.
        """
        while self.count < limit or limit == -1:
            with self._signals.raised(Raised.AT_ONCE):
                records = reader.receive()
            if records is None:
                return
            for portion in self._portions(records if limit == -1 else islice(records, limit - self.count)):
                self._write(portion, reader)

    def _write(self, portion: Portion[Seen], reader: Reader) -> None:
        with self._signals.raised(Raised.NOT):
            try:
                write_records(portion, self._signals, reader.stay)
            except OutputFailed:
                self.count += 1  # Kafka's tool counts the one that nobody took, too
                raise
            finally:
                written = portion.written
                self.count += len(written)
                for seen in _last_of_each(written):
                    reader.seen(seen)

    def _portions(self, records: Iterator[Seen]) -> Iterator[Portion[Seen]]:
        portion: Portion[Seen] = Portion()
        try:
            for seen in records:
                try:
                    shown = self._shown(seen)
                except JavaError:
                    portion.add(seen, b"")  # what cannot be shown does not come again
                    raise
                if portion.add(seen, shown):
                    yield portion
                    portion = Portion()
        except Exception:
            yield portion
            raise
        yield portion

    def _shown(self, seen: Seen) -> bytes:
        try:
            return self._formatter(seen)
        except (ValueError, JavaError) as error:
            if not self._skip:
                if isinstance(error, JavaError):
                    raise
                raise JavaError("org.apache.kafka.common.errors.SerializationException", str(error)) from None
            log("ERROR", f"Error processing message, skipping this message: {error}", LOGGER)
            return b""


def _last_of_each(records: list[Seen]) -> Collection[Seen]:
    """The last record of each partition; a fetch has those of a partition one after the other."""
    if records and records[0].partition == records[-1].partition:
        return records[-1:]
    return {seen.partition: seen for seen in records}.values()
