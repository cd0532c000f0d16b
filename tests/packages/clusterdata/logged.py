"""A controller's decisions, and the state-change logs that nodes write of them: the text and its JSON twin."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from moldau.clusterdata.state_changes.lines import time_of
from moldau.controller.state_change import Author, state_changes
from moldau.image import NO_LEADER
from moldau.model import uuid_text
from moldau.simulator.machines.controller_harness import ControllerHarness

Decision = tuple[str, int, int, tuple[int, ...], str]
"""Topic id, leader, leader epoch, ISR, and why."""
BEGAN_MS = 1_795_780_000_000


class LoggedHarness(ControllerHarness):
    """A harness whose controller writes down what it decides, in ``zookeeper_mode`` as Kafka's ZooKeeper controller.
    ``author`` may be changed, as when another node becomes the controller."""

    def __init__(self, brokers: int, *, zookeeper_mode: bool = False) -> None:
        self.zookeeper_mode = zookeeper_mode
        self.author = Author(1, 1)
        self.at_ms = BEGAN_MS
        self.decisions: dict[tuple[str, int], list[Decision]] = {}
        """Of each partition, as the committed batches have them."""
        self.texts: dict[int, list[str]] = {}
        self.twins: dict[int, list[str]] = {}
        super().__init__(brokers)

    def commit(self, records: Any, request: Any = None) -> list[tuple[int, Any]]:
        ready = super().commit(records, request)
        self.at_ms += 1_000
        said = list(state_changes(self.delta, self.image, self.author, zookeeper_mode=self.zookeeper_mode))
        self.texts.setdefault(self.author.id, []).extend(change.line(self.now) for change in said)
        head = {"time_ms": self.at_ms, "node": self.author.id}
        self.twins.setdefault(self.author.id, []).extend(json.dumps(head | change.facts) for change in said)
        for topic, key, before, after in self.delta.partition_changes(self.image):
            of = self.decisions.setdefault((topic, key[1]), [])
            if after is None:
                assert before is not None
                of.append((uuid_text(key[0]), NO_LEADER, before.leader_epoch, (), "topic deleted"))
            else:
                why = next(change.facts["why"] for change in said if _is_of(change.facts, key))
                of.append((uuid_text(key[0]), after.leader, after.leader_epoch, after.isr, why))
        return ready

    @property
    def now(self) -> str:
        return self.time(self.at_ms)

    def time(self, ms: int) -> str:
        """As a log has it."""
        return str(time_of({"time_ms": ms}))

    def write(self, folder: Path, *, texts: bool = True, twins: bool = True, ahead: timedelta | None = None) -> Path:
        """The logs of all nodes; ``ahead``: in a time zone that is so far ahead of this one."""
        for node, lines in self.texts.items():
            logs = folder / f"node-{node}"
            logs.mkdir(parents=True, exist_ok=True)
            if texts:
                moved = lines if ahead is None else [_moved(line, ahead) for line in lines]
                (logs / "state-change.log").write_text("".join(f"{line}\n" for line in moved))
            if twins:
                (logs / "state-change.jsonl").write_text("".join(f"{line}\n" for line in self.twins[node]))
        return folder


def _is_of(facts: dict[str, Any], key: tuple[bytes, int]) -> bool:
    return facts["event"] == "partition" and (facts["topicId"], facts["partition"]) == (uuid_text(key[0]), key[1])


def _moved(line: str, ahead: timedelta) -> str:
    at = datetime.strptime(line[1:24], "%Y-%m-%d %H:%M:%S,%f") + ahead
    return f"[{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03d}{line[24:]}"
