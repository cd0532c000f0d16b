"""What a line of a state-change log says, whichever release wrote it.

Four eras: before 1.0 (``Controller 1 epoch 2 changed partition [foo,0] ...``), 1.0 to 2.x, 3.x on ZooKeeper
(``[Controller id=1 epoch=5] Changed partition foo-0 ...``) and KRaft (``[Broker id=1] Leader foo-0 ...``). Fields are
found by their names, which moved less than the sentences around them; what a line does not say is None.
"""

from __future__ import annotations

import re

from moldau.model.named import NamedTuple

GONE = "NonExistentPartition"
"""A partition's state before it is made, and after its topic is deleted: with the epochs of the change before that."""
_INT = 1 << 31
_LARGE = re.compile(r"\d{10}")
"""What a number has that does not fit; so has an offset, which is none of an event's fields."""


class Event(NamedTuple):
    """One entry of a log. ``text`` is its first line without time and logger, ``more`` the lines of its stack."""

    time: str
    level: str
    text: str
    more: str = ""
    role: str | None = None
    node: int | None = None
    controller: int | None = None
    controller_epoch: int | None = None
    correlation_id: int | None = None
    to_broker: int | None = None
    event: str = "other"
    partitions: tuple[tuple[str, int], ...] = ()
    state: str | None = None
    leader: int | None = None
    leader_epoch: int | None = None
    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    partition_epoch: int | None = None
    topic_id: str | None = None
    """Where Moldau's JSON line says it; see ``topic_id``."""
    why: str | None = None
    """Why it came about; said by Moldau's JSON lines only."""


_HEAD = re.compile(
    r"(?:[^\n\[]{0,80}\| )?\[?(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]? +(?P<level>[A-Z]+) +(?P<text>[^\n]*)"
)
_LOGGER = re.compile(r" \([\w.$]+\)\s*$")
_NODE = re.compile(r"\[?(?P<role>Controller|Broker) (?:id=)?(?P<id>\d+)(?:,? epoch[= ](?P<epoch>\d+))?\]?:? ")
_FROM = re.compile(r"(?:from|by) controller (\d+)(?: epoch (\d+))?")
_CORRELATION = re.compile(r"correlation ?[iI]d (\d+)")
_TO = re.compile(r"(?:to broker (?:Node\()?(?=\d+(?![\w.:-]))|\(id: )(\d+)")
_OLD_PARTITION = re.compile(r"\[([\w.-]+), *(\d+)\]")
_NAMED_PARTITION = re.compile(r"topicName='?([\w.-]+)'?, partitionIndex=(\d+)")
_PARTITION = re.compile(
    r"(?:[Pp]artitions?(?: being reassigned)?|Leader|Follower|state change for|log for|PartitionFetchState for"
    r"|fetching) (?:Set\(|List\(|HashSet\()?([\w.-]+)-(\d+)(?![\w-])"
)
_MARKED = re.compile(r"Mark replicas ([\w.,-]+) on broker")
_STATE = re.compile(r" from (\w+?(?:Partition|Replica\w*)) to (\w+)")
_LEADER = re.compile(r"\b(?:leader=|Leader:|Current leader is |with leader |elected leader )(-?\d+)", re.IGNORECASE)
_LEADER_EPOCH = re.compile(r"\b(?:leaderEpoch[=:]|starts at leader epoch )(-?\d+)", re.IGNORECASE)
_PARTITION_EPOCH = re.compile(r"\b(?:partitionEpoch[=:]|partition epoch |zkVersion[=:])(\d+)", re.IGNORECASE)
_ISR = re.compile(
    r"\bisr(?:=(?:List|Set|Vector|ArrayBuffer)?[(\[]| \[|:)([\d, ]*?)(?:[)\]]|,Leader(?:Epoch|RecoveryState))",
    re.IGNORECASE,
)
_BROKER_STATES = re.compile(r"\bisrWithBrokerEpoch=\w*\(((?:BrokerState\([^()]*\)(?:, )?)*)\)")
_BROKER_ID = re.compile(r"brokerId=(\d+)")
_REPLICAS = re.compile(r"(?:\breplicas=(?:List)?[(\[]|AllReplicas:|assigned replicas )([\d, ]+)")

_TOPIC_ID = re.compile(r"(?:Creating new partition|Leader) ([\w.-]+)-\d+ with topic id (?:Some\()?([\w-]{22})")

_EVENTS = [
    (re.compile(pattern, re.IGNORECASE), name)
    for pattern, name in (
        (r"changed partition ", "partition"),
        (r"changed state of replica ", "replica state"),
        (r"elected leader -?\d+ for offline", "election"),
        (r"sending .*LeaderAndIsr request", "sending LeaderAndIsr"),
        (r"sending UpdateMetadata request", "sending UpdateMetadata"),
        (r"sending StopReplica request", "sending StopReplica"),
        (r"received response", "response"),
        (r"(?:received|handling) LeaderAndIsr request", "LeaderAndIsr"),
        (r"(?:received|handling) StopReplica request", "StopReplica"),
        (r"(?:cached leader info|in response to UpdateMetadata request)", "UpdateMetadata"),
        (r"ignoring ", "refused"),
        (r"Leader [\w.-]+-\d+ .*starts at leader epoch", "leader"),
        (r"Follower [\w.-]+-\d+ starts at leader epoch", "follower"),
    )
]


def parse(entry: bytes) -> Event | None:
    """What an entry says; None when it is no line of a log (what stood before the first time), or has a number that is
    larger than any of a cluster's. Its time need be no date: it is what stands there."""
    text = entry.decode("utf-8", "replace")
    head = _HEAD.match(text)
    if head is None:
        return None
    try:
        event = _of_entry(head, text)
    except ValueError:  # a number of thousands of digits
        return None
    return event if _LARGE.search(text) is None or fits(event) else None


def is_entry(line: str) -> bool:
    """Whether a line begins as one of a log, which ``parse`` may nevertheless not understand."""
    return _HEAD.match(line) is not None


def fits(value: object) -> bool:
    """Whether numbers are such as a cluster has, and its tables take."""
    if isinstance(value, int):
        return -_INT <= value < _INT
    return not isinstance(value, (list, tuple)) or all(map(fits, value))


def _of_entry(head: re.Match[str], text: str) -> Event:
    said = _LOGGER.sub("", head["text"])
    node = _NODE.match(said)
    role, id, epoch = (None, None, None) if node is None else (node["role"], int(node["id"]), _int(node["epoch"]))
    told = said if node is None else said[node.end() :]
    source = _FROM.search(told)
    if role == "Controller":
        controller, controller_epoch = id, epoch
    else:
        controller = None if source is None else int(source[1])
        controller_epoch = None if source is None else _int(source[2])
    event = next((name for pattern, name in _EVENTS if pattern.match(told)), None)
    event = event or next((name for pattern, name in _EVENTS if pattern.search(told)), "other")
    state = _STATE.search(told)
    return Event(
        time=head["time"],
        level=head["level"],
        text=said,
        more=text[head.end() + 1 :],
        role=role,
        node=id,
        controller=controller,
        controller_epoch=controller_epoch,
        correlation_id=_found(_CORRELATION, told),
        to_broker=_found(_TO, told),
        event=event,
        partitions=_partitions(told, old=node is not None and not said.startswith("[")),
        state=state[2] if state else None,
        leader=id if event == "leader" else _found(_LEADER, told),
        leader_epoch=_found(_LEADER_EPOCH, told),
        isr=_in_sync(told),
        replicas=_ids(_REPLICAS, told),
        partition_epoch=_found(_PARTITION_EPOCH, told),
    )


def topic_id(event: Event) -> tuple[str, str] | None:
    """The topic and its id, in lines that say it: a broker's of a partition that it makes or leads, and JSON lines."""
    if event.topic_id is not None and event.partitions:
        return event.partitions[0][0], event.topic_id
    found = _TOPIC_ID.search(event.text)
    return None if found is None else (found[1], found[2])


def _partitions(text: str, *, old: bool) -> tuple[tuple[str, int], ...]:
    if old:
        found = _OLD_PARTITION.findall(text)
    elif marked := _MARKED.search(text):
        found = [one.rpartition("-")[::2] for one in marked[1].split(",")]
    else:
        found = _NAMED_PARTITION.findall(text) or _PARTITION.findall(text)
    return tuple(dict.fromkeys((topic, int(number)) for topic, number in found if number.isdigit()))


def _in_sync(text: str) -> tuple[int, ...] | None:
    states = _BROKER_STATES.search(text)
    return _ids(_ISR, text) if states is None else tuple(map(int, _BROKER_ID.findall(states[1])))


def _int(text: str | None) -> int | None:
    return None if text is None else int(text)


def _found(pattern: re.Pattern[str], text: str) -> int | None:
    match = pattern.search(text)
    return None if match is None else int(match[1])


def _ids(pattern: re.Pattern[str], text: str) -> tuple[int, ...] | None:
    match = pattern.search(text)
    return None if match is None else tuple(int(one) for one in match[1].replace(" ", "").split(",") if one)
