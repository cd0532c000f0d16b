"""kcat (Debian's package, librdkafka 2.0) against a live cluster. Missing kcat fails: apt-get install kcat."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from foreign import PATIENCE_S, create_topic, kcat, run_kcat, write_confluent
from kafka_peer import wait_until

Fresh = Callable[[str], str]


def test_it_lists_brokers_topics_leaders_and_in_sync_replicas(bootstrap_servers: str, fresh: Fresh) -> None:
    topic = fresh("listed")
    create_topic(bootstrap_servers, topic, partitions=2)

    said = json.loads(run_kcat("-L", "-J", "-b", bootstrap_servers, "-t", topic))

    assert sorted(one["name"] for one in said["brokers"]) == sorted(bootstrap_servers.split(","))
    partitions = said["topics"][0]["partitions"]
    assert [one["partition"] for one in partitions] == [0, 1]
    for one in partitions:
        assert one["leader"] == one["replicas"][0]["id"]
        assert sorted(some["id"] for some in one["isrs"]) == sorted(some["id"] for some in one["replicas"]) == [1, 2, 3]


def test_a_record_comes_back_with_its_key_headers_and_offset(bootstrap_servers: str, fresh: Fresh) -> None:
    topic = fresh("whole")
    create_topic(bootstrap_servers, topic)
    where = ("-b", bootstrap_servers, "-t", topic)
    run_kcat("-P", *where, "-K", ":", "-H", "who=me", "-H", "why=test", stdin=b"k1:v1\nk2:v2\n")

    said = run_kcat("-C", *where, "-e", "-q", "-o", "beginning", "-f", "%p %o %k %s %h\n")

    assert said.splitlines() == [b"0 0 k1 v1 who=me,why=test", b"0 1 k2 v2 who=me,why=test"]


def test_it_reads_from_an_offset_from_the_end_and_up_to_the_end(bootstrap_servers: str, fresh: Fresh) -> None:
    topic = fresh("ends")
    create_topic(bootstrap_servers, topic)
    write_confluent(bootstrap_servers, topic, [(b"k", str(turn).encode()) for turn in range(10)])

    def read(offset: str) -> list[bytes]:
        return run_kcat("-C", "-b", bootstrap_servers, "-t", topic, "-p", "0", "-o", offset, "-e", "-q").split()

    assert read("7") == [b"7", b"8", b"9"]
    assert read("-2") == [b"8", b"9"]
    assert read("end") == []


def test_it_finds_the_offset_of_a_time(bootstrap_servers: str, fresh: Fresh) -> None:
    topic = fresh("times")
    create_topic(bootstrap_servers, topic)
    write_confluent(bootstrap_servers, topic, [(b"k", b"v")] * 3)

    def offset_of(time_ms: int) -> int:
        said = run_kcat("-Q", "-b", bootstrap_servers, "-t", f"{topic}:0:{time_ms}").decode()
        found = re.search(r"offset (-?\d+)", said)
        assert found, said
        return int(found.group(1))

    assert offset_of(1) == 0
    assert offset_of(4_000_000_000_000) == -1
    assert offset_of(-1) == 3


def test_it_writes_idempotently_and_refuses_nothing(bootstrap_servers: str, fresh: Fresh) -> None:
    topic = fresh("idempotent")
    create_topic(bootstrap_servers, topic)
    lines = b"".join(b"%d\n" % turn for turn in range(1000))
    options = ("-X", "enable.idempotence=true", "-X", "batch.num.messages=7")
    run_kcat("-P", "-b", bootstrap_servers, "-t", topic, *options, stdin=lines)

    said = run_kcat("-C", "-b", bootstrap_servers, "-t", topic, "-o", "beginning", "-e", "-q")

    assert said == lines


def test_two_members_of_its_groups_read_everything_between_them(
    bootstrap_servers: str, fresh: Fresh, tmp_path: Path
) -> None:
    topic, group = fresh("shared"), fresh("sharers")
    create_topic(bootstrap_servers, topic, partitions=4)
    write_confluent(bootstrap_servers, topic, [(str(turn).encode(), str(turn).encode()) for turn in range(200)])
    options = ["-X", "auto.offset.reset=earliest", "-X", "heartbeat.interval.ms=200", "-u", "-q"]
    command = [kcat(), "-b", bootstrap_servers, *options, "-G", group, topic]

    def read() -> set[int]:
        return {int(value) for file in files for value in file.read_text().split("\n")[:-1]}

    # Without -e: at a rebalance kcat keeps count of the ends it met before, and both may leave with a partition unread.
    files = [tmp_path / "first", tmp_path / "second"]
    with ExitStack() as stack:
        for file in files:
            member = stack.enter_context(
                subprocess.Popen(command, stdout=stack.enter_context(file.open("wb")), stderr=subprocess.DEVNULL)
            )
            stack.callback(member.kill)
        wait_until(lambda: read() == set(range(200)), "both members together have printed all records", PATIENCE_S)
