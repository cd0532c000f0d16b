"""Files that a broker cuts while `kafka-dump-log.sh` reads them end the walk, not the process."""

from __future__ import annotations

from pathlib import Path

from moldau.admin.classic.dump_index import LogFile
from moldau.wire.batch import build


def test_a_log_that_is_cut_while_it_is_read_ends_where_it_was_cut(tmp_path: Path) -> None:
    """A mapping of the file ended the process with SIGBUS at the first page that was gone."""
    path = tmp_path / f"{0:020d}.log"
    batch = build([(0, None, b"x" * 300_000, ())])
    path.write_bytes(batch * 20)
    with LogFile(path) as log:
        walk = log.batches()
        assert next(walk)[0] == 0
        with path.open("r+b") as writer:
            writer.truncate(len(batch) * 2 + 5)
        assert [position for position, _, _ in walk] == [len(batch)]


def test_batches_are_read_between_two_positions_and_never_in_part(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    batch = build([(0, None, b"x", ())])
    path.write_bytes(batch * 4)
    with LogFile(path) as log:
        found = [position for position, _, _ in log.batches(len(batch), 3 * len(batch) + 1)]
        assert found == [len(batch), 2 * len(batch)]
        assert all(data == batch for _, _, data in log.batches())
    with LogFile(path, most=len(batch) + 1) as log:
        assert len(list(log.batches())) == 1
