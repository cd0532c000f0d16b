"""How a cluster's folder is laid out: which nodes it has, their ports, and each one's server.properties.

Writes the files of nodes that have never run, and new ports into those of nodes that do not run. Starting them is
``cluster.py``'s part; what a node's process is, is ``nodes.py``.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from moldau.cluster.nodes import HOST, ClusterSpec, NodeSpec, free_ports, is_alive

COMBINED = "combined"
ALL_BROKERS = "all brokers"
SESSION_MS = 4_000
"""The session timeout of brokers in ZooKeeper mode, short as both ends are on this machine."""
REPLICATION_FACTOR = 3
ENDING_S = 3.0
"""How long a port may belong to what is left of a process that was killed."""
PAGES = "http.listener"
OF_ONE_NODE = frozenset(
    {"advertised.listeners", "broker.id", "listeners", "log.dir", "log.dirs", "metadata.log.dir", "node.id"}
)
"""What no two nodes may share."""


def lay_out(
    folder: Path,
    spec: ClusterSpec,
    *,
    roles: list[tuple[int, str]],
    ports: tuple[int, Collection[int]],
    config: Mapping[str, str],
) -> None:
    """Give the spec its nodes, make their folders and files, and format them. What fails leaves no folder behind.
    ValueError says what cannot be.

    Args:
        roles: (node id, process.roles) of every node.
        ports: the first broker's, from which the others count up (0 for any free ones); and those that are given away.
        config: keys over our own.
    """
    shared = sorted(OF_ONE_NODE & config.keys()) if len(roles) > 1 else []
    if shared:
        raise ValueError(
            f"{', '.join(shared)}: what is set here is set for all {len(roles)} nodes, and each needs its own; left"
            f" out, each has its own. `moldau storage format` and `moldau node` run nodes of your own files"
        )
    from moldau.broker.config.node_config import load
    from moldau.broker.config.storage_format import FormatRefused, format_storage
    from moldau.model import uuid_text
    from moldau.runtime.disk import RealDisk
    from moldau.runtime.world import RealRandom

    random, disk = RealRandom(), RealDisk()
    if not spec.zookeeper:
        spec.cluster_id = uuid_text(random.uuid())
    spec.nodes = [NodeSpec(id, role, str(folder / f"node-{id}")) for id, role in roles]
    made: list[Path] = []
    above = missing(folder)
    try:
        _assign_ports(spec, *ports)
        for number, node in enumerate(spec.nodes):
            text = "".join(f"{key}={value}\n" for key, value in _properties(spec, node, number, config))
            checked = load(text)
            _demand_addresses(config)
            if not Path(node.folder).exists():
                made.append(Path(node.folder))
            Path(node.folder).mkdir(parents=True, exist_ok=True)
            node.properties.write_text(text)
            if not spec.zookeeper:
                format_storage(checked, spec.cluster_id, disk, random)
    except BaseException as error:
        take_back(made, above)
        if isinstance(error, FormatRefused):
            raise ValueError(str(error)) from None
        raise


def missing(folder: Path) -> list[Path]:
    """The folder and those above it that are not there, the deepest first."""
    return [one for one in (folder, *folder.parents) if not one.exists()]


def take_back(made: Collection[Path], above: Collection[Path]) -> None:
    """Remove folders that were made, with what is in them; and those ``above`` in which nothing else is."""
    for path in made:
        shutil.rmtree(path, ignore_errors=True)
    for path in above:
        with contextlib.suppress(OSError):  # it holds something else, or is gone
            path.rmdir()


def _demand_addresses(config: Mapping[str, str]) -> None:
    """ValueError when clients on this machine could not find the node by what it would tell them."""
    for one in filter(None, config.get("advertised.listeners", "").split(",")):
        host = one.strip().partition("://")[2].rpartition(":")[0].strip("[]")
        try:
            socket.getaddrinfo(host or HOST, None)
        except (OSError, UnicodeError) as error:
            what = f"advertised.listeners={one.strip()}: nobody here finds {host}: {error.args[-1]}"
            raise ValueError(what) from None


def _assign_ports(spec: ClusterSpec, port: int, taken: Collection[int]) -> None:
    """Give every node its ports: brokers count up from ``port`` (0: any), controllers take any."""
    brokers = [node for node in spec.nodes if node.is_broker]
    if port and port + len(brokers) - 1 > 65_535:
        raise ValueError(f"{len(brokers)} brokers from port {port} on need ports above 65535")
    wanted = range(port, port + len(brokers)) if port else ()
    ports = iter(free_ports(2 * len(spec.nodes), {*taken, *wanted}))
    for number, node in enumerate(brokers):
        node.port = port + number if port else next(ports)
    for node in spec.nodes:
        if "controller" in node.roles:
            node.controller_port = next(ports)


def move(spec: ClusterSpec, port: int) -> None:
    """Give the brokers of a cluster that does not run other ports: in the spec, and in their files."""
    assert not any(is_alive(node.pid) for node in spec.nodes), "a node that runs keeps its ports"
    brokers = [node for node in spec.nodes if node.is_broker]
    if port + len(brokers) - 1 > 65_535:
        raise ValueError(f"{len(brokers)} brokers from port {port} on need ports above 65535")
    for number, node in enumerate(brokers):
        text = node.properties.read_text()
        lines = [
            line.replace(f"://{HOST}:{node.port}", f"://{HOST}:{port + number}") if _names_ports(line) else line
            for line in text.splitlines(keepends=True)
        ]
        node.properties.write_text("".join(lines))
        node.port = port + number


def taken_port(nodes: Collection[NodeSpec]) -> tuple[NodeSpec, int] | None:
    """The first node that does not run and has a port that somebody else holds, and that port.

    A node that was killed a moment ago holds its ports until the last of its threads has ended: it is waited for.
    """
    deadline = time.monotonic() + ENDING_S
    for node in nodes:
        if is_alive(node.pid):
            continue
        for port in filter(None, (node.port, node.controller_port)):
            while not _is_free(port):
                if time.monotonic() > deadline:
                    return node, port
                time.sleep(0.01)
    return None


def roles_of(brokers: int, controllers: int | str) -> list[tuple[int, str]]:
    """(node id, process.roles) of every node: brokers first."""
    if controllers == ALL_BROKERS:
        return [(id, "broker") for id in range(1, brokers + 1)]
    if controllers == COMBINED:
        return [(id, "broker,controller" if id <= min(brokers, 3) else "broker") for id in range(1, brokers + 1)]
    count = int(controllers)
    if count < 1:
        raise ValueError(f"a cluster needs at least one controller, not {count}")
    return [(id, "broker") for id in range(1, brokers + 1)] + [(100 + id, "controller") for id in range(1, count + 1)]


def _names_ports(line: str) -> bool:
    return line.partition("=")[0].strip() in ("listeners", "advertised.listeners")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except PermissionError:
            return True  # a port below 1024: its node says so itself
        except OSError:
            return False
    return True


def _properties(spec: ClusterSpec, node: NodeSpec, number: int, config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    copies = str(min(REPLICATION_FACTOR, sum(one.is_broker for one in spec.nodes)))
    settings = {
        "log.dirs": str(Path(node.folder) / "data"),
        "default.replication.factor": copies,
        "offsets.topic.replication.factor": copies,
    }
    if spec.zookeeper:
        settings |= {
            "broker.id": str(node.id),
            "zookeeper.connect": spec.zookeeper,
            "zookeeper.session.timeout.ms": str(SESSION_MS),
            "zookeeper.connection.timeout.ms": "30000",
            "listeners": f"PLAINTEXT://{HOST}:{node.port}",
        }
    else:
        listeners = [f"PLAINTEXT://{HOST}:{node.port}"] if node.is_broker else []
        if node.controller_port:
            listeners.append(f"CONTROLLER://{HOST}:{node.controller_port}")
        settings |= {
            "process.roles": node.roles,
            "node.id": str(node.id),
            "controller.quorum.voters": ",".join(
                f"{one.id}@{HOST}:{one.controller_port}" for one in spec.nodes if one.controller_port
            ),
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        }
    settings |= config
    if PAGES in config:
        settings[PAGES] = _pages(config[PAGES], number)
    yield from settings.items()


def _pages(text: str, number: int) -> str:
    """The address of a node's pages: ports count up from the one that was asked for, and 0 stands for a free one."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit():
        return text  # refused, with what is expected, by whoever reads it
    return f"{host}:{int(port) + number if int(port) else free_ports(1)[0]}"
