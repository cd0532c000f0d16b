"""Two checkouts side by side: what a ratio says."""

from pathlib import Path

import pytest
from bench.cells import Row
from bench.pairs import better, compile_sources, report

RATE = Row("produce", "MB/s", "higher", 0.0)
TIME = Row("start", "s", "lower", 0.0)


def test_a_ratio_above_one_says_that_the_newer_checkout_is_better() -> None:
    assert better(RATE, older=100.0, newer=110.0) == pytest.approx(1.1)
    assert better(TIME, older=1.1, newer=1.0) == pytest.approx(1.1)


def test_ratios_are_taken_round_by_round_and_not_of_medians() -> None:
    """The machine became twice as slow after the first round; both checkouts are alike."""
    lines = list(report({"start": (TIME, [1.0, 2.0, 2.0], [1.0, 2.0, 2.0])}))
    assert lines == ["| start | s | 2 | 2 | 1.000 | 1.00 to 1.00 |"]


def test_a_round_that_lacks_one_side_is_an_error() -> None:
    with pytest.raises(ValueError, match="shorter"):
        list(report({"start": (TIME, [1.0, 2.0], [1.0])}))


def test_both_checkouts_have_their_bytecode_before_a_node_of_them_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    (tmp_path / "src" / "moldau").mkdir(parents=True)
    (tmp_path / "src" / "moldau" / "node.py").write_text("pass\n")
    compile_sources(tmp_path)
    assert list((tmp_path / "src").rglob("node.*.pyc"))
