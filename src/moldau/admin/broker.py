"""``moldau broker stop|start|roll``: controlled shutdown of one broker or of all in turn, with progress and reasons.

They act on nodes that ``moldau up`` started in a folder of this machine; with a command of the user's on any:
``foreign_nodes.py``. Looking at brokers is in brokers.py.
Why a broker should not stop: ``moldau.image.leaving``. What a broker does before it goes: ``broker/lifecycle.py``.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from pathlib import Path

import click
from click.core import ParameterSource

from moldau.admin.asking import IN_PROGRESS, note
from moldau.admin.completing import brokers as complete_brokers
from moldau.admin.foreign_nodes import reasons_against, roll_foreign, runs_in, stop_foreign
from moldau.admin.main import fail
from moldau.admin.options import DRY_RUN, SECONDS
from moldau.admin.output import say
from moldau.admin.progress import ProgressBar
from moldau.admin.rolling import Rolled, listed, safe_order, tell_order, telling_of_an_interrupt
from moldau.admin.up import DATA, found
from moldau.admin.waiting import Looks
from moldau.cluster.cluster import START_TIMEOUT_S, Cluster, ClusterError
from moldau.cluster.nodes import is_alive, is_paused, send, wait_gone
from moldau.model.counted import counted

PATIENCE_MS = 10_000
"""How long the cluster may take for an answer."""
FOLDER = click.option("--data", type=click.Path(path_type=Path), default=DATA, show_default=True, help="The folder.")
PATIENCE = click.option(
    "--timeout", "timeout_s", type=SECONDS, default=60.0, show_default=True, help="Seconds to wait for each."
)
FOREIGN = click.option(
    "-b",
    "--bootstrap-server",
    "bootstrap",
    metavar="HOST:PORT,..",
    envvar="MOLDAU_BOOTSTRAP",
    help="Brokers of a cluster that `moldau up` did not start, instead (or MOLDAU_BOOTSTRAP).",
)
FORCE = click.option("--force", is_flag=True, help="Go on although partitions would suffer.")


@click.group()
def broker() -> None:
    """Stop, start and roll nodes of a cluster on this machine.

    \b
    moldau broker stop 2
    moldau broker roll
    """


@broker.command()
@click.argument("id", type=int, shell_complete=complete_brokers)
@FOLDER
@FOREIGN
@PATIENCE
@FORCE
@click.option("--check", "--dry-run", "check", is_flag=True, help="Only say what speaks against it.")
@click.option("--wait", is_flag=True, help="Wait until a broker that somebody else stops leads nothing, and has gone.")
@click.option("--command", help="What stops a broker of --bootstrap-server; {host}, {port}, {id} are filled in.")
def stop(
    id: int, data: Path, bootstrap: str | None, timeout_s: float, force: bool, check: bool, wait: bool,
    command: str | None,
) -> None:  # fmt: skip
    """Stop a broker by controlled shutdown: others lead before it goes.

    \b
    moldau broker stop 2 --check
    moldau broker stop 2
    moldau broker stop 2 --bootstrap-server localhost:9092 --check
    moldau broker stop 2 --bootstrap-server localhost:9092 --command 'ssh {host} systemctl stop kafka'

    Refused, with the reasons, when partitions would be without leader or take no acks=all (exit 1); exit 3 when it has
    not gone in time, which calls nothing off. A node of `moldau up` is told to stop. For any other cluster, which
    --bootstrap-server or MOLDAU_BOOTSTRAP names, it runs --command, or says what to run.
    """
    bootstrap = _elsewhere(bootstrap, data, command)
    if bootstrap is not None:
        how = {"check": check, "force": force, "wait": wait, "command": command, "timeout_s": timeout_s}
        stop_foreign(bootstrap, id, **how)  # type: ignore[arg-type]  # by name
        return
    if command is not None:
        fail("--command is for brokers of another cluster: name it with --bootstrap-server", 2)
    cluster = found(data)
    if id not in _ids(cluster):
        fail(f"no node {id}: this cluster has {', '.join(map(str, _ids(cluster)))}", 2)
    if id not in cluster.alive():
        say(f"node {id} does not run.")
        return
    _demand_answers(cluster, [id])
    reasons = _reasons(cluster, id)
    for reason in reasons:
        note(reason)
    if check or (reasons and not force):
        say(f"node {id} " + ("had better not be stopped." if reasons else "can be stopped."))
        raise SystemExit(1 if reasons else 0)
    _stop(cluster, id, timeout_s)


@broker.command()
@click.argument("id", type=int, shell_complete=complete_brokers)
@FOLDER
@DRY_RUN
def start(id: int, data: Path, dry_run: bool) -> None:
    """Start a stopped node again, and wait until it serves."""
    cluster = found(data)
    if id not in _ids(cluster):
        fail(f"no node {id}: this cluster has {', '.join(map(str, _ids(cluster)))}", 2)
    if id in cluster.alive():
        say(f"node {id} runs.")
        return
    if dry_run:
        say(f"node {id} would be started.")
        return
    _start(cluster, id, START_TIMEOUT_S)


@broker.command()
@FOLDER
@FOREIGN
@PATIENCE
@FORCE
@click.option("--command", help="What restarts a broker of --bootstrap-server; {host}, {port}, {id} are filled in.")
@click.option("--state", type=click.Path(dir_okay=False, path_type=Path), help="Where to note how far it is.")
@DRY_RUN
def roll(
    data: Path, bootstrap: str | None, timeout_s: float, force: bool, command: str | None, state: Path | None,
    dry_run: bool,
) -> None:  # fmt: skip
    """Restart every node in turn, the active controller last; the next one only when all replicas are in sync again.

    \b
    moldau broker roll
    moldau broker roll --bootstrap-server localhost:9092 --command 'ssh {host} systemctl restart kafka'

    Waits before a node while partitions would suffer from its stop. Ends when one is not back, or not in sync, in time
    (exit 3). Cut off, the same command goes on where it was: how far it is stands in a file until it is done, roll.json
    in the cluster's folder, or ./moldau-roll.json. --command may end before the broker's process has: that is
    waited for. Controllers that are no brokers are not rolled by it.
    """
    bootstrap = _elsewhere(bootstrap, data, command)
    if bootstrap is not None:
        if command is None:
            fail("what restarts a broker? Say --command, such as 'ssh {host} systemctl restart kafka'", 2)
            raise AssertionError
        where = Path("moldau-roll.json") if state is None else state
        roll_foreign(bootstrap, command, force=force, timeout_s=timeout_s, state=where, dry_run=dry_run)
        return
    if command is not None:
        fail("--command is for brokers of another cluster: name it with --bootstrap-server", 2)
    cluster = found(data)
    rolled = Rolled(cluster.folder / "roll.json" if state is None else state, cluster.cluster_id)
    if rolled.done:
        note(f"going on with the roll; restarted before: {listed(rolled.done)}")
    _demand_answers(cluster, _ids(cluster))
    order = _order(cluster)
    if dry_run:
        tell_order(order, rolled.done, lambda id: _reasons(cluster, id))
        return
    with ProgressBar("roll", len(order), lines=False) as progress:
        for id in order:
            progress.at(len(rolled.done))
            if id not in rolled.done:
                with telling_of_an_interrupt(f"node {id}"):
                    _roll_one(cluster, id, timeout_s=timeout_s, force=force)
                rolled.restarted(id)
    rolled.finished()
    say("every node was restarted.")


def _roll_one(cluster: Cluster, id: int, *, timeout_s: float, force: bool) -> None:
    _demand_answers(cluster, _ids(cluster))
    if id in cluster.alive():
        for _ in Looks(timeout_s):
            reasons = _reasons(cluster, id)
            if not reasons or force:
                break
        for reason in reasons:
            note(reason)
        if reasons and not force:
            fail(f"the roll ends before node {id}: partitions would suffer (--force goes on)")
        _stop(cluster, id, timeout_s)
    _start(cluster, id, timeout_s)
    try:
        cluster.wait_until_in_sync(timeout_s)
    except ClusterError as error:
        fail(f"the roll ends after node {id}: {str(error).splitlines()[0]}", IN_PROGRESS)


def _elsewhere(bootstrap: str | None, data: Path, command: str | None) -> str | None:
    """The brokers that are meant if they are not those of the folder; None if these are. MOLDAU_BOOTSTRAP, which other
    commands have told to ask, names those of the folder as well, and gives way to --data."""
    source = click.get_current_context().get_parameter_source
    if bootstrap is None or source("bootstrap") is not ParameterSource.ENVIRONMENT:
        return bootstrap
    if source("data") is ParameterSource.COMMANDLINE:
        return None
    return None if command is None and runs_in(data, bootstrap) else bootstrap


def _demand_answers(cluster: Cluster, ids: Sequence[int]) -> None:
    """End the command when one of these nodes is stopped by a signal: told to stop, it would do so as soon as it goes
    on, long after the command."""
    cluster.client(PATIENCE_MS)
    if paused := [id for id in cluster.paused() if id in ids]:
        resume = " ".join(str(cluster.pid(id)) for id in paused)
        fail(
            f"node {listed(paused)} does not answer, and was not told to stop: a signal (SIGSTOP) holds its process;"
            f" `kill -CONT {resume}` lets it go on, then say this again"
        )


def _order(cluster: Cluster) -> list[int]:
    """The active controller last; by number when nobody says who it is."""
    brokers = [node.id for node in cluster.spec.nodes if node.is_broker]
    try:
        active = cluster.controller()
    except (OSError, ClusterError):
        active = -1
    return safe_order(brokers, _ids(cluster), active)


def _ids(cluster: Cluster) -> list[int]:
    return [node.id for node in cluster.spec.nodes]


def _reasons(cluster: Cluster, id: int) -> list[str]:
    """``reasons_not_to_stop`` as the cluster is now, and the majority of controllers: of these, a process that is gone
    or paused is known before the quorum knows it."""
    reasons = []
    controllers = [node.id for node in cluster.spec.nodes if "controller" in node.roles]
    there = set(cluster.alive()).difference(cluster.paused(), [id])
    left = [one for one in controllers if one in there]
    if id in controllers and cluster.spec.zookeeper == "" and len(left) <= len(controllers) // 2:
        of = counted(len(controllers), "controller")
        reasons.append(f"{len(left)} of {of} would be left: no majority, nothing is decided")
    return reasons + reasons_against(cluster.client(), id, votes=not reasons)


def _leads(cluster: Cluster, id: int) -> int:
    topics = cluster.client().topics()
    return sum(part.leader == id for topic in topics.values() for part in topic.partitions.values())


def _stop(cluster: Cluster, id: int, timeout_s: float) -> None:
    """SIGTERM, and what becomes of it; ends the command with 3 when time is up."""
    node = cluster.node(id)
    started = time.monotonic()
    led = _leads(cluster, id)
    say(f"node {id}: controlled shutdown, {counted(led, 'partition')} led")
    send(node, signal.SIGTERM)
    for _ in Looks(timeout_s):  # the process may be nobody's child here
        if not is_alive(node.pid):
            break
        still = None if is_paused(node.pid) else _told_leads(cluster, id)
        if still is not None and still != led:
            led = still
            say(f"node {id}: {counted(led, 'partition')} still led")
    if not wait_gone(node, None, 0):
        what = "it waits until others lead them" if led else "it writes its logs to disk"
        if is_paused(node.pid):
            what = f"a signal (SIGSTOP) holds its process, which stops as soon as `kill -CONT {node.pid}` lets it go on"
        note(
            f"node {id} has not gone after {timeout_s:g} s: {counted(led, 'partition')} led, {what}; "
            "it goes on by itself"
        )
        raise SystemExit(IN_PROGRESS)
    cluster.spec.save(cluster.folder)
    say(f"node {id}: stopped after {time.monotonic() - started:.1f} s")


def _told_leads(cluster: Cluster, id: int) -> int | None:
    """How much it still leads; None while nobody answers."""
    try:
        return _leads(cluster, id)
    except OSError:
        return None


def _start(cluster: Cluster, id: int, timeout_s: float) -> None:
    """Start a node and wait until it serves; ends the command with 3 when it runs and does not serve in time."""
    started = time.monotonic()
    try:
        cluster.restart(id, timeout_s=timeout_s)
    except ClusterError as error:
        fail(str(error), IN_PROGRESS if id in cluster.alive() else 1)
    say(f"node {id}: serves after {time.monotonic() - started:.1f} s")
