"""What tools that print records commit and count when their output is full or cut, and when they are told to end.

The pipe of a test holds one page, so that a tool is surely held up in the middle of a fetch.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from foreign import create_topic
from kafka_peer import wait_until

from moldau.client.groups import describe_groups
from moldau.client.sync import Cluster
from moldau.model import TopicPartition
from moldau.wire.batch import build

MOLDAU = str(Path(sys.prefix) / "bin" / "moldau")
COUNT = 20_000
PAGE = 4096
F_SETPIPE_SZ = 1031
LARGE = 300_000
CONSOLE = ("kafka-console-consumer.sh", "--from-beginning", "--topic")
TOOLS = {"console": CONSOLE, "consume": ("consume", "--follow")}


@pytest.fixture(scope="module")
def written(bootstrap_servers: str) -> list[bytes]:
    """What a reader of all the records of the topic ``slow`` gets, in lines."""
    create_topic(bootstrap_servers, "slow", 1, 1, retention_ms="-1")
    values = [b"value %d" % number for number in range(COUNT)]
    with Cluster(bootstrap_servers) as cluster:
        for first in range(0, COUNT, 1000):
            records = [(1_700_000_000_000, None, value, ()) for value in values[first : first + 1000]]
            cluster.produce(TopicPartition("slow", 0), build(records))
    return [value + b"\n" for value in values]


@contextmanager
def held_up(tool: str, servers: str, topic: str, group: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A tool that reads the topic as a member of the group and whose output is full, and the pipe that it writes to."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, F_SETPIPE_SZ, PAGE)
    words = [MOLDAU, *TOOLS[tool], topic, "--group", group, "--bootstrap-server", servers]
    try:
        with subprocess.Popen(words, stdout=writing, stderr=subprocess.PIPE) as process:
            os.close(writing)
            try:
                wait_until(lambda: waiting(reading) == PAGE, "the pipe is full")
                yield process, reading
            finally:
                process.kill()
    finally:
        os.close(reading)


def waiting(pipe: int) -> int:
    """How many bytes there are to read."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def tell(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send a signal and wait until it has come: of one that comes beside another of its kind nobody hears."""
    process.send_signal(number)
    path = Path(f"/proc/{process.pid}/status")

    def is_heard() -> bool:
        words = dict(line.split(":\t", 1) for line in path.read_text().splitlines())
        return not (int(words.get("ShdPnd", "0"), 16) | int(words.get("SigPnd", "0"), 16)) >> (number - 1) & 1

    wait_until(is_heard, "the signal has come")


def the_rest(pipe: int) -> bytes:
    """All that comes until nobody writes any more."""
    found = bytearray()
    while data := os.read(pipe, 1 << 20):
        found += data
    return bytes(found)


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """The exit status, and the last line of standard error."""
    assert process.stderr is not None
    said = process.stderr.read().decode().splitlines()
    return process.wait(60), said[-1] if said else ""


def committed(servers: str, group: str, topic: str) -> int:
    """Where the group goes on."""
    at = TopicPartition(topic, 0)
    with Cluster(servers) as cluster:
        found = cluster.committed(group)
    return found[at].offset if at in found else 0


SAYS: dict[str, Callable[[int], str]] = {
    "console": lambda count: f"Processed a total of {count} messages",
    "consume": lambda count: f"{count} records.",
}


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_that_is_told_to_end_has_printed_whole_records_and_commits_these(
    bootstrap_servers: str,
    written: list[bytes],
    fresh: Callable[[str], str],
    tool: str,
    number: signal.Signals,
    times: int,
) -> None:
    """One was cut in its middle, all of the fetch was said to be processed, and nothing was committed; `timeout` sends
    its signal twice, and the second one ended the closing."""
    group = fresh("ended")
    with held_up(tool, bootstrap_servers, "slow", group) as (process, pipe):
        for _ in range(times):
            tell(process, number)
        got = the_rest(pipe)
        status, last = ended(process)
    lines = got.splitlines(keepends=True)
    assert lines == written[: len(lines)]
    assert len(got) < 4 * PAGE, "it ended after the record that was under way"
    assert last == SAYS[tool](len(lines))
    assert status == (128 + number if tool == "console" else 0)
    assert committed(bootstrap_servers, group, "slow") == len(lines)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_record_that_is_larger_than_the_pipe_is_printed_to_its_end(
    bootstrap_servers: str, fresh: Callable[[str], str], tool: str
) -> None:
    topic = fresh(f"large-{tool}")
    create_topic(bootstrap_servers, topic, 1, 1)
    values = [bytes([letter]) * LARGE for letter in b"abc"]
    with Cluster(bootstrap_servers) as cluster:
        cluster.produce(TopicPartition(topic, 0), build([(1_700_000_000_000, None, one, ()) for one in values]))
    with held_up(tool, bootstrap_servers, topic, topic) as (process, pipe):
        tell(process, signal.SIGTERM)
        assert the_rest(pipe) == values[0] + b"\n"
        _, last = ended(process)
    assert last == SAYS[tool](1).replace("1 records", "1 record")
    assert committed(bootstrap_servers, topic, topic) == 1


@pytest.mark.parametrize("tool", TOOLS)
def test_a_reader_that_has_stopped_for_ever_does_not_keep_a_tool_that_is_told_again_to_end(
    bootstrap_servers: str, written: list[bytes], fresh: Callable[[str], str], tool: str
) -> None:
    group = fresh("stopped")
    with held_up(tool, bootstrap_servers, "slow", group) as (process, pipe):

        def is_over() -> bool:
            process.send_signal(signal.SIGTERM)
            return process.poll() is not None

        wait_until(is_over, "it has ended")
        _, last = ended(process)
        got = the_rest(pipe)
    lines = got.splitlines(keepends=True)
    whole = lines if got.endswith(b"\n") else lines[:-1]
    assert whole == written[: len(whole)]
    if tool == "console":
        assert last == SAYS[tool](len(whole))
    assert committed(bootstrap_servers, group, "slow") == len(whole)


@pytest.mark.parametrize("tool", TOOLS)
def test_what_was_printed_before_its_reader_went_is_committed(
    bootstrap_servers: str, written: list[bytes], fresh: Callable[[str], str], tool: str
) -> None:
    """`| head -9000` committed nothing, and the next one began where it had begun."""
    group = fresh("cut")
    with held_up(tool, bootstrap_servers, "slow", group) as (process, pipe):
        with open(os.dup(pipe), "rb", buffering=0) as reader:
            got = b"".join(reader.read(PAGE) for _ in range(20))
        os.dup2(nobody := os.open(os.devnull, os.O_RDONLY), pipe)
        os.close(nobody)
        status, last = ended(process)
    assert b"".join(written).startswith(got)
    printed = committed(bootstrap_servers, group, "slow")
    assert got.count(b"\n") <= printed <= (len(got) + PAGE) // len(written[0])
    if tool == "console":  # as Kafka's, it counts the one that it could not print
        assert (status, last) == (0, SAYS[tool](printed + 1))


def test_the_first_interrupt_ends_a_member_that_waits_for_others_to_join(
    bootstrap_servers: str, written: list[bytes], fresh: Callable[[str], str]
) -> None:
    """Pressed twice, it did nothing: it was handled once all had joined, and one whose output is full joins late."""
    group = fresh("joining")
    words = [MOLDAU, *TOOLS["consume"], "slow", "--group", group, "--bootstrap-server", bootstrap_servers]
    with held_up("consume", bootstrap_servers, "slow", group), Cluster(bootstrap_servers) as cluster:

        def state() -> str:
            return cluster.run(describe_groups(cluster.client, [group]))[group].group_state

        assert state() == "Stable"
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as second:
            wait_until(lambda: state() == "PreparingRebalance", "it joins")
            second.send_signal(signal.SIGINT)
            second.send_signal(signal.SIGINT)
            out, said = second.communicate(timeout=60)
        members = cluster.run(describe_groups(cluster.client, [group]))[group].members
    assert (second.returncode, out, said) == (0, b"", b"0 records.\n")
    assert len(members) == 1, "it has left"
