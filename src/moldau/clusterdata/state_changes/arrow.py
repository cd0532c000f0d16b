"""State-change logs as Arrow batches: the lines of ``lines``, many at once.

What makes up most of a large log are a few sentences. Each has one expression here that finds its numbers at once; all
other lines go the way of ``lines.fields_of``. Both say the same of a line, which tests compare.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from moldau.clusterdata.columns import arrow_schema
from moldau.clusterdata.state_changes.lines import COLUMNS, FIELDS, Range, blocks, fields_of, text_of
from moldau.model.named import NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

_N = "(-?[0-9]{1,9})"
_ANY = "-?[0-9]{1,9}"
_ID = "([0-9]{1,9})"
_NAME = "([A-Za-z0-9._-]{1,249})"
_IDS = "[0-9]{1,9}(?:, ?[0-9]{1,9}){0,200}"
_LIST = f"((?:{_IDS})?)"
_TIME = r"\[([0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2},[0-9]{3})\] ([A-Z]+) +"
_BROKER = r"\[(Broker) id=([0-9]{1,9})\] "
_CONTROLLER = r"\[(Controller) id=([0-9]{1,9}) epoch=([0-9]{1,9})\] "
_END = r"(?: \([A-Za-z0-9_.$]+\))?$"
_NUMBERS = frozenset({
    "node", "controller", "controller_epoch", "correlation_id", "to_broker", "partition", "leader", "leader_epoch",
})  # fmt: skip
_LISTS = frozenset({"isr", "replicas"})


class Sentence(NamedTuple):
    """A kind of line: ``words`` is where its expression's groups go, ``event`` what it is; ``same`` are columns that
    are another's."""

    pattern: re.Pattern[str]
    words: tuple[str, ...]
    event: str
    same: tuple[tuple[str, str], ...] = ()


def _state(kind: str) -> str:
    return (
        rf"{kind}\(topicName='{_NAME}', partitionIndex={_ID}, controllerEpoch={_ANY}, leader={_N}, leaderEpoch={_N},"
        rf" isr=\[{_LIST}\], (?:zkVersion|partitionEpoch)={_ANY}, replicas=\[({_IDS})\],"
    )


_HEAD = ("time", "level", "role", "node")
_OF_STATE = ("topic", "partition", "leader", "leader_epoch", "isr", "replicas")
_ADDED = r" addingReplicas=\[[0-9, ]*\], removingReplicas=\[[0-9, ]*\], isNew=[a-z]+(?:, leaderRecoveryState=[0-9]+)?\)"

SENTENCES = {
    "Followe": Sentence(
        re.compile(
            rf"{_TIME}{_BROKER}Follower {_NAME}-{_ID} starts at leader epoch {_N} from offset [0-9]+ with"
            rf" partition epoch {_ANY} and high watermark {_ANY}\. Current leader is {_N}\. Previous leader"
            rf" (?:Some\({_ANY}\)|None) and previous leader epoch was {_ANY}\.{_END}"
        ),
        (*_HEAD, "topic", "partition", "leader_epoch", "leader"),
        "follower",
    ),
    "Receive": Sentence(
        re.compile(
            rf"{_TIME}{_BROKER}Received LeaderAndIsr request {_state('LeaderAndIsrPartitionState')}{_ADDED}"
            rf" correlation id {_ID} from controller {_ID} epoch {_ID}{_END}"
        ),
        (*_HEAD, *_OF_STATE, "correlation_id", "controller", "controller_epoch"),
        "LeaderAndIsr",
    ),
    "Cached ": Sentence(
        re.compile(
            rf"{_TIME}{_BROKER}Cached leader info {_state('UpdateMetadataPartitionState')}"
            r" offlineReplicas=\[[0-9, ]*\]\) for partition [A-Za-z0-9._-]+-[0-9]+ in response to UpdateMetadata"
            rf" request sent by controller {_ID} epoch {_ID} with correlation id {_ID}{_END}"
        ),
        (*_HEAD, *_OF_STATE, "controller", "controller_epoch", "correlation_id"),
        "UpdateMetadata",
    ),
    "Changed": Sentence(
        re.compile(
            rf"{_TIME}{_CONTROLLER}Changed partition {_NAME}-{_ID} from [A-Za-z]+Partition to ([A-Za-z]+) with state"
            rf" LeaderAndIsr\(leader={_N}, leaderEpoch={_N}, isr=List\({_LIST}\), leaderRecoveryState=[A-Z]+,"
            rf" partitionEpoch={_ANY}\){_END}"
        ),
        (*_HEAD, "controller_epoch", "topic", "partition", "state", "leader", "leader_epoch", "isr"),
        "partition",
        (("controller", "node"),),
    ),
    "Sending": Sentence(
        re.compile(
            rf"{_TIME}{_CONTROLLER}Sending become-(?:leader|follower) LeaderAndIsr request"
            rf" {_state('LeaderAndIsrPartitionState')}{_ADDED} to broker {_ID} for partition"
            rf" [A-Za-z0-9._-]+-[0-9]+{_END}"
        ),
        (*_HEAD, "controller_epoch", *_OF_STATE, "to_broker"),
        "sending LeaderAndIsr",
        (("controller", "node"),),
    ),
}
"""The first letters of a sentence -> how its lines are read."""


def batches(of: Range) -> Iterator[pa.RecordBatch]:
    """The lines of a range of a file, in their order, as batches with ``COLUMNS``."""
    for position, data in blocks(of):
        yield batch(of.path, position, data)


def batch(path: str, position: int, data: bytes) -> pa.RecordBatch:
    """Whole lines, of which the first begins at a byte of a file."""
    import pyarrow as pa

    schema = arrow_schema(COLUMNS)
    if data.isascii():
        lines = data.decode("ascii").split("\n")
        sizes = map(len, lines)
    else:
        raw = data.split(b"\n")
        lines = list(map(text_of, raw))
        sizes = map(len, raw)
    positions = list(accumulate((size + 1 for size in sizes), initial=position))[:-1]
    reasons, fields = _fields(lines, schema)
    first = [pa.repeat(pa.scalar(path, pa.string()), len(lines)), pa.array(positions), pa.array(lines), reasons]
    return pa.RecordBatch.from_arrays([*first, *fields], schema=schema)


def _fields(lines: Sequence[str], schema: pa.Schema) -> tuple[pa.Array, list[pa.Array]]:
    """The reasons, and each of ``FIELDS``, of lines in their order."""
    import pyarrow as pa

    # Groups are kept flat: of tuples, of which there would be one for each line, the garbage collector takes its toll.
    found: dict[str, tuple[list[int], list[str]]] = {key: ([], []) for key in SENTENCES}
    others: list[int] = []
    ways = {
        key: (sentence.pattern.match, found[key][0].append, found[key][1].extend) for key, sentence in SENTENCES.items()
    }
    way_of = ways.get
    for number, line in enumerate(lines):
        at = line.find("] ", 26) + 2
        way = way_of(line[at : at + 7])
        if way is not None:
            match = way[0](line)
            if match is not None:
                way[1](number)
                way[2](match.groups())
                continue
        others.append(number)
    order: list[int] = []
    reasons: list[pa.Array] = []
    parts: list[list[pa.Array]] = []
    for key, (numbers, groups) in found.items():
        if numbers:
            order += numbers
            reasons.append(pa.nulls(len(numbers), pa.string()))
            parts.append(_columns(SENTENCES[key], groups, schema))
    if others:
        order += others
        told = [fields_of(lines[number]) for number in others]
        reasons.append(pa.array([reason for reason, _ in told], pa.string()))
        columns = zip(*(values for _, values in told), strict=True)
        parts.append([pa.array(each, schema.field(name).type) for name, each in zip(FIELDS, columns, strict=True)])
    if len(parts) == 1:
        return reasons[0], parts[0]
    where = _inverse(order)
    joined = [pa.concat_arrays(each).take(where) for each in zip(*parts, strict=True)]
    return pa.concat_arrays(reasons).take(where), joined


def _inverse(order: list[int]) -> pa.Array:
    """Where each line stands among lines that are ordered so."""
    import pyarrow as pa

    where = [0] * len(order)
    for at, number in enumerate(order):
        where[number] = at
    return pa.array(where, pa.int32())


def _columns(sentence: Sentence, groups: list[str], schema: pa.Schema) -> list[pa.Array]:
    import pyarrow as pa

    wide = len(sentence.words)
    count = len(groups) // wide
    read = {name: groups[at::wide] for at, name in enumerate(sentence.words)}
    made: dict[str, pa.Array] = {}
    for name, texts in read.items():
        if name in _LISTS:
            made[name] = _lists(texts, schema.field(name).type)
        elif name in _NUMBERS:
            made[name] = pa.array(texts, pa.string()).cast(pa.int32())
        else:
            made[name] = pa.array(texts, pa.string())
    made["event"] = pa.repeat(pa.scalar(sentence.event), count)
    for name, other in sentence.same:
        made[name] = made[other]
    return [made[name] if name in made else pa.nulls(count, schema.field(name).type) for name in FIELDS]


def _lists(texts: Sequence[str], kind: pa.DataType) -> pa.Array:
    """Lists of ids: there are few that differ."""
    import pyarrow as pa

    known = {text: at for at, text in enumerate(dict.fromkeys(texts))}
    lists = [[int(id) for id in text.replace(" ", "").split(",") if id] for text in known]
    return pa.array(lists, kind).take(pa.array(map(known.__getitem__, texts), pa.int32()))
