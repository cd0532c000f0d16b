"""Files that a broker cuts while `kafka-dump-log.sh` reads them end the walk, not the process."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterable
from pathlib import Path

from moldau.admin.classic.dump_index import DumpedLogFile, _FromStart
from moldau.wire.batch import build


def test_a_log_that_is_cut_while_it_is_read_ends_where_it_was_cut(tmp_path: Path) -> None:
    """A mapping of the file ended the process with SIGBUS at the first page that was gone."""
    path = tmp_path / f"{0:020d}.log"
    batch = build([(0, None, b"x" * 300_000, ())])
    path.write_bytes(batch * 20)
    with DumpedLogFile(path) as log:
        walk = log.batches()
        assert next(walk)[0] == 0
        with path.open("r+b") as writer:
            writer.truncate(len(batch) * 2 + 5)
        assert [position for position, _, _ in walk] == [len(batch)]


def test_batches_are_read_between_two_positions_and_never_in_part(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    batch = build([(0, None, b"x", ())])
    path.write_bytes(batch * 4)
    with DumpedLogFile(path) as log:
        found = [position for position, _, _ in log.batches(len(batch), 3 * len(batch) + 1)]
        assert found == [len(batch), 2 * len(batch)]
        assert all(data == batch for _, _, data in log.batches())
    with DumpedLogFile(path, most=len(batch) + 1) as log:
        assert len(list(log.batches())) == 1


def log_of(path: Path, offsets: Iterable[int]) -> DumpedLogFile:
    path.write_bytes(b"".join(build([(0, None, b"", ())], base_offset=offset) for offset in offsets))
    return DumpedLogFile(path)


def test_a_walked_log_is_kept_in_little_memory(tmp_path: Path) -> None:
    """A position of each batch was kept: 76 MB per million batches."""
    count = 5_000
    with log_of(tmp_path / "0.log", range(count)) as log:
        walk = _FromStart(log)
        walk.reaching(0)
        tracemalloc.start()
        try:
            assert walk.reaching(count) is None
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert kept < 10 * count, "bytes"


def test_a_walked_log_finds_the_first_batch_that_reaches_an_offset(tmp_path: Path) -> None:
    """Also where offsets go back, as in a log that was joined by hand."""
    rng = random.Random(1)
    offsets = [max(0, n + rng.randint(-80, 80)) for n in range(400)]
    with log_of(tmp_path / "0.log", offsets) as log:
        walk = _FromStart(log)
        for wanted in [5, 3, *(rng.randint(-5, 500) for _ in range(200))]:
            found = walk.reaching(wanted)
            first = next((offset for offset in offsets if offset >= wanted), None)
            assert (None if found is None else found[0].last_offset) == first
