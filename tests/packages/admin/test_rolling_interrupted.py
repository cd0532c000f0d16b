"""A roll that is interrupted says where."""

from __future__ import annotations

import signal

import pytest

from moldau.admin.rolling import telling_of_an_interrupt


def test_a_roll_that_is_interrupted_names_the_node_that_may_be_down(capsys: pytest.CaptureFixture[str]) -> None:
    """It said `interrupted`, and had left a node stopped."""
    with pytest.raises(KeyboardInterrupt), telling_of_an_interrupt("node 2"):
        raise KeyboardInterrupt
    told = capsys.readouterr().err
    assert told == "the roll was interrupted at node 2, which may be down; the same command goes on with it.\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_so_does_one_that_is_told_to_end(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(number)
    try:
        with pytest.raises(KeyboardInterrupt), telling_of_an_interrupt("node 2"):
            signal.raise_signal(number)
    finally:
        signal.signal(number, before)
    assert "interrupted at node 2" in capsys.readouterr().err
