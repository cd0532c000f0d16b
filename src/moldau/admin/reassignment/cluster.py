"""What commands about reassignments ask of a cluster, and read from files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn, TypeVar

from moldau.admin.asking import CONTROLLER_S, WHY_NONE, Talk, note
from moldau.admin.main import fail, reason
from moldau.admin.plans import BadPlan, Plan, cluster_in
from moldau.client import admin
from moldau.client.client import Refused
from moldau.client.view import Outcome
from moldau.model import Code, TopicPartition

Read = TypeVar("Read")
NO_ANSWER = f"none answers within {CONTROLLER_S:g} s"


def current(talk: Talk, topics: Iterable[str], only: Iterable[TopicPartition] | None = None) -> Plan:
    """Replicas as they are: of ``only`` these partitions, or of all; ends the command when one is not there."""
    names = sorted(set(topics))
    found = talk.topics(names)
    for name in names:
        if name not in found:
            fail(f"there is no topic {name}")
    everything = {
        TopicPartition(name, number): list(part.replicas)
        for name, topic in found.items()
        for number, part in sorted(topic.partitions.items())
    }
    if only is None:
        return everything
    missing = [str(p) for p in only if p not in everything]
    if missing:
        fail(f"there is no partition {', '.join(missing)}")
    return {p: everything[p] for p in only}


def targets(plan: Plan, moving: Mapping[TopicPartition, admin.Reassignment]) -> Plan:
    """The replicas without those that go: while a partition moves it has the old ones and the new ones."""
    return {p: [r for r in held if p not in moving or r not in moving[p].removing] for p, held in plan.items()}


def origins(plan: Plan, moving: Mapping[TopicPartition, admin.Reassignment]) -> Plan:
    """The replicas without those that come, as they are again when the moves are called off."""
    return {p: [r for r in held if p not in moving or r not in moving[p].adding] for p, held in plan.items()}


def demand_cluster(talk: Talk, plan: Path) -> None:
    """Ends the command when the plan was made for another cluster: ids of brokers are the same everywhere."""
    wanted = read(plan, cluster_in)
    if wanted is not None and wanted != (found := talk.cluster.cluster_id()):
        fail(f"{plan} is a plan for cluster {wanted}, and this is cluster {found}")


def under_way(talk: Talk, of: Sequence[TopicPartition] | None) -> dict[TopicPartition, admin.Reassignment]:
    """The moves under way, of these partitions or all."""
    whole, moving = talk.ask(admin.reassignments, of)
    if not whole.ok:
        fail(f"{whole.code.name}: {whole.message or 'the moves under way cannot be listed'}")
    return moving


def listed(talk: Talk, of: Sequence[TopicPartition] | None = None) -> dict[TopicPartition, admin.Reassignment]:
    """The moves under way, of these partitions or all, for who only looks: ends the command soon when no controller
    answers, which alone knows."""
    with talk.apart(int(1000 * CONTROLLER_S)) as other:
        try:
            whole, moving = other.ask(admin.reassignments, of)
        except (Refused, OSError):
            _fail_without_controller()
    if whole.code in (Code.NOT_CONTROLLER, Code.REQUEST_TIMED_OUT):
        _fail_without_controller(whole.message if whole.code is Code.NOT_CONTROLLER else None)
    if not whole.ok:
        fail(f"{whole.code.name}: {whole.message or 'the moves under way cannot be listed'}")
    return moving


def _fail_without_controller(why: str | None = None) -> NoReturn:
    """End the command. ``why``: what brokers say of it."""
    fail(f"no controller is active ({why or NO_ANSWER}), which alone knows what moves; {WHY_NONE}")


def tell_refusals(whole: Outcome, outcomes: Mapping[TopicPartition, Outcome]) -> int:
    """Name what was refused; how many. A refusal of the whole ends the command."""
    if not whole.ok:
        fail(f"{whole.code.name}: {whole.message or 'the request was refused'}")
    refused = {p: one for p, one in sorted(outcomes.items()) if not one.ok}
    for partition, one in refused.items():
        note(f"moldau: {partition}: {one.code.name}{f': {one.message}' if one.message else ''}")
    return len(refused)


def ids(option: str, text: str) -> list[int]:
    """The numbers of brokers that an option names."""
    try:
        return sorted({int(word) for word in text.split(",")})
    except ValueError:
        fail(f"{option} {text}: ids with commas between are expected, such as 1,2,3", 2)
        raise


def read(path: Path, parse: Callable[[str], Read]) -> Read:
    """A file as ``parse`` reads it; ends the command when it is not one."""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        fail(reason(error), 2)
    except UnicodeDecodeError:
        fail(f"{path}: it is no text file", 2)
    except BadPlan as error:
        fail(f"{path}: {error}", 2)
    raise AssertionError
