"""Prometheus' text format: families of samples, with labels.

Pure. Counters end in ``_total`` and nothing else is added to a name: existing dashboards ask for these very names.
Source: Prometheus exposition formats, version 0.0.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Family:
    """One name with its samples."""

    __slots__ = ("help", "name", "samples")

    def __init__(self, name: str, help: str, value: float | None = None) -> None:
        self.name = name
        self.help = help
        self.samples: list[tuple[Labels, float]] = [] if value is None else [((), value)]

    def add(self, value: float, **labels: object) -> None:
        """One more sample."""
        self.samples.append((tuple((name, str(text)) for name, text in labels.items()), value))

    def lines(self) -> Iterator[str]:
        """Its lines, without line ends."""
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} {'counter' if self.name.endswith('_total') else 'gauge'}"
        for labels, value in self.samples:
            shown = ",".join(f'{name}="{text.translate(_ESCAPES)}"' for name, text in labels)
            yield f"{self.name}{{{shown}}} {_number(value)}" if shown else f"{self.name} {_number(value)}"


def page(families: Iterable[Family]) -> str:
    """All families that have samples.

    >>> page([Family("a_total", "How many.", 2)])
    '# HELP a_total How many.\\n# TYPE a_total counter\\na_total 2\\n'
    """
    return "".join(f"{line}\n" for family in families if family.samples for line in family.lines())


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
