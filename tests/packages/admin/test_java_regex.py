"""Regular expressions of topics are Java's: what Java takes and what it matches is recorded in java-regex.tsv."""

from __future__ import annotations

from moldau.admin.classic.java_regex import NotRegex, java_pattern
from tests.golden.record_java_regex import NAMES, TARGET


def said(expression: str) -> str:
    try:
        pattern = java_pattern(expression)
    except NotRegex:
        return "-"
    return "".join("01"[pattern.fullmatch(name) is not None] for name in NAMES)


def test_expressions_are_taken_and_match_as_in_java() -> None:
    asked = [line.split("\t") for line in TARGET.read_text().splitlines()]
    different = [(expression, answer, said(expression)) for expression, answer in asked if said(expression) != answer]
    behind = [one for one in different if "(?<" in one[0] and one[2] == "-"]
    assert len(behind) < 5, "a look behind of no fixed width is all that Python's syntax cannot say"
    assert [one for one in different if one not in behind] == []
