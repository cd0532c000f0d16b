"""Damage of files costs the partition whose files they are: the directory, its other logs and every pass go on."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from moldau.model import Code, TopicPartition
from moldau.runtime.disk import RealDisk
from moldau.storage import Log, LogConfig, LogDirs, LogError
from moldau.storage.checkpoints import parse_clean_shutdown, parse_offsets
from moldau.storage.names import CLEAN_SHUTDOWN, CLEANED_TO, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, parse_folder
from moldau.storage.offset_files import OFFSET_FILES
from moldau.wire.batch import headers
from tests.packages.storage.test_log import TOPIC_ID, P, batch
from tests.packages.storage.test_log_dirs import Unsynced

OTHER = TopicPartition("innocent", 0)
CONFIG = LogConfig(internal_segment_bytes=2000, index_interval_bytes=200, retention_ms=10_000, file_delete_delay_ms=0)
OLD_MS, NOW_MS = 1_000, 12_000


def flip(file: Path, at: int) -> None:
    data = bytearray(file.read_bytes())
    if data:
        data[at % len(data)] ^= 0x40
        file.write_bytes(data)


def turn_into_a_folder(file: Path) -> None:
    file.unlink(missing_ok=True)
    file.mkdir()


HARM: dict[str, Callable[[Path], object]] = {
    "gone": lambda file: file.unlink(missing_ok=True),
    "empty": lambda file: file.write_bytes(b""),
    "cut short": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size * 2 // 3]),
    "longer": lambda file: file.write_bytes(file.read_bytes() + b"\x07" * 100),
    "zeros": lambda file: file.write_bytes(bytes(file.stat().st_size)),
    "garbage": lambda file: file.write_bytes(os.urandom(max(file.stat().st_size, 100))),
    "a bit of the first batch": lambda file: flip(file, 20),
    "a bit of a length": lambda file: flip(file, 10),
    "a bit in the middle": lambda file: flip(file, file.stat().st_size // 2),
    "a bit at the end": lambda file: flip(file, -1),
    "a folder": turn_into_a_folder,
    "a pipe": lambda file: (file.unlink(missing_ok=True), os.mkfifo(file)),
    "a device": lambda file: (file.unlink(missing_ok=True), file.symlink_to("/dev/zero")),
    "a terabyte of nothing": lambda file: os.truncate(file, 1 << 40),
    "a link to itself": lambda file: (file.unlink(missing_ok=True), file.symlink_to(file)),
}
FILES: dict[str, Callable[[Path], Path]] = {
    "the first segment": lambda data: sorted(data.glob("t-0/*.log"))[0],
    "a sealed segment": lambda data: sorted(data.glob("t-0/*.log"))[2],
    "the active segment": lambda data: sorted(data.glob("t-0/*.log"))[-1],
    "an index": lambda data: sorted(data.glob("t-0/*.index"))[2],
    "the active index": lambda data: sorted(data.glob("t-0/*.index"))[-1],
    "a time index": lambda data: sorted(data.glob("t-0/*.timeindex"))[0],
    "the active time index": lambda data: sorted(data.glob("t-0/*.timeindex"))[-1],
    "a producer snapshot": lambda data: sorted(data.glob("t-0/*.snapshot"))[-1],
    "the epochs": lambda data: data / "t-0/leader-epoch-checkpoint",
    "the topic id": lambda data: data / "t-0/partition.metadata",
    "the recovery points": lambda data: data / RECOVERY_POINTS,
    "the high watermarks": lambda data: data / HIGH_WATERMARKS,
    "the log starts": lambda data: data / LOG_STARTS,
    "the cleaned offsets": lambda data: data / CLEANED_TO,
    "the clean-shutdown marker": lambda data: data / ".kafka_cleanshutdown",
}


class World:
    """Two logs in one directory, on a real disk; ``told`` is what an operator hears."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.told: list[str] = []
        self.start()

    def start(self) -> None:
        self.dirs = LogDirs(Unsynced(), [str(self.path)])
        self.dirs.damaged.on_found = self.told.append
        self.dirs.load(lambda _: CONFIG)
        self.told += self.dirs.findings

    def fill(self) -> None:
        for partition in (P, OTHER):
            log = self.dirs.create(partition, TOPIC_ID, CONFIG)
            for number in range(30):
                stamp = OLD_MS if number < 10 else NOW_MS
                stamps = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 2 * number}
                log.append_leader(batch(2, timestamp=stamp, **stamps), number // 10, NOW_MS)
            log.high_watermark = log.log_end_offset

    def live(self) -> None:
        """All that a node does with its logs now and then, and what is asked of them."""
        for now_ms in (NOW_MS, NOW_MS, NOW_MS + 1):
            self.dirs.retention_pass(now_ms)
            self.dirs.flush_pass(now_ms)
            self.dirs.deletion_pass(now_ms)
            self.dirs.checkpoint()
        for _ in self.dirs.producers_in_slices():
            pass

    def is_innocent(self) -> None:
        """The other log has all that retention leaves, and goes on."""
        assert self.dirs.offline == []
        log = self.dirs.logs[OTHER]
        assert read(log) == list(range(log.log_start_offset, log.log_end_offset))
        end = log.log_end_offset
        assert end >= 60
        assert log.append_leader(batch(2, timestamp=NOW_MS), 3, NOW_MS).first_offset == end
        log.high_watermark = log.log_end_offset


def stopped(path: Path, *, clean: bool = True) -> World:
    """Logs with records, all flushed and noted in the checkpoints; closed in order, or as a process that was killed."""
    world = World(path)
    world.fill()
    for log in world.dirs.logs.values():
        log.flush()
    world.dirs.checkpoint()
    if clean:
        world.dirs.close()
    world.told.clear()
    return world


def read(log: Log) -> list[int]:
    """Every offset, read as a consumer reads; LogError where the log is damaged."""
    found: list[int] = []
    at = log.log_start_offset
    while at < log.log_end_offset:
        data = log.read(at, 1000)
        assert data, f"nothing at {at}"
        for _, header in headers(data):
            found += range(header.base_offset, header.next_offset)
            at = header.next_offset
    return found


@contextmanager
def or_told(world: World) -> Iterator[None]:
    """It works, or what is damaged is named."""
    try:
        yield
    except LogError as error:
        told = str(error)
    else:
        return
    assert str(world.path / "t-0") in told


def use(world: World) -> None:
    """The damaged log answers or says what is wrong; what it serves has no gaps."""
    log = world.dirs.logs.get(P)
    if log is None:
        assert P in world.dirs.unusable
        with pytest.raises(LogError):
            world.dirs.create(P, TOPIC_ID, CONFIG)
        return
    with or_told(world):
        assert read(log) == list(range(log.log_start_offset, log.log_end_offset))
    for stamp in (0, OLD_MS, NOW_MS, NOW_MS + 5):
        with or_told(world):
            log.offset_for_timestamp(stamp)
    with or_told(world):
        assert log.append_leader(batch(2, timestamp=NOW_MS), 3, NOW_MS).code is Code.NONE
        log.high_watermark = log.log_end_offset


OF_THE_DIRECTORY = list(FILES)[10:]
"""A folder where one of these belongs cannot be replaced: that takes the directory offline."""


PAIRS = [(harm, file) for harm in HARM for file in FILES if harm != "a folder" or file not in OF_THE_DIRECTORY]
WHEN = ("running", "stopped", "killed")


@pytest.mark.parametrize(
    ("harm", "file", "when"),
    [  # each pair once; all of them are gone through where slow tests are
        pytest.param(*pair, when, marks=[pytest.mark.slow] if (number + shift) % 3 else [])
        for number, pair in enumerate(PAIRS)
        for shift, when in enumerate(WHEN)
    ],
)
def test_damage_costs_one_partition(tmp_path: Path, harm: str, file: str, when: str) -> None:
    world = World(tmp_path)
    world.fill()
    world.dirs.checkpoint()
    world.dirs.close()
    if when != "stopped":
        world.start()
        world.dirs.logs[P].append_leader(batch(2, timestamp=NOW_MS), 3, NOW_MS)
    victim = FILES[file](tmp_path)
    if victim.exists():
        HARM[harm](victim)
    if when != "running":
        world.start()
    for _ in range(2):
        world.live()
        use(world)
        world.is_innocent()
        world.dirs.close()
        world.start()
    assert len(world.told) < 60, "each thing is named once in a life of the node"


SURPRISES = {
    "a number that is none": "t-0/0000000000000000004x.log",
    "a number beyond all offsets": "t-0/99999999999999999999.log",
    "a topic that no topic can be called": "a b-0/00000000000000000000.log",
    "a partition with zeros before it": "t-00/00000000000000000000.log",
    "a partition beyond all partitions": "t-99999999999999999999/00000000000000000000.log",
    "a copy of nothing": "-future/00000000000000000000.log",
    "a name that is no text": os.fsdecode(b"t\xff-0/00000000000000000000.log"),
    "a file where a folder should be": "u-0",
    "an unfinished replacement of nothing": "t-0/00000000000000000099.log.swap",
    "a half-done replacement": "t-0/00000000000000000000.log.swap",
    "a replacement that was not finished": "t-0/00000000000000000000.log.cleaned",
    "a deleted segment": "t-0/00000000000000000000.index.deleted",
    "an index without a log": "t-0/00000000000000000777.timeindex",
    "a snapshot of what never was": "t-0/00000000000000000999.snapshot",
}


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("surprise", SURPRISES)
def test_a_name_that_should_not_be_there_is_left_out(tmp_path: Path, surprise: str, clean: bool) -> None:
    world = World(tmp_path)
    world.fill()
    if clean:
        world.dirs.close()
    path = tmp_path / SURPRISES[surprise]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"\x01garbage" * 20)
    world.start()
    world.is_innocent()
    use(world)
    world.live()
    assert set(world.dirs.logs) | set(world.dirs.unusable) <= {P, OTHER, TopicPartition("t", 99)}
    assert read(world.dirs.logs[P])[-1] == 61
    world.dirs.close()


def test_two_folders_of_one_partition_are_no_reason_to_stay_away(tmp_path: Path) -> None:
    paths = [str(tmp_path / "a"), str(tmp_path / "b")]
    dirs = LogDirs(RealDisk(), paths)
    dirs.load(lambda _: CONFIG)
    log = dirs.create(P, TOPIC_ID, CONFIG)
    log.append_leader(batch(2), 0, 0)
    dirs.close()
    here = Path(log.dir.path)
    there = tmp_path / ("b" if here.name == "a" else "a")
    shutil.copytree(here / "t-0", there / "t-0")
    dirs = LogDirs(RealDisk(), paths)
    dirs.load(lambda _: CONFIG)
    dirs.logs[P].append_leader(batch(2), 1, 0)
    dirs.logs[P].flush()
    assert sum("is set aside" in finding for finding in dirs.findings) == 1
    assert len(dirs.strays) == 1
    dirs = LogDirs(RealDisk(), paths)
    dirs.load(lambda _: CONFIG)
    assert dirs.logs[P].log_end_offset == 4
    assert not any("set aside" in finding for finding in dirs.findings)


def test_a_line_of_a_checkpoint_that_is_none_costs_that_partition_only() -> None:
    problems: list[str] = []
    found = parse_offsets(b"0\n4\na 0 7\nb x 7\nc 0 -3\nd 0 99999999999999999999\n", "file", problems)
    assert found == {TopicPartition("a", 0): 7}
    assert [problem[:12] for problem in problems] == ["file, line 4", "file, line 5", "file, line 6"]
    problems = []
    assert parse_offsets(b"0\n3\na 0 7\nb 0 12", "file", problems) == {TopicPartition("a", 0): 7}
    assert len(problems) == 1


def test_only_what_a_topic_can_be_called_is_a_partitions_folder() -> None:
    assert parse_folder("a.b_C-9-0") == TopicPartition("a.b_C-9", 0)
    for name in ("a-", "-0", "a-01", "a-2147483648", "..-0", "a b-0", "a\n-0", "é-0", "a-²", "a-٣", "a-0-delete"):
        assert parse_folder(name) is None, name


def test_a_name_that_is_too_long_for_the_disk_costs_its_partition(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.fill()
    with pytest.raises(LogError, match="too long"):
        world.dirs.create(TopicPartition("x" * 300, 0), TOPIC_ID, CONFIG)
    world.is_innocent()


def test_a_folder_that_somebody_removed_does_not_take_the_directory_along(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.fill()
    shutil.rmtree(tmp_path / "t-0")
    world.live()
    use(world)
    world.dirs.delete(P, NOW_MS)
    world.live()
    world.is_innocent()
    world.dirs.close()


def test_too_many_open_files_are_no_failure_of_a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    world.fill()
    world.dirs.close()

    def refuse(path: str, *, create: bool = False) -> None:
        raise OSError(24, "Too many open files", path)

    with monkeypatch.context() as patched:
        patched.setattr(world.dirs.disk, "open", refuse)
        with pytest.raises(LogError, match="Too many open files"):
            world.dirs.logs[P].read(30, 100)
    world.is_innocent()
    use(world)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("digits", ["9", "99999999999"])
def test_a_log_start_beyond_the_log_removes_no_records(tmp_path: Path, clean: bool, digits: str) -> None:
    """A digit too many in the file of log starts emptied the log, which its leader then took for a whole one."""
    world = World(tmp_path)
    world.fill()
    world.dirs.checkpoint()
    if clean:
        world.dirs.close()
    starts = tmp_path / LOG_STARTS
    starts.write_text(f"0\n1\n{P.topic} {P.partition} 60{digits}\n")
    world.told.clear()
    world.start()
    assert read(world.dirs.logs[P]) == list(range(60))
    assert any("is not believed" in sentence for sentence in world.told)
    world.is_innocent()


@pytest.mark.parametrize("name", [*OFFSET_FILES, CLEAN_SHUTDOWN])
@pytest.mark.parametrize("suffix", ["", ".tmp"])
def test_a_folder_in_the_place_of_a_small_file_is_put_aside(tmp_path: Path, name: str, suffix: str) -> None:
    """The next write of the file would take the directory offline, and with it the node, again after each restart."""
    world = World(tmp_path)
    world.fill()
    world.dirs.close(7)
    place = tmp_path / (name + suffix)
    turn_into_a_folder(place)
    (place / "a file in it").touch()
    world.told.clear()
    world.start()
    assert any(str(place) in sentence for sentence in world.told)
    world.is_innocent()
    world.dirs.checkpoint()
    world.dirs.close(8)
    assert world.dirs.offline == []
    assert [found.read_bytes() for found in tmp_path.glob("*.aside/a file in it")] == [b""]


@pytest.mark.parametrize("name", OFFSET_FILES)
@pytest.mark.parametrize("suffix", ["", ".tmp"])
def test_a_folder_in_the_place_of_a_checkpoint_of_a_running_node_is_put_aside(
    tmp_path: Path, name: str, suffix: str
) -> None:
    """The next write failed and took the directory offline, and the node with its only directory."""
    world = World(tmp_path)
    world.fill()
    world.dirs.checkpoint()
    place = tmp_path / (name + suffix)
    turn_into_a_folder(place)
    (place / "a file in it").touch()
    for log in world.dirs.logs.values():
        log.append_leader(batch(2, timestamp=NOW_MS), 3, NOW_MS)
        log.flush()
        log.high_watermark = log.log_end_offset
        log.advance_log_start(4)
        log.cleaned_to = 5
    world.dirs.checkpoint()
    assert world.dirs.offline == []
    assert [sentence for sentence in world.told if str(place) in sentence]
    assert (tmp_path / name).is_file()
    world.is_innocent()


def test_a_broker_epoch_that_cannot_be_told_is_none() -> None:
    for text in (b"9" * 30, b"-5", b"true", b"1.5", b"[" * 100_000, b'"7"'):
        assert parse_clean_shutdown(b'{"version": 0, "brokerEpoch": ' + text + b"}") == -1
    assert parse_clean_shutdown(b'{"version": 0, "brokerEpoch": 9}') == 9
