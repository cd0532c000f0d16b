"""Prometheus' text format: families of samples, with labels.

Pure. Counters end in ``_total`` and nothing else is added to a name: existing dashboards ask for these very names. What
has quantiles, a count or a sum of one measure is a summary, whose samples have names of their own.
Source: Prometheus exposition formats, version 0.0.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Family:
    """One name with its samples; those of a summary may be named ``_count`` and ``_sum`` besides."""

    __slots__ = ("help", "kind", "name", "samples")

    def __init__(self, name: str, help: str, value: float | None = None, *, summary: bool = False) -> None:
        self.name = name
        self.help = help
        self.kind = "summary" if summary else "counter" if name.endswith("_total") else "gauge"
        self.samples: list[tuple[str, Labels, float]] = [] if value is None else [("", (), value)]

    def add(self, value: float, suffix: str = "", /, **labels: object) -> None:
        """One more sample; ``suffix`` is ``_count`` or ``_sum`` of a summary."""
        assert not suffix or self.kind == "summary"
        self.samples.append((suffix, tuple((name, str(text)) for name, text in labels.items()), value))

    def lines(self) -> Iterator[str]:
        """Its lines, without line ends."""
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} {self.kind}"
        for suffix, labels, value in self.samples:
            shown = ",".join(f'{name}="{text.translate(_ESCAPES)}"' for name, text in labels)
            name = self.name + suffix
            yield f"{name}{{{shown}}} {_number(value)}" if shown else f"{name} {_number(value)}"


def page(families: Iterable[Family]) -> str:
    """All families that have samples.

    >>> page([Family("a_total", "How many.", 2)])
    '# HELP a_total How many.\\n# TYPE a_total counter\\na_total 2\\n'
    """
    return "".join(f"{line}\n" for family in families if family.samples for line in family.lines())


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
