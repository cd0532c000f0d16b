"""The metadata log as rows and as images, against a fold of dictionaries."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.clusterdata.metadata import (
    RECORD_COLUMNS,
    MetadataError,
    Point,
    diff_rows,
    files,
    image_at,
    record_rows,
    table_rows,
)
from moldau.wire.batch import build
from moldau.wire.records import metadata as records
from moldau.wire.records.framing import pack_metadata
from moldau.wire.schema import Message
from tests.packages.clusterdata.naive import replica

Step = tuple[str, str, int]
STEPS = st.lists(
    st.tuples(st.sampled_from(["make", "set", "unset", "lead", "drop"]), st.sampled_from("abc"), st.integers(0, 2)),
    max_size=25,
)


def id_of(name: str, made: int) -> bytes:
    return bytes([ord(name), made]) + bytes(14)


class Naive:
    """What a cluster has after some steps, as dictionaries."""

    def __init__(self) -> None:
        self.leaders: dict[tuple[str, int], tuple[int, int]] = {}
        self.ids: dict[str, bytes] = {}
        self.settings: dict[str, str] = {}
        self.made = 0

    def step(self, kind: str, name: str, number: int) -> list[Message]:
        """The records of a step; none when it makes no sense."""
        if kind == "make" and name not in self.ids:
            self.made += 1
            self.ids[name] = id_of(name, self.made)
            self.leaders[name, 0] = (number, 0)
            topic = records.TopicRecord(name=name, topic_id=self.ids[name])
            part = records.PartitionRecord(
                partition_id=0, topic_id=self.ids[name], replicas=[0, 1, 2], isr=[0, 1, 2], leader=number,
                leader_epoch=0, partition_epoch=0,
            )  # fmt: skip
            return [topic, part]
        if name not in self.ids or kind == "make":
            return []
        if kind == "lead":
            self.leaders[name, 0] = (number, self.leaders[name, 0][1] + 1)
            return [records.PartitionChangeRecord(partition_id=0, topic_id=self.ids[name], leader=number)]
        if kind == "drop":
            del self.leaders[name, 0]
            self.settings.pop(name, None)
            return [records.RemoveTopicRecord(topic_id=self.ids.pop(name))]
        value = None if kind == "unset" else str(number)
        self.settings.pop(name, None) if value is None else self.settings.update({name: value})
        return [records.ConfigRecord(resource_type=2, resource_name=name, name="retention.ms", value=value)]


def written(home: Path, steps: list[Step]) -> list[tuple[int, dict, dict]]:
    """A metadata log of a batch for each step; (last offset, leaders, settings) after each."""
    naive, batches, after, offset = Naive(), [], [], 0
    for number, step in enumerate(steps):
        made = naive.step(*step) or [records.NoOpRecord()]
        at_ms = 1000 * (number + 1)
        entries = [(at_ms, None, pack_metadata(one), ()) for one in made]
        batches.append(build(entries, base_offset=offset, leader_epoch=3))
        offset += len(made)
        after.append((offset - 1, dict(naive.leaders), dict(naive.settings)))
    replica(home, 1, "__cluster_metadata-0", batches)
    return after


@settings(deadline=None, max_examples=60)
@given(STEPS.filter(bool), st.data())
def test_the_image_at_an_offset_or_a_time_is_that_of_a_naive_fold(steps: list[Step], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        after = written(Path(folder), steps)
        which = data.draw(st.integers(0, len(after) - 1))
        offset, leaders, configs = after[which]
        log = files(folder)
        for point in (Point(offset=offset), Point(time_ms=1000 * (which + 1) + 999)):
            image = image_at(log, point)
            found = {(row[0], row[1]): (row[3], row[4]) for row in table_rows(image, "partitions")}
            assert found == leaders
            assert {row[1]: row[3] for row in table_rows(image, "configs")} == configs
            assert {row[0] for row in table_rows(image, "topics")} == {name for name, _ in leaders}
        changes = {row[1]: row[2] for row in diff_rows(image, image_at(log, Point()), ["partitions"])}
        last = after[-1][1]
        assert {key for key, change in changes.items() if change == "added"} >= {
            f"{name}-{n}" for name, n in set(last) - set(leaders)
        }
        assert {key for key, change in changes.items() if change == "removed"} == {
            f"{name}-{n}" for name, n in set(leaders) - set(last)
        }


def test_each_record_is_a_row_with_its_fields(tmp_path: Path) -> None:
    written(tmp_path, [("make", "a", 1), ("set", "a", 2)])
    rows = [
        dict(zip((one.name for one in RECORD_COLUMNS), row, strict=True)) for row in record_rows(files(str(tmp_path)))
    ]
    assert [(row["offset"], row["epoch"], row["timestamp"], row["type"]) for row in rows] == [
        (0, 3, 1000, "TOPIC_RECORD"), (1, 3, 1000, "PARTITION_RECORD"), (2, 3, 2000, "CONFIG_RECORD"),
    ]  # fmt: skip
    assert json.loads(str(rows[2]["data"])) == {
        "resourceType": 2, "resourceName": "a", "name": "retention.ms", "value": "2",
    }  # fmt: skip


def test_a_snapshot_stands_for_what_the_log_has_no_more(tmp_path: Path) -> None:
    after = written(tmp_path, [("make", "a", 1), ("lead", "a", 2), ("set", "a", 0)])
    folder = tmp_path / "__cluster_metadata-0"
    whole = (folder / f"{0:020d}.log").read_bytes()
    first = int.from_bytes(whole[8:12], "big") + 12
    (folder / f"{2:020d}-{3:010d}.checkpoint").write_bytes(whole[:first])
    (folder / f"{0:020d}.log").unlink()
    (folder / f"{2:020d}.log").write_bytes(whole[first:])
    log = files(str(tmp_path))
    assert {(r[0], r[1]): (r[3], r[4]) for r in table_rows(image_at(log, Point()), "partitions")} == after[-1][1]
    assert [row[3] for row in table_rows(image_at(log, Point(offset=1)), "partitions")] == [1]
    with pytest.raises(MetadataError, match="begins at offset 2"):
        image_at(log, Point(offset=0))


def test_a_damaged_record_is_a_row_and_no_image_goes_past_it(tmp_path: Path) -> None:
    written(tmp_path, [("make", "a", 1), ("lead", "a", 2)])
    path = tmp_path / "__cluster_metadata-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    log = files(str(tmp_path))
    assert [row[-1] for row in record_rows(log)] == [None, None, "the checksum is wrong"]
    with pytest.raises(MetadataError, match="the checksum is wrong"):
        image_at(log, Point())
    with pytest.raises(MetadataError, match="there is no"):
        files(tempfile.mkdtemp(dir=tmp_path))


def test_of_several_logs_the_one_that_a_quorum_would_elect_is_read(tmp_path: Path) -> None:
    written(tmp_path / "1", [("make", "a", 1)])
    written(tmp_path / "2", [("make", "a", 1), ("lead", "a", 2)])
    assert [row[3] for row in table_rows(image_at(files(str(tmp_path)), Point()), "partitions")] == [2]
