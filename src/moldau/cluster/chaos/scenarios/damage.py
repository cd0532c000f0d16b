"""A scenario about files that are damaged where no crash damages them: sealed segments, indexes, group records.

Damaged are two topics of its own and the groups' log, on a node that runs, was stopped, or was killed. The node lives,
and the load's topic, which is whole, is served all the while. Read next: ``disks.py`` (what a crash leaves).
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from moldau.client.admin import NewTopic, create_topics
from moldau.cluster.chaos.scenario_context import ScenarioContext
from moldau.cluster.kills.killing import Stuck
from moldau.model import Code, TopicPartition
from moldau.wire.batch import build

PLAIN, COMPACTED, GROUPS = "chaos-plain", "chaos-compacted", "__consumer_offsets"
SEGMENT_BYTES = 1 << 20
SEGMENTS = 4
CHECKPOINTS = ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint",
               "cleaner-offset-checkpoint")  # fmt: skip
RUNNING, STOPPED, KILLED = "running", "stopped", "killed"


class SegmentDamage(NamedTuple):
    """What is done to a file: the first that matches (a sealed segment's), or the last (the active one's)."""

    what: str
    pattern: str
    act: Callable[[Path], object]
    last: bool = False


def damage_at_rest(context: ScenarioContext) -> None:
    """Damage sealed and active segments, indexes, snapshots and checkpoints of running, stopped and killed nodes.

    After the file system studies of 2017 to 2020: a byte that rots costs its partition, never the node.
    """
    _fill(context)
    victims: set[int] = set()
    for damage in DAMAGES:
        how = context.rng.choice((RUNNING, STOPPED, KILLED))
        victim = context.rng.choice(context.others(context.controller()))
        victims.add(victim)
        data = context.rig.data_dir(victim)
        if how == STOPPED:
            context.terminate(victim)
        elif how == KILLED:
            context.kill(victim)
        files = sorted(data.glob(damage.pattern))
        if files:
            path = files[-1 if damage.last else 0]
            context.do(f"{damage.what}: {path.relative_to(data)} of node {victim}, {how}", lambda: damage.act(path))  # noqa: B023
        else:
            context.do(f"node {victim} has no {damage.pattern}", lambda: None)
        if how != RUNNING:
            context.restart(victim)
        context.do("wait", lambda: None, "all partitions acknowledge", context.acks())
        context.sleep(1.0, 2.5)
        context.note_dead_nodes()
        if victim in context.down:
            return  # it ended by itself: that is found, and the rest would only repeat it
    for victim in sorted(victims):
        _give_new_copies(context, victim)
    context.do("wait", lambda: None, "all topics are in sync", lambda: _in_sync(context))


def _fill(context: ScenarioContext) -> None:
    """Two topics with several segments on every node, one of them compacted, and some committed offsets."""
    configs = {"segment.bytes": str(SEGMENT_BYTES), "min.insync.replicas": "1"}
    keyed = configs | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    run = context.run
    new = [
        NewTopic(name=name, partitions=1, replication_factor=len(context.nodes), configs=more)
        for name, more in ((PLAIN, configs), (COMPACTED, keyed))
    ]
    for name, outcome in run.client.run(create_topics(run.client.client, new)).items():
        if not outcome.ok:
            raise Stuck(f"topic {name} was not created: {outcome.code.name} {outcome.message or ''}")
    context.wait(lambda: _in_sync(context), "the topics to be damaged are in sync")
    value = bytes(1000)
    for _ in range(SEGMENTS * 4):
        now_ms = int(time.time() * 1000)
        batch = build([(now_ms, b"%d" % (key % 50), value, []) for key in range(SEGMENT_BYTES // 4 // 1100)])
        for name in (PLAIN, COMPACTED):
            run.client.produce(TopicPartition(name, 0), batch)
    place = TopicPartition(PLAIN, 0)
    context.wait(lambda: run.client.commit("chaos", {place: 1}).get(place) is Code.NONE, "an offset is committed")


def _in_sync(context: ScenarioContext) -> bool:
    topics = context.run.client.topics()
    return all(set(p.isr) == set(p.replicas) for topic in topics.values() for p in topic.partitions.values())


def _give_new_copies(context: ScenarioContext, node: int) -> None:
    """As an operator does: take the damaged folders away while the node is down; they come back from the others."""
    context.terminate(node)
    data = context.rig.data_dir(node)
    for folder in data.iterdir():
        if folder.is_dir() and folder.name.rpartition("-")[0] in (PLAIN, COMPACTED, GROUPS):
            shutil.rmtree(folder)
    for name in CHECKPOINTS:
        (data / name).unlink(missing_ok=True)
    context.restart(node)
    context.wait(lambda: context.run.poller.in_sync(context.nodes), f"node {node} is in sync")


def _flip(at: float) -> Callable[[Path], None]:
    """Change one bit, that far into the file (0 to 1)."""

    def act(path: Path) -> None:
        where = min(int(path.stat().st_size * at), max(path.stat().st_size - 1, 0))
        with path.open("r+b") as file:
            file.seek(where)
            byte = file.read(1) or b"\0"
            file.seek(where)
            file.write(bytes([byte[0] ^ 0x10]))

    return act


def _halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _garbage(path: Path) -> None:
    path.write_bytes(b"\x07garbage\xff\n" * 5)


def _length(path: Path) -> None:
    """Give the first batch a length that no batch has."""
    with path.open("r+b") as file:
        file.seek(8)
        file.write(b"\x7f\xff\xff\xff")


DAMAGES = (
    SegmentDamage("flip a bit in the first header", f"{COMPACTED}-0/*.log", _flip(0.0)),
    SegmentDamage("give the first batch an impossible length", f"{PLAIN}-0/*.log", _length),
    SegmentDamage("flip a bit in the middle", f"{PLAIN}-0/*.log", _flip(0.5)),
    SegmentDamage("cut a sealed segment in half", f"{PLAIN}-0/*.log", _halve),
    SegmentDamage("cut a sealed segment in half", f"{COMPACTED}-0/*.log", _halve),
    SegmentDamage("empty an index", f"{PLAIN}-0/*.index", lambda path: os.truncate(path, 0)),
    SegmentDamage("garbage in a sealed segment's time index", f"{PLAIN}-0/*.timeindex", _garbage),
    SegmentDamage("remove a sealed segment", f"{PLAIN}-0/*.log", Path.unlink),
    SegmentDamage("garbage in the active segment's index", f"{COMPACTED}-0/*.index", _garbage, last=True),
    SegmentDamage("garbage in the producers' snapshots", f"{PLAIN}-0/*.snapshot", _garbage, last=True),
    SegmentDamage("flip a bit in the groups' records", f"{GROUPS}-0/*.log", _flip(0.6), last=True),
    SegmentDamage("garbage in the cleaner's offsets", "cleaner-offset-checkpoint", _garbage),
    SegmentDamage("garbage in the log start offsets", "log-start-offset-checkpoint", _garbage),
    SegmentDamage("garbage in the epochs", f"{COMPACTED}-0/leader-epoch-checkpoint", _garbage),
    SegmentDamage("garbage in the topic's id", f"{COMPACTED}-0/partition.metadata", _garbage),
)
