"""Which directory hangs, and when nobody can tell: a silent one beside one that answers, and nothing else."""

from __future__ import annotations

from moldau.broker.replicas.disk_probes import LOOKS_FEW, LOOKS_MAX, DiskProbes
from moldau.storage.folder import LogDir
from tests.packages.storage.faulty_disk import FaultyDisk


def directories(count: int) -> list[LogDir]:
    return [LogDir(FaultyDisk(), f"/{number}") for number in range(count)]


def test_a_directory_that_is_silent_for_ten_looks_while_another_answers_hangs() -> None:
    one, two = dirs = directories(2)
    probes = DiskProbes()
    probes.sent(two)
    for _ in range(LOOKS_MAX):
        probes.sent(one)
        assert probes.hung(dirs) == []
        probes.answered(one)
    assert probes.silent(dirs) == []
    assert probes.hung(dirs) == [two]
    assert probes.silent(dirs) == [two]
    probes.answered(two)
    assert probes.hung(dirs) == []


def test_where_no_directory_answers_none_is_judged_and_the_node_is_silent() -> None:
    one, two = dirs = directories(2)
    probes = DiskProbes()
    for late in range(LOOKS_FEW - 1):  # their probes are sent a moment apart
        probes = DiskProbes()
        probes.sent(one)
        for _ in range(late):
            probes.hung(dirs)
        probes.sent(two)
        for _ in range(5 * LOOKS_MAX):
            assert probes.hung(dirs) == []
        assert probes.silent(dirs) == dirs


def test_the_only_directory_is_never_judged() -> None:
    (one,) = dirs = directories(1)
    probes = DiskProbes()
    probes.sent(one)
    for _ in range(5 * LOOKS_MAX):
        assert probes.hung(dirs) == []
    assert probes.silent(dirs) == [one]
    probes.answered(one)
    assert probes.silent(dirs) == []


def test_a_process_that_stood_still_looks_once_however_long_that_was() -> None:
    dirs = directories(2)
    probes = DiskProbes()
    for dir in dirs:
        probes.sent(dir)
    assert probes.hung(dirs) == []
    for dir in dirs:
        probes.answered(dir)
    assert probes.hung(dirs) == []


def test_of_directories_that_all_hung_the_one_that_answers_last_is_given_its_time() -> None:
    """One device that comes back in two steps cost a directory until a restart."""
    one, two = dirs = directories(2)
    probes = DiskProbes()
    probes.sent(one)
    probes.sent(two)
    for _ in range(5 * LOOKS_MAX):
        assert probes.hung(dirs) == []
    probes.answered(one)
    for _ in range(LOOKS_MAX):
        assert probes.hung(dirs) == []
    assert probes.hung(dirs) == [two]
