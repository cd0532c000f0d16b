"""Long computations in a process of their own, beside a broker that has thousands of files open."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from moldau.runtime.apart import run_apart

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


def test_a_child_answers_what_it_was_asked() -> None:
    assert run_apart(ECHO, b"x" * 200_000, lambda: 1.0, lambda: False) == b"x" * 200_000


@pytest.mark.usefixtures("many_open")
def test_a_child_answers_a_broker_that_has_more_than_a_thousand_files_open() -> None:
    assert run_apart(ECHO, b"order", lambda: 1.0, lambda: False) == b"order"
