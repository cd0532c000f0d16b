"""The peer: an Apache Kafka cluster on loopback, to test and to measure Moldau against.

Decides ports and folders, writes each node's server.properties (KRaft, broker and controller in one), formats storage,
starts one JVM per node and waits until the whole cluster answers. Kills and restarts single nodes. Also runs any of
Kafka's own command line tools, against this peer or any other cluster (`java_tool`, `start_java_tool`).
Does not fetch jars: `make jars` does, from bench/jars/pom.xml.
Read next: tests/live/conftest.py (fixtures), bench/run.py (the measurements).
"""

from __future__ import annotations

import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, Self

import pytest
from tests.tools import java, missing

from moldau.cluster.nodes import free_ports
from moldau.model.ids import uuid_text
from moldau.runtime.world import RealRandom

KAFKA_VERSION = "4.3.1"
ALL_JARS = Path(__file__).resolve().parents[2] / ".jars"
JARS = ALL_JARS / f"kafka-{KAFKA_VERSION}"

# The flags of Kafka's own start script, without its -Xms, so that resident memory is what the broker really touches.
NODE_FLAGS = ("-Xmx1G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:+ExplicitGCInvokesConcurrent")
# A tool lives for a second or two: the quick compiler and the simplest collector start it fastest.
TOOL_FLAGS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

TOOLS = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-replica-verification": "org.apache.kafka.tools.ReplicaVerificationTool",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
}


class ToolRun(NamedTuple):
    """What a finished tool said: exit status, standard output, standard error (text)."""

    status: int
    stdout: str
    stderr: str


class ClusterView(NamedTuple):
    """A broker's own word on the cluster: live brokers as {id: (host, port)} and the controller it names (-1: none)."""

    brokers: dict[int, tuple[str, int]]
    controller_id: int


def java_command(
    name: str, arguments: Iterable[object] = (), flags: Iterable[str] | None = None, jars: Path = JARS
) -> list[str]:
    """The command line of a Kafka main class, named in full or as its shell script is (`kafka-topics`).

    flags: of Java; those of a tool when None, with the classes that `make jars` has kept for its start.
    jars: the folder of another release's. The test is skipped when Java or jars are missing, saying what to do.
    """
    if (why := missing("kafka")) is not None:
        pytest.skip(why)
    if not any(jars.glob("*.jar")):
        pytest.skip(f"no jars in {jars}: run `make jars`")
    logger = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    classes = f"{jars}/*"
    if flags is None:  # where nothing is kept, or nothing that fits, Java starts without, and says nothing of it
        flags = (*TOOL_FLAGS, f"-XX:SharedArchiveFile={jars}.jsa", "-Xshare:auto", "-Xlog:disable", "-Xlog:all=off")
    return [str(java()), *flags, logger, "-cp", classes, TOOLS.get(name, name), *(str(one) for one in arguments)]


def java_tool(
    name: str, *arguments: object, stdin: str = "", timeout_s: float = 180, check: bool = True, jars: Path = JARS
) -> ToolRun:
    """Run one of Kafka's tools to its end. `check` turns a non-zero exit into an AssertionError with all it said."""
    command = java_command(name, arguments, jars=jars)
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False)
    run = ToolRun(done.returncode, done.stdout, done.stderr)
    assert not check or run.status == 0, f"{name} {arguments} exited {run.status}\n{run.stdout}\n{run.stderr}"
    return run


def start_java_tool(name: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a tool that goes on until told to stop; its three streams are pipes. The caller ends it."""
    pipe = subprocess.PIPE
    return subprocess.Popen(java_command(name, arguments), stdin=pipe, stdout=pipe, stderr=pipe, text=True)


_given: set[int] = set()


def free_port() -> int:
    """A free TCP port that this process has not been given before."""
    while (port := free_ports(1)[0]) in _given:
        pass
    _given.add(port)
    return port


def wait_until(condition: Callable[[], object], what: str, timeout_s: float = 120, pause_s: float = 0.02) -> None:
    """Ask again and again until the condition holds; TimeoutError names `what` was waited for."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_s:g} s: {what}")
        time.sleep(pause_s)


def ask_cluster(port: int, timeout_s: float = 10) -> ClusterView:
    """Ask the broker on a loopback port for Metadata version 1, no topics. OSError when it does not answer."""
    ask = struct.pack(">hhih5si", 3, 1, 7, 5, b"probe", 0)
    with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as line:
        line.sendall(struct.pack(">i", len(ask)) + ask)
        stream = line.makefile("rb")
        head = stream.read(4)
        body = stream.read(struct.unpack(">i", head)[0]) if len(head) == 4 else b""
    if len(body) < 12:
        raise ConnectionError(f"the broker on port {port} hung up")
    (count,) = struct.unpack_from(">i", body, 4)
    at, brokers = 8, {}
    for _ in range(count):
        node_id, size = struct.unpack_from(">ih", body, at)
        host = body[at + 6 : at + 6 + size].decode()
        at += 6 + size
        node_port, rack_size = struct.unpack_from(">ih", body, at)
        at += 6 + max(rack_size, 0)
        brokers[node_id] = (host, node_port)
    return ClusterView(brokers, struct.unpack_from(">i", body, at)[0])


def spawn(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    """Start a process whose output is appended to `log` and that dies with the thread that started it."""
    guard = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
    with log.open("ab") as out:
        return subprocess.Popen([*guard, *command], stdin=subprocess.DEVNULL, stdout=out, stderr=out)


def server_properties(
    node_id: int, ports: Mapping[int, tuple[int, int]], log_dir: Path, extra: Mapping[str, object]
) -> dict[str, object]:
    """One node's configuration. `ports` is {node id: (client port, controller port)} of the whole cluster."""
    client, controller = ports[node_id]
    copies = min(3, len(ports))
    return {
        "process.roles": "broker,controller",
        "node.id": node_id,
        "controller.quorum.voters": ",".join(f"{one}@127.0.0.1:{pair[1]}" for one, pair in ports.items()),
        "listeners": f"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{client}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": log_dir,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": max(1, copies - 1),
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": max(1, copies - 1),
        "group.initial.rebalance.delay.ms": 0,
        **extra,
    }


class KafkaPeer:
    """An Apache Kafka cluster of `nodes` combined KRaft nodes on loopback; ids are 1..nodes. A context manager.

    properties: server.properties entries that overrule the ones written here, the same for every node.
    folder: where configuration, logs and data go; a temporary folder, removed by stop(), when None.
    port: the first node's client port, from which the others count up; 0 for any free ones.
    """

    def __init__(
        self,
        nodes: int = 1,
        properties: Mapping[str, object] | None = None,
        folder: Path | None = None,
        port: int = 0,
    ):
        self._own_folder = folder is None
        self.folder = Path(tempfile.mkdtemp(prefix="kafka-peer-")) if folder is None else folder
        self.folder.mkdir(parents=True, exist_ok=True)
        given = range(port, port + nodes) if port else (free_port() for _ in range(nodes))
        self.ports = {node_id: (client, free_port()) for node_id, client in enumerate(given, 1)}
        self.cluster_id = uuid_text(RealRandom().uuid())  # none reads as an option
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        for node_id in self.ports:
            self.config_file(node_id).parent.mkdir(exist_ok=True)
            lines = server_properties(node_id, self.ports, self.data_dir(node_id), properties or {})
            self.config_file(node_id).write_text("".join(f"{key}={value}\n" for key, value in lines.items()))

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """host:port of every node, comma separated."""
        return ",".join(f"127.0.0.1:{client}" for client, _ in self.ports.values())

    @property
    def pids(self) -> dict[int, int]:
        """Process id of each node that is running, by node id."""
        return {node_id: process.pid for node_id, process in self._running.items()}

    def config_file(self, node_id: int) -> Path:
        return self.folder / f"node-{node_id}" / "server.properties"

    def data_dir(self, node_id: int) -> Path:
        """The node's log.dirs."""
        return self.folder / f"node-{node_id}" / "data"

    def log_file(self, node_id: int) -> Path:
        """What the node printed."""
        return self.folder / f"node-{node_id}" / "node.log"

    def format(self) -> None:
        """Format the storage of every node, two JVMs at a time; nodes already formatted are left as they are."""
        with ThreadPoolExecutor(2) as pool:
            for _ in pool.map(self._format_node, self.ports):
                pass

    def format_command(self, node_id: int) -> list[str]:
        """What formats one node's storage; leaves formatted storage alone."""
        wish = ["format", "--ignore-formatted", "-t", self.cluster_id, "-c", self.config_file(node_id)]
        return java_command("kafka-storage", wish)

    def node_command(self, node_id: int) -> list[str]:
        """What runs one node in the foreground."""
        return java_command("kafka.Kafka", [self.config_file(node_id)], NODE_FLAGS)

    def _format_node(self, node_id: int) -> None:
        done = subprocess.run(self.format_command(node_id), capture_output=True, text=True, timeout=180, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"formatting node {node_id} failed:\n{done.stdout}\n{done.stderr}")

    def start(self, timeout_s: float = 180) -> Self:
        """Format what is not formatted, start every node that is down and wait until all see all."""
        self.format()
        for node_id in self.ports:
            self.start_node(node_id)
        self.wait_ready(timeout_s)
        return self

    def start_node(self, node_id: int) -> None:
        """Start one node and return at once; no effect on a node that is running."""
        if node_id in self._running:
            return
        self._running[node_id] = spawn(self.node_command(node_id), self.log_file(node_id))

    def wait_ready(self, timeout_s: float = 180) -> None:
        """Until every running node names all running nodes as live brokers, and a controller."""
        wait_until(self._all_see_all, f"every node sees {sorted(self._running)}, logs in {self.folder}", timeout_s)

    def _all_see_all(self) -> bool:
        self._refuse_dead_nodes()
        try:
            views = [ask_cluster(self.ports[node_id][0]) for node_id in self._running]
        except OSError:
            return False
        return all(view.brokers.keys() == self._running.keys() and view.controller_id >= 0 for view in views)

    def _refuse_dead_nodes(self) -> None:
        for node_id, process in self._running.items():
            if process.poll() is not None:
                tail = self.log_file(node_id).read_text(errors="replace")[-2000:]
                raise RuntimeError(f"node {node_id} exited {process.returncode} by itself:\n{tail}")

    def view(self) -> ClusterView:
        """The cluster as the first running node that answers sees it; OSError when none does."""
        problem: OSError = ConnectionError("no node is running")
        for node_id in self._running:
            try:
                return ask_cluster(self.ports[node_id][0])
            except OSError as error:
                problem = error
        raise problem

    def active_controller(self) -> int:
        """Node id of the quorum's leader. Asks the tool: under KRaft, Metadata names any live broker as controller."""
        bootstrap = ",".join(f"127.0.0.1:{self.ports[node_id][0]}" for node_id in self._running)
        said = java_tool("kafka-metadata-quorum", "--bootstrap-server", bootstrap, "describe", "--status").stdout
        fields = dict(line.split(":", 1) for line in said.splitlines() if ":" in line)
        return int(fields["LeaderId"])

    def kill(self, node_id: int) -> None:
        """kill -9, as a power cut would; returns when the process is gone."""
        self._end(node_id, signal.SIGKILL)

    def stop_node(self, node_id: int, timeout_s: float = 120) -> None:
        """SIGTERM: a controlled shutdown; kill -9 when it takes longer than the timeout."""
        self._end(node_id, signal.SIGTERM, timeout_s)

    def _end(self, node_id: int, how: signal.Signals, timeout_s: float = 120) -> None:
        process = self._running.pop(node_id)
        process.send_signal(how)
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def restart(self, node_id: int, wait: bool = True) -> None:
        """Start a node that was killed or stopped; `wait` until every running node sees it."""
        self.start_node(node_id)
        if wait:
            self.wait_ready()

    def stop(self) -> None:
        """End every node at once, without ceremony, and remove the folder if this object made it."""
        for node_id in list(self._running):
            self.kill(node_id)
        if self._own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def tool(self, name: str, *arguments: object, stdin: str = "", check: bool = True) -> ToolRun:
        """Run one of Kafka's tools against this cluster (adds --bootstrap-server)."""
        return java_tool(name, "--bootstrap-server", self.bootstrap_servers, *arguments, stdin=stdin, check=check)
