"""Holds Moldau's classic tools against Apache Kafka's: the same words for both, on the same cluster.

A case is a line as a user types it. ``{s}`` in it becomes ``j`` for Java's run and ``m`` for ours, in names of what a
command makes or takes away; ``{b}`` is the cluster. What is masked, because it cannot be equal: the frames of stack
traces, lines of a log, ids of topics that both made, numbers of a clock, and an order that is shuffled.
Read next: test_classic_tools.py.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import re
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.golden.java_tools import JavaTools, Said

from moldau.admin.classic.registry import CLASSES, SCRIPTS
from moldau.admin.classic.run import run

MASKS = {
    r"(?m)^\t(at .*|\.\.\. \d+ more)\n": "",
    r"(?m)^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] [A-Z]+ .*\n": "",
    r"deadlineMs=\d+, tries=\d+, nextAllowedTryMs=-?\d+\) timed out at \d+ after \d+": "deadlineMs=(numbers)",
    r"TopicId: \S{22}": "TopicId: (id)",
}

BROKERS = r"(?m)^(?=\S+ \(id: \d+ rack: )"
"""Where kafka-broker-api-versions.sh begins with a broker: their order is one that Kafka's client has shuffled."""


def main_class(script: str) -> str:
    """The class of Kafka 4.3.1 that a script runs."""
    return next(name for name, module in CLASSES.items() if module == SCRIPTS[script])


def ours(script: str, words: Sequence[str], stdin: str = "") -> Said:
    """What Moldau's tool says, run in this process."""
    out, err, before = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode()))
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = run(script, words)
    finally:
        sys.stdin = before
    return Said(status, out.getvalue(), err.getvalue())


class Case(NamedTuple):
    """A line that both run; ``stdin`` is what they are given to read."""

    line: str
    stdin: str = ""


class Both:
    """Runs lines with both and keeps what differs."""

    def __init__(self, java: JavaTools, names: Mapping[str, str], masks: Mapping[str, str] | None = None) -> None:
        self.java = java
        self.names = dict(names)
        self.masks = {**MASKS, **(masks or {})}
        self.count = 0
        self.differences: list[str] = []
        self.seconds: dict[str, float] = {}

    def run(self, cases: Sequence[Case | str]) -> None:
        """Run the cases in their order, Java's first."""
        for case in cases:
            line, stdin = case if isinstance(case, Case) else (case, "")
            said = []
            for side in "jm":
                script, *words = shlex.split(line.format(**self.names, s=side))
                tool = (main_class(script), words) if side == "j" else (script, words)
                began = time.monotonic()
                found = self.java.run(*tool, stdin=stdin) if side == "j" else ours(script, words, stdin)
                self.seconds[f"{side} {line}"] = time.monotonic() - began
                said.append(self._masked(found, side if "{s}" in line else None))
            self.count += 1
            if said[0] != said[1]:
                shown = difflib.unified_diff(said[0].splitlines(), said[1].splitlines(), "kafka", "moldau", lineterm="")
                self.differences.append(f"$ {line}\n" + "\n".join(shown))

    def _masked(self, said: Said, side: str | None) -> str:
        texts = []
        for text in ("".join(sorted(re.split(BROKERS, said.out))), said.err):
            for pattern, shown in self.masks.items():
                text = re.sub(pattern, shown, text)
            texts.append(text if side is None else re.sub(rf"\b{side}([-._])(?=[a-z])", r"S\1", text))
        return f"status {said.status}\n-- out\n{texts[0]}-- err\n{texts[1]}"

    def check(self) -> None:
        """AssertionError with all that differed."""
        print(sorted(((round(took, 1), line) for line, took in self.seconds.items()), reverse=True)[:5])
        assert not self.differences, f"{len(self.differences)} of {self.count} differ\n\n" + "\n\n".join(
            self.differences
        )
