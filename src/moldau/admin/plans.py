"""Reassignment plans: Kafka's JSON, read and written; and who should hold what, with as few moves as will do.

Pure values. A plan is topic partition -> replicas, the first of them preferred to lead. Sent by ``reassign.py``.
Source of the format: Kafka's kafka-reassign-partitions.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence

from moldau.model import TopicPartition
from moldau.model.counted import counted

Plan = dict[TopicPartition, list[int]]
Directories = dict[tuple[TopicPartition, int], str]
"""(partition, broker) -> the log directory that the broker's replica is to be in, if it is to be in one."""
ANY = "any"
VERSION = 1
"""The version of the file's format."""


class BadPlan(ValueError):
    """The file is no plan; the text says what is wrong with it."""


def parse(text: str) -> Plan:
    """A plan from Kafka's JSON: {"version": 1, "partitions": [{"topic", "partition", "replicas"}]}."""
    try:
        whole = json.loads(text)
        listed = [
            (TopicPartition(_name(e["topic"]), _id(e["partition"])), [_id(r) for r in e["replicas"]])
            for e in whole["partitions"]
        ]
        if whole.get("version", VERSION) != VERSION:
            raise BadPlan(f"it is a plan of version {whole['version']}, and {VERSION} is the only one known")
    except BadPlan:
        raise
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        expected = '{"partitions": [{"topic", "partition", "replicas"}, ...]}'
        raise BadPlan(f"{_wrong(error)}; expected {expected}") from error
    plan: Plan = {}
    for partition, replicas in listed:
        if partition in plan:
            raise BadPlan(f"{partition} is listed twice")
        if not replicas:
            raise BadPlan(f"{partition} has no replicas")
        if len(set(replicas)) < len(replicas):
            raise BadPlan(f"{partition} has a broker twice: {replicas}")
        plan[partition] = replicas
    if not plan:
        raise BadPlan("there is no partition in it")
    return plan


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a topic's name is no text: {value!r}")
    return value


def _id(value: object) -> int:
    """A broker's or a partition's number, which Kafka's tool takes as nothing but a number either."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**31:
        raise ValueError(f"no number of a partition or a broker: {value!r}")
    return value


def directories_in(text: str) -> Directories:
    """The log directories that a plan asks for; BadPlan when they are not one for each replica."""
    found: Directories = {}
    plan = parse(text)
    for entry in json.loads(text)["partitions"]:
        partition = TopicPartition(entry["topic"], int(entry["partition"]))
        paths = entry.get("log_dirs")
        if paths is None:
            continue
        if not isinstance(paths, list) or len(paths) != len(plan[partition]):
            has = counted(len(plan[partition]), "replica")
            raise BadPlan(f"{partition} has {has}, and log_dirs is not a list of as many")
        for broker, path in zip(plan[partition], paths, strict=True):
            if not isinstance(path, str) or not (path == ANY or path.startswith("/")):
                raise BadPlan(f'{partition}: log_dirs has {path!r}; "{ANY}" or an absolute path is expected')
            if path != ANY:
                found[partition, broker] = path
    return found


def text_of(
    plan: Mapping[TopicPartition, Sequence[int]], cluster: str | None = None, placed: Directories | None = None
) -> str:
    """The plan as Kafka's tool reads it, by topic and partition; of which cluster it is, Kafka's tool does not read.
    ``placed``: the log directories of its replicas, as far as they are to be in one."""
    entries = []
    for partition, replicas in sorted(plan.items()):
        entry = {"topic": partition.topic, "partition": partition.partition, "replicas": list(replicas)}
        if placed and any((partition, broker) in placed for broker in replicas):
            entry["log_dirs"] = [placed.get((partition, broker), ANY) for broker in replicas]
        entries.append(entry)
    whole: dict[str, object] = {"version": 1, "partitions": entries}
    if cluster:
        whole["cluster"] = cluster
    return json.dumps(whole, separators=(",", ":"))


def cluster_in(text: str) -> str | None:
    """The id of the cluster that a plan was made for, if it tells one; BadPlan where that is no text."""
    found = json.loads(text).get("cluster")
    if found is not None and not isinstance(found, str):
        raise BadPlan(f"the cluster that it is for is no text: {found!r}")
    return found


def topics_in(text: str) -> list[str]:
    """Topic names from Kafka's JSON: {"topics": [{"topic": NAME}, ...]}."""
    try:
        return [_name(entry["topic"]) for entry in json.loads(text)["topics"]]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BadPlan(f'{_wrong(error)}; expected {{"topics": [{{"topic": NAME}}, ...]}}') from error


def _wrong(error: Exception) -> str:
    """What is wrong with a file, in words."""
    if isinstance(error, json.JSONDecodeError | RecursionError):
        return f"it is no JSON: {error}"
    if isinstance(error, KeyError):
        return f'"{error.args[0]}" is missing'
    return "it is JSON of another form" if isinstance(error, TypeError) else str(error)


def spread(current: Mapping[TopicPartition, Sequence[int]], racks: Mapping[int, str | None]) -> Plan:
    """The same partitions over the brokers of ``racks`` (id -> rack), evenly, moving as few replicas as that takes.

    Replicas on brokers that stay are kept; a new one goes to the broker that holds least, in the rack that
    holds fewest of the partition. Then full brokers give to empty ones, and every broker is the first replica of
    about as many. ValueError when a partition has more replicas than there are brokers.
    """
    held = dict.fromkeys(sorted(racks), 0)
    plan: Plan = {p: [r for r in current[p] if r in racks] for p in sorted(current)}
    for replicas in plan.values():
        for replica in replicas:
            held[replica] += 1
    for partition, replicas in plan.items():
        wanted = len(current[partition])
        if wanted > len(racks):
            are, has = "is" if len(racks) == 1 else "are", counted(wanted, "replica")
            raise ValueError(f"{partition} has {has}, and there {are} {counted(len(racks), 'broker')} to take them")
        while len(replicas) < wanted:
            replicas.append(_emptiest(held, racks, replicas))
            held[replicas[-1]] += 1
    _level(plan, held, racks)
    _share_leads(plan, held)
    return plan


def _emptiest(held: Mapping[int, int], racks: Mapping[int, str | None], taken: Collection[int]) -> int:
    used = [racks[replica] for replica in taken]
    return min((b for b in held if b not in taken), key=lambda b: (used.count(racks[b]), held[b], b))


def _level(plan: Plan, held: dict[int, int], racks: Mapping[int, str | None]) -> None:
    """Move single replicas from the fullest to emptier brokers while that evens them out and crowds no rack."""
    for replicas in plan.values():
        for at, full in enumerate(replicas):
            others = [racks[r] for r in replicas if r != full]
            left = others.count(racks[full])
            takers = [b for b in held if b not in replicas and others.count(racks[b]) <= left]
            empty = min(takers, key=lambda b: (held[b], b), default=full)
            if held[full] - held[empty] >= 2:
                replicas[at] = empty
                held[full] -= 1
                held[empty] += 1


def _share_leads(plan: Plan, held: Mapping[int, int]) -> None:
    """Put another replica first where that evens out the leads; data does not move for it."""
    leads = dict.fromkeys(held, 0)
    for replicas in plan.values():
        leads[replicas[0]] += 1
    for replicas in plan.values():
        first = replicas[0]
        other = min(replicas, key=lambda r: (leads[r], r != first, r))
        if leads[first] - leads[other] >= 2:
            replicas.remove(other)
            replicas.insert(0, other)
            leads[first] -= 1
            leads[other] += 1
