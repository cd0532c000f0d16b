"""The log directories of a plan: where replicas lie, and having brokers put them elsewhere (KIP-113)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from moldau.admin.asking import Talk, note, silent_brokers
from moldau.admin.each_broker import told_directories
from moldau.admin.plans import Directories, Plan
from moldau.admin.rate import bytes_text
from moldau.admin.waiting import Looks
from moldau.client import admin
from moldau.model import Code, TopicPartition

if TYPE_CHECKING:
    from moldau.wire.messages.k35_describe_log_dirs import DescribeLogDirsResponse

    DescribeLogDirsResult = DescribeLogDirsResponse.DescribeLogDirsResult

MOVING, OTHERWISE, UNKNOWN = "moving", "otherwise", "unknown"
MOST_TOLD = 20
NOT_YET = frozenset({Code.REPLICA_NOT_AVAILABLE, Code.NOT_LEADER_OR_FOLLOWER, Code.UNKNOWN_TOPIC_OR_PARTITION})
"""The broker has no such replica; one that is on its way will be there."""


def place(talk: Talk, wanted: Directories, timeout_s: float) -> int:
    """Have replicas put into directories, those that are on their way as soon as they are there; how many were not."""
    left, refused = dict(wanted), 0
    for _ in Looks(timeout_s):
        if not left:
            break
        left, names = ask_once(talk, left)
        for (partition, broker), name in names.items():
            note(f"moldau: {partition} on broker {broker} is not moved to {wanted[partition, broker]}: {name}")
        refused += len(names)
    for (partition, broker), path in sorted(left.items()):
        note(f"moldau: {partition} on broker {broker} is not there yet; execute again moves it to {path}")
    return refused + len(left)


def ask_once(talk: Talk, wanted: Directories) -> tuple[Directories, dict[tuple[TopicPartition, int], str]]:
    """Ask brokers to put replicas into directories: those that are not there yet, or whose broker is not, and those
    refused, with the error."""
    ids = {broker for _, broker in wanted} & talk.cluster.brokers().keys()
    there = ids - silent_brokers(talk, ids).keys()
    asked = {one: path for one, path in wanted.items() if one[1] in there}
    left: Directories = {one: path for one, path in wanted.items() if one not in asked}
    answers = talk.ask(admin.alter_log_dirs, _by_broker(asked))
    refused: dict[tuple[TopicPartition, int], str] = {}
    for (partition, broker), path in asked.items():
        code = answers.get((broker, partition), Code.UNKNOWN_SERVER_ERROR)
        if code in NOT_YET:
            left[partition, broker] = path
        elif code is not Code.NONE:
            refused[partition, broker] = code.name
    return left, refused


def current(talk: Talk, plan: Plan) -> Directories:
    """The log directories of a plan's replicas as they are, on brokers that have several and tell: what a way back
    needs to know."""
    brokers = {broker for replicas in plan.values() for broker in replicas} & talk.cluster.brokers().keys()
    out: Directories = {}
    for broker, found in told_directories(talk, brokers).items():
        places, _ = _places(found if len(found) > 1 else ())
        out |= {(p, broker): one.directory for p, one in places.items() if broker in plan.get(p, ())}
    return out


def absent(talk: Talk, wanted: Directories) -> list[str]:
    """The directories of a plan that its brokers, as far as they answer, have not, or have lost: one line for each."""
    told = told_directories(talk, {broker for _, broker in wanted} & talk.cluster.brokers().keys()) if wanted else {}
    lines = []
    for broker, path in sorted({(broker, path) for (_, broker), path in wanted.items() if told.get(broker)}):
        into = next((one for one in told[broker] if is_same(one.log_dir, path)), None)
        if into is None:
            has = ", ".join(sorted(one.log_dir for one in told[broker] if one.log_dir)) or "none that it tells"
            lines.append(f"broker {broker} has no log directory {path}, but {has}")
        elif into.error_code:
            lines.append(f"log directory {path} of broker {broker} is offline ({Code(into.error_code).name})")
    return lines


class Misplaced(TypedDict):
    """A replica that is not in the log directory that a plan has it in."""

    broker: int
    wanted: str
    directory: str | None
    """Where it is; None when its broker does not tell."""
    state: str
    """``moving`` when it is being copied, ``unknown`` when its broker does not tell, ``otherwise``."""
    why: str | None
    """Why it is not being copied, as far as its broker tells."""


def misplaced(talk: Talk, wanted: Directories) -> dict[TopicPartition, list[Misplaced]]:
    """The replicas that are not in their directories, by partition."""
    if not wanted:
        return {}
    told = told_directories(talk, {broker for _, broker in wanted} & talk.cluster.brokers().keys())
    places = {broker: _places(found) for broker, found in told.items() if found}  # none: it may not be asked
    out: dict[TopicPartition, list[Misplaced]] = {}
    for (partition, broker), path in sorted(wanted.items()):
        one: Misplaced = {"broker": broker, "wanted": path, "directory": None, "state": UNKNOWN, "why": None}
        if broker in places:
            now, copied = places[broker]
            here = now.get(partition)
            if here is not None and is_same(here.directory, path):
                continue
            one["directory"] = None if here is None else here.directory
            if is_same(copied.get(partition), path):
                one["state"] = MOVING
            else:
                one["state"], one["why"] = OTHERWISE, _why_not(told[broker], path, here)
        out.setdefault(partition, []).append(one)
    return out


def state_of(replicas: Sequence[Misplaced]) -> str:
    """The state of a partition of which these are misplaced: what nobody mends goes before what is under way."""
    states = [one["state"] for one in replicas]
    return OTHERWISE if OTHERWISE in states else states[0]


def tell(found: Mapping[TopicPartition, Sequence[Misplaced]]) -> None:
    """Note what was to lie where, where it lies, and why, of what nobody copies there."""
    texts = [text_of(p, one) for p, replicas in sorted(found.items()) for one in replicas if one["state"] == OTHERWISE]
    for text in texts[:MOST_TOLD]:
        note(text)
    if len(texts) > MOST_TOLD:
        note(f"and {len(texts) - MOST_TOLD} more that are not in their directories; -o json names all")


def text_of(partition: TopicPartition, one: Misplaced) -> str:
    """What was to lie where, where it lies, and why."""
    lies = "has no replica that it tells of" if one["directory"] is None else f"has it in {one['directory']}"
    return f"{partition}: broker {one['broker']} is to have it in {one['wanted']} and {lies}: {one['why']}"


def is_same(directory: str | None, path: str) -> bool:
    """Whether a directory, as its broker names it, is the one of a plan."""
    return directory is not None and (directory.rstrip("/") or "/") == (path.rstrip("/") or "/")


class _Place(NamedTuple):
    directory: str
    size: int


def _places(found: Sequence[DescribeLogDirsResult]) -> tuple[dict[TopicPartition, _Place], dict[TopicPartition, str]]:
    """Where a broker's replicas are, and where they are being copied to."""
    now: dict[TopicPartition, _Place] = {}
    copied: dict[TopicPartition, str] = {}
    for directory in found:
        for topic in directory.topics:
            for part in topic.partitions:
                partition = TopicPartition(topic.name, part.partition_index)
                if part.is_future_key:
                    copied[partition] = directory.log_dir
                else:
                    now[partition] = _Place(directory.log_dir, part.partition_size)
    return now, copied


def _why_not(found: Sequence[DescribeLogDirsResult], path: str, here: _Place | None) -> str:
    """Why nothing is copied into a directory: a broker keeps no word of a copy that it gave up, but tells what is free
    there."""
    into = next((one for one in found if is_same(one.log_dir, path)), None)
    if into is None:
        return (
            f"it has no such directory, but {', '.join(sorted(one.log_dir for one in found)) or 'none that it tells'}"
        )
    if into.error_code:
        return f"that directory is offline ({Code(into.error_code).name})"
    if here is not None and 0 <= into.usable_bytes < here.size:
        return f"{bytes_text(into.usable_bytes)} are free there, and it takes {bytes_text(here.size)}"
    return "nothing copies it: nobody has asked for that, or the copy was given up (the broker's log says why)"


def _by_broker(wanted: Mapping[tuple[TopicPartition, int], str]) -> dict[int, dict[str, list[tuple[str, int]]]]:
    out: dict[int, dict[str, list[tuple[str, int]]]] = {}
    for (partition, broker), path in sorted(wanted.items()):
        out.setdefault(broker, {}).setdefault(path, []).append((partition.topic, partition.partition))
    return out
