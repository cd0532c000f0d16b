"""What the linter asks of one statement of SQL, or of one function of Python, whatever pipeline it stands in."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import pkgutil
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib.machinery import ModuleSpec
from pathlib import Path

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from moldau.pipeline.decode.types import case_only
from moldau.pipeline.reading import did_you_mean
from moldau.pipeline.spark_functions import NAMES

LISTED_MOST = 10
"""How many of many names a message has."""
CHANGING = {
    "current_timestamp", "now", "current_date", "curdate", "localtimestamp", "rand", "random", "randn",
    "uuid", "shuffle", "monotonically_increasing_id", "randstr", "uniform", "spark_partition_id", "current_time",
}  # fmt: skip
"""Functions that do not give the same for the same record."""


GRAMMAR = {"try_cast", "timestampadd", "timestampdiff", "timediff", "group"}
"""What stands before a bracket in Spark's grammar and is none of its functions: ``WITHIN GROUP (ORDER BY ...)``."""


def wrong_function(name: str, folder: Path | None) -> str | None:
    """What is wrong with ``module:function``, which is looked for without importing its module; ``folder`` is where it
    is looked for first. None where nothing is wrong that can be seen."""
    module, _, function = name.partition(":")
    added = [] if folder is None else [str(folder.absolute())]
    before = list(sys.path)
    try:
        sys.path[:0] = added
        found = _spec_of(module)
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


def _spec_of(module: str) -> ModuleSpec | None:
    """Where a module is; None where there is none. A package's own code is not run, as ``find_spec`` of a module in
    it would: it may do anything, or need what is not here."""
    first, *within = module.split(".")
    found, name = importlib.util.find_spec(first), first
    for part in within:
        if found is None or not part:
            return None
        name = f"{name}.{part}"
        finders = map(pkgutil.get_importer, found.submodule_search_locations or ())
        there = [spec for one in finders if one is not None and (spec := one.find_spec(name)) is not None]
        # One without a loader is a folder without code, of which several may be one package.
        found = next((one for one in there if one.loader is not None), ModuleSpec(name, None) if there else None)
        if found is not None and found.loader is None:
            found.submodule_search_locations = [one for spec in there for one in spec.submodule_search_locations or ()]
    return found


def name_of(function: exp.Func) -> str:
    """A function's name as SQL has it. To render the function would be to render all that is in it."""
    return str(function.name if isinstance(function, exp.Anonymous) else function.sql_name()).lower()


def unknown_functions(found: exp.Expr, sql: str) -> Iterator[str]:
    """What is to be said of functions that Spark has not: misspelled ones, another database's, or the session's own.
    sqlglot renames what it knows from elsewhere, so that their names are those that stand before a bracket."""
    aliases = {one.name.lower() for one in found.find_all(exp.TableAlias)}
    tokens = sqlglot.tokenize(sql, read="spark")
    called = {
        one.text.lower()
        for before, one, after in zip([None, *tokens], tokens, tokens[1:], strict=False)
        if (one.token_type, after.token_type) == (sqlglot.TokenType.VAR, sqlglot.TokenType.L_PAREN)
        and (before is None or before.token_type is not sqlglot.TokenType.DOT)
    }
    for name in sorted(called - NAMES - GRAMMAR - aliases):
        hint = did_you_mean(name, sorted(NAMES)) if get_close_matches(name, NAMES, 1) else ""
        yield f"Spark has no function {name!r}: a batch ends by it, unless the session has one. {hint}".rstrip()


def tables_of(found: exp.Expr) -> Iterator[exp.Table]:
    """The tables that a query names: not functions that give rows (``range(3)``), nor what a hint is about."""
    named = (one for one in found.find_all(exp.Table) if isinstance(one.this, exp.Identifier))
    return (one for one in named if one.find_ancestor(exp.Hint) is None)


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


def fields_of_one_name(query: exp.Query, before: Mapping[str, str]) -> dict[str, str]:
    """The columns of a query with two fields that tables take for one, and which: those of structs that its own SQL
    makes, and columns that were such ``before`` and go on as they are. What a subquery gives is not followed."""
    found: dict[str, str] = {}
    for one in query.selects:
        if isinstance(one, exp.Star):
            found |= before
            continue
        name, made = one.alias_or_name, one.unalias()
        why = before.get(made.name) if isinstance(made, exp.Column) else next(_of_one_name(made, name), None)
        if why is not None:
            found[name] = why
    return found


def _of_one_name(made: exp.Expr, path: str) -> Iterator[str]:
    """Why a value cannot be in a table, as far as the expression itself tells its type."""
    if isinstance(made, exp.FromJson):
        made = _type_of(made.expression) or made
    elif isinstance(made, (exp.Cast, exp.TryCast)):
        made = made.to
    if isinstance(made, exp.Paren):
        yield from _of_one_name(made.this, path)
    elif isinstance(made, exp.Struct) or (isinstance(made, exp.DataType) and made.this is exp.DataType.Type.STRUCT):
        yield from _of_fields(made, path)
    elif isinstance(made, (exp.Array, exp.DataType)):
        for one in made.expressions:
            yield from _of_one_name(one, f"{path}.element")


def _of_fields(made: exp.Expr, path: str) -> Iterator[str]:
    seen: dict[str, str] = {}
    for one in made.expressions:
        name = one.alias_or_name
        other = seen.setdefault(name.lower(), name)
        if name and seen[name.lower()] is not name:
            there, here = f"{path}.{other}", f"{path}.{name}"
            yield f"{here!r} is there twice" if there == here else case_only(here, there)
        value = one.args.get("kind") or one.args.get("expression")
        if isinstance(value, exp.Expr):
            yield from _of_one_name(value, f"{path}.{name}")


def _type_of(text: exp.Expr) -> exp.DataType | None:
    """The type that a function is told as a text, ``a int, b int`` or ``struct<a: int>``."""
    for form in ("{}", "struct<{}>"):
        with contextlib.suppress(SqlglotError, ValueError, RecursionError):
            return exp.DataType.build(form.format(text.name), dialect="spark")
    return None


def words(error: BaseException) -> str:
    """The first line of what sqlglot says, without the colours it marks the place with."""
    text = re.sub(r"\x1b\[\d+m", "", str(error) or type(error).__name__)
    return " ".join(text.split())[:300]
