"""`kafka-dump-log.sh` says of records of Kafka's own topics what was recorded of Kafka 4.3.1's, without a JVM."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import pytest

from moldau.admin.classic.dump_coordinators import offsets
from moldau.admin.classic.run import run
from moldau.wire.batch import Record, build

RECORDED = json.loads((Path(__file__).resolve().parents[2] / "golden" / "dump-records-4.3.json").read_text())


def dumped(folder: Path, *options: str) -> str:
    """What is said of the file in the folder; its tool's status is 0."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert run("kafka-dump-log.sh", [*options, "--files", str(folder / f"{0:020d}.log")]) == 0
    return out.getvalue()


@pytest.mark.parametrize("option", RECORDED)
def test_records_of_kafkas_topics_are_shown_as_kafka_shows_them(option: str, tmp_path: Path) -> None:
    for *fields, said in RECORDED[option]:
        key, value = (None if one is None else bytes.fromhex(one) for one in fields)
        (tmp_path / f"{0:020d}.log").write_bytes(build([(0, key, value, ())]))
        shown = dumped(tmp_path, option, "--skip-record-metadata").split("\n", 3)[3]
        assert shown == said, (fields, "see record_dump_records.py")


def test_of_several_decoders_one_is_taken_and_then_no_class_is_looked_for(tmp_path: Path) -> None:
    """A class that there is not ended the tool beside --offsets-decoder, too, where Kafka's does not ask for it."""
    key = b"\0\3\0\1g"
    (tmp_path / f"{0:020d}.log").write_bytes(build([(0, key, None, ())]))
    shown = dumped(tmp_path, "--transaction-log-decoder", "--offsets-decoder", "--value-decoder-class", "nosuch")
    assert 'key: {"type":"3","data":{"groupId":"g"}} payload: <DELETE>' in shown
    assert offsets(Record(0, 0, key, None, [])) == ('{"type":"3","data":{"groupId":"g"}}', "<DELETE>")
