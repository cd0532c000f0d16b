"""kafka-console-consumer.sh: prints the records of topics, alone or as a member of a group, until it is ended."""

from __future__ import annotations

import sys

from moldau.admin.classic.console_consumer_options import Wish, read_wish
from moldau.admin.classic.console_formatters import FORMATTERS, Formatter, Seen
from moldau.admin.classic.console_properties import log, tell_unused
from moldau.admin.classic.consumer_config import USED, consumer_options
from moldau.admin.classic.java import JavaError
from moldau.admin.classic.record_reader import LOGGER, Reader, call_ms, demand_group
from moldau.admin.classic.run import ending_softly
from moldau.admin.classic.session import Session
from moldau.admin.classic.streams import OutputFailed, write_bytes
from moldau.client.consumer import Consumer
from moldau.model import TopicPartition

NEW_PROTOCOL = (
    "The consumer rebalance protocol (KIP-848) is production-ready! Set group.protocol=consumer to try it out. "
    "See https://kafka.apache.org/documentation/#consumer_rebalance_protocol"
)


def main(arguments: list[str]) -> int:
    """Run the tool; the exit status."""
    wish = read_wish(arguments)
    formatter = FORMATTERS[wish.formatter](wish.formatter_properties)
    with ending_softly():
        try:
            return _run(wish, formatter)
        except JavaError as error:
            log("ERROR", f"Unknown error when running consumer: {error}", LOGGER)
            return 1


def _run(wish: Wish, formatter: Formatter) -> int:
    servers, timeout_ms = wish.given.text("bootstrap-server"), call_ms(wish.timeout_ms)
    options = consumer_options(wish.properties)
    demand_group(wish.properties)
    tell_unused(wish.properties, USED, LOGGER)
    with Session(wish.properties, servers, client="Consumer", timeout_ms=timeout_ms) as session:
        if wish.partition is None and "group.protocol" not in wish.properties:
            print(NEW_PROTOCOL, file=sys.stderr)
        for name in ("topic", "include"):
            wish.given.value(name)  # given twice, it is refused as late as this
        reader = Reader(session.cluster, Consumer(session.cluster.client, options), wish)
        printer = _Printer(formatter, skip=wish.given.has("skip-message-on-error"))
        try:
            limit = wish.given.integer("max-messages") if wish.given.has("max-messages") else None
            printer.print(reader, -1 if limit is None else limit)
        except OutputFailed:
            print("Unable to write to standard out, closing consumer.", file=sys.stderr)
        finally:
            reader.close()
            print(f"Processed a total of {printer.count} messages", file=sys.stderr)
            if wish.given.has("enable-systest-events") and isinstance(sys.exception(), KeyboardInterrupt):
                print("shutdown_complete")
    return 0


class _Printer:
    """Prints and counts records."""

    def __init__(self, formatter: Formatter, *, skip: bool) -> None:
        self.count = 0
        self._formatter = formatter
        self._skip = skip

    def print(self, reader: Reader, limit: int) -> None:
        """Print so many records (-1: all); returns when no more come. JavaError for one that cannot be shown."""
        while self.count < limit or limit == -1:
            records = reader.receive()
            if records is None:
                return
            written = bytearray()
            last: dict[TopicPartition, Seen] = {}
            try:
                for seen in records:
                    self.count += 1
                    try:
                        written += self._shown(seen)
                    except JavaError:
                        last[seen.partition] = seen  # what cannot be shown does not come again
                        raise
                    last[seen.partition] = seen
                    if self.count == limit:
                        break
            finally:
                for seen in last.values():
                    reader.seen(seen)
                with reader.coming_again():  # what has not left this process
                    write_bytes(bytes(written))

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
