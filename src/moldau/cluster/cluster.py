"""``moldau.Cluster``: a whole cluster of real brokers over TCP on this machine, for tests, demos and study.

Starts, stops and breaks nodes, and waits for conditions; every node is a process of its own. Kill is SIGKILL, pause is
SIGSTOP; restart uses the same port and folder. Folders, ports and properties: ``layout.py``. What a process is:
``nodes.py``. The order of a stop: ``stopping.py``.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from moldau.cluster import layout, nodes
from moldau.cluster.ensemble import LocalEnsemble, NoEnsemble
from moldau.cluster.layout import ALL_BROKERS, COMBINED
from moldau.cluster.modes import KRAFT, MODES, ZOOKEEPER, mode_of
from moldau.cluster.nodes import HOST, ClusterSpec, NodeSpec, is_alive, last_words, leave_running, send, wait_gone
from moldau.cluster.publisher import end_publisher, go_on_publishing
from moldau.cluster.serving import brief_client, foreign_zookeeper, is_told, node_status
from moldau.cluster.stopping import Ending, Gone, stop_nodes
from moldau.ports.zookeeper import ZooKeeperError
from moldau.zookeeper.payload import BadZnode

if TYPE_CHECKING:
    from moldau.client import sync

START_TIMEOUT_S = 60.0
LOOK_MS = 2_000
"""How long brokers that start are asked before it is looked whether they are still there."""
EMBEDDED = "embedded"


class ClusterError(Exception):
    """Something did not come about; the text says what, and which node said what last."""

    def __str__(self) -> str:
        return " ".join(map(str, self.args))  # a KeyError, which some of these are besides, would put it in quotes


class NoLeader(ClusterError, LookupError):
    """A partition has no leader, or is not there: whoever waits may ask again."""


class NoSuchNode(ClusterError, KeyError):
    """The cluster has no node of this number."""


class Cluster:
    """Real brokers over TCP.

    Args:
        brokers: how many; their ids are 1 to ``brokers``.
        controllers: ``"combined"`` (the first three brokers are controllers too), or a number of controller-only nodes.
        data: folder of the cluster; a temporary one, removed at the end, when None.
        config: keys for every node's server.properties, over our own.
        port: first client port (then counting up); 0 for any free ones.
        mode: ``"kraft"``, or ``"zookeeper"``, where every broker is a candidate for controller.
        zookeeper: in ZooKeeper mode: ``"embedded"`` (a server of this cluster's own), or ``host:port,.../chroot``.

    >>> with Cluster(brokers=1) as cluster:      # doctest: +SKIP
    ...     cluster.bootstrap_servers
    '127.0.0.1:41001'
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        controllers: int | str = COMBINED,
        data: str | os.PathLike[str] | None = None,
        config: Mapping[str, str] | None = None,
        port: int = 0,
        mode: str = KRAFT,
        zookeeper: str = EMBEDDED,
    ) -> None:
        if brokers < 1:
            raise ValueError(f"a cluster needs at least one broker, not {brokers}")
        mode = mode_of(mode)
        if mode not in MODES:
            raise ValueError(f"there is no mode {mode!r}: {' or '.join(MODES)}")
        if mode == ZOOKEEPER and controllers != COMBINED:
            raise ValueError("in ZooKeeper mode every broker is a candidate for controller; none is one alone")
        self._config = {key: str(value) for key, value in (config or {}).items()}
        self._temporary = data is None
        self.folder = Path(tempfile.mkdtemp(prefix="moldau-")) if data is None else Path(data)
        self.missing = layout.missing(self.folder)  # before it is made
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self._client: sync.Cluster | None = None
        if self._temporary:
            atexit.register(self._close_at_exit, os.getpid())
        try:
            try:
                self.spec = ClusterSpec.load(self.folder)
                nodes.find_running(self.spec.nodes)
                self.is_new = False
            except FileNotFoundError:
                where = zookeeper if mode == ZOOKEEPER else ""
                self.spec = ClusterSpec("", zookeeper=where, embedded=where == EMBEDDED)
                self.is_new = True
            self.ensemble: LocalEnsemble | None = (
                LocalEnsemble(self.folder / "zookeeper") if self.spec.embedded else None
            )
            """The cluster's own ZooKeeper, if it has one."""
            if self.is_new:
                self._lay_out(brokers, controllers, port)
        except BaseException:
            self._remove_temporary()
            raise

    # ---- life

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, timeout_s: float = START_TIMEOUT_S) -> Self:
        """Start every node that does not run, and wait until all brokers serve.

        ClusterError when a port is somebody else's, a node ends, another cluster answers, or time is up.
        """
        self._look_again()
        self._demand_ports(self.spec.nodes)
        if self.ensemble is not None:
            self._start_zookeeper(self.ensemble)
        with contextlib.suppress(ZooKeeperError, BadZnode, TimeoutError):  # the nodes tell of these themselves
            if (trouble := foreign_zookeeper(self.spec)) is not None:
                raise ClusterError(trouble)
        for node in self.spec.nodes:
            if not is_alive(node.pid):
                self.processes[node.id] = nodes.launch_after(self.processes.get(node.id), node)
        self.spec.save(self.folder)
        self.wait_for_brokers([n.id for n in self.spec.nodes if n.is_broker], timeout_s)
        go_on_publishing(self)
        return self

    def stop(self, timeout_s: float = 60.0, gone: Gone = lambda id, ending: None) -> None:
        """Stop every node by controlled shutdown, brokers before controllers; whoever does not end is killed. ``gone``
        hears of each, and how it ended.

        Cut off by a signal it can be called again, and goes on.
        """
        self._close_client()
        end_publisher(self)

        def told(id: int, ending: Ending) -> None:
            self.spec.save(self.folder)
            gone(id, ending)

        stop_nodes(self.spec.nodes, self.processes, timeout_s, told)
        if self.ensemble is not None:
            self.ensemble.stop()

    def close(self) -> None:
        """End everything at once; a temporary folder is removed."""
        self._close_client()
        end_publisher(self, only_own=True)
        for node in self.spec.nodes:
            if is_alive(node.pid) and node.id in self.processes:
                send(node, signal.SIGKILL)
        for node in self.spec.nodes:
            if node.id in self.processes:
                wait_gone(node, self.processes[node.id], 10)
        if self.ensemble is not None and any(is_alive(server.pid) for server in self.ensemble.servers):
            self.ensemble.stop()
        self._remove_temporary()

    def leave(self) -> None:
        """Close the client and let the nodes run on, whoever started them: another finds them by the folder."""
        self._close_client()
        leave_running(self.processes.values())
        self.processes.clear()

    def move(self, port: int) -> None:
        """Give the brokers of a cluster that does not run other ports, from ``port`` on."""
        if self.alive():
            raise ClusterError(f"the cluster in {self.folder} runs: stop it before its ports change")
        layout.move(self.spec, port)
        self.spec.save(self.folder)

    # ---- who

    @property
    def bootstrap_servers(self) -> str:
        """``host:port,...`` of all brokers, for any Kafka client."""
        return ",".join(f"{HOST}:{node.port}" for node in self.spec.nodes if node.is_broker)

    @property
    def bootstrap_controllers(self) -> str:
        """``host:port,...`` of all controllers."""
        return ",".join(f"{HOST}:{node.controller_port}" for node in self.spec.nodes if node.controller_port)

    @property
    def cluster_id(self) -> str:
        """The cluster's id; empty before ZooKeeper has given one."""
        if not self.spec.cluster_id and self.alive():  # ZooKeeper's to give
            from moldau.client.admin import describe_cluster

            client = self.client()
            self.spec.cluster_id = client.run(describe_cluster(client.client)).cluster_id
        return self.spec.cluster_id

    def cluster_ids(self) -> list[str]:
        """The ids by which nodes of this cluster are known, without asking any: none before ZooKeeper has given one."""
        return [self.spec.cluster_id] if self.spec.cluster_id else nodes.cluster_ids_on_disk(self.spec)

    @property
    def mode(self) -> str:
        """``"kraft"`` or ``"zookeeper"``."""
        return ZOOKEEPER if self.spec.zookeeper else KRAFT

    def node(self, id: int) -> NodeSpec:
        """A node by number; NoSuchNode (a KeyError) names those that there are."""
        for node in self.spec.nodes:
            if node.id == id:
                return node
        raise NoSuchNode(f"there is no node {id}: this cluster has {', '.join(str(n.id) for n in self.spec.nodes)}")

    def pid(self, id: int) -> int:
        """The process of a running node."""
        pid = self.node(id).pid
        if pid is None or not is_alive(pid):
            raise ClusterError(f"node {id} does not run (restart({id}) starts it)\n{last_words(self.node(id))}")
        return pid

    def alive(self) -> list[int]:
        """Numbers of nodes whose process runs."""
        return [node.id for node in self.spec.nodes if is_alive(node.pid)]

    def paused(self) -> list[int]:
        """Numbers of nodes whose process is stopped by ``pause``."""
        return [node.id for node in self.spec.nodes if nodes.is_paused(node.pid)]

    # ---- faults

    def kill(self, id: int) -> None:
        """kill -9: the process is gone when this returns."""
        send(self._running(id), signal.SIGKILL)
        wait_gone(self.node(id), self.processes.get(id), 10)
        self.spec.save(self.folder)

    def terminate(self, id: int, timeout_s: float = 60.0) -> None:
        """SIGTERM: a controlled shutdown, waited for."""
        send(self._running(id), signal.SIGTERM)
        if not wait_gone(self.node(id), self.processes.get(id), timeout_s):
            raise ClusterError(f"node {id} did not shut down within {timeout_s} s\n{last_words(self.node(id))}")
        self.spec.save(self.folder)

    def restart(self, id: int, *, wait: bool = True, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start a stopped or killed node again, on the same port and folder."""
        node = self.node(id)
        if is_alive(node.pid):
            self.terminate(id)
        self._demand_ports([node])
        self.processes[id] = nodes.launch_after(self.processes.get(id), node)
        self.spec.save(self.folder)
        if wait and node.is_broker:
            self.wait_for_brokers([id], timeout_s)

    def pause(self, id: int) -> None:
        """SIGSTOP: alive and silent when this returns."""
        nodes.pause(self._running(id))

    def resume(self, id: int) -> None:
        """SIGCONT."""
        send(self._running(id), signal.SIGCONT)

    # ---- looking and waiting

    def client(self, patience_ms: int | None = None) -> sync.Cluster:
        """A blocking client of this cluster, kept until the cluster stops.

        ``patience_ms``: how long it waits for anything, when it is made by this call.
        """
        if self._client is None:
            from moldau.client import sync

            where = self.bootstrap_servers
            self._client = sync.Cluster(where) if patience_ms is None else brief_client(where, patience_ms)
        return self._client

    def serving(self) -> set[int]:
        """Brokers that are registered and not fenced, by the cluster's own word.

        Metadata would not do: it lists a broker for a moment after its death.
        """
        return self._serving(self.client())

    def create_topic(
        self, name: str, *, partitions: int = 1, replication_factor: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic and wait until every partition has a leader."""
        from moldau.client.admin import NewTopic, create_topics

        client = self.client()
        new = NewTopic(
            name=name, partitions=partitions, replication_factor=replication_factor, configs=dict(config or {})
        )
        outcome = client.run(create_topics(client.client, [new]))[name]
        if outcome.code:
            raise ClusterError(f"topic {name} was not created: {outcome.code.name} {outcome.message or ''}")
        self.wait_until(lambda: self._led(name, partitions), f"topic {name} has leaders")

    def leader(self, topic: str, partition: int) -> int:
        """The broker that leads a partition; NoLeader when none does."""
        leader = self._partition(topic, partition).leader
        if leader is None or leader < 0:
            raise NoLeader(f"{topic}-{partition} has no leader")
        return int(leader)

    def controller(self) -> int:
        """The node that is the active controller, by the quorum's own word, or as a broker follows it in ZooKeeper."""
        from moldau.client.admin import describe_cluster, describe_quorum

        if self.spec.zookeeper:
            return int(self.client().run(describe_cluster(self.client().client)).controller_id)
        outcome, quorum = self.client().run(describe_quorum(self.client().client))
        if quorum is None:
            raise ClusterError(f"nobody knows the controller: {outcome.code.name}")
        return int(quorum.leader_id)

    def wait_until_in_sync(self, timeout_s: float = 60.0) -> None:
        """Wait until every replica of every partition is in its ISR.

        ClusterError at once when a node that does not run, or is paused, holds replicas: it has to come back first.
        """

        def in_sync() -> bool:
            partitions = [p for topic in self.client().topics().values() for p in topic.partitions.values()]
            self._demand_all({id for p in partitions for id in p.replicas})
            return all(p.leader is not None and p.leader >= 0 and set(p.isr) == set(p.replicas) for p in partitions)

        self.wait_until(in_sync, "every replica is in sync", timeout_s)

    def wait_for_brokers(self, ids: list[int], timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until brokers are registered and unfenced, and each of them knows so and has a controller.

        ClusterError with a node's last words when its process ends, or when another cluster answers at their addresses.
        """

        def serving() -> bool:
            for node in self.spec.nodes:
                if node.id in ids and not is_alive(node.pid):
                    raise ClusterError(f"node {node.id} ended while it was starting:\n{last_words(node)}")
            if not set(ids) <= self._serving(asking) or not is_told(asking, ids, self.cluster_ids()):
                return False
            return all(is_alive(self.node(id).pid) for id in ids)

        with brief_client(self.bootstrap_servers, 2 * LOOK_MS, LOOK_MS) as asking:
            self.wait_until(serving, f"brokers {ids} serve", timeout_s)

    def wait_until(self, condition: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
        """Wait for a condition, asked again and again; ClusterError names what did not come about."""
        deadline = time.monotonic() + timeout_s
        last: Exception | None = None
        while time.monotonic() < deadline:
            try:
                if condition():
                    return
                last = None
            except (OSError, LookupError) as error:  # nobody answers yet
                last = error
            time.sleep(0.005)
        words = "\n".join(map(node_status, self.spec.nodes))
        raise ClusterError(f"not within {timeout_s:g} s: {what}" + (f" ({last!r})" if last else "") + f"\n{words}")

    def recover(self, timeout_s: float = 60.0) -> None:
        """Undo every kill and pause: start what does not run, resume what is paused, wait until all is in sync."""
        for node in self.spec.nodes:
            if is_alive(node.pid):
                send(node, signal.SIGCONT)
        self.start(timeout_s)
        self.wait_until_in_sync(timeout_s)

    def reset(self) -> None:
        """Undo every kill and pause, and delete every topic that is not internal: a clean cluster for the next test."""
        self.recover()
        names = [name for name in self.client().topics() if not name.startswith("__")]
        if names:
            from moldau.client.admin import delete_topics

            self.client().run(delete_topics(self.client().client, names))
            self.wait_until(lambda: not set(names) & set(self.client().topics()), "topics are gone")

    # ---- parts

    def _running(self, id: int) -> NodeSpec:
        self.pid(id)
        return self.node(id)

    def _partition(self, topic: str, partition: int) -> Any:
        found = self.client().topics([topic]).get(topic)
        if found is None:
            there = sorted(name for name in self.client().topics() if not name.startswith("__"))
            raise NoLeader(f"there is no topic {topic}; there are: {', '.join(there) or 'none'}")
        if partition not in found.partitions:
            raise NoLeader(f"topic {topic} has no partition {partition}; it has {len(found.partitions)}, from 0")
        return found.partitions[partition]

    def _demand_ports(self, nodes: Sequence[NodeSpec]) -> None:
        """ClusterError when somebody else has a port of one of these nodes, and it does not run."""
        if (found := layout.taken_port(nodes)) is not None:
            node, port = found
            raise ClusterError(
                f"port {port}, on which node {node.id} is to listen, is somebody else's: stop what listens there, or"
                " choose other ports (`moldau up --port N`, `Cluster(port=N)`; 0 takes any)"
            )

    def _demand_all(self, ids: set[int]) -> None:
        """ClusterError when one of these nodes cannot catch up as it is; the cluster may not have noticed yet."""
        self._look_again()
        alive, paused = self.alive(), self.paused()
        for id in sorted(ids):
            if id not in alive:
                raise ClusterError(f"node {id} does not run, and replicas on it cannot be in sync: restart({id}) first")
            if id in paused:
                raise ClusterError(f"node {id} is paused, and replicas on it cannot be in sync: resume({id}) first")

    def _look_again(self) -> None:
        """Take in what another process has started in our folder since we looked, such as `moldau broker start`."""
        if len(self.alive()) < len(self.spec.nodes):
            with contextlib.suppress(OSError, ValueError):
                told = {node.id: node.pid for node in ClusterSpec.load(self.folder).nodes}
                for node in self.spec.nodes:
                    if not is_alive(node.pid):
                        node.pid = told.get(node.id)

    def _serving(self, client: sync.Cluster) -> set[int]:
        """Brokers that serve, as the cluster says that answers ``client``; ClusterError when that is another one."""
        from moldau.client.admin import describe_cluster

        shown = client.run(describe_cluster(client.client))
        ids = self.cluster_ids()
        if not ids:
            return set()  # ZooKeeper's to give: no node of ours has heard of it yet, so that nobody of ours answers
        if shown.cluster_id not in ids:
            raise ClusterError(
                f"another cluster answers at {self.bootstrap_servers}: its id is {shown.cluster_id}, and that of the"
                f" cluster in {self.folder} is {ids[0]}; choose other ports (`moldau up --port N`)"
            )
        return {broker.broker_id for broker in shown.brokers}

    def _close_at_exit(self, pid: int) -> None:
        if os.getpid() == pid:
            self.close()

    def _remove_temporary(self) -> None:
        if self._temporary:
            atexit.unregister(self._close_at_exit)
            shutil.rmtree(self.folder, ignore_errors=True)

    def _led(self, name: str, partitions: int) -> bool:
        topic = self.client().topics([name]).get(name)
        return (
            topic is not None
            and len(topic.partitions) >= partitions
            and all(p.leader is not None and p.leader >= 0 for p in topic.partitions.values())
        )

    def _close_client(self) -> None:
        if self._client is not None:
            with contextlib.suppress(OSError):
                self._client.close()
            self._client = None

    def _lay_out(self, brokers: int, controllers: int | str, port: int) -> None:
        spec = self.spec
        if self.ensemble is not None:
            spec.zookeeper = self.ensemble.connect
        roles = layout.roles_of(brokers, controllers if not spec.zookeeper else ALL_BROKERS)
        given = [] if self.ensemble is None else [server.port for server in self.ensemble.servers]
        layout.lay_out(self.folder, spec, roles=roles, ports=(port, given), config=self._config)
        spec.save(self.folder)

    def _start_zookeeper(self, ensemble: LocalEnsemble) -> None:
        try:
            ensemble.start()
        except NoEnsemble as error:
            raise ClusterError(str(error)) from error
        if ensemble.connect != self.spec.zookeeper:  # it had never run, and now it has other ports
            for node in self.spec.nodes:
                text = node.properties.read_text()
                node.properties.write_text(text.replace(self.spec.zookeeper, ensemble.connect))
            self.spec.zookeeper = ensemble.connect
