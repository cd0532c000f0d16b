"""Limits of source files: how long functions and modules are, how many arguments functions take, that each file says
what it is.

Measured on the source text; a number here may only go down. Each test looks at all files and names those that break its
rule: a test for each file and rule were five thousand, which took longer than all that they look at.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "src").rglob("*.py"))
FUNCTION_LINES_MAX = 60
MODULE_LINES_MAX = 500
ARGUMENTS_MAX = 5
DOCSTRING_LINES_MAX = 15

# Tables of facts are as long as the facts are: message schemas are generated from nothing, and read by nobody in one
# go.
TABLES = {"model/codes.py", "model/broker_config.py", "model/topic_config.py", "wire/records/metadata.py"}


def name(path: Path) -> str:
    return str(path.relative_to(ROOT / "src")).removeprefix("moldau/")


class Function(NamedTuple):
    place: str
    lines: int
    positional: int
    decorators: list[str]


class Facts(NamedTuple):
    """What the rules ask of a file: its tree is large, and not kept."""

    docstring_lines: int
    functions: list[Function]
    with_metaclass: list[str]
    late_fields: list[str]


@cache
def facts(path: Path) -> Facts:
    tree = ast.parse(path.read_text())
    found = Facts(len((ast.get_docstring(tree) or "").splitlines()), [], [], [])
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert node.end_lineno is not None
            arguments = [a.arg for a in (*node.args.posonlyargs, *node.args.args) if a.arg not in ("self", "cls")]
            decorators = [ast.unparse(d.func) for d in node.decorator_list if isinstance(d, ast.Call)]
            place = f"{name(path)}:{node.lineno} {node.name}"
            found.functions.append(Function(place, node.end_lineno - node.lineno + 1, len(arguments), decorators))
        elif isinstance(node, ast.ClassDef):
            found.late_fields.extend(f"{name(path)}:{line} {node.name}" for line in lines_of_late_fields(node))
            if any(keyword.arg == "metaclass" for keyword in node.keywords):
                found.with_metaclass.append(f"{name(path)}:{node.lineno} {node.name}")
    return found


def lines_of_late_fields(node: ast.ClassDef) -> list[int]:
    """Where a class declares a field after its first method; what Python itself asks for (``__hash__``) is no field."""
    lines, methods = [], 0
    for part in node.body:
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
            methods += 1
        elif methods and isinstance(part, (ast.Assign, ast.AnnAssign)):
            target = part.targets[0] if isinstance(part, ast.Assign) else part.target
            if not ast.unparse(target).startswith("__"):
                lines.append(part.lineno)
    return lines


def test_no_function_is_longer_than_a_screen() -> None:
    functions = [f for path in FILES for f in facts(path).functions]
    assert not {f.place: f.lines for f in functions if f.lines > FUNCTION_LINES_MAX}


def test_no_module_is_longer_than_its_budget() -> None:
    lines = {name(path): len(path.read_text().splitlines()) for path in FILES if name(path) not in TABLES}
    assert not {file: count for file, count in lines.items() if count > MODULE_LINES_MAX}


def test_no_function_takes_more_arguments_than_a_reader_can_hold() -> None:
    """But those of commands, whose options are their users' words."""
    functions = [
        f
        for path in FILES
        for f in facts(path).functions
        if not any(decorator.startswith(("click.", "storage.")) for decorator in f.decorators)
    ]
    assert not {f.place: f.positional for f in functions if f.positional > ARGUMENTS_MAX}


def test_every_file_begins_by_saying_what_it_is() -> None:
    """What it decides, what it does not, and where to read next."""
    lines = {name(path): facts(path).docstring_lines for path in FILES}
    assert not {file: count for file, count in lines.items() if not 0 < count <= DOCSTRING_LINES_MAX}


def test_no_class_has_a_metaclass() -> None:
    assert not [place for path in FILES for place in facts(path).with_metaclass]


def test_no_work_is_left_unfinished() -> None:
    words = ("TODO", "FIXME", "XXX", "NotImplementedError")
    texts = {name(path): path.read_text() for path in FILES}
    assert not [f"{file}: {word}" for file, text in texts.items() for word in words if word in text]


def test_no_module_is_for_whatever_has_no_place() -> None:
    without_subject = {"common.py", "util.py", "utils.py", "helpers.py", "misc.py"}
    assert not [str(path) for path in FILES if path.name in without_subject]


def test_a_class_declares_its_fields_before_its_methods() -> None:
    """State is looked for in ``__init__`` or at the top of the class; between two methods nobody finds it."""
    assert not [place for path in FILES for place in facts(path).late_fields]
