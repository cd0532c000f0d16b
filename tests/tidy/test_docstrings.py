"""What a docstring says that a function returns, it returns; it has a subject, and a section that it names is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
SRC = TOP / "src" / "moldau"
WHETHER = re.compile(r"(Return )?whether\b", re.I)
BOOLS = re.compile(r"\b(bool|TypeGuard|TypeIs)\b")
NO_SUBJECT = re.compile(r"\s*(Of|Those|And|That (?=a |an |the |one |of |topics ))\b")
SECTION = re.compile(r'\((?:docs/)?([a-z-]+)(?:\.md)?,\s+"([^"]+)"\)')


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef, str]]:
    """Each function with a docstring and a return annotation: where it is, itself, what it returns."""
    for path in sorted(SRC.rglob("*.py")):
        module = path.relative_to(SRC).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
                yield f"{module}:{node.lineno} {node.name}", node, ast.unparse(node.returns)


def test_who_says_whether_returns_a_bool() -> None:
    """A code that means success is true or false as a bool is not: its docstring says which code is returned."""
    assert not [
        f"{where} -> {returned}"
        for where, node, returned in functions()
        if WHETHER.match(ast.get_docstring(node) or "") and not BOOLS.search(returned)
    ]


def test_a_section_of_a_page_that_a_text_names_is_there() -> None:
    missing = []
    for path in sorted(SRC.rglob("*.py")):
        for page, title in SECTION.findall(path.read_text()):
            text = TOP / "docs" / f"{page}.md"
            if text.exists() and not re.search(rf"^#+ {re.escape(' '.join(title.split()))}$", text.read_text(), re.M):
                missing.append(f"{path.relative_to(SRC)}: {page}.md has no section {title!r}")
    assert not missing


def test_a_docstring_says_what_it_is_about() -> None:
    """Not "Those of one broker" under a class name, or "Of its socket": what is meant is a word of the sentence."""
    assert not [
        f"{path.relative_to(SRC)}:{line} {text[:60]}"
        for path in sorted(SRC.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        for line, text in texts_of(node)
        if NO_SUBJECT.match(text)
    ]


def texts_of(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of the docstring of a module, class or function, and of those of its fields and constants."""
    for part in getattr(node, "body", None) or () if not isinstance(node, ast.Lambda | ast.IfExp) else ():
        if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant) and isinstance(part.value.value, str):
            yield part.lineno, part.value.value
