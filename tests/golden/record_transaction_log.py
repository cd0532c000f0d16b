"""Records a ``__transaction_state`` of Kafka 4.3.1, and what its dump tool says of it: transaction-log-4.3.json.

Run it again (`python tests/golden/record_transaction_log.py`, needs `make jars`) when tests/live/transaction_writer.py
changes, or Kafka gets a new version.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "live")]

from tests.golden.transaction_log import RECORDED  # noqa: E402
from transaction_writer import PARTITIONS, dumped, files, write_with_kafka  # noqa: E402


def main() -> None:
    """Have the log written, and write the file: of each partition its bytes, and the tool's lines about records."""
    kept = {}
    with TemporaryDirectory() as folder:
        data = write_with_kafka(Path(folder))
        for partition in range(PARTITIONS):
            (file,) = files(data, partition)
            said = [line for line in dumped(data, partition).splitlines() if line.startswith("| ")]
            kept[partition] = {"log": base64.b64encode(file.read_bytes()).decode(), "said": said}
    RECORDED.write_text(json.dumps(kept, indent=0, ensure_ascii=False) + "\n")
    print(f"{sum(len(one['said']) for one in kept.values())} records in {RECORDED.name}")


if __name__ == "__main__":
    main()
