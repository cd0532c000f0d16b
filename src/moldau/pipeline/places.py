"""YAML whose every value knows its line and column, with ``${NAME}`` and ``${NAME:-default}`` filled in.

Values are what YAML's core schema says; a key that stands twice in one mapping is a problem, since YAML would keep the
last silently. Read next: reading.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import yaml

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\$|\$\{[^\s}]{0,20}\}?")


class FilePosition(NamedTuple):
    """Where something stands in a file; lines and columns count from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class FileProblem:
    """What is wrong at a place, and what would be right; an ``error`` keeps the pipeline from running."""

    place: FilePosition
    message: str
    error: bool = True

    def to_text(self, file: str) -> str:
        return f"{file}:{self.place}: {'error' if self.error else 'warning'}: {self.message}"


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the file: text, a number, a truth, None, a tuple of ``Value``s, or a mapping of names to them."""

    place: FilePosition
    data: str | int | float | bool | tuple[Value, ...] | Mapping[str, Value] | None
    keys: Mapping[str, FilePosition]
    """Where the names of a mapping stand."""
    written: str = ""
    """A value as it stands in the file: ``1.10`` is the number 1.1, and may be meant as a text."""

    def plain(self) -> object:
        """The value without places."""
        if isinstance(self.data, tuple):
            return [one.plain() for one in self.data]
        if isinstance(self.data, Mapping):
            return {name: one.plain() for name, one in self.data.items()}
        return self.data


class NotYaml(Exception):
    """The text is not YAML; ``problem`` says where."""

    def __init__(self, problem: FileProblem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class _Loader(yaml.SafeLoader):
    """Safe YAML in which dates stay text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parse(text: str, variables: Mapping[str, str]) -> tuple[Value, list[FileProblem]]:
    """The document of a text and what is wrong with it as YAML; NotYaml when it cannot be read at all."""
    problems: list[FileProblem] = []
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = FilePosition(1, 1) if mark is None else FilePosition(mark.line + 1, mark.column + 1)
        raise NotYaml(FileProblem(place, f"not YAML: {error.problem or error.context}")) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise NotYaml(FileProblem(FilePosition(1, 1), f"not YAML: {str(error).splitlines()[0]}")) from None
    if node is None:
        return Value(FilePosition(1, 1), None, {}), problems
    return _Reader(variables, problems).read(node, ()), problems


class _Reader:
    """Turns nodes into values; ``problems`` gathers what is wrong on the way."""

    def __init__(self, variables: Mapping[str, str], problems: list[FileProblem]) -> None:
        self._variables, self._problems, self._loader = variables, problems, _Loader("")
        self._left = 100_000
        """How many values may still be read: anchors can name a few lines a billion times."""

    def read(self, node: yaml.Node, above: tuple[int, ...]) -> Value:
        place = FilePosition(node.start_mark.line + 1, node.start_mark.column + 1)
        self._left -= 1
        if self._left < 0 or id(node) in above or len(above) > 50:
            raise NotYaml(FileProblem(place, "too deep or too large for a pipeline (an alias that holds itself?)"))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, place, (*above, id(node)))
        if isinstance(node, yaml.SequenceNode):
            return Value(place, tuple(self.read(one, (*above, id(node))) for one in node.value), {})
        assert isinstance(node, yaml.ScalarNode), "YAML has three kinds of nodes"
        data, written = self._scalar(node, place)
        return Value(place, data, {}, written)

    def _mapping(self, node: yaml.MappingNode, place: FilePosition, above: tuple[int, ...]) -> Value:
        found: dict[str, Value] = {}
        keys: dict[str, FilePosition] = {}
        for key, value in node.value:
            at = FilePosition(key.start_mark.line + 1, key.start_mark.column + 1)
            if not isinstance(key, yaml.ScalarNode):
                self._problems.append(FileProblem(at, "a name is expected here"))
                continue
            if key.value in found:
                first = keys[key.value].line
                self._problems.append(
                    FileProblem(at, f"{key.value!r} stands here a second time (first in line {first})")
                )
                continue
            keys[key.value], found[key.value] = at, self.read(value, above)
        return Value(place, found, keys)

    def _scalar(self, node: yaml.ScalarNode, place: FilePosition) -> tuple[str | int | float | bool | None, str]:
        """The value, and its text with variables filled in."""
        if "${" in node.value or "$$" in node.value:
            filled = self._filled(node.value, place)
            tag = node.tag if node.style else self._loader.resolve(yaml.ScalarNode, filled, (True, False))  # type: ignore[no-untyped-call]
            node = yaml.ScalarNode(tag, filled, node.start_mark, node.end_mark, node.style)
        try:
            found = self._loader.construct_object(node)
        except (yaml.YAMLError, ValueError, ArithmeticError, AttributeError, LookupError):  # PyYAML lets them through
            self._problems.append(FileProblem(place, f"{node.value!r} is not a value of the kind {node.tag}"))
            return None, node.value
        kept = found if isinstance(found, (str, int, float, bool)) or found is None else str(node.value)
        return kept, node.value

    def _filled(self, text: str, place: FilePosition) -> str:
        def fill(found: re.Match[str]) -> str:
            name, default = found[1], found[2]
            if found[0] == "$$":
                return "$"
            if name is None:
                why = "is not closed or names no variable: ${NAME} and ${NAME:-default} do; $$ is a dollar sign"
                self._problems.append(FileProblem(place, f"{found[0]!r} {why}"))
                return ""
            value = self._variables.get(name, default)
            if value is None:
                hint = f"${{{name}:-default}} gives a default"
                self._problems.append(FileProblem(place, f"the environment has no {name}; {hint}"))
                return ""
            return value

        return _VARIABLE.sub(fill, text)
