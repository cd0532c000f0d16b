"""State-change logs of three brokers that are made up here, for what merges or reads them."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from pathlib import Path

NODES = 3
UNDERSTOOD = 0.27
"""Of the lines, those that Apache Kafka 2.8.2's merger understands: as many as of any log of today (decision 28)."""


def write_logs(folder: Path, lines: int) -> list[Path]:
    """The log of each of three brokers, in a folder of its own; several lines in each millisecond, the brokers in any
    order."""
    rng = random.Random(3)
    paths = [folder / f"node-{node}" / "state-change.log" for node in range(NODES)]
    for path in paths:
        path.parent.mkdir()
    now = datetime(2024, 1, 31, 10)
    files = [path.open("w") for path in paths]
    for number in range(lines):
        now += timedelta(milliseconds=rng.choice((0, 0, 0, 1, 2)))
        node, partition = rng.randrange(NODES), rng.randrange(100)
        text = (
            f"INFO [Broker id={node}] Follower foo-{partition} starts at leader epoch {number} from offset 12 with"
            f" partition epoch {number} and high watermark 11. Current leader is 1. Previous leader Some(2) and"
            " previous leader epoch was 3."
        )
        if rng.random() < UNDERSTOOD:
            text = (
                f"TRACE [Broker id={node}] Received LeaderAndIsr request LeaderAndIsrPartitionState(topicName='foo',"
                f" partitionIndex={partition}, controllerEpoch=5, leader=1, leaderEpoch={number}, isr=[1, 2],"
                f" partitionEpoch={number}, replicas=[1, 2], addingReplicas=[], removingReplicas=[], isNew=true,"
                f" leaderRecoveryState=0) correlation id {number} from controller 1 epoch 5"
            )
        files[node].write(f"[{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d}] {text} (state.change.logger)\n")
    for file in files:
        file.close()
    return paths
