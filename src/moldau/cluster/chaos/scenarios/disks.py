"""Scenarios about disks: full, hung, damaged while nobody looked, or empty all of a sudden.

Each leaves enough replicas whole that nothing acknowledged may suffer. Read next: ``volumes.py``.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from moldau.cluster.chaos.scenarios.links import IN_SYNC
from moldau.cluster.chaos.scenarios.processes import LEADERS_MOVED
from moldau.cluster.chaos.stage import Stage
from moldau.history.checks import Anomaly

META, LOG = "meta.properties", "__cluster_metadata-0"
_START_S = 40.0


def disk_full(stage: Stage) -> None:
    """The disk fills up: the leader's, then a follower's, then the controller's; each gets space and is restarted.

    After KAFKA-13773: a start on a full disk left a log that was half there and a marker that said it was whole.
    """
    for who in ("leader", "follower", "controller"):
        ruler = stage.controller()
        victim = ruler if who == "controller" else stage.rng.choice(stage.others(ruler))
        stage.gather(victim if who == "leader" else stage.rng.choice(stage.others(victim)))
        data, volume = stage.rig.data_dir(victim), stage.rig.wish.volume

        def gone(victim: int = victim) -> bool:
            out = [victim not in lead.isr for lead in stage.leads(stage.others(victim)).values()]
            return bool(out) and all(out)

        stage.do(f"fill the disk of node {victim}, the {who}", lambda: volume.fill(data), "it leaves every ISR", gone)  # noqa: B023
        stage.sleep(0.5, 2.0)
        stage.do("give it space", lambda: volume.empty(data))  # noqa: B023
        if stage.rig.alive(victim):
            stage.terminate(victim)
        stage.restart(victim)
        stage.do("wait", lambda: None, IN_SYNC, lambda: stage.run.eyes.in_sync(stage.nodes))


def disk_hung(stage: Stage) -> None:
    """The leader's disk hangs: every write waits, no error comes, the process is alive.

    After gray failures everywhere: a heartbeat that needs no disk keeps a leader that cannot write active for ever.
    """
    victim = stage.rng.choice(stage.nodes)
    stage.gather(victim)
    data, volume = stage.rig.data_dir(victim), stage.rig.wish.volume
    moved = stage.moved(victim, stage.others(victim))
    stage.do(f"freeze the disk of node {victim}", lambda: volume.freeze(data), LEADERS_MOVED, moved)
    stage.do("wait", lambda: None, "all partitions acknowledge", stage.acks())
    stage.sleep(1.0, 4.0)
    stage.do("thaw it", lambda: volume.thaw(data))
    if not stage.rig.alive(victim):
        stage.restart(victim)
    stage.do("wait", lambda: None, IN_SYNC, lambda: stage.run.eyes.in_sync(stage.nodes))


class Damage(NamedTuple):
    """What is done to the last file that matches a pattern.

    fatal: a node that cannot trust it must not start.
    clean: the node stops by itself before: some files are written only then, and trusted afterwards.
    """

    what: str
    pattern: str
    act: Callable[[Path], None]
    fatal: bool = False
    clean: bool = False


def corrupt_files(stage: Stage) -> None:
    """Kill or stop a follower, damage one kind of file, start it again: one kind after the other.

    After the file system studies of 2017 to 2020: what is damaged is mended from others, or refused by its name.
    """
    for damage in DAMAGES:
        victim = stage.rng.choice(stage.others(stage.controller()))
        stage.gather(stage.rng.choice(stage.others(victim)))
        (stage.terminate if damage.clean else stage.kill)(victim)
        data = stage.rig.data_dir(victim)
        files = sorted(data.glob(damage.pattern))
        if not files:
            stage.do(f"node {victim} has no {damage.pattern}", lambda: None)
            stage.restart(victim)
            continue
        path = files[-1]
        whole = path.read_bytes()
        stage.do(f"{damage.what}: {path.relative_to(data)} of node {victim}", lambda: damage.act(path))  # noqa: B023
        stage.restart(victim)
        _mended_or_refused(stage, victim, damage, (path, whole))


def wipe(stage: Stage) -> None:
    """Everything is gone from a broker's disk, then the controller's log from a voter's.

    After the replaced disks of every operator: an empty disk is formatted by hand, not taken for a cluster's first day.
    """
    victim = stage.rng.choice(stage.others(stage.controller()))
    _kill_and_move(stage, victim)
    data = stage.rig.data_dir(victim)

    def empty() -> None:
        for path in data.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    stage.do(f"wipe the disk of node {victim}", empty)
    if stage.rig.ensemble is None:
        stage.restart(victim)
        if not stage.rig.gone(victim, _START_S):
            stage.found.append(Anomaly("undone", f"node {victim} starts on a disk that was never formatted"))
            stage.rig.kill(victim)
        stage.do("format it", lambda: stage.rig.format(victim))
    stage.restart(victim)
    stage.do("wait", lambda: None, IN_SYNC, lambda: stage.run.eyes.in_sync(stage.nodes))
    if stage.rig.ensemble is not None:
        return
    voter = stage.controller()
    _kill_and_move(stage, voter)
    stage.do(f"wipe the controller's log of node {voter}", lambda: shutil.rmtree(stage.rig.data_dir(voter) / LOG))
    stage.restart(voter)
    stage.do("wait", lambda: None, IN_SYNC, lambda: stage.run.eyes.in_sync(stage.nodes))


def _kill_and_move(stage: Stage, victim: int) -> None:
    stage.gather(victim)
    stage.kill(victim, LEADERS_MOVED, stage.moved(victim))


def _mended_or_refused(stage: Stage, node: int, damage: Damage, original: tuple[Path, bytes]) -> None:
    """The node is back in sync; or it ended and named the file, which is then put back."""

    def decided() -> bool:
        return not stage.rig.alive(node) or (not damage.fatal and stage.run.eyes.in_sync(stage.nodes))

    stage.do("wait", lambda: None, "it is mended, or refused", decided)
    if stage.rig.alive(node):
        if damage.fatal:
            stage.found.append(Anomaly("undone", f"node {node} runs with a damaged {original[0].name}"))
        return
    words = stage.rig.last_words(node)
    if original[0].name not in words:
        stage.found.append(Anomaly("undone", f"{damage.what}: node {node} ended without naming the file: {words}"))
    original[0].write_bytes(original[1])
    stage.restart(node)
    stage.wait(lambda: stage.run.eyes.in_sync(stage.nodes), f"node {node} is back with the file as it was")


def _cut(bytes_: int) -> Callable[[Path], None]:
    def act(path: Path) -> None:
        path.write_bytes(path.read_bytes()[:-bytes_])

    return act


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-20] ^= 0x40
    path.write_bytes(data)


def _garbage(path: Path) -> None:
    path.write_bytes(b"\x07garbage\xff\n" * 5)


def _append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\x00\x01torn" * 7)


DAMAGES = (
    Damage("cut the end of a log", "chaos-0/*.log", _cut(30)),
    Damage("flip a bit in the last batch", "chaos-1/*.log", _flip),
    Damage("append half a batch", "chaos-2/*.log", _append),
    Damage("append half a batch to the controller's log", f"{LOG}/*.log", _append),
    Damage("garbage in an index", "chaos-0/*.index", _garbage),
    Damage("remove an index", "chaos-1/*.index", Path.unlink),
    Damage("garbage in a time index", "chaos-2/*.timeindex", _garbage),
    Damage("garbage in the producers' snapshot", "chaos-0/*.snapshot", _garbage, clean=True),
    Damage("garbage in the epochs", "chaos-0/leader-epoch-checkpoint", _garbage, clean=True),
    Damage("remove the epochs", "chaos-1/leader-epoch-checkpoint", Path.unlink, clean=True),
    Damage("garbage in the recovery points", "recovery-point-offset-checkpoint", _garbage),
    Damage("garbage in the watermarks", "replication-offset-checkpoint", _garbage),
    Damage("garbage in a topic's id", "chaos-2/partition.metadata", _garbage),
    Damage("garbage in the votes", f"{LOG}/quorum-state", _garbage, fatal=True),
    Damage("garbage in the node's identity", META, _garbage, fatal=True),
)
