"""What the linter asks of one statement of SQL, or of one function of Python, whatever pipeline it stands in."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from sqlglot import exp

from moldau.pipeline.reading import did_you_mean

LISTED_MOST = 10
"""How many of many names a message has."""


def wrong_function(name: str, folder: Path | None) -> str | None:
    """What is wrong with ``module:function``, which is looked for without importing its module; ``folder`` is where it
    is looked for first. None where nothing is wrong that can be seen."""
    module, _, function = name.partition(":")
    added = [] if folder is None else [str(folder.absolute())]
    before = list(sys.path)
    try:
        sys.path[:0] = added
        found = importlib.util.find_spec(module)
    except (ImportError, ValueError) as error:
        return f"{module} is not there: {error}"
    finally:
        sys.path[:] = before
    if found is None:
        return f"there is no module {module!r} beside the file or installed"
    if found.origin is None or not found.origin.endswith(".py"):
        return None
    try:
        tree = ast.parse(Path(found.origin).read_text(encoding="utf-8"))
    except (SyntaxError, ValueError) as error:
        return f"{found.origin}: {error}"
    names = {
        one.name for one in tree.body if isinstance(one, (ast.FunctionDef, ast.ClassDef))
    } | {target.id for one in tree.body if isinstance(one, ast.Assign) for target in one.targets
         if isinstance(target, ast.Name)}  # fmt: skip
    imported = any(isinstance(one, (ast.Import, ast.ImportFrom)) for one in tree.body)
    if function not in names and not imported:
        return f"{module} has no {function!r}. {did_you_mean(function, sorted(names))}"
    return None


def name_of(function: exp.Func) -> str:
    """A function's name as SQL has it. To render the function would be to render all that is in it."""
    return str(function.name if isinstance(function, exp.Anonymous) else function.sql_name()).lower()


def steps_up(found: exp.Expr) -> int:
    """How far it is from each column up to its SELECT, in all: sqlglot goes that way for each of them."""
    steps, left = 0, [(found, 0)]
    while left:
        one, depth = left.pop()
        steps += depth if isinstance(one, exp.Column) else 0
        below = 0 if isinstance(one, exp.Query) else depth + 1
        left += [(each, below) for each in one.iter_expressions()]
    return steps


def listed(names: Sequence[str]) -> str:
    """The names, or the first ones of many."""
    more = f" (and {len(names) - LISTED_MOST:,} more names)" if len(names) > LISTED_MOST else ""
    return f"{', '.join(map(repr, names[:LISTED_MOST]))}{more}"


def repeated(names: Iterable[str]) -> list[str]:
    """The names that stand twice among these, as tables compare them."""
    seen = Counter(name.lower() for name in names if name)
    return [name for name, count in seen.items() if count > 1]


def words(error: BaseException) -> str:
    """The first line of what sqlglot says, without the colours it marks the place with."""
    text = re.sub(r"\x1b\[\d+m", "", str(error) or type(error).__name__)
    return " ".join(text.split())[:300]
