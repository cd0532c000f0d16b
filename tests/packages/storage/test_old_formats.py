"""Logs with records in message formats v0 and v1: out of use by name from the start on, and not a byte of them cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.model import TopicPartition
from moldau.storage import LogError
from moldau.storage.log_validator import InvalidAppend, take
from moldau.storage.names import RECOVERY_POINTS
from moldau.wire.batch import headers
from tests.packages.storage.test_damage import CONFIG, OTHER, World, stopped
from tests.packages.storage.test_log import TOPIC_ID, P

OLD = {
    "v0": "000000000000000500000017c86cc7a60000000000026b300000000776616c75652d30000000000000000600000015"
    "98dda4ae0000ffffffff0000000776616c75652d310000000000000007000000108b23e3da0000000000026b32ffffffff",
    "v0 in gzip": "00000000000000070000005d825b03980001ffffffff0000004f1f8b08000000000000ff636000035620163f9173"
    "7c1998c7946d0024d9cb12734a53750d202a18d8805874c6dd25eb1818fe030142812154013b100b742b3fbe0535c308a40c000ef53b2b60"
    "000000",
    "v1": "00000000000000050000001fa6f46d7501000000015d3ef79800000000026b300000000776616c75652d300000000000000006"
    "0000001d23f0ea2d01000000015d3ef79801ffffffff0000000776616c75652d3100000000000000070000001873a4810d01000000"
    "015d3ef79802000000026b32ffffffff",
    "v1 in gzip": "00000000000000070000006d3cc0937401010000015d3ef79802ffffffff000000571f8b08000000000000ff6360"
    "8003f9655f724b19810cc658bbef3340224cd9064092bd2c31a73455d700aa0ca44256f9c32b5db852c6ff408050680855c804c4"
    "12c54b1a79e10a99c0661a819403001891817878000000",
}
"""Three records from offset 5 on, one without key and one without value, as Kafka 2.8.2 writes them."""


def records(kind: str) -> bytes:
    return bytes.fromhex(OLD[kind])


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.glob("t-0/*") if file.suffix != ".snapshot"}


def is_refused(world: World, file: Path, format: str, offset: int, position: int) -> None:
    before = contents(world.path)
    for _ in range(2):
        world.start()
        assert P not in world.dirs.logs
        assert world.dirs.unusable == {P: str(world.path / "t-0")}
        (told,) = [sentence for sentence in world.told if "cannot be loaded" in sentence]
        assert f"{file}, offset {offset}, byte {position}: message format {format}," in told
        assert "upgrade by" in told
        with pytest.raises(LogError):
            world.dirs.create(P, TOPIC_ID, CONFIG)
        world.is_innocent()
        assert contents(world.path) == before, "Apache Kafka finds it as it left it"
        world.dirs.checkpoint()
        world.dirs.close()
        world.told.clear()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("kind", OLD)
def test_a_log_of_older_records_is_out_of_use_from_the_start_on(tmp_path: Path, kind: str, clean: bool) -> None:
    """All of it looked like a torn tail, and was cut."""
    world = stopped(tmp_path, clean=clean)
    for file in tmp_path.glob("t-0/*"):
        if file.suffix in (".log", ".index", ".timeindex", ".snapshot"):
            file.unlink()
    only = tmp_path / "t-0/00000000000000000000.log"
    only.write_bytes(records(kind))
    is_refused(world, only, kind[:2], 7 if "gzip" in kind else 5, 0)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("kind", OLD)
def test_older_records_in_the_first_segment_are_told_before_anybody_reads_them(
    tmp_path: Path, kind: str, clean: bool
) -> None:
    world = stopped(tmp_path, clean=clean)
    first = sorted(tmp_path.glob("t-0/*.log"))[0]
    first.write_bytes(records(kind))
    is_refused(world, first, kind[:2], 7 if "gzip" in kind else 5, 0)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("kind", OLD)
@pytest.mark.parametrize("known", [True, False])
def test_older_records_behind_newer_ones_are_not_cut(tmp_path: Path, kind: str, clean: bool, known: bool) -> None:
    """message.format.version had been lowered once."""
    world = stopped(tmp_path, clean=clean)
    last = sorted(tmp_path.glob("t-0/*.log"))[-1]
    newer = last.read_bytes()
    last.write_bytes(newer + records(kind))
    if not known:
        (tmp_path / RECOVERY_POINTS).unlink()
    is_refused(world, last, kind[:2], 7 if "gzip" in kind else 5, len(newer))


def test_older_records_that_a_compaction_was_putting_in_place_are_left_to_apache_kafka(tmp_path: Path) -> None:
    """The segment at their offset is there still, and those after it are not: to drop them would lose records."""
    world = stopped(tmp_path, clean=False)
    segments = sorted(tmp_path.glob("t-0/*.log"))
    swap = segments[0].with_suffix(".log.swap")
    swap.write_bytes(records("v1"))
    segments[1].rename(segments[1].with_suffix(".log.deleted"))
    is_refused(world, swap, "v1", 5, 0)


@pytest.mark.parametrize("clean", [True, False])
def test_what_only_looks_like_an_older_record_is_cut_as_ever(tmp_path: Path, clean: bool) -> None:
    """A torn tail may be zeros, of which the byte that names the format is 0 as well."""
    for number, tail in enumerate((bytes(100), records("v1")[:20], records("v1")[:30] + b"x" + records("v1")[31:])):
        world = stopped(tmp_path / str(number), clean=clean)
        last = sorted(world.path.glob("t-0/*.log"))[-1]
        newer = last.read_bytes()
        last.write_bytes(newer + tail)
        world.start()
        assert world.dirs.unusable == {}
        assert last.read_bytes() == newer


@pytest.mark.parametrize("kind", OLD)
def test_a_follower_names_the_format_that_its_leader_sends(kind: str) -> None:
    """It would ask for the same bytes again for ever, without a word: the shorter ones pass for a batch cut short."""
    refused = take(records(kind), 0, True, 0)
    assert isinstance(refused, InvalidAppend)
    assert f"message format {kind[:2]}" in refused.message


def test_the_folders_of_other_partitions_are_not_concerned(tmp_path: Path) -> None:
    world = stopped(tmp_path, clean=True)
    sorted(tmp_path.glob("t-0/*.log"))[0].write_bytes(records("v0"))
    world.start()
    assert set(world.dirs.logs) == {OTHER}
    assert isinstance(OTHER, TopicPartition)
    data = world.dirs.logs[OTHER].read(0, 1000)
    assert data
    assert next(headers(data))[1].base_offset == 0
