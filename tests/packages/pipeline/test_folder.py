"""A pipeline's folder: one process runs it, and what it was doing can be read by others, also when it is gone."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import pytest

from moldau.admin.main import is_local, reason
from moldau.pipeline.folder import BrokenPipelineFile, IsRunning, PipelineFolder
from moldau.pipeline.reading import read_text
from moldau.pipeline.said import first_line
from moldau.pipeline.source_options import PIN
from moldau.spark.tables.stores import open_store


def folder(tmp_path: Path) -> PipelineFolder:
    text = f"pipeline: a\nfolder: {tmp_path / 'a'}\nsource: {{topics: b}}\nsinks: [{{table: /t}}]\n"
    pipeline = read_text(text, {}).pipeline
    assert pipeline is not None
    return PipelineFolder(pipeline)


def test_a_second_process_is_told_who_runs_the_pipeline(tmp_path: Path) -> None:
    one, other = folder(tmp_path), folder(tmp_path)
    assert not one.is_locked()
    with one.locked():
        assert other.is_locked()
        with pytest.raises(IsRunning, match=f"process {os.getpid()} runs"), other.locked():
            pass
    with other.locked():
        pass


def test_a_process_that_ended_without_a_word_is_lost(tmp_path: Path) -> None:
    found = folder(tmp_path)
    assert found.state() is None
    with found.locked():
        found.say("running", "batch 3")
        state = found.state()
        assert state is not None
        assert (state.state, state.pid, state.message) == ("running", os.getpid(), "batch 3")
    state = found.state()
    assert state is not None
    assert state.state == "lost"
    found.say("done")
    state = found.state()
    assert state is not None
    assert state.state == "done"


def test_a_checkpoint_that_is_set_aside_is_kept_and_a_start_is_remembered(tmp_path: Path) -> None:
    found = folder(tmp_path)
    assert found.set_checkpoint_aside() is None
    found.store.write("checkpoint/offsets/0", b"v1")
    assert found.has_checkpoint()
    found.begin_at("latest")
    name = found.set_checkpoint_aside()
    assert name is not None
    assert found.store.read(f"{name}/offsets/0") == b"v1"
    assert not found.has_checkpoint()
    assert folder(tmp_path).start() == "latest"


def test_a_reset_sets_first_positions_aside_though_no_batch_was_noted(tmp_path: Path) -> None:
    found = folder(tmp_path)
    found.store.write(PIN, b"{}")
    assert not found.has_checkpoint()
    name = found.set_checkpoint_aside()
    assert name is not None
    assert found.store.read(PIN) is None, "a new start would be passed over for it"
    assert found.store.read(PIN.replace("checkpoint", name)) == b"{}"


def test_a_state_that_was_cut_is_no_state_that_hides_the_pipeline(tmp_path: Path) -> None:
    found = folder(tmp_path)
    for content in (b"", b'{"state": "runn', b"{}", b"[]"):
        found.store.write("state.json", content)
        state = found.state()
        assert state is not None
        assert (state.state, "state.json" in state.message) == ("unknown", True)


def test_a_start_that_was_cut_is_named(tmp_path: Path) -> None:
    found = folder(tmp_path)
    found.store.write("start.json", b'{"sta')
    with pytest.raises(BrokenPipelineFile, match=r"start\.json"):
        found.start()


def test_the_reason_of_a_failure_is_told_and_not_that_there_is_a_traceback() -> None:
    spoken = 'perform latestOffset: Traceback (most recent call last):\n  File "x.py", line 1, in f\n    g()\n'
    error = RuntimeError(spoken + "moldau.spark.losses.LostError: orders-0: the topic was deleted\n\nSQLSTATE: 38000")
    assert first_line(error) == "perform latestOffset: moldau.spark.losses.LostError: orders-0: the topic was deleted"
    assert first_line(ValueError("one\ntwo")) == "one"
    assert first_line(ValueError()) == "ValueError"


def test_a_disk_that_is_full_or_takes_nothing_is_told_with_the_file_and_not_as_standard_output(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    (tmp_path / "full").symlink_to("/dev/full")
    (tmp_path / "file").write_text("no folder")
    for name, write in (("full", store.write), ("file", lambda name, _: store.make_folder(f"{name}/below"))):
        with pytest.raises(OSError) as raised:
            write(name, b"x")
        assert reason(raised.value).startswith(f"{tmp_path}/{name}"), "the place comes first"
        assert not is_local(raised.value)
    assert not is_local(OSError(errno.EROFS, "Cannot create directory. Detail: [errno 30]")), "not what Python says"
    assert is_local(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))


def test_a_disk_that_is_full_when_a_run_begins_is_told_with_the_file_and_not_as_standard_output(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))  # no file may grow, as none can on a full disk
    try:
        with pytest.raises(OSError) as raised, folder(tmp_path).locked():
            pytest.fail("nothing can be kept")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert reason(raised.value).startswith(f"{tmp_path}/a/lock: ")


def test_a_process_that_ended_while_it_paused_is_not_said_to_try_again(tmp_path: Path) -> None:
    found = folder(tmp_path)
    with found.locked():
        found.say("paused", "t-0@0: no.")
        state = found.state()
        assert state is not None
        assert state.message == "t-0@0: no."
    state = found.state()
    assert state is not None
    assert state.state == "paused"
    assert state.message == "t-0@0: no. No process tries it again: `moldau pipeline run` does"
