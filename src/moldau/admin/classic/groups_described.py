"""What kafka-consumer-groups.sh --describe prints of groups: their offsets, their members, or their states."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from moldau.admin.classic.groups_session import GroupSession, valid_group
from moldau.admin.classic.java import JavaError
from moldau.admin.classic.options import GivenOptions
from moldau.admin.classic.session import executed
from moldau.client.consumer_groups import ConsumerGroup, GroupMember
from moldau.client.groups import Committed
from moldau.client.reading import LATEST
from moldau.model import TopicPartition

NOTHING = "-"
REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


class OffsetRow(NamedTuple):
    """A line of the table of offsets, its cells as they are shown."""

    group: str
    topic: str
    partition: str
    epoch: str
    offset: str
    end: str
    lag: str
    member: str
    host: str
    client: str


OFFSETS = OffsetRow(
    "GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST",
    "CLIENT-ID",
)  # fmt: skip


def describe(session: GroupSession, given: GivenOptions) -> None:
    """Print the table that was asked for, of each group in the order of their names."""
    groups = session.described(session.chosen_groups())
    for group in groups.values():
        try:
            valid_group(group)
        except JavaError as error:
            raise executed(error) from None
    order, verbose = [groups[name] for name in sorted(groups)], given.has("verbose")
    if given.has("members"):
        for group in order:
            _print_members(group, verbose)
    elif given.has("state"):
        for group in order:
            _print_state(group, verbose)
    else:
        rows = {group.group_id: _rows(session, group) for group in order}
        for group in order:
            _print_offsets(group, rows[group.group_id], verbose)


def _has_rows(group: ConsumerGroup, count: int) -> bool:
    """Say in what state a group is, unless it is stable; whether there is a table of it."""
    if group.state == "Dead":
        print(f"\nError: Consumer group '{group.group_id}' does not exist.")
    elif group.state == "Empty":
        _warn(f"\nConsumer group '{group.group_id}' has no active members.")
    elif group.state in REBALANCING:
        _warn(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.")
    elif group.state != "Stable":
        why = f"Expected a valid consumer group state, but found '{group.state}'."
        raise JavaError("org.apache.kafka.common.KafkaException", why)
    return group.state != "Dead" and count > 0


def _warn(text: str) -> None:
    sys.stdout.flush()
    print(text, file=sys.stderr)


# -- offsets


def _rows(session: GroupSession, group: ConsumerGroup) -> list[OffsetRow]:
    """First what members read, of the member with most partitions first; then what nobody reads."""
    committed = session.committed(group.group_id)
    rows: list[OffsetRow] = []
    for member in sorted(group.members, key=lambda member: -len(member.assignment)):
        if member.assignment:
            rows += _rows_of(session, group.group_id, member.assignment, committed, member)
    read = {p for member in group.members for p in member.assignment}
    rest = [p for p in committed if p not in read]
    return rows + (_rows_of(session, group.group_id, rest, committed, None) if rest else [])


def _rows_of(
    session: GroupSession,
    group: str,
    partitions: Collection[TopicPartition],
    committed: Mapping[TopicPartition, Committed],
    member: GroupMember | None,
) -> list[OffsetRow]:
    unled = session.without_leader(partitions)
    ends = session.offsets({p: LATEST for p in partitions if p not in unled})
    who = (NOTHING,) * 3 if member is None else (member.member_id, member.host, member.client_id)
    rows = []
    for p in sorted(partitions):
        position, end = committed.get(p), ends[p].offset if p in ends else None
        offset = None if position is None else position.offset
        lag = None if offset is None or end is None or offset == -1 else end - offset
        epoch = None if position is None or position.leader_epoch < 0 else position.leader_epoch
        numbers = (p.partition, epoch, offset, end, lag)
        cells = [NOTHING if one is None else str(one) for one in numbers]
        rows.append(OffsetRow._make((group, p.topic, *cells, *who)))
    return rows


def _print_offsets(group: ConsumerGroup, rows: Sequence[OffsetRow], verbose: bool) -> None:
    if not _has_rows(group, len(rows)):
        return
    widths = [max([15, *(len(row[at]) for row in rows)]) for at in (0, 1, 7, 8)]
    for row in (OFFSETS, *rows):
        line = f"\n{row.group:{widths[0]}} {row.topic:{widths[1]}} {row.partition:10} "
        line += f"{row.epoch:15} " if verbose else ""
        line += (
            f"{row.offset:15} {row.end:15} {row.lag:15} {row.member:{widths[2]}} {row.host:{widths[3]}} {row.client}"
        )
        print(line, end="")
    print()


# -- members


def _print_members(group: ConsumerGroup, verbose: bool) -> None:
    members = group.members if _has_rows(group, len(group.members)) else ()
    named = any(member.instance_id for member in members)
    mixed = {member.upgraded for member in members} >= {True, False}
    heads = ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    rows = [
        [group.group_id, m.member_id, m.instance_id or "", m.host, m.client_id, str(len(m.assignment))] for m in members
    ]
    least = [15, 15, 17, 15, 15, 15]
    if verbose:
        heads += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
        least += [15, 20, 15, 20]
        rows = [row + _epochs(group, m) for row, m in zip(rows, members, strict=True)]
    fixed = (5, 6, 8)  # these columns do not grow
    widths = [low if at in fixed else max([low, *(len(row[at]) for row in rows)]) for at, low in enumerate(least)]
    shown = [at for at in range(len(heads)) if named or at != 2]
    upgraded = [str(m.upgraded).lower() if m.upgraded is not None else NOTHING for m in members]
    print()
    for row, last in zip([heads, *rows], ["UPGRADED", *upgraded], strict=True):
        line = " ".join(f"{row[at]:{widths[at]}}" for at in shown)
        if not verbose:
            line += " "
        elif mixed:
            line += f" {last}"
        print(line)


def _epochs(group: ConsumerGroup, member: GroupMember) -> list[str]:
    return [
        NOTHING if member.epoch is None else str(member.epoch),
        _assignment(member.assignment),
        NOTHING if group.target_epoch is None else str(group.target_epoch),
        _assignment(member.target or ()),
    ]


def _assignment(partitions: Collection[TopicPartition]) -> str:
    topics: dict[str, list[int]] = {}
    for p in sorted(partitions):
        topics.setdefault(p.topic, []).append(p.partition)
    return ";".join(sorted(f"{name}:{','.join(map(str, ps))}" for name, ps in topics.items())) or NOTHING


# -- states


def _print_state(group: ConsumerGroup, verbose: bool) -> None:
    if not _has_rows(group, 1):
        return
    broker = group.coordinator
    place = f"{broker.host}:{broker.port}  ({broker.node_id})" if broker is not None else ":-1  (-1)"
    rows = [
        ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE"],
        [group.group_id, place, group.assignor or NOTHING, group.state],
    ]
    widths = [max(15, len(group.group_id)), max(25, len(place)), 20, 20]
    if verbose:
        epochs = [NOTHING if one is None else str(one) for one in (group.epoch, group.target_epoch)]
        rows = [rows[0] + ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"], rows[1] + epochs]
        widths += [15, 25]
    for row, last in zip(rows, ["#MEMBERS", str(len(group.members))], strict=True):
        print("\n" + "".join(f"{text:{width}} " for text, width in zip(row, widths, strict=True)) + last, end="")
    print()
