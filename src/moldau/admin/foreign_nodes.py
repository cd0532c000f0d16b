"""Brokers that ``moldau up`` did not start: what speaks against a stop, and a stop or a roll by somebody's command.

No Kafka request stops a broker: whoever runs on its machine does, with SIGTERM. Here is said what that would do, the
command is run, and its effect waited for. Standard requests only, so that it works on any Kafka cluster.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from moldau.admin.asking import CONTROLLER_S, IN_PROGRESS, Talk, note
from moldau.admin.brokers import active_controller
from moldau.admin.main import fail
from moldau.admin.output import say
from moldau.admin.probe import why_not_kafka
from moldau.admin.progress import ProgressBar
from moldau.admin.rolling import Rolled, filled, listed, run_command, safe_order, tell_order, telling_of_an_interrupt
from moldau.admin.waiting import Looks, came_about
from moldau.client import admin
from moldau.client.addresses import addresses
from moldau.client.admin import Resource, ResourceType
from moldau.client.lines import UnsupportedApi
from moldau.client.sync import Cluster, Refused
from moldau.client.view import Broker, Topic
from moldau.cluster.nodes import HOST, ClusterSpec, is_alive
from moldau.image.leaving import PartitionReplicas, reasons_not_to_stop
from moldau.model import Code
from moldau.model.counted import counted

KEEPS_UP_MS = 10_000
"""A voter that has not had all of the metadata log for longer than that is dead, paused or cut off."""


def reasons_against(client: Cluster, id: int, *, votes: bool = True) -> list[str]:
    """What would become unavailable, or take no acks=all, if the broker stopped now. Without ``votes`` the controllers
    are not looked at."""
    topics: dict[str, Topic] = client.topics()
    wanted = [Resource(ResourceType.TOPIC, name) for name in topics]
    answers = client.run(admin.describe_configs(client.client, wanted, keys=["min.insync.replicas"])) if wanted else {}

    def min_isr(name: str) -> int:
        _, entries = answers.get(Resource(ResourceType.TOPIC, name), (None, {}))
        entry = entries.get("min.insync.replicas")
        return int(entry.value or 1) if entry is not None else 1

    return (_votes_against(client, id) if votes else []) + reasons_not_to_stop(id, stands(topics), min_isr)


def _votes_against(client: Cluster, id: int) -> list[str]:
    """Why controller ``id`` must not go: no majority would be left, not counting voters that have not kept up lately.
    Empty when it may."""
    try:
        outcome, quorum = client.run(admin.describe_quorum(client.client, timeout_ms=int(1000 * CONTROLLER_S)))
    except UnsupportedApi:  # on ZooKeeper
        return []
    except (OSError, Refused):
        quorum = None
    if quorum is None or outcome.code is not Code.NONE:
        return ["no controller is active: nobody would lead in its place"]
    voters = quorum.current_voters
    newest_ms = max((one.last_caught_up_timestamp for one in voters), default=-1)
    left = [one for one in voters if one.replica_id != id and one.last_caught_up_timestamp >= newest_ms - KEEPS_UP_MS]
    if all(one.replica_id != id for one in voters) or len(left) > len(voters) // 2:
        return []
    return [f"{len(left)} of {counted(len(voters), 'controller')} would be left: no majority, nothing is decided"]


def stands(topics: Mapping[str, Topic]) -> Iterator[PartitionReplicas]:
    """Every partition with its replicas and who of them is in sync."""
    for name, topic in topics.items():
        for number, part in topic.partitions.items():
            yield name, number, part.replicas, part.isr


def runs_in(data: Path, bootstrap: str) -> bool:
    """Whether one of these addresses is that of a node of the folder's cluster which runs."""
    try:
        named = {port for host, port in addresses(bootstrap) if host in ("localhost", HOST)}
        nodes = ClusterSpec.load(data.resolve()).nodes
    except (OSError, ValueError):
        return False
    return any(node.port in named and is_alive(node.pid) for node in nodes)


def stop_foreign(
    bootstrap: str, id: int, *, check: bool, force: bool, wait: bool, command: str | None, timeout_s: float
) -> None:
    """Say what speaks against a stop; run the command that stops the broker, or say what to run; wait until it went."""
    with Talk(bootstrap) as talk:
        broker = _broker(talk, id)
        text = None if command is None else filled(command, id, broker.host, broker.port)
        reasons = reasons_against(talk.cluster, id)
        for reason in reasons:
            note(reason)
        if check or (reasons and not force):
            say(f"broker {id} " + ("had better not be stopped." if reasons else "can be stopped."))
            raise SystemExit(1 if reasons else 0)
        if text is None:
            say(
                f"on {broker.host}, where broker {id} runs: send it SIGTERM, as `systemctl stop` and"
                " kafka-server-stop.sh do (never kill -9); others lead before it goes."
            )
            if not wait:
                return
        else:
            _run(text, timeout_s, "")
        _wait_until_it_went(talk, id, timeout_s)


def roll_foreign(
    bootstrap: str, command: str, *, force: bool, timeout_s: float, state: Path, dry_run: bool = False
) -> None:
    """Restart every broker in turn by a command; the next one only when all replicas are in sync again."""
    with Talk(bootstrap) as talk:
        brokers = talk.cluster.brokers()
        rolled = Rolled(state, talk.cluster.cluster_id() or "", command)
        order = safe_order(brokers, (), active_controller(talk, talk.ask(admin.describe_cluster).controller_id))
        if rolled.done:
            note(f"going on with the roll of which {state} tells: restarted before: {listed(rolled.done)}")
        if dry_run:
            tell_order(order, rolled.done, lambda id: reasons_against(talk.cluster, id))
            return
        with ProgressBar("roll", len(order), lines=False) as progress:
            for id in order:
                progress.at(len(rolled.done))
                if id not in rolled.done:
                    with telling_of_an_interrupt(f"broker {id}"):
                        _restart(talk, brokers[id], command, force=force, timeout_s=timeout_s)
                    rolled.restarted(id)
        rolled.finished()
    say("every broker was restarted.")


def _restart(talk: Talk, broker: Broker, command: str, *, force: bool, timeout_s: float) -> None:
    id = broker.node_id
    with contextlib.suppress(OSError):  # one that is down is what the command may start
        if (silent := why_not_kafka(broker.host, broker.port)) is not None and not force:
            fail(f"the roll ends before broker {id}, which was not restarted: {silent} (--force goes on)")
    for _ in Looks(timeout_s):
        reasons = reasons_against(talk.cluster, id)
        if not reasons or force:
            break
    for reason in reasons:
        note(reason)
    if reasons and not force:
        fail(f"the roll ends before broker {id}: partitions would suffer (--force goes on)")
    text = filled(command, id, broker.host, broker.port)
    say(f"broker {id}: {text}")
    started = time.monotonic()
    with _held(broker) as process:
        _run(text, timeout_s, f"the roll ends at broker {id}: ", "; the same command goes on with it")
        if not _until(process.ended, timeout_s):
            fail(f"the roll ends at broker {id}: `{text}` ended, and the broker's process still runs", IN_PROGRESS)
    if not _until(lambda: _is_back(talk, broker), timeout_s):
        fail(f"the roll ends at broker {id}: it is not back, or not in sync, after {timeout_s:g} s", IN_PROGRESS)
    say(f"broker {id}: back and in sync after {time.monotonic() - started:.1f} s")


def _run(text: str, timeout_s: float, where: str, after: str = "") -> None:
    status = run_command(text, timeout_s)
    if status is None:
        fail(f"{where}`{text}` has not ended after {timeout_s:g} s (--timeout) and was told to{after}", IN_PROGRESS)
    if status != 0:
        fail(f"{where}`{text}` ended with {status}{after}")


class _Process:
    """The process behind a broker's address, held by a connection, which ends with it; ``None``: none listened."""

    def __init__(self, connection: socket.socket | None) -> None:
        self._connection = connection

    def ended(self) -> bool:
        """Whether it closed the connection (or there was none). A broker that was not asked anything says nothing."""
        if self._connection is None:
            return True
        try:
            return self._connection.recv(1) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True


@contextlib.contextmanager
def _held(broker: Broker) -> Iterator[_Process]:
    """The process that listens there now: a command may return before it has ended what it restarts."""
    try:
        connection = socket.create_connection((broker.host, broker.port), timeout=5)
    except OSError:
        yield _Process(None)
        return
    connection.setblocking(False)
    with connection:
        yield _Process(connection)


def _is_back(talk: Talk, broker: Broker) -> bool:
    """Whether it is registered, listens, and nothing is out of sync in the whole cluster."""
    if broker.node_id not in talk.cluster.brokers():
        return False
    with socket.create_connection((broker.host, broker.port), timeout=5):
        pass
    return all(len(isr) == len(replicas) for _, _, replicas, isr in stands(talk.cluster.topics()))


def _wait_until_it_went(talk: Talk, id: int, timeout_s: float) -> None:
    """Until the broker leads nothing and is gone, telling how many partitions it still leads."""
    started, told = time.monotonic(), -1

    def gone() -> bool:
        nonlocal told
        led = sum(part.leader == id for topic in talk.cluster.topics().values() for part in topic.partitions.values())
        if led != told:
            say(f"broker {id}: {counted(led, 'partition')} led")
            told = led
        return not led and id not in talk.cluster.brokers()

    if not _until(gone, timeout_s):
        note(f"broker {id} has not gone after {timeout_s:g} s: {counted(told, 'partition')} led; nothing is called off")
        raise SystemExit(IN_PROGRESS)
    say(f"broker {id}: gone after {time.monotonic() - started:.1f} s")


def _broker(talk: Talk, id: int) -> Broker:
    brokers = talk.cluster.brokers()
    if id not in brokers:
        fail(f"broker {id} is not alive; alive are {listed(sorted(brokers))}")
    return brokers[id]


def _until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Whether the condition came about in time; that nobody answers for a while is part of a restart."""

    def holds() -> bool:
        try:
            return condition()
        except (OSError, Refused):
            return False

    return came_about(holds, timeout_s)
