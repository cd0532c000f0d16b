"""Files that commands write: there wholly or not at all, and nothing but files is replaced."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from moldau.admin.files import write_whole


def test_a_file_behind_a_link_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_what_is_no_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    write_whole(pipe, "plan")
    reader.join(60)
    assert got == ["plan"]
    assert pipe.is_fifo()


def test_a_device_that_is_full_is_named_and_stays_where_it_is(tmp_path: Path) -> None:
    device = tmp_path / "full"
    device.symlink_to("/dev/full")  # a code that replaces what it is given replaces the link
    with pytest.raises(OSError, match="full"):
        write_whole(device, "plan")
    assert device.is_char_device()


def test_a_folder_that_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        write_whole(tmp_path / "nowhere" / "plan.json", "new")
