"""Records what Apache Kafka's leader makes of the 10,000 batches of produced_batches.py, in admission-4.3.tsv.

AdmissionJudge.java appends each batch to a real UnifiedLog of Kafka's own jars. A line has its code's number; the
indices of the records that were named; the CRC32C of the messages (top-level first, then each record's, joined by
0x1f); what was stored, or the class of the exception; and the packed payload in base64 where the batch's was changed.
Run it again (`python tests/golden/record_admission.py`, needs `make jars` and javac) when Kafka gets a new version.
With `--first N` it asks Kafka of the batches from number N on instead, writes nothing, and tells where Moldau says
other than Kafka.
Read next: tests/packages/storage/test_kafka_log_validator.py, which holds Moldau against these lines.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.golden.produced_batches import CONFIGS, COUNT, NOW_MS, batch_of  # noqa: E402

from moldau.model import Code  # noqa: E402
from moldau.wire.crc import crc32c  # noqa: E402

JARS = HERE.parents[1] / ".jars" / "kafka-4.3.1"
TARGET = HERE / "admission-4.3.tsv"


def main() -> int:
    """Ask, and write the file, or compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=None, help="compare the 10,000 batches from this number on")
    first: int | None = parser.parse_args().first
    verdicts = judged(range(first or 0, (first or 0) + COUNT))
    if first is None:
        TARGET.write_text("".join(f"{line}\n" for line in verdicts.values()))
        print(f"{COUNT} verdicts in {TARGET.name}, {TARGET.stat().st_size} bytes")
        return 0
    from tests.packages.storage.test_kafka_log_validator import differences

    wrong = differences(verdicts)
    print(f"batches {first} to {first + COUNT - 1}: {len(wrong)} differ", *wrong[:20], sep="\n")
    return 1 if wrong else 0


def judged(numbers: range) -> dict[int, str]:
    """Kafka's verdicts on batches, by their numbers, as lines of the file."""
    lines = [str(NOW_MS)]
    for name, settings in CONFIGS.items():
        lines.append(f"config {name} " + ",".join(f"{key}={text}" for key, text in settings.items()))
    kept = []
    for number in numbers:
        name, batch, packed = batch_of(number)
        lines.append(f"batch {name} {batch.hex()}")
        kept.append(packed)
    with TemporaryDirectory() as classes:
        subprocess.run(["javac", "-cp", f"{JARS}/*", "-d", classes, HERE / "AdmissionJudge.java"], check=True)
        flags = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=error", f"-Djava.io.tmpdir={classes}")
        said = subprocess.run(
            ["java", *flags, "-cp", f"{classes}:{JARS}/*", "AdmissionJudge"],
            input="\n".join(lines) + "\n", stdout=subprocess.PIPE, text=True, check=True,
        ).stdout.split("\n")[:-1]  # fmt: skip
    assert len(said) == len(numbers), f"{len(said)} verdicts on {len(numbers)} batches"
    return {number: _verdict(line, packed) for number, line, packed in zip(numbers, said, kept, strict=True)}


def _verdict(said: str, packed: bytes | None) -> str:
    code, error, message, errors, *stored = said.split("\t")
    indices = ",".join(each.split("=")[0] for each in errors.split("\x1f") if each)
    texts = "\x1f".join((message, *(each.partition("=")[2] for each in errors.split("\x1f") if each)))
    digest = f"{crc32c(texts.encode()):08x}" if indices else ""
    told = ",".join(stored) or error.removesuffix("Exception")
    packed_text = "" if packed is None else b64encode(packed).decode()
    return "\t".join((str(int(Code[code])), indices, digest, told, packed_text)).rstrip("\t")


if __name__ == "__main__":
    sys.exit(main())
