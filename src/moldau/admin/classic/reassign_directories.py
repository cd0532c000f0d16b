"""Replicas between the log directories of their brokers: where they are, and moving them (KIP-113)."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from moldau.admin.classic.java import JavaError
from moldau.admin.classic.kafka_errors import kafka_error
from moldau.admin.classic.reassign_files import ListedReplica
from moldau.admin.classic.session import ADMIN_FAILED, ToolSession, executed
from moldau.client import admin
from moldau.model import Code
from moldau.model.named import NamedTuple

PAUSE_S = 0.1


class Where(NamedTuple):
    """The directory of a replica, and the one that it is copied to; None where it has none."""

    now: str | None
    next: str | None = None


def where(session: ToolSession, replicas: Collection[ListedReplica]) -> dict[ListedReplica, Where]:
    """Where replicas are on their brokers."""
    brokers = sorted({replica.broker for replica in replicas})
    found = session.ask("describeReplicaLogDirs", admin.describe_log_dirs, brokers) if brokers else {}
    wanted = set(replicas)
    out: dict[ListedReplica, Where] = {replica: Where(None) for replica in replicas}
    for broker, directories in found.items():
        for directory in directories:
            for topic in directory.topics:
                for part in topic.partitions:
                    replica = ListedReplica(broker, topic.name, part.partition_index)
                    if replica in wanted:
                        at = out[replica]
                        path = directory.log_dir
                        out[replica] = Where(at.now, path) if part.is_future_key else Where(path, at.next)
    return out


def states(found: Mapping[ListedReplica, Where], wanted: Mapping[ListedReplica, str]) -> list[str]:
    """A line for each replica: whether it is where it is to be."""
    lines = []
    for replica in sorted(wanted):
        at, goal = found[replica], wanted[replica]
        if at.now is None:
            why = "There is likely an offline log directory on the broker."
            lines.append(f"Partition {replica.of} is not found in any live log dir on broker {replica.broker}. {why}")
        elif at.next == goal:
            lines.append(f"Reassignment of replica {replica} is still in progress.")
        elif at.next is not None:
            moved = f"is being moved to log dir {at.next} instead of {goal}."
            lines.append(f"Partition {replica.of} on broker {replica.broker} {moved}")
        elif at.now == goal:
            lines.append(f"Reassignment of replica {replica} completed successfully.")
        else:
            moved = f"is not being moved from log dir {at.now} to {goal}."
            lines.append(f"Partition {replica.of} on broker {replica.broker} {moved}")
    return lines


def move(session: ToolSession, wanted: Mapping[ListedReplica, str], timeout_ms: int) -> str | None:
    """Have replicas moved to directories, those that are not there yet as soon as they are; what failed, in words."""
    pending, deadline = dict(wanted), time.monotonic() + timeout_ms / 1000
    while True:
        outcomes = session.ask("alterReplicaLogDirs", admin.alter_log_dirs, _by_broker(pending))
        begun = []
        for replica in sorted(pending):
            code = outcomes.get((replica.broker, replica.of), Code.UNKNOWN_SERVER_ERROR)
            if code is Code.NONE:
                begun.append(replica)
            elif code is not Code.REPLICA_NOT_AVAILABLE:
                cause = executed(kafka_error(code))
                raise JavaError(ADMIN_FAILED, f"Failed to alter dir for {replica}", cause)
        for replica in begun:
            goal = pending.pop(replica)
            print(f"Successfully started moving log directory to {goal} for replica {replica.of}", end=" ")
            print(f"with broker {replica.broker} ")
        if not pending:
            return None
        if time.monotonic() >= deadline:
            shown = ",".join(map(str, sorted(pending)))
            several = "" if len(pending) == 1 else "s"
            return f"Timed out before log directory move{several} could be started for: {shown}"
        time.sleep(PAUSE_S)


def _by_broker(wanted: Mapping[ListedReplica, str]) -> dict[int, dict[str, list[tuple[str, int]]]]:
    out: dict[int, dict[str, list[tuple[str, int]]]] = {}
    for replica, path in sorted(wanted.items()):
        out.setdefault(replica.broker, {}).setdefault(path, []).append((replica.topic, replica.partition))
    return out
