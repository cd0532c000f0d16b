"""What a job was asked for and could not read is said: an empty answer would look as if all were well."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from click.testing import CliRunner

from moldau.admin.job import job
from tests.packages.clusterdata.naive import batch_of, replica
from tests.packages.clusterdata.test_jobs import leader_line, logs
from tests.packages.clusterdata.test_metadata_tables import written


def said(*words: str | Path) -> tuple[int, str]:
    found = CliRunner().invoke(job, [str(one) for one in words])
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    return found.exit_code, found.output


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for broker in (1, 2):
        replica(tmp_path / f"node-{broker}", broker, "orders-0", [batch_of(0, [b"a", b"b"])], high=2)
    replica(tmp_path / "node-1", 1, "__consumer_offsets-0", [batch_of(0, [b"a"])])
    logs(tmp_path, [(1, leader_line(1, 1, 0, 0, 2)), (2, leader_line(2, 2, 0, 0, 2))])
    return tmp_path


@pytest.mark.parametrize("verb", ["verify", "load", "timeline", "splits", "lag"])
def test_the_only_topic_may_be_the_one_that_is_nowhere(data: Path, verb: str) -> None:
    code, text = said(verb, data, "--topic", "oders")
    assert (code, "topic oders" in text) == (1, True), text


@pytest.mark.parametrize("verb", ["verify", "load", "timeline", "splits", "lag"])
def test_a_topic_that_is_nowhere_is_named_and_is_no_success(data: Path, verb: str) -> None:
    code, text = said(verb, data, "--topic", "orders", "--topic", "oders")
    assert (code, f"not in {data}: topic oders" in text) == (1, True), text


@pytest.mark.parametrize("verb", ["verify", "load", "timeline", "splits"])
def test_a_topic_that_is_there_is_told_of(data: Path, verb: str) -> None:
    code, text = said(verb, data, "--topic", "orders")
    assert (code, "not in" in text) == (0, False), text


@pytest.mark.parametrize("verb", ["offsets", "groups"])
def test_a_group_that_is_nowhere_is_named(data: Path, verb: str) -> None:
    code, text = said(verb, data, "--group", "app")
    assert (code, f"not in {data}: group app" in text) == (1, True), text


@pytest.mark.parametrize("verb", ["load", "offsets", "groups", "lag"])
@pytest.mark.parametrize("output", ["text", "json"])
def test_a_folder_with_nothing_to_read_is_no_success(tmp_path: Path, verb: str, output: str) -> None:
    code, text = said(verb, tmp_path, "-o", output)
    assert (code, f"nothing to read for `moldau job {verb}`" in text) == (1, True), text


@pytest.mark.parametrize("verb", ["splits", "timeline"])
def test_lines_that_cannot_be_read_are_counted_and_stack_traces_are_not(data: Path, verb: str) -> None:
    log = data / "node-1" / "state-change.log"
    trace = "java.lang.IllegalStateException: no\n\tat kafka.Broker.run(Broker.java:7)\nCaused by: java.lang.Error: x\n"
    log.write_text(log.read_text() + trace)
    assert "left out" not in said(verb, data)[1]
    log.write_bytes(log.read_bytes() + b"x" * 3_000_000 + b"\n" + bytes(range(33, 255)) * 4 + b"\n")
    code, text = said(verb, data)
    assert (code, "2 lines are no entries of a state-change log" in text) == (0, True), text


@pytest.mark.parametrize("verb", ["splits", "timeline"])
def test_a_damaged_packed_log_is_named_and_the_others_are_read(data: Path, verb: str) -> None:
    """It ended the job with no row at all."""
    before = said(verb, data, "-o", "tsv")[1]
    packed = data / "node-1" / "state-change.log.1.gz"
    lines = [f"[2026-11-22 09:00:{n % 60:02d},000] INFO line {n * n} (state.change.logger)\n" for n in range(5_000)]
    packed.write_bytes(gzip.compress("".join(lines).encode())[:-2_000])
    code, text = said(verb, data, "-o", "tsv")
    assert code == 1, text
    assert f"moldau: {packed}: it cannot be unpacked: " in text
    assert "it is read up to byte" in text
    assert "nothing of the kind" not in text
    assert all(line in text for line in before.splitlines() if "nothing of the kind" not in line)


def test_logs_without_any_entry_are_no_sound_ones(tmp_path: Path) -> None:
    (tmp_path / "state-change.log").write_bytes(b"garbage\n" * 3)
    code, text = said("splits", tmp_path)
    assert code == 1, text
    assert "3 lines are no entries" in text
    assert "nothing of the kind" not in text


def test_two_leaders_are_a_mismatch_though_another_topic_is_nowhere(data: Path) -> None:
    logs(data, [(1, leader_line(1, 1, 0, 0, 1)), (2, leader_line(2, 2, 0, 0, 2))])
    code, text = said("splits", data, "--topic", "orders", "--topic", "nope")
    assert (code, "topic nope" in text) == (4, True), text


def test_an_offset_beyond_the_end_of_the_metadata_log_is_said(tmp_path: Path) -> None:
    written(tmp_path, [("make", "a", 1)])  # offsets 0 and 1
    code, text = said("metadata", tmp_path, "--table", "topics", "--as-of-offset", "1")
    assert (code, "ends with" in text) == (0, False), text
    code, text = said("metadata", tmp_path, "--table", "topics", "--as-of-offset", "2")
    assert (code, f"--as-of-offset 2: the log in {tmp_path} ends with offset 1" in text) == (0, True), text
    code, text = said("metadata", tmp_path, "--table", "diff", "--from-offset", "900")
    assert (code, "--from-offset 900" in text) == (0, True), text


def test_where_to_write_is_not_said_without_what_writes(data: Path) -> None:
    code, text = said("load", data, "-b", "127.0.0.1:1")
    assert (code, "--bootstrap-server is where --to writes" in text) == (2, True), text
