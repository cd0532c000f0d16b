"""The house's budgets: how long, how wide, how signed. Measured on the source text; a number here may only go down."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "src").rglob("*.py"))
FUNCTION_LINES_MAX = 60
MODULE_LINES_MAX = 500
ARGUMENTS_MAX = 5
SIGN_LINES_MAX = 15

# Tables of facts are as long as the facts are: message schemas are generated from nothing, and read by nobody in one
# go.
TABLES = {"model/codes.py", "model/broker_config.py", "model/topic_config.py", "wire/records/metadata.py"}


def name(path: Path) -> str:
    return str(path.relative_to(ROOT / "src")).removeprefix("moldau/")


@pytest.fixture(params=FILES, ids=[str(path.relative_to(ROOT / "src")) for path in FILES])
def source(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    tree = ast.parse(path.read_text())
    return [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


def test_no_function_is_longer_than_a_screen(source: Path) -> None:
    long = {f.name: f.end_lineno - f.lineno + 1 for f in functions(source) if f.end_lineno is not None}
    assert not {k: v for k, v in long.items() if v > FUNCTION_LINES_MAX}


def test_no_module_is_longer_than_its_budget(source: Path) -> None:
    if name(source) not in TABLES:
        assert len(source.read_text().splitlines()) <= MODULE_LINES_MAX


def test_no_function_takes_more_arguments_than_a_reader_can_hold(source: Path) -> None:
    wide = {}
    for f in functions(source):
        decorators = [ast.unparse(d.func) for d in f.decorator_list if isinstance(d, ast.Call)]
        if any(d.startswith(("click.", "storage.")) for d in decorators):
            continue  # a command's options are its users' words
        positional = [a.arg for a in (*f.args.posonlyargs, *f.args.args) if a.arg not in ("self", "cls")]
        if len(positional) > ARGUMENTS_MAX:
            wide[f.name] = len(positional)
    assert not wide


def test_every_file_opens_with_a_sign(source: Path) -> None:
    sign = ast.get_docstring(ast.parse(source.read_text()))
    assert sign, "a file says what it decides, what it does not, and where to read next"
    assert len(sign.splitlines()) <= SIGN_LINES_MAX


def test_no_metaclass_and_no_unfinished_work(source: Path) -> None:
    text = source.read_text()
    tree = ast.parse(text)
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    assert not [c.name for c in classes if any(keyword.arg == "metaclass" for keyword in c.keywords)]
    for word in ("TODO", "FIXME", "XXX", "NotImplementedError"):
        assert word not in text


def test_no_room_is_a_drawer() -> None:
    drawers = {"common.py", "util.py", "utils.py", "helpers.py", "misc.py"}
    assert not [str(path) for path in FILES if path.name in drawers]
