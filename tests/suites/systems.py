"""What the suites are played against: clusters of ours, or of Apache Kafka, by whose results ours are judged.

Both are asked for in the same words. Read next: plain_go.py and sarama.py, which ask.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

import pytest

from moldau.cluster import Cluster
from moldau.cluster.cluster import ClusterError
from moldau.cluster.nodes import is_alive, last_words

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "live"))

from kafka_peer import KafkaPeer
from kafka_peer import java_command as java_command

LISTENERS = "INTERNAL:PLAINTEXT,LOCAL:PLAINTEXT,CONTROLLER:PLAINTEXT"
LOG_LINES = 10_000
LAST_LINES = 15
LAST_THREADS_S = 5.0
AS_OURS = {"group.initial.rebalance.delay.ms": "3000"}
"""The peer is set up to be quick; here both wait as Kafka does when it is told nothing."""


class NoCluster(Exception):
    """A cluster of a system does not start here; the text says why."""


class BrokerEnded(Exception):
    """A broker has ended that nobody stopped; the text says which, and what it said last."""


class Brokers(Protocol):
    """A cluster that runs; its brokers count from 1."""

    @property
    def bootstrap_servers(self) -> str:
        """``host:port,...`` of all brokers."""

    def terminate(self, id: int) -> None:
        """End a broker by a controlled shutdown, and wait for it."""

    def restart(self, id: int) -> None:
        """Start a broker that was ended, and wait until it serves."""

    def log(self, id: int) -> str:
        """What a broker has said."""

    def ended(self) -> Mapping[int, int | None]:
        """The brokers that have ended and that nobody stopped, with their exit codes where these are known."""


def demand_all(brokers: Brokers) -> None:
    """BrokerEnded when a broker has ended that nobody stopped: what is played from then on says nothing of it."""
    for id, code in brokers.ended().items():
        words = "\n".join(f"    | {line}" for line in brokers.log(id).splitlines()[-LAST_LINES:])
        raise BrokerEnded(f"broker {id} ended by itself, with exit code {code}. It said last:\n{words}")


class System(Protocol):
    """A kind of cluster."""

    @property
    def name(self) -> str:
        """What ``--system`` calls it."""

    def open(
        self, brokers: int, config: Mapping[str, str], *, port: int = 0, outside: Sequence[int] = (), racks: str = ""
    ) -> AbstractContextManager[Brokers]:
        """A running cluster, which ends with its context; NoCluster when it does not start.

        ``port`` is the first broker's, from which the others count up; 0 for any free ones. ``outside`` holds a port
        for each broker by which clients find it; it listens itself at ``behind`` that port, and a proxy goes between.
        ``racks`` is what the name of each broker's rack begins with; its number follows. Brokers have none when empty.
        """


def behind(outside: int) -> int:
    """The port on which a broker listens that clients find at ``outside``."""
    return outside + 100


def second_listener(id: int, port: int, controller_port: int, outside: int) -> str:
    """The lines of a server.properties that give a node a listener for clients behind a proxy, over those before."""
    own = f"INTERNAL://127.0.0.1:{port},LOCAL://127.0.0.1:{behind(outside)}"
    controller = f",CONTROLLER://127.0.0.1:{controller_port}" if controller_port else ""
    return (
        f"listeners={own}{controller}\n"
        f"advertised.listeners=INTERNAL://127.0.0.1:{port},LOCAL://127.0.0.1:{outside}\n"
        f"listener.security.protocol.map={LISTENERS}\n"
        "inter.broker.listener.name=INTERNAL\n"
        f"broker.rack={id}\n"
    )


def _append(file: Path, text: str) -> None:
    file.write_text(file.read_text(encoding="utf-8") + text, encoding="utf-8")


def _code(process: subprocess.Popen[bytes]) -> int | None:
    """With what a process ended; its threads may end a moment after it."""
    try:
        return process.wait(LAST_THREADS_S)
    except subprocess.TimeoutExpired:
        return None


class OwnCluster(Cluster):
    """A cluster of ours."""

    def log(self, id: int) -> str:
        """What a broker has said since its last start."""
        return last_words(self.node(id), LOG_LINES)

    def ended(self) -> Mapping[int, int | None]:
        """The brokers that have ended and that nobody stopped: of those that were, no process is noted any more."""
        gone = (node.id for node in self.spec.nodes if node.pid is not None and not is_alive(node.pid))
        return {id: _code(self.processes[id]) for id in gone}


class Ours:
    """Moldau."""

    name = "moldau"

    @contextmanager
    def open(
        self, brokers: int, config: Mapping[str, str], *, port: int = 0, outside: Sequence[int] = (), racks: str = ""
    ) -> Iterator[Brokers]:
        """A cluster of real nodes."""
        cluster = OwnCluster(brokers=brokers, port=port, config=config)
        try:
            for node, place in zip(cluster.spec.nodes, outside, strict=False):
                _append(node.properties, second_listener(node.id, node.port, node.controller_port, place))
            for node in cluster.spec.nodes if racks else ():
                _append(node.properties, f"broker.rack={racks}{node.id}\n")
            try:
                cluster.start()
            except ClusterError as error:
                raise NoCluster(str(error)) from error
            yield cluster
        finally:
            cluster.close()


class Peer(KafkaPeer):
    """A cluster of Apache Kafka."""

    def terminate(self, id: int) -> None:
        """End a broker by a controlled shutdown."""
        self.stop_node(id)

    def log(self, id: int) -> str:
        """What a broker has said."""
        return self.log_file(id).read_text(encoding="utf-8", errors="replace")

    def ended(self) -> Mapping[int, int | None]:
        """The brokers that have ended and that nobody stopped."""
        codes = {id: process.poll() for id, process in self._running.items()}
        return {id: code for id, code in codes.items() if code is not None}


class ApacheKafka:
    """Apache Kafka 4.3.1, from the jars that ``make jars`` fetches."""

    name = "kafka"

    @contextmanager
    def open(
        self, brokers: int, config: Mapping[str, str], *, port: int = 0, outside: Sequence[int] = (), racks: str = ""
    ) -> Iterator[Brokers]:
        """A cluster of combined nodes."""
        peer = Peer(brokers, {**AS_OURS, **config}, port=port)
        try:
            for (id, (client, controller)), place in zip(peer.ports.items(), outside, strict=False):
                _append(peer.config_file(id), second_listener(id, client, controller, place))
            for id in peer.ports if racks else ():
                _append(peer.config_file(id), f"broker.rack={racks}{id}\n")
            try:
                peer.start()
            except (RuntimeError, TimeoutError, pytest.skip.Exception) as error:
                raise NoCluster(str(error)) from error
            yield peer
        finally:
            peer.stop()


SYSTEMS: Mapping[str, System] = {system.name: system for system in (Ours(), ApacheKafka())}
