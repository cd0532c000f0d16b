"""Records what Kafka 4.3.1's dump tool says of records of Kafka's own topics: dump-records-4.3.json.

Of every type and version sound ones, tombstones, versions and types that there are not, and some that are cut short or
spoiled. Run it again (`python tests/golden/record_dump_records.py`, needs `make jars` and javac) when dump_records.py
changes, or Kafka gets a new version. Read next: tests/packages/admin/test_dump_golden.py, which holds Moldau's tool
against it without a JVM.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.golden.dump_records import KINDS, Entry, cut, odd, sound, spoiled, strangers, versions  # noqa: E402
from tests.golden.java_tools import JavaTools  # noqa: E402

from moldau.wire.batch import build  # noqa: E402

TARGET = HERE / "dump-records-4.3.json"
DUMP = "org.apache.kafka.tools.DumpLogSegments"


def entries() -> Iterator[tuple[str, Entry]]:
    """What is asked about, with the option that it is shown by."""
    for option in dict.fromkeys(kind.option for kind in KINDS):
        for entry in strangers(option):
            yield option, entry
    for kind in KINDS:
        for version in versions(kind):
            rng = random.Random(f"{kind.option} {kind.number} {version}")
            for seed in range(3):
                yield kind.option, sound(kind, version, seed)
            for entry in rng.sample(list(cut(sound(kind, version, 3))), 3):
                yield kind.option, entry
            for seed in range(4, 7):
                yield kind.option, spoiled(rng, sound(kind, version, seed))
        for entry in odd(kind):
            yield kind.option, entry


def shown(said: str) -> str:
    """What is said of the records of a batch."""
    return said.split("\n", 3)[3]


def main() -> None:
    """Ask, and write the file: by option, the key and the value (in hexadecimal digits) and what was said of them."""
    kept: dict[str, list[list[str | None]]] = {}
    with JavaTools() as java, TemporaryDirectory() as folder:
        file = Path(folder) / f"{0:020d}.log"
        for option, (key, value) in entries():
            file.write_bytes(build([(0, key, value, ())]))
            said = java.run(DUMP, [option, "--skip-record-metadata", "--files", file])
            assert (said.status, said.err) == (0, "")
            row = [None if one is None else one.hex() for one in (key, value)]
            kept.setdefault(option, []).append([*row, shown(said.out)])
    rows = {option: [json.dumps(row) for row in rows] for option, rows in kept.items()}
    text = ",\n".join(f"{json.dumps(option)}: [\n" + ",\n".join(lines) + "\n]" for option, lines in rows.items())
    TARGET.write_text(f"{{\n{text}\n}}\n")
    print(f"{sum(map(len, rows.values()))} records in {TARGET.name}, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
