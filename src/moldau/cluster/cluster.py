"""``moldau.Cluster``: a whole cluster of real brokers over TCP on this machine, for tests, demos and study.

Decides layout (folders, ports, properties) and waits for conditions; every node is a process of its own. What a process
is, is ``nodes.py``. Kill is SIGKILL, pause is SIGSTOP; restart uses the same port and folder.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moldau.cluster.ensemble import LocalEnsemble, NoEnsemble
from moldau.cluster.nodes import HOST, ClusterSpec, NodeSpec, free_ports, is_alive, last_words, launch, send, wait_gone

if TYPE_CHECKING:
    from moldau.client import sync

START_TIMEOUT_S = 60.0
LOOK_MS = 2_000
"""How long brokers that start are asked before it is looked whether they are still there."""
COMBINED = "combined"
QUORUM, ZOOKEEPER = "quorum", "zookeeper"
PLANES = (QUORUM, ZOOKEEPER)
EMBEDDED = "embedded"
ALL_BROKERS = "all brokers"
SESSION_MS = 4_000
"""Of brokers on the ZooKeeper plane: both ends are on this machine."""


class ClusterError(Exception):
    """Something did not come about; the text says what, and which node said what last."""


class NoLeader(ClusterError, LookupError):
    """A partition has no leader, or is not there: whoever waits may ask again."""


class Cluster:
    """Real brokers over TCP.

    Args:
        brokers: how many; their ids are 1 to ``brokers``.
        controllers: ``"combined"`` (the first three brokers are controllers too), or a number of controller-only nodes.
        data: folder of the cluster; a temporary one, removed at the end, when None.
        config: keys for every node's server.properties, over our own.
        port: first client port (then counting up); 0 for any free ones.
        plane: ``"quorum"`` (KRaft), or ``"zookeeper"``, where every broker is a candidate for controller.
        zookeeper: the plane's ZooKeeper: ``"embedded"`` (a server of this cluster's own), or ``host:port,.../chroot``.

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
        plane: str = QUORUM,
        zookeeper: str = EMBEDDED,
    ) -> None:
        if brokers < 1:
            raise ValueError(f"a cluster needs at least one broker, not {brokers}")
        if plane not in PLANES:
            raise ValueError(f"there is no plane {plane!r}: {' or '.join(PLANES)}")
        if plane == ZOOKEEPER and controllers != COMBINED:
            raise ValueError("on the ZooKeeper plane every broker is a candidate for controller; none is one alone")
        self._config = {key: str(value) for key, value in (config or {}).items()}
        self._temporary = data is None
        self.folder = Path(tempfile.mkdtemp(prefix="moldau-")) if data is None else Path(data)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._client: sync.Cluster | None = None
        try:
            self.spec = ClusterSpec.load(self.folder)
            new = False
        except FileNotFoundError:
            where = zookeeper if plane == ZOOKEEPER else ""
            self.spec = ClusterSpec("", zookeeper=where, embedded=where == EMBEDDED)
            new = True
        self.ensemble: LocalEnsemble | None = LocalEnsemble(self.folder / "zookeeper") if self.spec.embedded else None
        """The cluster's own ZooKeeper, if it has one."""
        if new:
            self._lay_out(brokers, controllers, port)

    # ---- life

    def __enter__(self) -> Cluster:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, timeout_s: float = START_TIMEOUT_S) -> Cluster:
        """Start every node that does not run, and wait until all brokers serve."""
        if self.ensemble is not None:
            self._start_zookeeper(self.ensemble)
        for node in self.spec.nodes:
            if not is_alive(node.pid):
                self._processes[node.id] = launch(node)
        self.spec.save(self.folder)
        self.wait_for_brokers([n.id for n in self.spec.nodes if n.is_broker], timeout_s)
        return self

    def stop(self, timeout_s: float = 60.0, gone: Callable[[int, bool], object] = lambda id, killed: None) -> None:
        """Stop every node by controlled shutdown; whoever does not end is killed. ``gone`` hears of each, and whether.

        Cut off by a signal it can be called again, and goes on.
        """
        self._close_client()
        live = [node for node in self.spec.nodes if is_alive(node.pid)]
        for node in live:
            send(node, signal.SIGCONT)
            send(node, signal.SIGTERM)
        deadline = time.monotonic() + timeout_s
        for node in live:
            in_time = wait_gone(node, self._processes.get(node.id), max(deadline - time.monotonic(), 0.1))
            if not in_time:
                send(node, signal.SIGKILL)
                wait_gone(node, self._processes.get(node.id), 10)
            self.spec.save(self.folder)
            gone(node.id, not in_time)
        if self.ensemble is not None:
            self.ensemble.stop()

    def close(self) -> None:
        """End everything at once; a temporary folder is removed."""
        self._close_client()
        for node in self.spec.nodes:
            if is_alive(node.pid) and node.id in self._processes:
                send(node, signal.SIGKILL)
        for node in self.spec.nodes:
            if node.id in self._processes:
                wait_gone(node, self._processes[node.id], 10)
        if self.ensemble is not None and any(is_alive(server.pid) for server in self.ensemble.servers):
            self.ensemble.stop()
        if self._temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

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
        if not self.spec.cluster_id and self.alive():  # ZooKeeper's to give
            from moldau.client.admin import describe_cluster

            client = self.client()
            self.spec.cluster_id = client.run(describe_cluster(client.client)).cluster_id
        return self.spec.cluster_id

    @property
    def plane(self) -> str:
        return ZOOKEEPER if self.spec.zookeeper else QUORUM

    def node(self, id: int) -> NodeSpec:
        """A node by number; KeyError names one that is not there."""
        for node in self.spec.nodes:
            if node.id == id:
                return node
        raise KeyError(f"no node {id}: this cluster has {[node.id for node in self.spec.nodes]}")

    def pid(self, id: int) -> int:
        """The process of a running node."""
        pid = self.node(id).pid
        if pid is None or not is_alive(pid):
            raise ClusterError(f"node {id} does not run\n{last_words(self.node(id))}")
        return pid

    def alive(self) -> list[int]:
        """Numbers of nodes whose process runs."""
        return [node.id for node in self.spec.nodes if is_alive(node.pid)]

    # ---- faults

    def kill(self, id: int) -> None:
        """kill -9: the process is gone when this returns."""
        send(self._running(id), signal.SIGKILL)
        wait_gone(self.node(id), self._processes.get(id), 10)
        self.spec.save(self.folder)

    def terminate(self, id: int, timeout_s: float = 60.0) -> None:
        """SIGTERM: a controlled shutdown, waited for."""
        send(self._running(id), signal.SIGTERM)
        if not wait_gone(self.node(id), self._processes.get(id), timeout_s):
            raise ClusterError(f"node {id} did not shut down within {timeout_s} s\n{last_words(self.node(id))}")
        self.spec.save(self.folder)

    def restart(self, id: int, *, wait: bool = True, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start a stopped or killed node again, on the same port and folder."""
        node = self.node(id)
        if is_alive(node.pid):
            self.terminate(id)
        self._processes[id] = launch(node)
        self.spec.save(self.folder)
        if wait and node.is_broker:
            self.wait_for_brokers([id], timeout_s)

    def pause(self, id: int) -> None:
        """SIGSTOP: alive and silent."""
        send(self._running(id), signal.SIGSTOP)

    def resume(self, id: int) -> None:
        """SIGCONT."""
        send(self._running(id), signal.SIGCONT)

    # ---- looking and waiting

    def client(self) -> sync.Cluster:
        """A blocking client of this cluster, kept until the cluster stops."""
        if self._client is None:
            from moldau.client import sync

            self._client = sync.Cluster(self.bootstrap_servers)
        return self._client

    def serving(self) -> set[int]:
        """Brokers that are registered and not fenced, by the cluster's own word.

        Metadata would not do: it lists a broker for a moment after its death.
        """
        return _serving(self.client())

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
        """Wait until every replica of every partition is in its ISR."""

        def in_sync() -> bool:
            topics = self.client().topics()
            return all(
                p.leader is not None and p.leader >= 0 and set(p.isr) == set(p.replicas)
                for topic in topics.values()
                for p in topic.partitions.values()
            )

        self.wait_until(in_sync, "every replica is in sync", timeout_s)

    def wait_for_brokers(self, ids: list[int], timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until brokers are registered and unfenced; ClusterError with a node's last words when its process
        ends."""
        from moldau.client import sync
        from moldau.client.client import ClientOptions
        from moldau.client.lines import ConnectionOptions

        def serving() -> bool:
            for node in self.spec.nodes:
                if node.id in ids and not is_alive(node.pid):
                    raise ClusterError(f"node {node.id} ended while it was starting:\n{last_words(node)}")
            return set(ids) <= _serving(asking)

        connection = ConnectionOptions(request_timeout_ms=2 * LOOK_MS, connect_timeout_ms=2 * LOOK_MS)
        options = ClientOptions(api_timeout_ms=LOOK_MS)
        with sync.Cluster(self.bootstrap_servers, options=options, connection=connection) as asking:
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
        words = "\n".join(f"--- node {node.id}:\n{last_words(node, 6)}" for node in self.spec.nodes)
        raise ClusterError(f"not within {timeout_s:g} s: {what}" + (f" ({last!r})" if last else "") + f"\n{words}")

    def reset(self) -> None:
        """Delete every topic that is not internal, and start what was stopped: a clean cluster for the next test."""
        for node in self.spec.nodes:
            if is_alive(node.pid):
                send(node, signal.SIGCONT)
            else:
                self._processes[node.id] = launch(node)
        self.wait_for_brokers([n.id for n in self.spec.nodes if n.is_broker])
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
        if found is None or partition not in found.partitions:
            raise NoLeader(f"no partition {topic}-{partition}")
        return found.partitions[partition]

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
        from moldau.broker.config import load
        from moldau.broker.formatting import format_storage
        from moldau.runtime.disk import RealDisk
        from moldau.runtime.world import RealRandom
        from moldau.terms import uuid_text

        random, disk = RealRandom(), RealDisk()
        spec = self.spec
        if self.ensemble is not None:
            spec.zookeeper = self.ensemble.connect
        if not spec.zookeeper:
            spec.cluster_id = uuid_text(random.uuid())
        for id, roles in _roles(brokers, controllers if not spec.zookeeper else ALL_BROKERS):
            spec.nodes.append(NodeSpec(id, roles, str(self.folder / f"node-{id}")))
        given = [] if self.ensemble is None else [server.port for server in self.ensemble.servers]
        ports = iter(free_ports(2 * len(spec.nodes), given))
        for n, node in enumerate(spec.nodes):
            if node.is_broker:
                node.port = port + n if port else next(ports)
            if "controller" in node.roles:
                node.controller_port = next(ports)
        for node in spec.nodes:
            Path(node.folder).mkdir(parents=True, exist_ok=True)
            text = "".join(f"{key}={value}\n" for key, value in self._properties(spec, node))
            node.properties.write_text(text)
            if not spec.zookeeper:
                format_storage(load(text), spec.cluster_id, disk, random)
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

    def _properties(self, spec: ClusterSpec, node: NodeSpec) -> Iterator[tuple[str, str]]:
        copies = {"offsets.topic.replication.factor": str(min(3, sum(one.is_broker for one in spec.nodes)))}
        if spec.zookeeper:
            settings = {
                "broker.id": str(node.id),
                "zookeeper.connect": spec.zookeeper,
                "zookeeper.session.timeout.ms": str(SESSION_MS),
                "zookeeper.connection.timeout.ms": "30000",
                "listeners": f"PLAINTEXT://{HOST}:{node.port}",
                "log.dirs": str(Path(node.folder) / "data"),
            }
            yield from (settings | copies | self._config).items()
            return
        voters = [f"{n.id}@{HOST}:{n.controller_port}" for n in spec.nodes if n.controller_port]
        listeners = []
        if node.is_broker:
            listeners.append(f"PLAINTEXT://{HOST}:{node.port}")
        if node.controller_port:
            listeners.append(f"CONTROLLER://{HOST}:{node.controller_port}")
        settings = {
            "process.roles": node.roles,
            "node.id": str(node.id),
            "controller.quorum.voters": ",".join(voters),
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(Path(node.folder) / "data"),
        }
        yield from (settings | copies | self._config).items()


def _serving(client: sync.Cluster) -> set[int]:
    from moldau.client.admin import describe_cluster

    return {broker.broker_id for broker in client.run(describe_cluster(client.client)).brokers}


def _roles(brokers: int, controllers: int | str) -> list[tuple[int, str]]:
    """(node id, process.roles) of every node: brokers first."""
    if controllers == ALL_BROKERS:
        return [(id, "broker") for id in range(1, brokers + 1)]
    if controllers == COMBINED:
        return [(id, "broker,controller" if id <= min(brokers, 3) else "broker") for id in range(1, brokers + 1)]
    count = int(controllers)
    if count < 1:
        raise ValueError(f"a cluster needs at least one controller, not {count}")
    return [(id, "broker") for id in range(1, brokers + 1)] + [(100 + id, "controller") for id in range(1, count + 1)]
