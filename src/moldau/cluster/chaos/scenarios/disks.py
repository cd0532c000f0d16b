"""Scenarios about disks: full, hung, damaged while their node was down, or suddenly empty.

Each leaves enough replicas whole that nothing acknowledged may suffer. Read next: ``volumes.py``.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from moldau.cluster.chaos.scenario_context import ScenarioContext
from moldau.cluster.chaos.scenarios.links import IN_SYNC
from moldau.cluster.chaos.scenarios.processes import LEADERS_MOVED
from moldau.history.checks import Anomaly

META, LOG = "meta.properties", "__cluster_metadata-0"
_START_S = 40.0


def disk_full(context: ScenarioContext) -> None:
    """The disk fills up: the leader's, then a follower's, then the controller's; each gets space and is restarted.

    After KAFKA-13773: a start on a full disk left a log that was half there and a marker that said it was whole.
    """
    for who in ("leader", "follower", "controller"):
        active_controller = context.controller()
        victim = active_controller if who == "controller" else context.rng.choice(context.others(active_controller))
        context.move_leaders_to(victim if who == "leader" else context.rng.choice(context.others(victim)))
        data, volume = context.rig.data_dir(victim), context.rig.setup.volume

        def gone(victim: int = victim) -> bool:
            out = [victim not in lead.isr for lead in context.leads(context.others(victim)).values()]
            return bool(out) and all(out)

        context.do(f"fill the disk of node {victim}, the {who}", lambda: volume.fill(data), "it leaves every ISR", gone)  # noqa: B023
        context.sleep(0.5, 2.0)
        context.do("give it space", lambda: volume.empty(data))  # noqa: B023
        if context.rig.alive(victim):
            context.terminate(victim)
        context.restart(victim)
        context.do("wait", lambda: None, IN_SYNC, lambda: context.run.poller.in_sync(context.nodes))


def disk_hung(context: ScenarioContext) -> None:
    """The leader's disk hangs: every write waits, no error comes, the process is alive.

    After gray failures everywhere: a heartbeat that needs no disk keeps a leader that cannot write active for ever.
    """
    victim = context.rng.choice(context.nodes)
    context.move_leaders_to(victim)
    data, volume = context.rig.data_dir(victim), context.rig.setup.volume
    moved = context.moved(victim, context.others(victim))
    context.do(f"freeze the disk of node {victim}", lambda: volume.freeze(data), LEADERS_MOVED, moved)
    context.do("wait", lambda: None, "all partitions acknowledge", context.acks())
    context.sleep(1.0, 4.0)
    context.do("thaw it", lambda: volume.thaw(data))
    if not context.rig.alive(victim):
        context.restart(victim)
    context.do("wait", lambda: None, IN_SYNC, lambda: context.run.poller.in_sync(context.nodes))


class FileDamage(NamedTuple):
    """What is done to the last file that matches a pattern.

    fatal: a node that cannot trust it must not start.
    clean: the node stops by itself before: some files are written only then, and trusted afterwards.
    """

    what: str
    pattern: str
    act: Callable[[Path], None]
    fatal: bool = False
    clean: bool = False


def corrupt_files(context: ScenarioContext) -> None:
    """Kill or stop a follower, damage one kind of file, start it again: one kind after the other.

    After the file system studies of 2017 to 2020: what is damaged is mended from others, or refused by its name.
    """
    for damage in DAMAGES:
        victim = context.rng.choice(context.others(context.controller()))
        context.move_leaders_to(context.rng.choice(context.others(victim)))
        (context.terminate if damage.clean else context.kill)(victim)
        data = context.rig.data_dir(victim)
        files = sorted(data.glob(damage.pattern))
        if not files:
            context.do(f"node {victim} has no {damage.pattern}", lambda: None)
            context.restart(victim)
            continue
        path = files[-1]
        whole = path.read_bytes()
        context.do(f"{damage.what}: {path.relative_to(data)} of node {victim}", lambda: damage.act(path))  # noqa: B023
        context.restart(victim)
        _mended_or_refused(context, victim, damage, (path, whole))


def wipe(context: ScenarioContext) -> None:
    """Everything is gone from a broker's disk, then the controller's log from a voter's.

    After the replaced disks of every operator: an empty disk is formatted by hand, not taken for a cluster's first day.
    """
    victim = context.rng.choice(context.others(context.controller()))
    _kill_and_move(context, victim)
    data = context.rig.data_dir(victim)

    def empty() -> None:
        for path in data.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    context.do(f"wipe the disk of node {victim}", empty)
    if context.rig.ensemble is None:
        context.restart(victim)
        if not context.rig.gone(victim, _START_S):
            context.found.append(Anomaly("undone", f"node {victim} starts on a disk that was never formatted"))
            context.rig.kill(victim)
        context.do("format it", lambda: context.rig.format(victim))
    context.restart(victim)
    context.do("wait", lambda: None, IN_SYNC, lambda: context.run.poller.in_sync(context.nodes))
    if context.rig.ensemble is not None:
        return
    voter = context.controller()
    _kill_and_move(context, voter)
    context.do(f"wipe the controller's log of node {voter}", lambda: shutil.rmtree(context.rig.data_dir(voter) / LOG))
    context.restart(voter)
    context.do("wait", lambda: None, IN_SYNC, lambda: context.run.poller.in_sync(context.nodes))


def _kill_and_move(context: ScenarioContext, victim: int) -> None:
    context.move_leaders_to(victim)
    context.kill(victim, LEADERS_MOVED, context.moved(victim))


def _mended_or_refused(context: ScenarioContext, node: int, damage: FileDamage, original: tuple[Path, bytes]) -> None:
    """The node is back in sync; or it ended and named the file, which is then put back."""

    def decided() -> bool:
        return not context.rig.alive(node) or (not damage.fatal and context.run.poller.in_sync(context.nodes))

    context.do("wait", lambda: None, "it is mended, or refused", decided)
    if context.rig.alive(node):
        if damage.fatal:
            context.found.append(Anomaly("undone", f"node {node} runs with a damaged {original[0].name}"))
        return
    words = context.rig.last_words(node)
    if original[0].name not in words:
        context.found.append(Anomaly("undone", f"{damage.what}: node {node} ended without naming the file: {words}"))
    original[0].write_bytes(original[1])
    context.restart(node)
    context.wait(lambda: context.run.poller.in_sync(context.nodes), f"node {node} is back with the file as it was")


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
    FileDamage("cut the end of a log", "chaos-0/*.log", _cut(30)),
    FileDamage("flip a bit in the last batch", "chaos-1/*.log", _flip),
    FileDamage("append half a batch", "chaos-2/*.log", _append),
    FileDamage("append half a batch to the controller's log", f"{LOG}/*.log", _append),
    FileDamage("garbage in an index", "chaos-0/*.index", _garbage),
    FileDamage("remove an index", "chaos-1/*.index", Path.unlink),
    FileDamage("garbage in a time index", "chaos-2/*.timeindex", _garbage),
    FileDamage("garbage in the producers' snapshot", "chaos-0/*.snapshot", _garbage, clean=True),
    FileDamage("garbage in the epochs", "chaos-0/leader-epoch-checkpoint", _garbage, clean=True),
    FileDamage("remove the epochs", "chaos-1/leader-epoch-checkpoint", Path.unlink, clean=True),
    FileDamage("garbage in the recovery points", "recovery-point-offset-checkpoint", _garbage),
    FileDamage("garbage in the watermarks", "replication-offset-checkpoint", _garbage),
    FileDamage("garbage in a topic's id", "chaos-2/partition.metadata", _garbage),
    FileDamage("garbage in the votes", f"{LOG}/quorum-state", _garbage, fatal=True),
    FileDamage("garbage in the node's identity", META, _garbage, fatal=True),
)
