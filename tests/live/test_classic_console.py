"""Moldau's console producer and consumer write, read and say what Apache Kafka 4.3.1's do."""

from __future__ import annotations

import itertools
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import classic_cases
import pytest
from classic import Both, Case, lines, listening, ours
from foreign import create_topic

from moldau.admin.classic import consumer_perf
from moldau.admin.classic.java_order import string_hash
from moldau.client import groups
from moldau.client.groups import Committed
from moldau.client.sync import Cluster
from moldau.model import TopicPartition
from moldau.wire.batch import build

MOLDAU = str(Path(sys.prefix) / "bin" / "moldau")
TYPED = "one\nk\ttwo\nh1:v1,h2:v2\tk:2\tthree\n"


def test_the_console_consumer(both: Both, bootstrap_servers: str) -> None:
    create_topic(bootstrap_servers, "told", 1, 2, retention_ms="-1")
    create_topic(bootstrap_servers, "numbers", 1, 2, retention_ms="-1")
    with Cluster(bootstrap_servers) as cluster:
        texts = [(1_700_000_000_000 + n, b"k%d" % n, b"value %d" % n, ()) for n in range(10)]
        cluster.produce(TopicPartition("told", 0), build(texts))
        numbers = [0.1, -0.0, 1e7, 123456.789, 5e-324]
        values = [(1_700_000_000_000, None, struct.pack(">d", number), ()) for number in numbers]
        cluster.produce(TopicPartition("numbers", 0), build(values))
        at = TopicPartition("told", 0)
        cluster.run(groups.commit(cluster.client, "noted", {at: Committed(3, 0, "a note")}))
        count = len(cluster.topics(["__consumer_offsets"])["__consumer_offsets"].partitions)
    both.names["place"] = str((string_hash("noted") & 0x7FFFFFFF) % count)
    both.run(lines(classic_cases.CONSUMED))
    both.check()


def test_the_console_producer(both: Both) -> None:
    both.run([Case(line, TYPED) for line in lines(classic_cases.PRODUCED)])
    both.check()


def test_how_fast_a_consumer_reads(both: Both, bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers_of_ours = itertools.count(100_000)  # a group of Java's by chance, and it would have read all that there is
    monkeypatch.setattr(consumer_perf, "randrange", lambda _: next(numbers_of_ours))
    create_topic(bootstrap_servers, "timed", 1, 1, retention_ms="-1")
    with Cluster(bootstrap_servers) as cluster:
        texts = [(1_700_000_000_000 + n, b"k%d" % n, b"value %d" % n, ()) for n in range(10)]
        cluster.produce(TopicPartition("timed", 0), build(texts))
    numbers = {
        r"perf-consumer-\d+\) *": "perf-consumer-(number))",
        r"(?m)^2\d\d\d-.*, ([\d.]+|Infinity|NaN)$": "(numbers)",
    }
    both.masks |= numbers
    both.run(lines(classic_cases.PERFORMANCE))
    both.check()


@pytest.mark.parametrize("words", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_a_port_of_somebody_else_is_given_up_when_time_is_up(words: bytes) -> None:
    """Not when a request of a client would be given up, which is half a minute later."""
    with listening(words) as address:
        for tool, limit in (("console-consumer", "--timeout-ms"), ("consumer-perf-test", "--timeout")):
            line = ["--bootstrap-server", address, "--topic", "a", limit, "1000"]
            began = time.monotonic()
            said = ours(f"kafka-{tool}.sh", line + ["--num-records", "1"] * (tool == "consumer-perf-test"))
            assert said.status == 0
            assert time.monotonic() - began < 29


def test_a_consumer_that_is_told_to_end_says_how_much_it_has_read(bootstrap_servers: str) -> None:
    create_topic(bootstrap_servers, "endless", 1, 1)
    with Cluster(bootstrap_servers) as cluster:
        cluster.produce(TopicPartition("endless", 0), build([(1_700_000_000_000, None, b"alone", ())]))
    words = ["kafka-console-consumer.sh", "--bootstrap-server", bootstrap_servers, "--topic", "endless"]
    for number in (signal.SIGTERM, signal.SIGINT):
        pipe = subprocess.PIPE
        with subprocess.Popen([MOLDAU, *words, "--from-beginning"], stdout=pipe, stderr=pipe, text=True) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == "alone\n"
            process.send_signal(number)
            assert process.wait(120) == 128 + number
            assert process.stderr.read().splitlines()[-1] == "Processed a total of 1 messages"


def test_a_consumer_that_cannot_write_says_so_and_ends_well(bootstrap_servers: str) -> None:
    create_topic(bootstrap_servers, "unwritten", 1, 1)
    with Cluster(bootstrap_servers) as cluster:
        cluster.produce(TopicPartition("unwritten", 0), build([(1_700_000_000_000, None, b"alone", ())]))
    words = [MOLDAU, "kafka-console-consumer.sh", "--bootstrap-server", bootstrap_servers, "--topic", "unwritten"]
    reading, nobody = os.pipe()
    os.close(reading)
    with open("/dev/full", "w") as full, open(nobody, "w") as pipe:
        for out in (full, pipe):
            done = subprocess.run(
                [*words, "--from-beginning"], stdout=out, stderr=subprocess.PIPE, text=True, check=True
            )
            said = ["Unable to write to standard out, closing consumer.", "Processed a total of 1 messages"]
            assert done.stderr.splitlines()[-2:] == said


def test_lines_are_sent_when_no_other_comes_for_a_while(bootstrap_servers: str) -> None:
    """As somebody types, or a log is followed: the input stays open."""
    create_topic(bootstrap_servers, "typed", 1, 1)
    words = [MOLDAU, "kafka-console-producer.sh", "--bootstrap-server", bootstrap_servers, "--topic", "typed"]
    source, typing = os.pipe()
    with subprocess.Popen([*words, "--timeout", "1"], stdin=source) as process:
        os.close(source)
        os.write(typing, b"first\nsec")
        read = [MOLDAU, "kafka-console-consumer.sh", "--bootstrap-server", bootstrap_servers, "--topic", "typed"]
        limits = ["--from-beginning", "--max-messages", "1", "--timeout-ms", "60000"]
        done = subprocess.run([*read, *limits], capture_output=True, text=True, check=True)
        assert done.stdout == "first\n"
        os.write(typing, b"ond\n")
        os.close(typing)
        assert process.wait(120) == 0
    done = subprocess.run([*read, *limits[:2], "2", *limits[3:]], capture_output=True, text=True, check=True)
    assert done.stdout == "first\nsecond\n"


def test_a_folder_as_standard_input_ends_the_producer_in_two_lines_and_disturbs_no_other_tool(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    subprocess.run([MOLDAU, "install-scripts", str(tmp_path)], capture_output=True, check=True)
    folder = os.open(tmp_path, os.O_RDONLY)
    words = [str(tmp_path / "kafka-console-producer.sh"), "--bootstrap-server", bootstrap_servers, "--topic", "typed"]
    try:
        done = subprocess.run(words, stdin=folder, capture_output=True, text=True, check=False)
        said = "org.apache.kafka.common.KafkaException: java.io.IOException: Is a directory"
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.splitlines() == [said, "Caused by: java.io.IOException: Is a directory"]
        words = [str(tmp_path / "kafka-topics.sh"), "--version"]
        done = subprocess.run(words, stdin=folder, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "4.3.1\n", "")
    finally:
        os.close(folder)


def test_an_address_where_nobody_is_is_complained_of_no_oftener_than_kafkas_client_would_try_it() -> None:
    """Its pauses double from 50 ms to a second; ours are shorter at first."""
    words = ["--bootstrap-server", "127.0.0.1:1", "--topic", "typed", "--max-block-ms", "2000"]
    said = ours("kafka-console-producer.sh", words, "a line\n")
    complaints = [line for line in said.err.splitlines() if "could not be established" in line]
    assert 1 <= len(complaints) <= 7  # after 0, 100, 300, 700, 1500 ms and then each second
