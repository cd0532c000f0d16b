"""The page of rules is what `docs/rules.py` says, and each rule's tests are there."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest
from docs.rules import PAGE, RULES, Rule, page, place

TOP = Path(__file__).parents[2]


@cache
def functions(path: str) -> frozenset[str]:
    tree = ast.parse((TOP / path).read_text())
    return frozenset(n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


def test_the_page_of_rules_is_what_the_table_says() -> None:
    assert PAGE.read_text() == page(), "run `make docs`"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_each_rule_names_tests_that_are_there(rule: Rule) -> None:
    assert rule.tests, "a rule that no test shows belongs into an issue"
    for test in rule.tests:
        path, name = place(test)
        found = functions(path)
        assert name in found or (name == "*" and any(f.startswith("test_") for f in found)), test
