"""kafka-producer-perf-test.sh: sends records as fast as they go, or so many a second, and says how long they took."""

from __future__ import annotations

import os
import random
import re
import sys
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.admin.classic.argparse4j import Words, reject, run_flat_tool
from moldau.admin.classic.console_properties import tell_unused
from moldau.admin.classic.java import JavaError, illegal_argument
from moldau.admin.classic.producer_perf_options import PARSER

if TYPE_CHECKING:
    from moldau.admin.classic.record_sender import Sender, WrittenAt

SAMPLES = 500_000
TOOL = "org.apache.kafka.tools.ProducerPerformance"
_LETTERS = bytes(65 + n % 26 for n in range(256))
_OLD = (("producer-props", "command-property"), ("producer.config", "command-config"))


def main(arguments: list[str]) -> int:
    """Run the tool; the exit status."""
    return run_flat_tool(PARSER, arguments, _run)


def _run(words: Words) -> int:
    _check(words)
    payload = _payloads(words)
    for old, new in _OLD:
        if words.has(old):
            told = f"Option --{old} has been deprecated and will be removed in a future version."
            print(f"{told} Use --{new} instead.")
    properties = _properties(words)
    asked = [key for key in ("transactional-id", "transaction-duration-ms") if words.has(key)]
    if asked or "transactional.id" in properties:
        sys.stdout.flush()
        print("Transactions are not served by Moldau's tools yet", file=sys.stderr)
        return 1
    from moldau.admin.classic.record_sender import USED, run_sender

    tell_unused(properties, USED, TOOL)
    if words.has("print-metrics"):
        tell_unused({"--print-metrics": ""}, (), TOOL)
    run_sender(properties, words.value("topic") or "", _Test(words, payload).send_all)
    return 0


def _check(words: Words) -> None:
    """Rejected for numbers that cannot be, in the order in which Kafka's tool looks at them."""
    if words.integer("num-records") <= 0:
        reject(PARSER, "--num-records should be greater than zero.")
    if max(words.integer("warmup-records"), 0) >= words.integer("num-records"):
        why = "The value for --warmup-records must be strictly fewer than the number of records in the test"
        reject(PARSER, f"{why}, --num-records.")
    if words.has("record-size") and words.integer("record-size") <= 0:
        reject(PARSER, "--record-size should be greater than zero.")
    places = ("bootstrap-server", "command-property", "producer-props", "producer.config", "command-config")
    if not any(map(words.has, places)):
        listed = ", ".join(f"--{name}" for name in places[:-1])
        reject(PARSER, f"At least one of {listed} or --{places[-1]} must be specified.")
    for new, old in (("command-property", "producer-props"), ("command-config", "producer.config")):
        if words.has(new) and words.has(old):
            reject(PARSER, f"--{new} and --{old} cannot be specified together.")
    for name in ("transaction-duration-ms", "reporting-interval"):
        if words.has(name) and words.integer(name) <= 0:
            reject(PARSER, f"--{name} should be greater than zero.")


def _payloads(words: Words) -> Callable[[int], bytes]:
    """What gives the value of the record of a number."""
    path, size = words.value("payload-file"), words.value("record-size")
    if path is not None:
        read = _read_payloads(path, words.value("payload-delimiter") or "")
        if not read:
            return _no_payload
        return lambda _: random.choice(read)
    if size is not None:
        count = int(size)
        return lambda _: os.urandom(count).translate(_LETTERS)
    return lambda number: b"%d" % number


def _no_payload(_: int) -> bytes:
    raise illegal_argument("No payload file, record size or payload-monotonic option provided.")


def _read_payloads(path: str, delimiter: str) -> list[bytes]:
    """The texts of a file between delimiters (a regular expression); one at its start or end is passed over."""
    print(f"Reading payloads from: {Path(path).absolute()}")
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    if not text:
        raise illegal_argument("File does not exist or empty file provided.")
    try:
        found = re.split("\n" if delimiter == "\\n" else delimiter, text)
    except re.error as error:
        raise JavaError("java.util.regex.PatternSyntaxException", str(error)) from None
    found = found[1:] if found[0] == "" else found
    found = found[:-1] if found and found[-1] == "" else found
    print(f"Number of records read: {len(found)}")
    return [one.encode() for one in found]


def _properties(words: Words) -> dict[str, str]:
    from moldau.admin.classic.session import read_config

    found = read_config(words.value("command-config") or words.value("producer.config"))
    for text in words.values("command-property") or words.values("producer-props"):
        pieces = text.rstrip("=").split("=")
        if len(pieces) != 2:
            raise illegal_argument(f"Invalid property: {text}")
        found[pieces[0]] = pieces[1]
    found.setdefault("client.id", "perf-producer-client")
    servers = words.value("bootstrap-server")
    return found if servers is None else found | {"bootstrap.servers": servers}


class _Test:
    """One run: what is sent, and what is told of it."""

    def __init__(self, words: Words, payload: Callable[[int], bytes]) -> None:
        self.count = words.integer("num-records")
        self.warmup = max(words.integer("warmup-records"), 0)
        self.per_s = words.double("throughput")
        self.interval_ms = words.integer("reporting-interval")
        self.payload = payload

    async def send_all(self, sender: Sender) -> None:
        """Send the records and print what is to be told."""
        from moldau.admin.classic.record_sender import Throttle

        if self.warmup:
            print(
                f"Warmup first {self.warmup} records. Steady state results will print after the complete test summary."
            )
        all_of_it = _Stats(self.count, self.interval_ms)
        steady: _Stats | None = None
        throttle = Throttle(self.per_s)
        for number in range(self.count):
            value = self.payload(number)
            if self.warmup and number == self.warmup:
                steady = _Stats(self.count - self.warmup, self.interval_ms, " steady state")
                all_of_it.silent = True
            await sender.send(value, _Record(len(value), all_of_it, steady).told)
            await throttle.pause(number)
        await sender.flush()
        all_of_it.print_total()
        if steady is not None:
            steady.print_total()


class _Record:
    """A record on its way."""

    __slots__ = ("all_of_it", "sent_at", "size", "steady")

    def __init__(self, size: int, all_of_it: _Stats, steady: _Stats | None) -> None:
        self.size, self.all_of_it, self.steady = size, all_of_it, steady
        self.sent_at = time.monotonic()

    def told(self, _: WrittenAt | None, error: JavaError | None) -> None:
        """It is written, or refused."""
        if error is not None:
            sys.stdout.flush()
            sys.stderr.write(error.trace)
            return
        latency_ms = int((time.monotonic() - self.sent_at) * 1000)
        self.all_of_it.record(latency_ms, self.size)
        if self.steady is not None:
            self.steady.record(latency_ms, self.size)


class _Stats:
    """Counts of records, bytes and milliseconds: in all, and since progress was told."""

    def __init__(self, expected: int, interval_ms: int, name: str = "") -> None:
        self.silent = False
        self._name = name
        self._interval_s = interval_ms / 1000
        self._every = max(1, expected // min(expected, SAMPLES))
        self._latencies = array("q")
        self._count = self._bytes = self._total_ms = self._max_ms = 0
        self._started = self._window_started = time.monotonic()
        self._window = (0, 0, 0, 0)

    def record(self, latency_ms: int, size: int) -> None:
        """A record is written."""
        if self._count % self._every == 0:
            self._latencies.append(latency_ms)
        self._count += 1
        self._bytes += size
        self._total_ms += latency_ms
        self._max_ms = max(self._max_ms, latency_ms)
        count, read, total_ms, max_ms = self._window
        self._window = (count + 1, read + size, total_ms + latency_ms, max(max_ms, latency_ms))
        if time.monotonic() - self._window_started >= self._interval_s:
            if self._name and self._count == self._window[0]:
                print("In steady state.")
            if not self.silent:
                self._print_window()
            self._window, self._window_started = (0, 0, 0, 0), time.monotonic()

    def _print_window(self) -> None:
        count, size, total_ms, max_ms = self._window
        speed = _speed(count, size, self._window_started, 1)
        print(f"{count} records sent, {speed}, {_per(total_ms, count, 1)} ms avg latency, {max_ms:.1f} ms max latency.")

    def print_total(self) -> None:
        """Say how it went."""
        ranked = sorted(self._latencies)
        percents = ((0.5, "50th"), (0.95, "95th"), (0.99, "99th"), (0.999, "99.9th"))
        listed = ", ".join(f"{ranked[int(share * len(ranked))] if ranked else 0} ms {name}" for share, name in percents)
        speed = _speed(self._count, self._bytes, self._started, 6)
        average = _per(self._total_ms, self._count, 2)
        print(f"{self._count}{self._name} records sent, {speed}, {average} ms avg latency, "
              f"{self._max_ms:.2f} ms max latency, {listed}.")  # fmt: skip


def _speed(count: int, size: int, started: float, places: int) -> str:
    elapsed_ms = int((time.monotonic() - started) * 1000)
    megabytes = _per(1000 * size / (1 << 20), elapsed_ms, 2)
    return f"{_per(1000 * count, elapsed_ms, places)} records/sec ({megabytes} MB/sec)"


def _per(amount: float, by: int, places: int) -> str:
    """A quotient as Java's printf shows it."""
    if by == 0:
        return "Infinity" if amount else "NaN"
    return f"{amount / by:.{places}f}"
