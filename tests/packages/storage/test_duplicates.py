"""A directory that was away comes back with the log of a topic that was deleted, and of whose name there is another."""

from __future__ import annotations

import pytest

from moldau.storage import LogDirs
from moldau.storage.strays import remove_strays, sort_out_in_slices
from tests.packages.storage.faulty_disk import FaultyDisk
from tests.packages.storage.test_cleaning import COMPACT, read_all, write
from tests.packages.storage.test_log import TOPIC_ID, P

BEFORE = bytes(range(100, 116))


def a_start(longer: int, *more: tuple[str, bytes, int]) -> LogDirs:
    """Directories a and b as a start loads them: a log of the topic before in one, of the present one in the other;
    and ``more`` directories, each with a topic id and so many records."""
    disk = FaultyDisk()
    there = (("/a", BEFORE, longer), ("/b", TOPIC_ID, 1), *more)
    for path, topic_id, records in there:
        dirs = LogDirs(disk, [path])
        dirs.load(lambda _: COMPACT)
        log = dirs.create(P, topic_id, COMPACT)
        for number in range(records):
            write(log, [(b"k%d" % number, topic_id)])
        dirs.close()
    dirs = LogDirs(disk, [path for path, _, _ in there])
    dirs.load(lambda _: COMPACT)
    return dirs


@pytest.mark.parametrize("longer", [0, 5])
@pytest.mark.parametrize(("topic_id", "path"), [(BEFORE, "/a"), (TOPIC_ID, "/b")])
def test_the_topic_that_the_metadata_knows_has_its_log_however_long_the_other_is(
    longer: int, topic_id: bytes, path: str
) -> None:
    """The longer one was used and the other set aside; then the longer one was of the wrong topic and set aside too."""
    dirs = a_start(longer)
    remove_strays(dirs, {P: topic_id}, 0)
    assert dirs.logs[P].dir.path == path
    assert {entry[2] for entry in read_all(dirs.logs[P])} <= {topic_id}
    other = "/b" if path == "/a" else "/a"
    assert [name.endswith("-stray") for name in dirs.disk.list_dir(other) if name.startswith("t-0")] == [True]
    dirs.close()


def test_of_a_topic_that_is_gone_every_log_is_set_aside() -> None:
    dirs = a_start(5)
    remove_strays(dirs, {}, 0)
    assert P not in dirs.logs
    names = [name for path in ("/a", "/b") for name in dirs.disk.list_dir(path) if name.startswith("t-0")]
    assert [name.endswith("-stray") for name in names] == [True, True]
    dirs.close()


@pytest.mark.parametrize("order", [("/c", "/d"), ("/d", "/c")])
def test_of_several_logs_of_the_topic_that_is_meant_the_one_that_goes_furthest_is_used(order: tuple[str, str]) -> None:
    lengths = {"/c": 9, "/d": 3}
    dirs = a_start(6, *((path, TOPIC_ID, lengths[path]) for path in order))
    remove_strays(dirs, {P: TOPIC_ID}, 0)
    assert dirs.logs[P].dir.path == "/c"
    for path in ("/a", "/b", "/d"):
        assert [name.endswith("-stray") for name in dirs.disk.list_dir(path) if name.startswith("t-0")] == [True]
    dirs.close()


def test_where_no_topic_is_known_only_one_log_keeps_its_name() -> None:
    """A topic that is made later in the other directory would have taken the folder that is there."""
    dirs = a_start(5)
    for _ in sort_out_in_slices(dirs, (), lambda partition: None, 0, 10):
        pass
    assert P in dirs.left_alone
    names = sorted(name for path in ("/a", "/b") for name in dirs.disk.list_dir(path) if name.startswith("t-0"))
    assert [name.endswith("-stray") for name in names] == [False, True]
    dirs.close()
