"""``moldau up``, ``down``, ``status``: a cluster to play with, in one folder."""

from __future__ import annotations

import signal
import time
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from moldau.admin.asking import DATA as DATA
from moldau.admin.main import INTERRUPTED, fail, reason
from moldau.admin.options import OUTPUT
from moldau.admin.output import note, say, show, show_one
from moldau.cluster.cluster import EMBEDDED, Cluster, ClusterError
from moldau.cluster.layout import COMBINED, PAGES, take_back
from moldau.cluster.mode_option import MODE
from moldau.cluster.modes import QUORUM, ZOOKEEPER, mode_of
from moldau.cluster.nodes import ClusterSpec, is_alive, setting
from moldau.cluster.publisher import LOG, end_publisher
from moldau.cluster.serving import zookeeper_trouble
from moldau.cluster.stopping import Ending
from moldau.model.broker_config import BROKER_KEYS
from moldau.model.counted import counted
from moldau.zookeeper.connect import parse_connect

if TYPE_CHECKING:
    from moldau.client.view import Partition

MISMATCH = 4
ANY_PAGE = "127.0.0.1:0"
"""Where the nodes of a cluster whose metrics are published show them, if nothing else is said: each on a free port."""
TOPICS = "__moldau_state_changes, __moldau_metrics"
NO_CONTROLLER = "no controller is active: no leader is elected, no topic is made or changed (`moldau doctor`)"


class Port(click.IntRange):
    """A port by number; what is none is refused in those words."""

    name = "port number (0 to 65535)"

    def __init__(self) -> None:
        super().__init__(0, 65535)


LOOKS_UNTIL_GONE = 4
"""Half seconds in which no node runs until nobody waits for another one."""


@click.command()
@click.option("--brokers", type=click.IntRange(min=1), default=3, show_default=True, help="How many brokers.")
@click.option(
    "--controllers",
    default=COMBINED,
    show_default=True,
    metavar="N|combined",
    help="Controllers of their own, or in the brokers.",
)
@click.option("--data", type=click.Path(path_type=Path), default=DATA, show_default=True, help="Folder of the cluster.")
@click.option(
    "--port",
    type=Port(),
    default=9092,
    show_default=True,
    help="Client port of the first broker; the others count up. 0: any.",
)
@click.option(
    "--config", "settings", multiple=True, metavar="KEY=VALUE", help="A server.properties key for every node."
)
@MODE
@click.option(
    "--zookeeper",
    metavar=f"{EMBEDDED}|HOST:PORT,.../CHROOT",
    help="ZooKeeper mode, on a server of the cluster's own or on yours; implies --mode zookeeper.",
)
@click.option(
    "--publish/--no-publish",
    default=None,
    help="Write state changes and metrics to topics, by a process beside the nodes (`moldau publish --help`); or no"
    " more.",
)
@click.option("--detach", is_flag=True, help="Leave it running and return; `moldau down` stops it.")
def up(
    brokers: int,
    controllers: str,
    data: Path,
    port: int,
    settings: tuple[str, ...],
    plane: str,
    zookeeper: str | None,
    publish: bool | None,
    detach: bool,
) -> None:
    """Start a whole cluster on this machine: real processes, TCP on loopback, replicated logs.

    Without --detach it runs until Ctrl-C. The folder keeps everything; `up` on the same folder goes on with it, as it
    was laid out. When it fails or is interrupted, nothing is left running that did not run before.
    """
    pairs = dict(
        pair.split("=", 1) if "=" in pair else fail(f"--config {pair}: KEY=VALUE is expected", 2) for pair in settings
    )
    _demand_sense(controllers, plane, zookeeper)
    _warn_of_unknown(pairs)
    more = {} if PAGES in pairs or not publish else {PAGES: ANY_PAGE}
    started = time.monotonic()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        cluster = Cluster(
            brokers,
            controllers=controllers,
            data=data.resolve(),
            config=pairs | more,
            port=port,
            mode=ZOOKEEPER if zookeeper else plane,
            zookeeper=zookeeper or EMBEDDED,
        )
        _agree(cluster, pairs)
        missing = len(cluster.spec.nodes) - len(cluster.alive())
        if publish is not None:
            cluster.spec.publishing = publish
        _start(cluster, data, pairs)
        if publish is False:
            end_publisher(cluster)
    except (ClusterError, ValueError, OSError) as error:
        fail(reason(error))
        return
    except KeyboardInterrupt:
        fail("interrupted while it was starting", INTERRUPTED)
        return
    _tell(cluster, data, missing, time.monotonic() - started)
    if detach:
        cluster.leave()
        return
    say("Ctrl-C stops the cluster.")
    try:
        _wait_while_it_runs(data)
    except KeyboardInterrupt:
        say("\nstopping ...")
    _end(_stop(found(data), data))


def _demand_sense(controllers: str, plane: str, zookeeper: str | None) -> None:
    """End the command, before anything is made, when what was asked for cannot be meant together."""
    context = click.get_current_context()
    if controllers != COMBINED and not (controllers.isascii() and controllers.isdigit() and int(controllers)):
        fail(f"--controllers {controllers}: a number from 1 on, or {COMBINED}, is expected", 2)
    asked = context.get_parameter_source("plane") is ParameterSource.COMMANDLINE
    if zookeeper is not None and asked and plane != ZOOKEEPER:
        fail(f"--mode {mode_of(plane)} and --zookeeper {zookeeper}: a cluster is in one mode; leave one out", 2)
    if controllers != COMBINED and (zookeeper is not None or plane == ZOOKEEPER):
        why = "in ZooKeeper mode every broker is a candidate for controller, and none is one alone"
        fail(f"--controllers {controllers}: {why}; leave it out", 2)
    if zookeeper is not None and zookeeper != EMBEDDED:
        try:
            parse_connect(zookeeper)
        except ValueError as error:
            fail(f"--zookeeper: {error}", 2)


def _wait_while_it_runs(data: Path) -> None:
    """Until no node of the folder runs. Other commands start nodes anew, add and remove some (``moldau migrate``), and
    the folder says which there are now; for a moment none may run, while the only one restarts."""
    gone = 0
    while gone < LOOKS_UNTIL_GONE:
        time.sleep(0.5)
        try:
            nodes = ClusterSpec.load(data.resolve()).nodes
        except (OSError, ValueError):
            nodes = []
        gone = 0 if any(is_alive(node.pid) for node in nodes) else gone + 1


@click.command()
@click.option("--data", type=click.Path(path_type=Path), default=DATA, show_default=True, help="Folder of the cluster.")
def down(data: Path) -> None:
    """Stop a cluster by controlled shutdown of every node, brokers before controllers.

    Exit 4 when a node had to be killed or ended uncleanly. Cut off by a signal it says who still runs and ends with 3;
    called again, it goes on.
    """
    cluster = found(data)
    if not cluster.alive() and not _servers(cluster) and not is_alive(cluster.spec.publisher):
        say("nothing runs.")
        return
    _end(_stop(cluster, data))


def _end(clean: bool) -> None:
    """The last line of a stop, and the exit code of one that was not clean."""
    if clean:
        say("stopped.")
        return
    say("stopped, not cleanly: what was acknowledged is kept; the next start reads logs again and takes longer.")
    raise SystemExit(MISMATCH)


def _tell(cluster: Cluster, data: Path, missing: int, took_s: float) -> None:
    """What is up, where, and what to type next."""
    nodes = len(cluster.spec.nodes)
    are = counted(nodes, "node is", "nodes are")
    if not missing:
        say(f"{are} up already.")
    elif missing < nodes:
        say(f"{are} up after {took_s:.2f} s, {nodes - missing} of them already before.")
    else:
        say(f"{are} up after {took_s:.2f} s.")
    say(f"bootstrap servers: {cluster.bootstrap_servers}")
    if cluster.spec.zookeeper:
        say(f"ZooKeeper: {cluster.spec.zookeeper}")
    if cluster.spec.publishing:
        say(f"published: {TOPICS}    its words: {data / LOG}")
        if without := [str(node.id) for node in cluster.spec.nodes if not setting(node, PAGES)]:
            say(f"no metrics are published of node {', '.join(without)}: its server.properties has no {PAGES}")
    here = "" if data == DATA else f" --data {quote(str(data))}"
    say(f"folder: {data}    look: moldau status{here}    stop: moldau down{here}")


def _warn_of_unknown(pairs: Iterable[str]) -> None:
    """Say on stderr which keys no node knows: each is ignored, with a warning that only its log has."""
    for key in pairs:
        if key not in BROKER_KEYS:
            near = get_close_matches(key, BROKER_KEYS, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            note(f"moldau: warning: --config {key}: no node knows this key, it is ignored{hint}")


def _start(cluster: Cluster, data: Path, settings: Collection[str]) -> None:
    """Start what does not run; when that fails and nothing ran before, nothing runs afterwards, and a folder that was
    made for it is gone or said to stay."""
    ran = bool(cluster.alive())
    try:
        cluster.start()
    except BaseException:
        if not ran:
            cluster.stop(timeout_s=10)
        if cluster.is_new and not _taken_back(cluster, settings):
            note(f"moldau: {data} stays, with the logs of its nodes: `moldau up --data {data}` tries again")
        raise


def _taken_back(cluster: Cluster, settings: Collection[str]) -> bool:
    """Remove what was laid out for a new cluster, if no node has run on it and all of it is in the cluster's folder;
    whether it was."""
    if cluster.processes or {"log.dir", "log.dirs", "metadata.log.dir"} & set(settings):
        return False
    made = [cluster.folder / "zookeeper", *(Path(node.folder) for node in cluster.spec.nodes)]
    (cluster.folder / "cluster.json").unlink(missing_ok=True)
    take_back(made, cluster.missing)
    return True


def _agree(cluster: Cluster, pairs: dict[str, str]) -> None:
    """ClusterError when the command line asks for another layout than the folder has: that stays as it was made, but
    for the ports of a cluster that does not run."""
    context, nodes = click.get_current_context(), cluster.spec.nodes
    brokers = [node for node in nodes if node.is_broker]
    alone = len(nodes) - len(brokers)
    there = {
        "brokers": len(brokers),
        "controllers": str(alone) if alone else COMBINED,
        "port": brokers[0].port,
        "plane": ZOOKEEPER if cluster.spec.zookeeper else QUORUM,
        "zookeeper": EMBEDDED if cluster.spec.embedded else cluster.spec.zookeeper or None,
    }
    for name, is_so in there.items():
        asked = context.params[name]
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if not given or asked == is_so or (name == "port" and asked == 0):
            continue
        if name != "port":
            option = "mode" if name == "plane" else name
            has, wanted = mode_of(str(is_so)), mode_of(str(asked))
            raise ClusterError(
                f"the cluster in {cluster.folder} has --{option} {has}, not {wanted}: take another --data, or remove it"
                f" with all that it holds (moldau down --data {cluster.folder}; rm -r {cluster.folder})"
            )
        if cluster.alive():
            raise ClusterError(
                f"the cluster in {cluster.folder} runs on --port {is_so}, not {asked}: stop it before it can move"
                f" (moldau down --data {cluster.folder}), or take another --data"
            )
        cluster.move(asked)
    for node in nodes:
        lines = node.properties.read_text().splitlines()
        for key, value in pairs.items():
            counted = key == PAGES and (node is not nodes[0] or value.endswith(":0"))  # each node's is another
            if not counted and f"{key}={value}" not in lines:
                raise ClusterError(
                    f"the cluster in {cluster.folder} was made without {key}={value}: see {node.properties}"
                )


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _servers(cluster: Cluster) -> list[int]:
    """ZooKeeper servers of the cluster's own that run, by process."""
    servers = cluster.ensemble.servers if cluster.ensemble is not None else []
    return [server.pid for server in servers if server.pid is not None and is_alive(server.pid)]


def _stop(cluster: Cluster, data: Path) -> bool:
    """Stop everything; whether every node ended cleanly. Cut off, say what is left and end."""
    started = time.monotonic()
    endings: list[Ending] = []

    def gone(id: int, ending: Ending) -> None:
        endings.append(ending)
        say(f"node {id} {ending.value} after {time.monotonic() - started:.1f} s")

    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        cluster.stop(gone=gone)
    except KeyboardInterrupt:
        left = ", ".join(map(str, cluster.alive())) or "none"
        zookeeper = " and its ZooKeeper" if _servers(cluster) else ""
        fail(f"cut off: nodes that still run: {left}{zookeeper}; `moldau down --data {data}` goes on", 3)
    finally:
        signal.signal(signal.SIGTERM, before)
    return all(ending is Ending.CLEAN for ending in endings)


@click.command()
@click.option("--data", type=click.Path(path_type=Path), default=DATA, show_default=True, help="Folder of the cluster.")
@OUTPUT
def status(data: Path, output: str) -> None:
    """Nodes, who leads how much, what is not in sync.

    A node is stopped (no process), starting, serving, or not answering (its process runs, and is stopped by a signal
    or hangs). Exit 1 unless all serve and a controller is active.
    """
    cluster = found(data)
    trouble = zookeeper_trouble(cluster.spec) if cluster.alive() else None
    if trouble is not None:
        note(f"moldau: {trouble}")
    rows = _rows(cluster)
    publisher = cluster.spec.publisher if is_alive(cluster.spec.publisher) else None
    whole: dict[str, object] = {
        "cluster_id": cluster.cluster_id,
        "bootstrap_servers": cluster.bootstrap_servers,
        "nodes": rows,
    }
    whole |= {"publisher": publisher} if cluster.spec.publishing else {}
    if output == "tsv":
        show(rows, output, rows[0])
    elif not show_one(whole, output):
        say(f"cluster {cluster.cluster_id}    bootstrap servers: {cluster.bootstrap_servers}")
        _table(rows)
        if cluster.spec.publishing:
            by = publisher or f"nobody ({data / LOG} may say why; `moldau up` starts it again)"
            say(f"published: {TOPICS}    by process: {by}")
    well = all(row["state"] == "serving" for row in rows) and any(row["controller"] for row in rows)
    raise SystemExit(0 if trouble is None and well else 1)


def found(data: Path) -> Cluster:
    if not (data / "cluster.json").exists():
        fail(f"no cluster in {data}: start one with `moldau up --data {data}`")
    try:
        cluster = Cluster(data=data.resolve())
    except (ValueError, OSError) as error:
        fail(reason(error))
        raise
    click.get_current_context().call_on_close(cluster.leave)
    return cluster


def _rows(cluster: Cluster) -> list[dict[str, Any]]:
    from moldau.admin.node_states import ANSWER_MS, NodeState, has_controller, look_at_nodes, partitions_of

    seen = look_at_nodes(cluster)
    for word in seen.notes:
        note(f"moldau: {word}")
    partitions: list[Partition] = []
    controller = None
    if seen.answered is not None:
        client = cluster.client(ANSWER_MS)
        client.client.answered = seen.answered
        try:
            partitions = partitions_of(cluster)
            controller = cluster.controller() if has_controller(cluster) else None
        except (OSError, ClusterError) as error:
            note(f"moldau: {reason(error)}")
        if controller is None:
            note(f"moldau: {NO_CONTROLLER}")
    rows = []
    for node in cluster.spec.nodes:
        state = seen.states[node.id]
        rows.append(
            {
                "node": node.id,
                "roles": node.roles,
                "state": state.value,
                "pid": node.pid if state is not NodeState.STOPPED else None,
                "port": node.port or None,
                "pages": setting(node, "http.listener") or None,
                "controller": node.id == controller,
                "leads": sum(p.leader == node.id for p in partitions),
                "replicas": sum(node.id in p.replicas for p in partitions),
                "out_of_sync": sum(node.id in p.replicas and node.id not in p.isr for p in partitions),
            }
        )
    return rows


def _table(rows: list[dict[str, Any]]) -> None:
    show(rows, "text", [name for name in rows[0] if name != "pages"])
    for row in rows:
        if row["pages"]:
            say(f"pages of node {row['node']} http://{row['pages']}/metrics")
