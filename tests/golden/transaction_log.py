"""What Kafka's dump tool says of ``__transaction_state``, as rows of the tables that Moldau makes of it.

A plain reading of the tool's text, which shares nothing with what is tested but the names of columns. Read next:
record_transaction_log.py, tests/packages/clusterdata/test_transaction_jobs.py, tests/live/test_transaction_jobs.py.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

TOPIC = "__transaction_state"
RECORDED = Path(__file__).resolve().parent / "transaction-log-4.3.json"
LINE = re.compile(r"\| offset: (\d+) (?:CreateTime|LogAppendTime): (\d+) .*? key: (\{.*\}) payload: (\{.*\}|<DELETE>)$")
STATES = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence",
)  # fmt: skip

Row = dict[str, Any]


def rows(partition: int, said: str) -> list[Row]:
    """A row for each record that the tool shows of a partition, in their order."""
    found = []
    for line in said.splitlines():
        if line.startswith("| "):
            match = LINE.match(line)
            assert match is not None, line
            offset, at_ms, key, payload = match.groups()
            place = {"record_ms": int(at_ms), "log_partition": partition, "log_offset": int(offset), "reason": None}
            found.append(row(key, payload) | place)
    return found


def row(key: str, payload: str) -> Row:
    """The columns that the tool's words for a key and a value tell."""
    id = json.loads(key)["data"]["transactionalId"]
    if payload == "<DELETE>":
        return {"transactional_id": id, "tombstone": True} | dict.fromkeys(
            (
                "state", "producer_id", "producer_epoch", "partitions", "started_ms", "updated_ms", "timeout_ms",
                "previous_producer_id", "next_producer_id", "next_producer_epoch", "client_version", "version",
            )
        )  # fmt: skip
    value = json.loads(payload)
    data, status = value["data"], value["data"]["transactionStatus"]
    return {
        "transactional_id": id,
        "tombstone": False,
        "version": int(value["version"]),
        "state": STATES[status] if 0 <= status < len(STATES) else None,
        "producer_id": data["producerId"],
        "producer_epoch": data["producerEpoch"],
        "partitions": [
            f"{one['topic']}-{number}" for one in data["transactionPartitions"] or () for number in one["partitionIds"]
        ],
        "started_ms": data["transactionStartTimestampMs"],
        "updated_ms": data["transactionLastUpdateTimestampMs"],
        "timeout_ms": data["transactionTimeoutMs"],
        "previous_producer_id": data.get("previousProducerId", -1),
        "next_producer_id": data.get("nextProducerId", -1),
        "next_producer_epoch": data.get("nextProducerEpoch", -1),
        "client_version": data.get("clientTransactionVersion", 0),
    }


def newest(found: Iterable[Row]) -> dict[str, Row]:
    """The last row of each transactional id."""
    return {one["transactional_id"]: one for one in found}


def write_recorded(home: Path) -> list[Row]:
    """Write what was recorded of a broker of Kafka as a log directory; the rows that Kafka's tool tells of it."""
    told: list[Row] = []
    for partition, one in json.loads(RECORDED.read_text()).items():
        folder = home / f"{TOPIC}-{partition}"
        folder.mkdir(parents=True)
        (folder / f"{0:020d}.log").write_bytes(base64.b64decode(one["log"]))
        told += rows(int(partition), "\n".join(one["said"]))
    return told
