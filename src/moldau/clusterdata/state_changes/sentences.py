"""The sentences that make up most of a large state-change log, each with one expression that finds its values at once.

What an expression says of a line is what ``eras.parse`` says of it, which tests compare; lines of no sentence are left
to ``eras.parse``. Read next: shapes.py (many lines of one sentence without a match for each).
"""

from __future__ import annotations

import re

from moldau.model.named import NamedTuple

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
NUMBERS = frozenset({
    "node", "controller", "controller_epoch", "correlation_id", "to_broker", "partition", "leader", "leader_epoch",
})  # fmt: skip
LISTS = frozenset({"isr", "replicas"})


class Sentence(NamedTuple):
    """A kind of line: ``words`` is where its expression's groups go (of a group that goes nowhere the empty text),
    ``event`` what it is; ``same`` are columns that are another's."""

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
            rf"{_TIME}{_BROKER}Follower {_NAME}-{_ID} starts at leader epoch {_N} from offset ([0-9]+) with"
            rf" partition epoch {_ANY} and high watermark (-?[0-9]+)\. Current leader is {_N}\. Previous leader"
            rf" (?:Some\({_ANY}\)|None) and previous leader epoch was {_ANY}\.{_END}"
        ),
        (*_HEAD, "topic", "partition", "leader_epoch", "", "", "leader"),
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
            r" offlineReplicas=\[[0-9, ]*\]\) for partition ([A-Za-z0-9._-]+-[0-9]+) in response to UpdateMetadata"
            rf" request sent by controller {_ID} epoch {_ID} with correlation id {_ID}{_END}"
        ),
        (*_HEAD, *_OF_STATE, "", "controller", "controller_epoch", "correlation_id"),
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
            rf" ([A-Za-z0-9._-]+-[0-9]+){_END}"
        ),
        (*_HEAD, "controller_epoch", *_OF_STATE, "to_broker", ""),
        "sending LeaderAndIsr",
        (("controller", "node"),),
    ),
}
"""The first letters of a sentence -> how its lines are read."""


def match_of(line: str) -> tuple[Sentence, re.Match[str]] | None:
    """The sentence that a line is, with what its expression found; None when it is none of them."""
    at = line.find("] ", 26) + 2
    sentence = SENTENCES.get(line[at : at + 7])
    found = None if sentence is None else sentence.pattern.match(line)
    return None if sentence is None or found is None else (sentence, found)
