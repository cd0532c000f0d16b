"""Records what Apache Kafka 4.3.1's tools say to command lines that need no cluster, in classic-4.3.json.

Usage tables, versions, and what is wrong with options and files. Run it again (`python tests/golden/
record_classic_tools.py`, needs `make jars` and javac) when a case or a tool is added, or Kafka gets a new version. Read
next: tests/rooms/admin/test_classic_golden.py, which holds Moldau's tools against it without a JVM.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.golden.classic_lines import LINES, masked  # noqa: E402
from tests.golden.java_tools import JavaTools  # noqa: E402

from moldau.admin.classic.registry import CLASSES, SCRIPTS  # noqa: E402

TARGET = HERE / "classic-4.3.json"


def main() -> None:
    """Ask, and write the file: line -> status, output, errors."""
    kept = {}
    with JavaTools() as java:
        for line in LINES:
            script, *words = shlex.split(line)
            name = next(name for name, module in CLASSES.items() if module == SCRIPTS[script])
            said = java.run(name, words)
            kept[line] = [said.status, masked(said.out), masked(said.err)]
    TARGET.write_text(json.dumps(kept, indent=0) + "\n")
    print(f"{len(kept)} command lines in {TARGET.name}, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
