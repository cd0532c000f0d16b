"""The table of ``make coverage`` adds up files by package."""

from __future__ import annotations

from tests.coverage_table import SRC, table


def counts(lines: int, run: int, branches: int, taken: int) -> dict[str, int]:
    return {
        "num_statements": lines, "covered_lines": run, "num_branches": branches, "covered_branches": taken,
    }  # fmt: skip


def test_files_are_added_up_by_package_and_all_together() -> None:
    rows = table(
        {
            f"{SRC}/__init__.py": counts(2, 1, 0, 0),
            f"{SRC}/wire/frames.py": counts(10, 10, 4, 1),
            f"{SRC}/wire/messages/k00.py": counts(10, 5, 4, 1),
        }
    ).splitlines()
    assert [row.split() for row in rows] == [
        ["package", "lines", "run", "branches", "taken"],
        ["moldau", "2", "50.0%", "0", "0.0%"],
        ["wire", "20", "75.0%", "8", "25.0%"],
        ["all", "22", "72.7%", "8", "25.0%"],
    ]
