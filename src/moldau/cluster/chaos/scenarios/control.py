"""Scenarios about the controller: killed amid requests, and topics that are deleted while a broker is down.

What was answered to an administrator is compared with the cluster afterwards (laws C8, C9, C13).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

from moldau.client import sync
from moldau.client.admin import NewTopic, create_topics, delete_topics, elect_leaders, reassign, reassignments
from moldau.client.client import Refused, Unreachable
from moldau.cluster.chaos.scenario_context import PARTITIONS, PATIENCE_S, TOPIC, ScenarioContext
from moldau.cluster.kills.killing import Stuck
from moldau.cluster.kills.replicas import check_folders, read_values
from moldau.history.checks import Anomaly
from moldau.model import Code, TopicPartition
from moldau.wire.batch import build

UNDONE, BACK = "undone", "back again"
DONE = (Code.NONE, Code.TOPIC_ALREADY_EXISTS, Code.UNKNOWN_TOPIC_OR_PARTITION)
"""Answers that promise something: the client asks again by itself, and finds done what was done without an answer."""
_MADE = 3
"""Partitions of a topic that is made on the way."""


class ControllerRequest(NamedTuple):
    """Something an administrator asks for; ``holds`` says whether the cluster is as it was told to be."""

    what: str
    act: Callable[[sync.Cluster], Code]
    holds: Callable[[], bool]


def kill_the_controller(context: ScenarioContext) -> None:
    """Kill the active controller while it creates, deletes, moves and elects, and while a broker shuts down.

    After KAFKA-5642 and KAFKA-9089: what was answered must be so under the next controller.
    """
    numbers = count(1)
    for _ in range(context.options.rounds):
        number = next(numbers)
        name = f"made-{number}"
        holds = partial(_is_whole, context, name)
        _ask(context, ControllerRequest(f"topic {name} is created", _create(name), holds))
        _ask(context, _move(context, name))
        _ask(context, _elect(context))
        holds = partial(_is_gone, context, name)
        _ask(context, ControllerRequest(f"topic {name} is deleted", _delete(name), holds))
        _leave(context)


def recreate_while_away(context: ScenarioContext) -> None:
    """Delete a topic and create one of the same name while a broker is down, with other records; then start the broker.

    After KAFKA-14616 and its elders: a broker that comes back takes the old topic's log for the new one's. In ZooKeeper
    mode the deletion waits for the broker (TD-1), and its name is not free before.
    """
    for number, how in enumerate((context.kill, context.terminate)):
        name, one = f"again-{number}", TopicPartition(f"again-{number}", 0)
        client = context.run.client
        _must(client.run(create_topics(client.client, [_new(name, 1)]))[name].code, f"{name} is created")
        context.wait(lambda name=name: _is_whole(context, name, 1), f"{name} is in sync")  # type: ignore[misc]
        _write(client, one, "old", 40)
        away = context.rng.choice(context.others(context.controller()))
        how(away, "its partitions are led by others", context.moved(away)) if _leads(context, away) else how(away)
        waits = not context.rig.controllers
        code = client.run(delete_topics(client.client, [name], timeout_ms=2_000 if waits else 30_000))[name].code
        if waits and code is not Code.REQUEST_TIMED_OUT:
            context.found.append(Anomaly(UNDONE, f"deletion of {name}: {code.name}, though a broker is down"))
        if waits:
            context.sleep(0.0, 2.0)
            context.restart(away)
        else:
            _must(code, f"{name} is deleted")
        context.do(f"{name} was deleted", lambda: None, "it is gone", partial(_is_gone, context, name))
        context.wait(lambda name=name: _created(context, name), f"{name} is created again")  # type: ignore[misc]
        _write(client, one, "new", 25)
        if not waits:
            context.sleep(0.0, 2.0)
            context.restart(away)
        context.wait(lambda name=name: _is_whole(context, name, 1), f"the new {name} is in sync everywhere")  # type: ignore[misc]
        context.at_rest.append(lambda name=name: _only_new(context, name))  # type: ignore[misc]


# ---- killing amid requests


def _ask(context: ScenarioContext, ask: ControllerRequest) -> None:
    """Ask in a thread, kill the controller at any moment of it, and hold the answer against the cluster."""
    active_controller = context.controller()
    answers: list[Code | None] = []
    thread = threading.Thread(target=lambda: answers.append(_answer(context, ask)), daemon=True)
    thread.start()
    context.sleep(0.0, 0.2)
    context.kill(active_controller, "another controller rules", _ruled_by_another(context, active_controller))
    context.sleep(0.0, 1.0)
    context.restart(active_controller)
    thread.join(PATIENCE_S)
    if not answers:
        context.found.append(Anomaly("late", f"{ask.what}: no answer in {PATIENCE_S:g} s"))
        return
    context.wait(lambda: context.run.poller.in_sync(context.nodes), f"all is in sync again; {ask.what}")
    said = answers[0].name if answers[0] is not None else "nothing"
    context.do(f"{ask.what}: the answer was {said}", lambda: None)
    if answers[0] in DONE and not _comes(context, ask.holds):
        context.found.append(Anomaly(UNDONE, f"{ask.what} was answered, and it is not so"))


def _leave(context: ScenarioContext) -> None:
    """A broker is told to stop, the controller is killed: the broker must end (law L12) once there is one again."""
    active_controller = context.controller()
    leaver = context.rng.choice(context.others(active_controller))
    thread = threading.Thread(target=lambda: context.terminate(leaver), daemon=True)
    thread.start()
    context.sleep(0.0, 0.3)
    context.kill(active_controller)
    context.sleep(0.3, 1.5)
    context.restart(active_controller)
    thread.join(2 * PATIENCE_S)
    context.restart(leaver)
    context.wait(lambda: context.run.poller.in_sync(context.nodes), f"all is in sync after the leave of node {leaver}")


def _answer(context: ScenarioContext, ask: ControllerRequest) -> Code | None:
    try:
        with sync.Cluster(context.rig.bootstrap_servers) as client:
            return ask.act(client)
    except (OSError, Refused, Unreachable):
        return None


def _ruled_by_another(context: ScenarioContext, active_controller: int) -> Callable[[], bool]:
    def seen() -> bool:
        found = context.run.poller.active_controller(context.up)
        return found is not None and found.node != active_controller

    return seen


# ---- the requests


def _create(name: str) -> Callable[[sync.Cluster], Code]:
    return lambda client: client.run(create_topics(client.client, [_new(name, _MADE)]))[name].code


def _delete(name: str) -> Callable[[sync.Cluster], Code]:
    return lambda client: client.run(delete_topics(client.client, [name]))[name].code


def _move(context: ScenarioContext, name: str) -> ControllerRequest:
    """Two of three replicas each, on other nodes than before."""
    targets = {TopicPartition(name, number): context.rng.sample(context.nodes, 2) for number in range(_MADE)}

    def act(client: sync.Cluster) -> Code:
        whole, each = client.run(reassign(client.client, targets))
        return next((one.code for one in (whole, *each.values()) if one.code is not Code.NONE), Code.NONE)

    def holds() -> bool:
        client = context.run.client
        moving = client.run(reassignments(client.client))[1]
        there = client.topics([name])[name].partitions
        return not moving and all(there[p.partition].replicas == replicas for p, replicas in targets.items())

    return ControllerRequest(f"topic {name} moves to {list(targets.values())}", act, holds)


def _elect(context: ScenarioContext) -> ControllerRequest:
    partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]

    def holds() -> bool:
        """The elected leader may have died since: asked again, the first replica leads."""
        client = context.run.client
        client.run(elect_leaders(client.client, partitions))
        return all(lead.leader == lead.replicas[0] for lead in context.leads().values())

    return ControllerRequest(
        "preferred leaders", lambda client: client.run(elect_leaders(client.client, partitions))[0], holds
    )


def _new(name: str, partitions: int, replicas: int = 3) -> NewTopic:
    settings = {"min.insync.replicas": "2"}
    return NewTopic(name=name, partitions=partitions, replication_factor=replicas, configs=settings)


def _write(client: sync.Cluster, partition: TopicPartition, stem: str, records: int) -> None:
    """Append records one by one, each exactly once: under a producer id, as a leader may have been killed just now."""
    producer_id, epoch = client.producer_id()
    for number in range(records):
        entry = (time.time_ns() // 1_000_000, None, f"{stem}-{number}".encode(), ())
        data = build([entry], producer_id=producer_id, producer_epoch=epoch, base_sequence=number)
        _must(client.produce(partition, data).code, f"{partition} is written to")


def _must(code: Code, what: str) -> None:
    if code is not Code.NONE:
        raise OSError(f"{what}: {code.name}")


# ---- whether it is so


def _comes(context: ScenarioContext, condition: Callable[[], bool]) -> bool:
    try:
        context.wait(condition, "what was promised", 60)
    except Stuck:
        return False
    return True


def _is_gone(context: ScenarioContext, name: str) -> bool:
    return name not in context.run.client.topics()


def _created(context: ScenarioContext, name: str) -> bool:
    """On all nodes; where a broker that has left is not known any more (in ZooKeeper mode), on the two that are."""
    client = context.run.client
    code = client.run(create_topics(client.client, [_new(name, 1)]))[name].code
    if code is Code.INVALID_REPLICATION_FACTOR:
        code = client.run(create_topics(client.client, [_new(name, 1, 2)]))[name].code
    return code is Code.NONE


def _leads(context: ScenarioContext, node: int) -> bool:
    return any(lead.leader == node for lead in context.leads().values())


def _is_whole(context: ScenarioContext, name: str, partitions: int = _MADE) -> bool:
    """Whether all partitions are there, led, and in sync."""
    topic = context.run.client.topics([name]).get(name)
    return topic is not None and len(topic.partitions) == partitions and all(
        p.leader >= 0 and set(p.isr) == set(p.replicas) for p in topic.partitions.values()
    )  # fmt: skip


def _only_new(context: ScenarioContext, name: str) -> Iterator[Anomaly]:
    """C8: nothing of the old topic is in any replica of the new one, and all of the new one is."""
    places = {node: context.rig.data_dir(node) / f"{name}-0" for node in context.nodes}
    folders: dict[int, Path] = {node: folder for node, folder in places.items() if folder.exists()}
    yield from check_folders(f"{name}-0", folders, 25)
    for node, folder in folders.items():
        values = [row.value for row in read_values(folder, 0, 1 << 62)]
        if values != [f"new-{number}" for number in range(25)]:
            yield Anomaly(
                BACK, f"{name}-0 on node {node} holds {len(values)} records, from {values[:1]} to {values[-1:]}"
            )
