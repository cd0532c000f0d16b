"""The tables of mutants on a page are what ``make mutants`` printed."""

from __future__ import annotations

import pytest

from moldau.simulator.mutants.hunt import Hunted
from moldau.simulator.mutants.page import rows, written
from moldau.simulator.mutants.table import MUTANTS, line

PAGE = """\
# Laws

<!-- mutants: laws -->
| id | law | world | mutants |
|---|---|---|---|
| S12 | nothing committed is truncated | replication | 99: old |
| Z1 | a check | zookeeper | none |
| L2 | all is answered | groups | 1: old |
<!-- end of mutants: laws -->

<!-- mutants: quiet laws -->
<!-- end of mutants: quiet laws -->
Words.
<!-- mutants: machines -->
old
<!-- end of mutants: machines -->
<!-- mutants: zookeeper -->
<!-- end of mutants: zookeeper -->
The end.
"""


def output(*hunted: Hunted) -> str:
    return (
        "mutants: 1/2 ...\n\n| bug | mistake | world | caught by | median seeds |\n|---|---|---|---|---|\n"
        + "".join(line(one) + "\n" for one in hunted)
    )


def hunted(machine: str, law: str, seeds: float | None = 3.0) -> Hunted:
    mutant = next(one for one in MUTANTS if one.machine == machine and law in one.laws)
    return Hunted(mutant.name, (law,), seeds, ((1, law),) if seeds is None else ())


def test_what_was_printed_is_what_the_page_says() -> None:
    one, other = hunted("replication", "S12"), hunted("zookeeper", "Z1", 1.5)
    page = written(PAGE, rows([output(one, other)]))
    assert line(one) in page.partition("mutants: machines")[2].partition("<!-- end")[0]
    assert line(other) in page.partition("mutants: zookeeper")[2].partition("<!-- end")[0]
    assert page.count("1 mutants, 3 hunts each.") == 2
    assert "| replication | 1: " in page
    assert "| Z1 | a check | zookeeper | 1: " in page
    assert "| L2 | all is answered | groups | none |" in page
    assert "Laws that no mutant trips: L2." in page
    assert page.startswith("# Laws\n")
    assert "Words." in page
    assert page.endswith("The end.\n")
    assert written(page, rows([output(one, other)])) == page


def test_the_last_hunt_of_a_mutant_counts_and_one_that_was_not_caught_is_said() -> None:
    again = rows([output(hunted("replication", "S12", 7.0)), output(hunted("replication", "S12", None))])
    (row,) = again
    assert "caught in 1 hunts only" in row.seeds


def test_a_page_without_its_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="mutants: machines"):
        written("nothing", [])
