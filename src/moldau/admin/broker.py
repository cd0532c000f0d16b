"""``moldau broker``: who is there; controlled shutdown of one broker or of all in turn, with progress and reasons.

``list`` sends standard requests only, so that it works on any Kafka cluster. ``stop``, ``start`` and ``roll`` are for
nodes that ``moldau up`` started in a folder of this machine: no Kafka request stops a broker; elsewhere, send SIGTERM.
What speaks against a stop: ``moldau.image.leaving``. What a broker does before it goes: ``broker/lifecycle.py``.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from moldau.admin.asking import IN_PROGRESS, OUTPUT, SERVERS, Talk, note, show
from moldau.admin.main import fail
from moldau.admin.up import DATA, found
from moldau.client import admin
from moldau.client.admin import Resource, ResourceType
from moldau.client.lines import UnsupportedApi
from moldau.client.sync import Refused
from moldau.client.view import Topic
from moldau.cluster.cluster import Cluster, ClusterError
from moldau.cluster.nodes import is_alive, send, wait_gone
from moldau.image.leaving import Stand, hindrances
from moldau.terms import Code

LOOK_S = 0.1
FOLDER = click.option("--data", type=click.Path(path_type=Path), default=DATA, show_default=True, help="The folder.")
PATIENCE = click.option("--timeout", "timeout_s", default=60.0, show_default=True, help="Seconds to wait for each.")
FORCE = click.option("--force", is_flag=True, help="Go on although partitions would suffer.")


@click.group()
def broker() -> None:
    """Look at brokers; stop, start and roll those of a cluster on this machine.

    \b
    moldau broker list
    moldau broker stop 2
    moldau broker roll
    """


@broker.command(name="list")
@SERVERS
@OUTPUT
def list_(bootstrap: str, output: str) -> None:
    """Every broker: where it is, how much it leads and holds, what of it is out of sync.

    A broker that is fenced is registered, and does not serve; one that is gone is known by its replicas alone.
    """
    with Talk(bootstrap) as talk:
        shown = talk.ask(admin.describe_cluster, fenced=True)
        parts = [part for topic in talk.cluster.topics().values() for part in topic.partitions.values()]
        controller = _controller(talk, shown.controller_id)
    there = {one.broker_id: one for one in shown.brokers}
    rows = []
    for id in sorted({*there, *(id for part in parts for id in part.replicas)}):
        one = there.get(id)
        rows.append(
            {
                "broker": id,
                "address": f"{one.host}:{one.port}" if one is not None else None,
                "rack": one.rack if one is not None else None,
                "state": "gone" if one is None else "fenced" if one.is_fenced else "serves",
                "controller": id == controller,
                "leads": sum(part.leader == id for part in parts),
                "replicas": sum(id in part.replicas for part in parts),
                "out_of_sync": sum(id in part.replicas and id not in part.isr for part in parts),
            }
        )
    show(rows, output, ("broker", "address", "rack", "state", "controller", "leads", "replicas", "out_of_sync"))


def _controller(talk: Talk, told: int) -> int:
    """The active controller: the quorum's leader, or on ZooKeeper, where there is no quorum, whom the brokers name."""
    try:
        outcome, quorum = talk.ask(admin.describe_quorum)
    except (Refused, UnsupportedApi):
        return told
    return told if quorum is None or outcome.code is not Code.NONE else quorum.leader_id


@broker.command()
@click.argument("id", type=int)
@FOLDER
@PATIENCE
@FORCE
@click.option("--dry-run", is_flag=True, help="Only say what speaks against it.")
def stop(id: int, data: Path, timeout_s: float, force: bool, dry_run: bool) -> None:
    """Stop a broker by controlled shutdown: others lead before it goes.

    Refused, with the reasons, when partitions would be without leader or take no acks=all (exit 1); exit 3 when it has
    not gone in time, which calls nothing off.
    """
    cluster = found(data)
    if id not in _ids(cluster):
        fail(f"no node {id}: this cluster has {', '.join(map(str, _ids(cluster)))}", 2)
    if id not in cluster.alive():
        print(f"node {id} does not run.")
        return
    reasons = _reasons(cluster, id)
    for reason in reasons:
        note(reason)
    if dry_run or (reasons and not force):
        print(f"node {id} " + ("had better not be stopped." if reasons else "can be stopped."))
        raise SystemExit(1 if reasons else 0)
    _stop(cluster, id, timeout_s)


@broker.command()
@click.argument("id", type=int)
@FOLDER
def start(id: int, data: Path) -> None:
    """Start a stopped node again, and wait until it serves."""
    cluster = found(data)
    if id not in _ids(cluster):
        fail(f"no node {id}: this cluster has {', '.join(map(str, _ids(cluster)))}", 2)
    if id in cluster.alive():
        print(f"node {id} runs.")
        return
    _start(cluster, id)


@broker.command()
@FOLDER
@PATIENCE
@FORCE
def roll(data: Path, timeout_s: float, force: bool) -> None:
    """Stop and start every node in turn; the next one only when all replicas are in sync again."""
    cluster = found(data)
    for id in _ids(cluster):
        if id in cluster.alive():
            deadline = time.monotonic() + timeout_s
            while (reasons := _reasons(cluster, id)) and not force and time.monotonic() < deadline:
                time.sleep(LOOK_S)
            for reason in reasons:
                note(reason)
            if reasons and not force:
                fail(f"the roll ends before node {id}: partitions would suffer (--force goes on)")
            _stop(cluster, id, timeout_s)
        _start(cluster, id)
        try:
            cluster.wait_until_in_sync(timeout_s)
        except ClusterError as error:
            fail(f"the roll ends after node {id}: {str(error).splitlines()[0]}", IN_PROGRESS)
    print("every node was restarted.")


def _ids(cluster: Cluster) -> list[int]:
    return [node.id for node in cluster.spec.nodes]


def _reasons(cluster: Cluster, id: int) -> list[str]:
    """``hindrances`` as the cluster is now, and the majority of controllers."""
    reasons = []
    controllers = [node.id for node in cluster.spec.nodes if "controller" in node.roles]
    left = [one for one in cluster.alive() if one in controllers and one != id]
    if id in controllers and cluster.spec.zookeeper == "" and len(left) <= len(controllers) // 2:
        reasons.append(f"{len(left)} of {len(controllers)} controllers would be left: no majority, nothing is decided")
    client = cluster.client()
    topics: dict[str, Topic] = client.topics()
    wanted = [Resource(ResourceType.TOPIC, name) for name in topics]
    answers = client.run(admin.describe_configs(client.client, wanted, keys=["min.insync.replicas"])) if wanted else {}

    def min_isr(name: str) -> int:
        _, entries = answers.get(Resource(ResourceType.TOPIC, name), (None, {}))
        entry = entries.get("min.insync.replicas")
        return int(entry.value or 1) if entry is not None else 1

    return reasons + hindrances(id, _stands(topics), min_isr)


def _stands(topics: Mapping[str, Topic]) -> Iterator[Stand]:
    for name, topic in topics.items():
        for number, part in topic.partitions.items():
            yield name, number, part.replicas, part.isr


def _leads(cluster: Cluster, id: int) -> int:
    topics = cluster.client().topics()
    return sum(part.leader == id for topic in topics.values() for part in topic.partitions.values())


def _stop(cluster: Cluster, id: int, timeout_s: float) -> None:
    """SIGTERM, and what becomes of it; ends the command with 3 when time is up."""
    node = cluster.node(id)
    started = time.monotonic()
    led = _leads(cluster, id)
    print(f"node {id}: controlled shutdown, {led} partition(s) led", flush=True)
    send(node, signal.SIGTERM)
    while is_alive(node.pid) and time.monotonic() - started < timeout_s:
        still = _told_leads(cluster, id)
        if still is not None and still != led:
            led = still
            print(f"node {id}: {led} partition(s) still led", flush=True)
        time.sleep(LOOK_S)
    if not wait_gone(node, None, 0):
        what = "it waits until others lead them" if led else "it writes its logs to disk"
        note(f"node {id} has not gone after {timeout_s:g} s: {led} partition(s) led, {what}; it goes on by itself")
        raise SystemExit(IN_PROGRESS)
    cluster.spec.save(cluster.folder)
    print(f"node {id}: stopped after {time.monotonic() - started:.1f} s", flush=True)


def _told_leads(cluster: Cluster, id: int) -> int | None:
    """How much it still leads; None while nobody answers."""
    try:
        return _leads(cluster, id)
    except OSError:
        return None


def _start(cluster: Cluster, id: int) -> None:
    started = time.monotonic()
    try:
        cluster.restart(id)
    except ClusterError as error:
        fail(str(error))
    print(f"node {id}: serves after {time.monotonic() - started:.1f} s", flush=True)
