"""A ZooKeeper of one's own: real servers on this machine, started from the jars that come with PySpark.

One server or several (an odd number that may lose its minority), each with its folder, on loopback and free ports. A
folder describes them in ``ensemble.json``, so that another process can find and stop them. Kills only what it started.
What is asked of it goes through ``moldau.zookeeper.session``; Java and the jars are looked for when it starts.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from moldau.cluster.nodes import HOST, free_ports, is_alive, ours

MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
WANTED = (
    "zookeeper-3", "zookeeper-jute-", "slf4j-api-", "log4j-slf4j2-impl-", "log4j-api-", "log4j-core-", "netty-",
    "metrics-core-", "snappy-java-", "commons-io-", "commons-cli-",
)  # fmt: skip
HEAP = "128m"
TICK_MS = 500
"""ZooKeeper expires sessions in these steps."""
READY_S = 60.0
STOP_S = 10.0

_LOG = """\
status = warn
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
"""


class NoEnsemble(Exception):
    """The servers cannot be started or did not answer; says why and what to do."""


@dataclass
class Server:
    """One server: its number, ports, folder, and the process when it runs."""

    id: int
    folder: str
    port: int
    quorum_port: int
    election_port: int
    pid: int | None = None

    @property
    def log(self) -> Path:
        return Path(self.folder) / "out.log"


class LocalEnsemble:
    """``connect`` is what clients need. Used as a context manager it stops with the block."""

    def __init__(self, folder: Path, servers: int = 1, *, host: str = HOST, wrap: Sequence[str] = ()) -> None:
        """Lay out ``servers`` servers in ``folder``; nothing runs yet. An earlier ensemble's data there is taken up.

        Args:
            host: the address that they listen on.
            wrap: words before the command that starts one (``nsenter ...``).
        """
        self.folder = Path(folder)
        self.host = host
        self._wrap = list(wrap)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        description = self.folder / "ensemble.json"
        if description.exists():
            self.servers = [Server(**each) for each in json.loads(description.read_text())]
            for server in self.servers:
                server.pid = ours(server.pid, Path(server.folder))
            return
        ports = free_ports(3 * servers)
        self.servers = [
            Server(n, str(self.folder / f"zookeeper-{n}"), *ports[3 * (n - 1) : 3 * n]) for n in range(1, servers + 1)
        ]

    def __enter__(self) -> LocalEnsemble:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def connect(self) -> str:
        """All servers, as ``zookeeper.connect`` has them."""
        return ",".join(f"{self.host}:{server.port}" for server in self.servers)

    def start(self) -> None:
        """Start what does not run and wait until it serves. NoEnsemble without Java, jars, or an answer."""
        flags = shlex.split(os.environ.get("SERVER_JVMFLAGS", ""))  # where ZooKeeper's own zkServer.sh takes them from
        command = [java(), f"-Xmx{HEAP}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *flags, "-cp", _class_path()]
        try:
            for server in self.servers:
                if not is_alive(server.pid):
                    self._launch(server, command)
            self._save()
            self.wait_ready()
        except BaseException:
            self.stop()
            raise

    def wait_ready(self, timeout_s: float = READY_S) -> None:
        """Wait until every server that runs serves clients."""
        deadline = time.monotonic() + timeout_s
        for server in self.servers:
            while is_alive(server.pid) and _mode(self.host, server) is None:
                process = self._processes.get(server.id)
                if process is not None and process.poll() is not None:
                    break
                if time.monotonic() > deadline:
                    words = _last_words(server)
                    raise NoEnsemble(f"ZooKeeper {server.id} did not answer in {timeout_s:.0f} s.\n{words}")
                time.sleep(0.05)
            if not is_alive(server.pid) and server.pid is not None:
                words = _last_words(server)
                server.pid = None
                raise NoEnsemble(f"ZooKeeper {server.id} stopped as it started.\n{words}")

    def leader(self) -> int | None:
        """Number of the server that leads (or is alone); None while there is none."""
        modes = {server.id: _mode(self.host, server) for server in self.servers}
        return next((id for id, mode in modes.items() if mode in ("leader", "standalone")), None)

    def kill(self, id: int) -> None:
        """kill -9, and wait until it is gone."""
        self._end(self._server(id), signal.SIGKILL)

    def restart(self, id: int) -> None:
        """Start a server that was killed; returns when it serves."""
        assert not is_alive(self._server(id).pid), f"ZooKeeper {id} runs"
        self.start()

    def stop(self) -> None:
        """Stop every server."""
        for server in self.servers:
            self._end(server, signal.SIGTERM)
        if self.folder.exists():
            self._save()

    def _server(self, id: int) -> Server:
        return next(server for server in self.servers if server.id == id)

    def _launch(self, server: Server, command: list[str]) -> None:
        folder = Path(server.folder)
        (folder / "data").mkdir(parents=True, exist_ok=True)
        (folder / "data" / "myid").write_text(f"{server.id}\n")
        (folder / "log4j2.properties").write_text(_LOG)
        (folder / "zoo.cfg").write_text(_config(self.host, server, self.servers))
        flags = [f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}", "-Dzookeeper.jmx.log4j.disable=true"]
        with open(server.log, "ab") as out:
            process = subprocess.Popen(
                [*self._wrap, *command, *flags, MAIN, str(folder / "zoo.cfg")],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        server.pid = process.pid
        self._processes[server.id] = process

    def _end(self, server: Server, number: signal.Signals) -> None:
        process = self._processes.pop(server.id, None)
        if server.pid is None or not is_alive(server.pid):
            server.pid = None
            if process is not None:
                process.wait()
            return
        os.kill(server.pid, number)
        deadline = time.monotonic() + STOP_S
        while is_alive(server.pid):
            if process is not None and process.poll() is not None:
                break
            if time.monotonic() > deadline:
                os.kill(server.pid, signal.SIGKILL)
                deadline += STOP_S
            time.sleep(0.01)
        if process is not None:
            process.wait()
        server.pid = None

    def _save(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        temporary = self.folder / "ensemble.json.tmp"
        temporary.write_text(json.dumps([asdict(server) for server in self.servers], indent=2))
        temporary.replace(self.folder / "ensemble.json")


def java() -> str:
    """The Java to run; NoEnsemble says how to get one."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=os.path.join(home, "bin")) if home else None
    found = found or shutil.which("java")
    if found is None:
        raise NoEnsemble(
            "An embedded ZooKeeper needs Java: apt-get install openjdk-17-jre-headless (or set JAVA_HOME)."
        )
    return found


def _class_path() -> str:
    """The jars of ZooKeeper and what it needs, out of the installed PySpark, which is not imported for it."""
    spec = importlib.util.find_spec("pyspark")
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    jars = [str(jar) for folder in folders for jar in sorted(Path(folder, "jars").glob("*.jar"))]
    wanted = [jar for jar in jars if Path(jar).name.startswith(WANTED)]
    if not any("zookeeper-3" in jar for jar in wanted):
        raise NoEnsemble(
            "An embedded ZooKeeper needs the jars that come with PySpark: pip install 'moldau[zookeeper]'."
        )
    return os.pathsep.join(wanted)


def _config(host: str, server: Server, servers: list[Server]) -> str:
    lines = [
        f"tickTime={TICK_MS}",
        f"dataDir={Path(server.folder) / 'data'}",
        f"clientPortAddress={host}",
        f"clientPort={server.port}",
        "maxClientCnxns=0",
        "maxSessionTimeout=60000",
        "admin.enableServer=false",
        "4lw.commands.whitelist=ruok,srvr,mntr,cons",
        "autopurge.purgeInterval=1",
        "autopurge.snapRetainCount=3",
    ]
    if len(servers) > 1:
        lines += ["initLimit=40", "syncLimit=10"]
        lines += [f"server.{each.id}={host}:{each.quorum_port}:{each.election_port}" for each in servers]
    return "\n".join(lines) + "\n"


def _mode(host: str, server: Server) -> str | None:
    """What a server says it is: standalone, leader, follower; None while it does not serve."""
    try:
        with socket.create_connection((host, server.port), timeout=2) as sock:
            sock.sendall(b"srvr")
            text = b""
            while part := sock.recv(4096):
                text += part
    except OSError:
        return None
    for line in text.decode(errors="replace").splitlines():
        if line.startswith("Mode: "):
            return line.removeprefix("Mode: ").strip()
    return None


def _last_words(server: Server, lines: int = 15) -> str:
    try:
        return "\n".join(server.log.read_text(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return ""
