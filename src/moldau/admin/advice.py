"""What to do next when a cluster refuses something, and which names are nearly those that were given."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from moldau.admin.output import printable
from moldau.model import Code

NEXT = {
    Code.TOPIC_ALREADY_EXISTS: "`moldau topic describe` shows it; --if-not-exists lets it be",
    Code.UNKNOWN_TOPIC_OR_PARTITION: "`moldau topic list` lists topics",
    Code.INVALID_REPLICATION_FACTOR: "there cannot be more replicas than brokers: see `moldau broker list`",
    Code.INVALID_PARTITIONS: "the number of partitions can only grow: see `moldau topic describe`",
    Code.INVALID_REPLICA_ASSIGNMENT: "`moldau broker list` shows which brokers there are",
    Code.INVALID_CONFIG: "`moldau config describe --all` shows keys and values",
    Code.INVALID_TOPIC_EXCEPTION: "letters, digits, '.', '_' and '-' make a name, 249 at most",
    Code.TOPIC_DELETION_DISABLED: "delete.topic.enable is false in the brokers' server.properties",
    Code.GROUP_ID_NOT_FOUND: "`moldau group list` lists groups",
    Code.NON_EMPTY_GROUP: "stop its consumers first; `moldau group describe --members` shows them",
    Code.GROUP_SUBSCRIBED_TO_TOPIC: "stop its consumers first; `moldau group describe --members` shows them",
    Code.UNKNOWN_MEMBER_ID: "stop its consumers first; `moldau group describe --members` shows them",
    Code.REBALANCE_IN_PROGRESS: "stop its consumers first; `moldau group describe --members` shows them",
    Code.OFFSET_OUT_OF_RANGE: "`moldau topic describe -o wide` shows the first and last offsets",
    Code.NOT_ENOUGH_REPLICAS: "`moldau topic describe --under-min-isr` shows which replicas are not in sync",
    Code.LEADER_NOT_AVAILABLE: "`moldau doctor` tells why there is no leader",
    Code.NOT_CONTROLLER: "`moldau quorum status` shows the controllers",
    Code.NO_REASSIGNMENT_IN_PROGRESS: "`moldau reassign list` lists moves",
    Code.CLUSTER_AUTHORIZATION_FAILED: "ask whoever keeps the cluster's ACLs",
    Code.TOPIC_AUTHORIZATION_FAILED: "ask whoever keeps the cluster's ACLs",
    Code.GROUP_AUTHORIZATION_FAILED: "ask whoever keeps the cluster's ACLs",
    Code.POLICY_VIOLATION: "the cluster has a policy of its own; its message says which",
    Code.FEATURE_UPDATE_FAILED: "`moldau feature list` shows what all nodes support",
    Code.RECORD_LIST_TOO_LARGE: "send smaller batches, or raise max.message.bytes of the topic",
    Code.MESSAGE_TOO_LARGE: "raise max.message.bytes of the topic: `moldau config alter --topic NAME --set ...`",
    Code.THROTTLING_QUOTA_EXCEEDED: "the quota controller_mutation_rate says how fast; what is left may be asked again",
    Code.REQUEST_TIMED_OUT: "it may still be done; look again before you repeat it",
    Code.NETWORK_EXCEPTION: "`moldau doctor` tells which brokers cannot be reached",
}


_GOING = re.compile(r"queued for deletion|being deleted|is marked for deletion")


def is_going(message: str | None) -> bool:
    """Whether this is what a controller says of a topic that will be deleted, and is not yet (ZooKeeper mode)."""
    return _GOING.search(message or "") is not None


def advised(code: Code, what: str, message: str | None = None) -> str:
    """One line, whatever names and messages hold: what was refused, why, and what to do next."""
    what, message = printable(what), None if message is None else printable(message)
    why = f"{code.name}: {message}" if message and message != code.name else code.name
    text = what if code.name in what and not message else f"{what}: {why}"
    if is_going(message):
        return f"{text} (it is deleted as soon as it may be; in ZooKeeper mode that waits for moves and dead brokers)"
    return f"{text} ({NEXT[code]})" if code in NEXT else text


def nearest(name: str, known: Iterable[str]) -> str:
    """``Did you mean ...?``, or nothing when no name is near."""
    names = list(known)
    near = get_close_matches(name, names, 3) or [one for one in names if one.lower() == name.lower()][:3]
    return f"Did you mean {' or '.join(near)}?" if near else ""


def no_such(kind: str, name: str, known: Iterable[str], otherwise: str) -> str:
    """One line that says that there is none of that name, and what is near or where to look."""
    return f"there is no {kind} {name!r}. {nearest(name, known) or otherwise + '.'}"
