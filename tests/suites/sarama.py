"""sarama's functional tests: five brokers with two listeners each, the one for clients behind toxiproxy.

Its tests break links by way of toxiproxy, which is real. They stop and start brokers, and run Kafka's Java tools, by
way of ``docker compose``: a script of that name, first in PATH, asks this process for the one, and does the other.
"""

from __future__ import annotations

import http.server
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from moldau.cluster.nodes import free_ports
from tests.suites import go
from tests.suites.known import SARAMA, limit_s
from tests.suites.suite import Outcome, taken
from tests.suites.systems import Brokers, System, behind, demand_all, java_command
from tests.tools import missing

TOXIPROXY = "github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0"
BROKERS = 5
CLIENT_PORTS = range(29_091, 29_091 + BROKERS)
"""The ports that its tests name."""
CONFIG = {
    "auto.create.topics.enable": "false",
    "default.replication.factor": "2",
    "offsets.topic.replication.factor": "2",
    "group.initial.rebalance.delay.ms": "0",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}
"""As its own cluster is set up, in its docker-compose.yml."""
START_S = 30.0
JAVA_TESTS = re.compile("TestJava.*")
JAVA_TOOLS = ("kafka-console-producer", "kafka-console-consumer")
IN_CONTAINER = "kafka-1:9091"
"""How its Java tools are told to find a broker."""
DOCKER = f"""#!{sys.executable}
import os, sys, urllib.request
(compose, verb), rest = (*sys.argv[1:], "", "")[:2], sys.argv[3:]
if compose == "compose" and verb in ("stop", "start", "logs"):
    url = f"{{url}}/{{{{verb}}}}/{{{{rest[-1].rpartition('-')[2]}}}}"
    print(urllib.request.urlopen(url, data=b"").read().decode())
elif compose == "compose" and verb == "exec":
    _, _, script, *arguments = rest
    command = {{tools}}[script.rpartition("/")[2].removesuffix(".sh")]
    own = ["{{brokers}}" if one == "{IN_CONTAINER}" else one for one in arguments]
    os.execvp(command[0], [*command, *own])
else:
    sys.exit("docker: there are no containers here")
"""


class Sarama:
    """The suite."""

    name = "sarama"
    known = SARAMA

    def absent(self, sources: Path) -> str | None:
        """Why it cannot be run here, if it cannot."""
        if not (sources / "sarama" / "functional_test.go").is_file():
            return f"there is no {sources / 'sarama' / 'functional_test.go'}"
        if (port := taken(CLIENT_PORTS)) is not None:
            return f"its tests name port {port}, and somebody listens there"
        return None

    def run(self, sources: Path, only: str, system: System) -> Iterator[Outcome]:
        """Run its functional tests, all against one cluster."""
        package = (sources / "sarama").resolve()
        with tempfile.TemporaryDirectory(prefix="moldau-suite-") as name, ExitStack() as stack:
            folder = Path(name)
            program = go.build(package, folder, tags="functional")
            server = go.install(TOXIPROXY, folder)
            cluster = stack.enter_context(system.open(BROKERS, CONFIG, outside=CLIENT_PORTS))
            proxy = stack.enter_context(_toxiproxy(server))
            without_java = missing("kafka")
            tools = {} if without_java else {name: java_command(name) for name in JAVA_TOOLS}
            _write_docker(folder, stack.enter_context(_commands(cluster)), tools, cluster.bootstrap_servers)
            path = f"{folder}:{os.environ['PATH']}"
            environment = {"TOXIPROXY_ADDR": proxy, "KAFKA_VERSION": "4.3.1", "PATH": path}
            for test in go.list_tests(program, package, only, files="functional*_test.go", environment=environment):
                if without_java and JAVA_TESTS.fullmatch(test):
                    yield Outcome(test, "skipped", (), 0.0, "", without_java)
                    continue
                yield go.run(program, package, test, environment, limit_s(self.known, test, system.name))
                demand_all(cluster)


@contextmanager
def _toxiproxy(server: Path) -> Iterator[str]:
    """The address of a toxiproxy before the cluster's brokers."""
    port = free_ports(1)[0]
    url = f"http://127.0.0.1:{port}"
    command = [str(server), "-host", "127.0.0.1", "-port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            for id, outside in enumerate(CLIENT_PORTS, 1):
                proxy = {
                    "name": f"kafka{id}",
                    "listen": f"127.0.0.1:{outside}",
                    "upstream": f"127.0.0.1:{behind(outside)}",
                    "enabled": True,
                }
                _post(f"{url}/proxies", json.dumps(proxy).encode())
            yield url
        finally:
            process.terminate()


def _post(url: str, data: bytes) -> None:
    """Ask until somebody listens there."""
    deadline = time.monotonic() + START_S
    while True:
        try:
            with urllib.request.urlopen(url, data=data):
                return
        except urllib.error.HTTPError:
            raise
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


@contextmanager
def _commands(cluster: Brokers) -> Iterator[str]:
    """The address at which a POST of ``/stop/1`` or ``/start/1`` does that to a broker; ``/logs/1`` is its log."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            verb, id = self.path.strip("/").split("/")
            if verb != "logs":
                (cluster.terminate if verb == "stop" else cluster.restart)(int(id))
            said = cluster.log(int(id)).encode() if verb == "logs" else b""
            self.send_response(200)
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    # One thread for all, as nodes of Apache Kafka end with the thread that started them.
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def _write_docker(folder: Path, url: str, tools: Mapping[str, list[str]], brokers: str) -> None:
    script = folder / "docker"
    script.write_text(DOCKER.format(url=url, tools=json.dumps(tools), brokers=brokers))
    script.chmod(0o755)
