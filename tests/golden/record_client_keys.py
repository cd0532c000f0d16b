"""Records what Apache Kafka's clients make of values of their keys, in client-keys-4.3.tsv: class, key, value, refusal.

Run it again (`python -m tests.golden.record_client_keys`, needs `make jars` and javac) when Kafka gets a new version.
Read next: tests/packages/admin/test_client_keys.py, which holds Moldau's tools against it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from moldau.admin.classic.client_keys import BY_CLIENT, Key

HERE = Path(__file__).resolve().parent
JARS = HERE.parents[1] / ".jars" / "kafka-4.3.1"
TARGET = HERE / "client-keys-4.3.tsv"
CLASSES = {"P": "producer.ProducerConfig", "C": "consumer.ConsumerConfig", "A": "admin.AdminClientConfig"}
ANY = ("", " ", "x", "0", " 7 ")
NUMBERS = (
    "-1", "-2", "1", "5", "10", "23", "901", "3601", "4999", "5000", "86401", "0.5", "0.3", "1e3", "NaN", "+5",
    "2147483647", "2147483648", "-131073", "99999999999999999999",
)  # fmt: skip
WORDS = (
    "true", "FALSE", " True ", "yes", "all", "ALL", "gzip", "GZIP", "none", "NONE", "INFO", "info", "plaintext", "Ssl",
    "read_committed", "READ_COMMITTED", "classic", "implicit", "use_all_dns_ips", "es256",
)  # fmt: skip


def values_for(key: Key) -> tuple[str, ...]:
    """What is asked about a key."""
    return ANY + (NUMBERS if key.kind in ("SHORT", "INT", "LONG", "DOUBLE") else WORDS)


def main() -> None:
    """Ask, and write the file."""
    lines = [
        f"{name}	{key.name}	{value}"
        for client, name in CLASSES.items()
        for key in BY_CLIENT[client]
        for value in values_for(key)
    ]
    with TemporaryDirectory() as classes:
        subprocess.run(["javac", "-cp", f"{JARS}/*", "-d", classes, HERE / "ClientKeys.java"], check=True)
        said = subprocess.run(
            ["java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-cp", f"{classes}:{JARS}/*", "ClientKeys"],
            input="\n".join(lines) + "\n", stdout=subprocess.PIPE, text=True, check=True,
        ).stdout.split("\n")[:-1]  # fmt: skip
    assert len(said) == len(lines), f"{len(said)} answers to {len(lines)} lines"
    TARGET.write_text("".join(f"{line}\t{answer}\n" for line, answer in zip(lines, said, strict=True)))


if __name__ == "__main__":
    main()
