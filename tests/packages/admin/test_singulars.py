"""What the commands of Moldau count is told with the noun of one thing where it is one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import moldau

SOURCES = Path(moldau.__file__).parent
PLURAL = re.compile(
    r" (?:more )?(partitions|offsets|brokers|topics|replicas|moves|records|members|groups|nodes|files|rows|lines"
    r"|leaders|letters|errors|warnings|controllers|consumers|directories|messages|batches|versions|ids)\b"
)
TOLD = ("admin", "pipeline", "clusterdata")
COPIES = "classic"
"""Kafka's own tools, whose texts say "1 partitions" where Kafka's do."""
SEVERAL = {
    "admin/cluster_checks.py": {"controllers"},  # an even number
    "admin/demo/report.py": {"batches"},  # of a run with hundreds
    "admin/reassignment/apply_command.py": {"replicas"},  # after a pronoun
    "admin/record.py": {"records"},  # after a verb
    "admin/demo/story.py": {"partitions"},  # six
    "admin/perf.py": {"records"},  # a measurement, whose form scripts read
    "admin/reassignment/planning.py": {"replicas"},  # more than there are brokers
    "pipeline/lint.py": {"columns"},  # more than a limit
}
"""Nouns that are never of one thing there."""


def plurals(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Lines with a number in a text before a noun of several, and that noun."""
    for text in ast.walk(tree):
        if not isinstance(text, ast.JoinedStr):
            continue
        for number, noun in zip(text.values, text.values[1:], strict=False):
            if isinstance(number, ast.FormattedValue) and isinstance(noun, ast.Constant):
                found = PLURAL.match(str(noun.value))
                if found is not None and "counted(" not in ast.unparse(number):
                    yield text.lineno, found[1]


def test_nothing_that_is_counted_is_told_with_a_plural_alone() -> None:
    """`moldau record delete` told that 1 offsets were deleted."""
    wrong = []
    for folder in TOLD:
        for file in sorted((SOURCES / folder).rglob("*.py")):
            place = file.relative_to(SOURCES).as_posix()
            if COPIES not in file.parts:
                wrong += [
                    f"{place}:{line}: {noun}"
                    for line, noun in plurals(ast.parse(file.read_text(encoding="utf-8")))
                    if noun not in SEVERAL.get(place, ())
                ]
    assert not wrong, "use moldau.model.counted: " + ", ".join(wrong)
