"""The largest timestamp of a segment, which retention and ListOffsets go by: across restarts, and at what cost."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.runtime.disk import RealDisk, RealFile
from moldau.storage import LogConfig, LogDirs
from moldau.storage.index import Index
from moldau.storage.index_file import entry_under, last_time, offset_before, position_before
from tests.packages.storage.test_log import P, again, batch, fresh

HOUR_MS = 3_600_000
WIDE = LogConfig(retention_ms=24 * HOUR_MS)


def test_older_records_after_a_clean_restart_do_not_hide_the_newest_ones(tmp_path: Path) -> None:
    now_ms = 1000 * HOUR_MS
    dirs, log = fresh(tmp_path, WIDE)
    log.append_leader(batch(1, timestamp=now_ms - 30 * HOUR_MS), 0, now_ms)
    log.append_leader(batch(1, timestamp=now_ms - HOUR_MS), 0, now_ms)
    dirs.close()
    dirs, log = again(tmp_path, WIDE)
    log.append_leader(batch(1, timestamp=now_ms - 29 * HOUR_MS), 0, now_ms)
    log.high_watermark = log.log_end_offset
    found = log.offset_for_timestamp(now_ms - 2 * HOUR_MS)
    assert found is not None
    assert found.offset == 1
    assert log.retention_pass(now_ms) == 0
    assert log.log_start_offset == 0


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 10_000), st.sampled_from(["", "", "", "clean", "kill", "roll"])), max_size=40),
    st.sampled_from([200, 1000, 1 << 20]),
)
def test_it_is_that_of_all_records_whatever_happened_between(steps: list[tuple[int, str]], segment_bytes: int) -> None:
    config = LogConfig(internal_segment_bytes=segment_bytes, index_interval_bytes=256)
    with tempfile.TemporaryDirectory() as folder:
        dirs, log = fresh(Path(folder), config)
        stamps: list[tuple[int, int]] = []
        for stamp, then in steps:
            stamps.append((log.append_leader(batch(1, timestamp=stamp), 0, 0).first_offset, stamp))
            if then == "roll":
                log.roll()
            elif then:
                if then == "clean":
                    dirs.close()
                dirs, log = again(Path(folder), config)
        for number, segment in enumerate(log.segments):
            after = log.segments[number + 1].base_offset if number + 1 < len(log.segments) else log.log_end_offset
            inside = [stamp for offset, stamp in stamps if segment.base_offset <= offset < after]
            assert segment.largest_timestamp() == max(inside, default=-1)
        dirs.close()


class Counted(RealDisk):
    """A real disk that counts the bytes read of each kind of file."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes_read: dict[str, int] = {}

    def count(self, path: str, size: int) -> None:
        kind = path.rpartition(".")[2]
        self.bytes_read[kind] = self.bytes_read.get(kind, 0) + size

    def read(self, path: str) -> bytes:
        data = super().read(path)
        self.count(path, len(data))
        return data

    def open(self, path: str, *, create: bool = False) -> RealFile:
        file = super().open(path, create=create)
        pread = file.pread

        def counted(size: int, offset: int) -> bytes:
            data = pread(size, offset)
            self.count(path, len(data))
            return data

        file.pread = counted
        return file


def test_it_costs_a_few_entries_of_each_index_and_none_of_them_is_kept(tmp_path: Path) -> None:
    config = LogConfig(internal_segment_bytes=100_000, index_interval_bytes=100)
    dirs, log = fresh(tmp_path, config)
    for number in range(4000):
        log.append_leader(batch(1, timestamp=number), 0, 0)
    dirs.close()
    disk = Counted()
    dirs = LogDirs(disk, [str(tmp_path)])
    dirs.load(lambda _: config)
    log = dirs.logs[P]
    disk.bytes_read.clear()
    found = log.offset_for_timestamp(3500)
    assert found is not None
    assert found.offset == 3500
    assert log.read(1234, 100)
    held = len(list(tmp_path.glob("t-0/*.timeindex")))
    size = sum(file.stat().st_size for file in tmp_path.glob("t-0/*index"))
    assert len(log.segments) == held > 5
    assert disk.bytes_read["timeindex"] <= 12 * (2 * held + 15)
    assert disk.bytes_read["index"] <= 8 * (2 * held + 30)
    assert disk.bytes_read["index"] + disk.bytes_read["timeindex"] < size / 10
    assert [segment.kept_index for segment in log.segments] == [None] * len(log.segments)


HARM: dict[str, Any] = {
    "gone": None,
    "emptied": lambda data: b"",
    "cut amid an entry": lambda data: data[: len(data) // 2 - 5],
    "its second half lost": lambda data: data[: len(data) // 24 * 12],
    "zeros": lambda data: bytes(len(data)),
    "ones": lambda data: b"\xff" * len(data),
    "reserved space at its end": lambda data: data + bytes(2400),
}


@pytest.mark.parametrize("kind", ["index", "timeindex"])
@pytest.mark.parametrize("harm", HARM)
def test_an_index_that_is_damaged_under_a_running_node_is_made_again(tmp_path: Path, harm: str, kind: str) -> None:
    config = LogConfig(internal_segment_bytes=20_000, index_interval_bytes=100)
    dirs, log = fresh(tmp_path, config)
    for number in range(400):
        log.append_leader(batch(1, timestamp=number * 7), 0, 0)
    dirs.close()
    dirs, log = again(tmp_path, config)
    for file in tmp_path.glob(f"t-0/*.{kind}"):
        file.unlink() if HARM[harm] is None else file.write_bytes(HARM[harm](file.read_bytes()))
    for stamp in (0, 3, 700, 1399, 2793):
        found = log.offset_for_timestamp(stamp)
        assert found is not None
        assert found.offset == -(-stamp // 7)
    assert log.offset_for_timestamp(2794) is None
    for offset in (0, 57, 311, 399):
        assert log.read(offset, 10)[:8] == offset.to_bytes(8, "big")
    dirs.close()


@given(st.data())
def test_lookups_in_the_files_are_those_in_memory(data: st.DataObject) -> None:
    ints = st.lists(st.integers(1, 1 << 30), max_size=30, unique=True).map(sorted)
    offsets, times = data.draw(ints), data.draw(ints)
    index = Index()
    for number, offset in enumerate(offsets):
        index.append(offset, 100 * number + 100)
    for number, time in enumerate(times):
        index.append_time(time, 10 * number + 3)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/0"
        Path(path + ".index").write_bytes(index.offset_bytes() + bytes(8 * data.draw(st.integers(0, 3))))
        Path(path + ".timeindex").write_bytes(index.time_bytes() + bytes(12 * data.draw(st.integers(0, 3))))
        disk = RealDisk()
        some = st.one_of(st.integers(0, 1 << 30), st.sampled_from(offsets + times + [0]))
        for _ in range(5):
            wanted = data.draw(some)
            assert position_before(disk, path + ".index", wanted) == index.position_before(wanted)
            assert offset_before(disk, path + ".timeindex", wanted) == index.offset_before(wanted)
            position, bound = data.draw(st.integers(0, 4000)), data.draw(some)
            entry = entry_under(disk, path + ".index", position, bound)
            assert (-1 if entry is None else entry[1]) == index.entry_under(position, bound)
        expected = (index.times[-1], index.time_offsets[-1]) if times else None
        assert last_time(disk, path + ".timeindex") == expected
