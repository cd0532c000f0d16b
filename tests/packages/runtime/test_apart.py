"""Long computations in a process of their own, beside a broker that has thousands of files open."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from moldau.runtime.apart import run_apart

ROOT = Path(__file__).resolve().parents[3]
ECHO = "tests.packages.runtime.echo_apart"
MANY = 1_100


@pytest.fixture
def many_open() -> Iterator[None]:
    """More descriptors in use than select() knows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= hard < 2 * MANY:
        pytest.skip(f"no more than {hard} files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * MANY), hard))
    with ExitStack() as opened:
        for _ in range(MANY):
            opened.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(autouse=True)
def children_find_these_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])))


def test_a_child_takes_no_file_of_the_working_directory_for_a_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("struct", "pickle", "bisect"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(1)\n")
    monkeypatch.chdir(tmp_path)
    assert run_apart(ECHO, b"order", lambda: 1.0, lambda: False) == b"order"


def test_a_child_answers_what_it_was_asked() -> None:
    assert run_apart(ECHO, b"x" * 200_000, lambda: 1.0, lambda: False) == b"x" * 200_000


@pytest.mark.usefixtures("many_open")
def test_a_child_answers_a_broker_that_has_more_than_a_thousand_files_open() -> None:
    assert run_apart(ECHO, b"order", lambda: 1.0, lambda: False) == b"order"
