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
import json
import re
import shlex
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.golden.java_tools import JavaTools, Said

from moldau.admin.classic.java_order import hash_order, string_hash
from moldau.admin.classic.registry import CLASSES, SCRIPTS
from moldau.admin.classic.run import run

MASKS = {
    r"(?m)^\t(at .*|\.\.\. \d+ more)\n": "",
    r"(?m)^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] [A-Z]+ .*\n": "",
    r"deadlineMs=\d+, tries=\d+, nextAllowedTryMs=-?\d+\) timed out at \d+ after \d+": "deadlineMs=(numbers)",
    r"(?m)^(\d+ *\t\S+ *\t)\d+ *\t\d+ *\t[-\w ]+\t[-\w ]+\t": r"\1(numbers)\t",
    r"(?m)^(NodeId *\tDirectoryId *\t)[\w \t]+\t(?=Status)": r"\1(numbers)\t",
    r"(HighWatermark|MaxFollowerLag(TimeMs)?): .*": r"\1: (number)",
    r"  Epoch: \d+": "  Epoch: (number)",
    r"TopicId: \S{22}": "TopicId: (id)",
    r"(Valid \w+ are|of these options|following options|following scenarios): .*": r"\1: (in any order)",
}

OUT_OF_TIME = (
    r"(Timed out waiting for a node assignment\. Call: (?P<waiting>\S+\(api=\w+\))"
    r"|Call\(callName=(?P<asking>\S+\(api=\w+\)), deadlineMs=\(numbers\) attempt\(s\))"
)
"""What an admin client says of a call whose time ended at a cluster that answers: whether it had an attempt under way
at that moment, or was between two, is chance. Towards a cluster that does not answer it is not, and is compared."""

ATTEMPT = (
    r"Caused by: \S+DisconnectException: Cancelled \S+\(api=\w+\) request with correlation id \d+"
    r" due to node \d+ being disconnected\n"
)
"""What it adds to a stack trace when it had an attempt under way at that moment, which is chance too."""

READS = re.compile(
    r"kafka-(get-offsets|log-dirs|broker-api-versions)\.sh"
    r"|kafka-(topics|configs|consumer-groups)\.sh.* --(list|describe|validate-regex)\b"
    r"|kafka-(cluster|features|metadata-quorum)\.sh.* (cluster-id|list-endpoints|describe)\b"
    r"|kafka-reassign-partitions\.sh.* --(list|verify .*--preserve-throttles)\b|.* --dry-run\b"
)
"""Lines that change nothing; nor does one that both refuse."""
READINGS = 3
"""How often such a line is run by both until they say the same: brokers hear of a change one after another, members of
groups come and go, and the quorum may have another leader between two looks. What differs each time is a difference."""

GROUPS_LISTED = re.compile(r"kafka-consumer-groups\.sh\b.* --list\b")
"""Lists in the order of a hash table, in which groups of one place stand as their brokers have answered."""

BROKERS = r"(?m)^(?=\S+ \(id: \d+ rack: )"
"""Where kafka-broker-api-versions.sh begins with a broker: their order is one that Kafka's client has shuffled."""


def groups_in_one_order(said: str) -> str:
    """A list of groups with those of one place in the hash table by name; any other text as it is."""
    rows = {row.split(maxsplit=1)[0]: row for row in said.splitlines(keepends=True) if row.strip()}
    names = list(rows)
    heading = names[:1] if names[:1] == ["GROUP"] else []
    groups = names[len(heading) :]
    if hash_order(groups, string_hash) != groups or len(rows) != said.count("\n"):
        return said
    return "".join(rows[name] for name in [*heading, *hash_order(sorted(groups), string_hash)])


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


def write_json(folder: Path) -> None:
    """The files that cases name, good and bad."""
    first, second = {"topic": "filled", "partition": 0}, {"topic": "filled", "partition": 2}
    files = {
        "list": [1],
        "object": {},
        "nolist": {"partitions": {"topic": "a"}},
        "notopic": {"partitions": [{"partition": 0}]},
        "text": {"partitions": [{"topic": "a", "partition": "0"}]},
        "twice": {"partitions": [first, first]},
        "good": {"partitions": [first, second]},
        "version": {"version": 2, "partitions": []},
        "textversion": {"version": "1", "partitions": []},
        "offsettwice": {"partitions": [first | {"offset": 1}, first | {"offset": 2}]},
        "offsets": {"version": 1, "partitions": [first | {"offset": 3}]},
        "end": {"version": 1, "partitions": [second | {"offset": -1}]},
        "beyond": {"partitions": [first | {"offset": 1000}]},
        "none": {"partitions": []},
        "stranger": {"partitions": [{"topic": "nosuch", "partition": 0, "offset": 1}]},
    }
    for name, value in files.items():
        (folder / f"{name}.json").write_text(json.dumps(value))
    (folder / "no.json").write_text("{no")
    (folder / "empty.json").write_text("")


def lines(text: str) -> list[str]:
    """The cases of a text, one a line."""
    return [line for line in text.splitlines() if line and not line.startswith("#")]


@contextlib.contextmanager
def listening(words: bytes) -> Iterator[str]:
    """The address of somebody who is no broker: it takes connections, and says these words to each."""

    class Stranger(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError):
                self.request.sendall(words)
                while self.request.recv(4096):
                    pass

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Stranger) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


class Case(NamedTuple):
    """A line that both run; ``stdin`` is what they read, ``sides`` who runs it now: the other one follows."""

    line: str
    stdin: str = ""
    sides: str = "jm"


class Both:
    """Runs lines with both and keeps what differs."""

    def __init__(
        self,
        java: JavaTools,
        names: Mapping[str, str],
        masks: Mapping[str, str] | None = None,
        classes: Mapping[str, str] | None = None,
    ) -> None:
        """``classes``: those of another release than 4.3.1, by script."""
        self.java = java
        self.classes = dict(classes or {})
        self.names = dict(names)
        self.by_side: dict[str, dict[str, str]] = {}
        """Names in lines that are not the same for both, and count as the same where they are told."""
        self.masks: dict[str, str | Callable[[re.Match[str]], str]] = {**MASKS, **(masks or {})}
        self._said: list[str] = []
        self.count = 0
        self.differences: list[str] = []
        self.seconds: dict[str, float] = {}

    def run(self, cases: Sequence[Case | str]) -> None:
        """Run the cases in their order, Java's first."""
        for case in cases:
            line, stdin, sides = case if isinstance(case, Case) else Case(case)
            said = self._said
            for reading in range(READINGS):
                said += [self._run(side, line, stdin) for side in sides]
                if len(said) < 2 or said[0] == said[1]:
                    break
                again = READS.match(line) or all(one.startswith("status 1\n") for one in said)
                shown = difflib.unified_diff(said[0].splitlines(), said[1].splitlines(), "kafka", "moldau", lineterm="")
                difference = f"$ {line}\n" + "\n".join(shown)
                said.clear()
                if not again or reading + 1 == READINGS:
                    self.differences.append(difference)
                    break
            if len(said) != 1:
                self.count += 1
                said.clear()

    def _run(self, side: str, line: str, stdin: str) -> str:
        """What one side says to a line, masked."""
        own = {name: values[side] for name, values in self.by_side.items()}
        script, *words = shlex.split(line.format(**self.names, **own, s=side))
        main = self.classes.get(script) or main_class(script)
        began = time.monotonic()
        found = self.java.run(main, words, stdin=stdin) if side == "j" else ours(script, words, stdin)
        self.seconds[f"{side} {line}"] = time.monotonic() - began
        if GROUPS_LISTED.match(line):
            found = found._replace(out=groups_in_one_order(found.out))
        masked = self._masked(found, side if "{s}" in line else None)
        for name in (name for name in own if f"{{{name}}}" in line):
            masked = re.sub(rf"\b{re.escape(own[name])}\b", f"({name})", masked)
        return re.sub(OUT_OF_TIME, self._named, re.sub(ATTEMPT, "", masked)) if "{b}" in line else masked

    def _masked(self, said: Said, side: str | None) -> str:
        texts = []
        for text in ("".join(sorted(re.split(BROKERS, said.out))), said.err):
            for pattern, shown in self.masks.items():
                text = re.sub(pattern, shown, text)
            texts.append(text if side is None else re.sub(rf"\b{side}([-._])(?=[a-z])", r"S\1", text))
        return f"status {said.status}\n-- out\n{texts[0]}-- err\n{texts[1]}"

    @staticmethod
    def _named(found: re.Match[str]) -> str:
        return f"(out of time: {found['waiting'] or found['asking']})"

    def check(self) -> None:
        """AssertionError with all that differed."""
        print(sorted(((round(took, 1), line) for line, took in self.seconds.items()), reverse=True)[:5])
        assert not self.differences, f"{len(self.differences)} of {self.count} differ\n\n" + "\n\n".join(
            self.differences
        )
