"""Records what Kafka's tools say to command lines that need no cluster: 4.3.1's in classic-4.3.json, 2.8.2's of
the ZooKeeper era in classic-2.8.json, and 4.3.1's words for texts that are no JSON in bad-json-4.3.json.

Usage tables, versions, and what is wrong with options and files. Run it again (`python tests/golden/
record_classic_tools.py`, needs `make jars` and javac) when a case or a tool is added, or Kafka gets a new version. Read
next: tests/packages/admin/test_classic_golden.py, which holds Moldau's tools against it without a JVM.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.golden.classic_lines import BAD_JSON, CLASSES_OF_2_8, LINES, LINES_OF_2_8, B, masked  # noqa: E402
from tests.golden.java_tools import JARS, KAFKA, JavaTools  # noqa: E402

from moldau.admin.classic.registry import CLASSES, SCRIPTS  # noqa: E402

TARGET, TARGET_OF_2_8 = HERE / "classic-4.3.json", HERE / "classic-2.8.json"
BAD_JSON_TARGET = HERE / "bad-json-4.3.json"


def main() -> None:
    """Ask, and write the files."""
    record(TARGET, KAFKA, LINES, {})
    record(TARGET_OF_2_8, JARS / "tools-2.8.2", LINES_OF_2_8, CLASSES_OF_2_8)
    record_bad_json()


def record_bad_json() -> None:
    """Have a plan read that is none, and write what is said of it."""
    main = next(name for name, module in CLASSES.items() if module == "reassign_partitions")
    kept = {}
    with JavaTools() as java, TemporaryDirectory() as folder:
        plan = Path(folder) / "plan"
        for text in BAD_JSON:
            plan.write_text(text)
            said = java.run(main, [*B.split(), "--execute", "--reassignment-json-file", plan])
            kept[text] = masked(said.out)
    BAD_JSON_TARGET.write_text(json.dumps(kept, indent=0) + "\n")
    print(f"{len(kept)} texts in {BAD_JSON_TARGET.name}, {BAD_JSON_TARGET.stat().st_size} bytes")


def record(target: Path, jars: Path, lines: Sequence[str], classes: Mapping[str, str]) -> None:
    """Ask, and write a file: line -> status, output, errors. ``classes``: by script, where they are not of 4.3.1."""
    kept = {}
    with JavaTools(jars) as java:
        for line in lines:
            script, *words = shlex.split(line)
            name = classes.get(script) or next(name for name, module in CLASSES.items() if module == SCRIPTS[script])
            said = java.run(name, words)
            kept[line] = [said.status, masked(said.out), masked(said.err)]
    target.write_text(json.dumps(kept, indent=0) + "\n")
    print(f"{len(kept)} command lines in {target.name}, {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
