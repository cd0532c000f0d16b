"""Files that say what a log is, damaged or outdated: no empty log takes the place of one that has records."""

from __future__ import annotations

import pytest

from moldau.model import Code, TopicPartition
from moldau.storage import Log, LogConfig, LogDirs, LogError
from moldau.storage.checkpoints import format_offsets
from moldau.storage.errors import UnusableFile
from moldau.storage.names import CLEANED_TO, HIGH_WATERMARKS, RECOVERY_POINTS
from moldau.storage.strays import remove_strays
from moldau.wire.batch import build
from tests.packages.storage.faulty_disk import FaultyDisk
from tests.packages.storage.test_cleaning import COMPACT, begin, read_all, reopen, settle, write
from tests.packages.storage.test_log import TOPIC_ID, P

FILE = "/d/t-0/partition.metadata"
ANOTHER = bytes(range(100, 116))
Q = TopicPartition("u", 0)


def killed() -> FaultyDisk:
    """A log that was never flushed, as a killed process leaves it."""
    disk = FaultyDisk()
    _, log = begin(COMPACT, disk)
    write(log, [(b"k", b"v")])
    return disk.process_killed()


def start(disk: FaultyDisk) -> tuple[LogDirs, list[str]]:
    dirs = LogDirs(disk, ["/d"])
    dirs.load(lambda _: COMPACT)
    told: list[str] = []
    dirs.damaged.on_found = told.append
    assert remove_strays(dirs, {P: TOPIC_ID}, 0) == []
    return dirs, told


def flip(disk: FaultyDisk, at: int, bit: int) -> None:
    data = bytearray(disk.read(FILE))
    data[at] ^= 1 << bit
    disk.write_atomic(FILE, bytes(data))


@pytest.mark.parametrize("bit", [0, 4, 7])
def test_a_bit_of_the_topic_s_id_is_mended_and_the_log_served(bit: int) -> None:
    """An empty log served in its place at offset 0, and followers cut theirs to nothing."""
    for at in range(len(killed().read(FILE))):
        disk = killed()
        flip(disk, at, bit)
        dirs, _ = start(disk)
        assert [entry[2] for entry in read_all(dirs.logs[P])] == [b"v"], f"byte {at}"
        assert dirs.logs[P].topic_id == TOPIC_ID
        dirs.close()
        _, log = reopen(disk, COMPACT)
        assert log.topic_id == TOPIC_ID


def test_a_file_that_says_nothing_puts_its_log_out_of_use_and_none_in_its_place() -> None:
    disk = killed()
    disk.write_atomic(FILE, b"\xffgarbage" * 5)
    dirs, told = start(disk)
    assert P not in dirs.logs
    (sentence,) = told
    assert "out of use" in sentence
    with pytest.raises(LogError):
        dirs.create(P, TOPIC_ID, COMPACT)
    assert not any(name.endswith("-stray") for name in disk.list_dir("/d"))


@pytest.mark.parametrize("length", [0, 5, 21, 30])
@pytest.mark.parametrize("filled", [False, True], ids=["short", "filled with zeros"])
def test_a_file_that_a_power_cut_tore_is_no_damage_and_its_log_was_never_flushed(length: int, filled: bool) -> None:
    """Such a log may be a former topic's of the name, and is set aside."""
    disk = killed()
    data = disk.read(FILE)
    disk.write_atomic(FILE, data[:length] + bytes(len(data) - length if filled else 0))
    dirs = LogDirs(disk, ["/d"])
    dirs.load(lambda _: COMPACT)
    assert remove_strays(dirs, {P: TOPIC_ID}, 0) == [P]


def test_a_log_of_another_topic_is_set_aside_still() -> None:
    dirs = LogDirs(killed(), ["/d"])
    dirs.load(lambda _: COMPACT)
    assert remove_strays(dirs, {P: ANOTHER}, 0) == [P]


def compacted(disk: FaultyDisk) -> tuple[LogDirs, Log]:
    dirs, log = begin(COMPACT, disk)
    for number in range(30):
        write(log, [(b"k%d" % (number % 2), b"%d" % number), (b"u%d" % number, bytes(60))])
    settle(dirs, log)
    dirs.compactions.run_one(0)
    dirs.checkpoint()
    return dirs, log


def again(disk: FaultyDisk) -> tuple[LogDirs, Log]:
    """Another topic of the name, after one that was compacted and checkpointed."""
    dirs, log = compacted(disk)
    assert log.cleaned_to > 10
    dirs.delete_all((P,), 0)
    return dirs, dirs.create(P, ANOTHER, COMPACT)


def test_a_topic_that_is_made_again_inherits_no_line_of_a_checkpoint() -> None:
    """Its deletions were undone: what the former one had compacted counted as compacted."""
    disk = FaultyDisk()
    _, log = again(disk)
    write(log, [(b"secret", b"value"), (b"x", b"")])
    write(log, [(b"secret", None)])
    _, log = reopen(disk.process_killed(), COMPACT)
    assert (log.cleaned_to, log.high_watermark, log.recovery_point) == (-1, 0, 0)


def test_what_was_cut_below_what_was_compacted_is_compacted_again() -> None:
    disk = FaultyDisk()
    _dirs, log = compacted(disk)
    log.truncate_to(12)
    write(log, [(b"new", b"1")])
    log.flush()
    disk = disk.process_killed()
    _, found = reopen(disk, COMPACT)
    assert found.cleaned_to <= 12
    disk.write_atomic(f"/d/{RECOVERY_POINTS}", format_offsets({P: 5}))
    disk.write_atomic(f"/d/{CLEANED_TO}", format_offsets({P: 40}))
    disk.write_atomic(f"/d/{HIGH_WATERMARKS}", format_offsets({P: 5}))
    _, found = reopen(disk.process_killed(), COMPACT)
    assert found.cleaned_to <= 5


def exchanged(*, rolls: bool = False) -> tuple[FaultyDisk, LogDirs]:
    """The logs of two topics, of which somebody exchanged the folders while they were in use."""
    disk = FaultyDisk()
    dirs, log = begin(COMPACT, disk)
    other = dirs.create(Q, ANOTHER, COMPACT)
    for number in range(40 if rolls else 1):
        write(log, [(b"k%d" % number, b"t")])
        write(other, [(b"k%d" % number, b"u")])
    dirs.flush_pass(0)
    for source, target in (("/d/t-0", "/d/aside"), ("/d/u-0", "/d/t-0"), ("/d/aside", "/d/u-0")):
        disk.rename(source, target)
    return disk, dirs


def served(disk: FaultyDisk) -> dict[TopicPartition, set[bytes]]:
    """What the next process serves, and under which names."""
    dirs = LogDirs(disk.process_killed(), ["/d"])
    dirs.load(lambda _: COMPACT)
    remove_strays(dirs, {P: TOPIC_ID, Q: ANOTHER}, 0)
    return {partition: {entry[2] for entry in read_all(log)} for partition, log in dirs.logs.items()}


def test_a_flush_does_not_say_that_the_folder_of_another_topic_is_its_log_s() -> None:
    """It wrote its topic's id there; after the next start each topic had the records of the other, in sync by its own
    word, and followers cut theirs to them."""
    disk, dirs = exchanged()
    for partition, value in ((P, b"t"), (Q, b"u")):
        log = dirs.logs[partition]
        assert log.append_leader(bytearray(build([(0, b"k", value, [])])), 5, 0).code is Code.NONE
        with pytest.raises(UnusableFile, match="another topic"):
            log.flush()
    assert served(disk) == {}, "both are set aside"


def write_much(log: Log) -> None:
    for _ in range(40):
        write(log, [(b"k", b"t" * 30)])


def test_a_roll_makes_no_segment_in_the_folder_of_another_topic() -> None:
    disk, dirs = exchanged()
    before = disk.list_dir("/d/t-0")
    with pytest.raises(UnusableFile, match="another topic"):
        write_much(dirs.logs[P])
    assert disk.list_dir("/d/t-0") == before


def test_a_truncation_removes_no_segment_of_another_topic() -> None:
    disk, dirs = exchanged(rolls=True)
    before = {name: disk.read(f"/d/t-0/{name}") for name in disk.list_dir("/d/t-0")}
    with pytest.raises(UnusableFile, match="another topic"):
        dirs.logs[P].truncate_to(1)
    assert {name: disk.read(f"/d/t-0/{name}") for name in disk.list_dir("/d/t-0")} == before


def test_the_end_of_a_topic_takes_no_folder_of_another() -> None:
    disk, dirs = exchanged()
    told: list[str] = []
    dirs.damaged.on_found = told.append
    dirs.delete_all([P], 0)
    assert "the log of another topic is in the folder by now" in told[0]
    assert "/d/t-0" in disk.names


def test_retention_takes_no_segment_of_another_topic() -> None:
    disk, dirs = exchanged(rolls=True)
    before = disk.list_dir("/d/t-0")
    log = dirs.logs[P]
    log.high_watermark = log.log_end_offset
    log.reconfigure(LogConfig(internal_segment_bytes=700, retention_ms=1))
    dirs.retention_pass(1_000_000)
    dirs.retention_pass(2_000_000)
    assert disk.list_dir("/d/t-0") == before


def test_a_segment_that_was_closed_is_not_read_from_the_folder_of_another_topic() -> None:
    """Every log has, or had, a file of the same name: its records were sent as those of this topic."""
    _, dirs = exchanged(rolls=True)
    dirs.dirs[0].files.close_all()
    with pytest.raises(UnusableFile, match="another topic"):
        read_all(dirs.logs[P])
