"""``moldau group``: which consumer groups there are, who is in them, how far behind they are; deletes them.

Groups of both protocols (KIP-848). Offsets are set and shown by group_offsets.py. The counterpart of Kafka's
kafka-consumer-groups.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NoReturn

import click

from moldau.admin.asking import CONTROLLER_S, MISMATCH, WHY_NONE, Talk, refused, silent_brokers
from moldau.admin.completing import groups as complete_groups
from moldau.admin.lazy import Noun
from moldau.admin.main import fail
from moldau.admin.options import DRY_RUN, OUTPUT, SERVERS, WATCH, YES, confirm
from moldau.admin.output import Row, note, printable, say, show, watch
from moldau.model.counted import counted

if TYPE_CHECKING:
    from moldau.client.consumer_groups import ConsumerGroup
    from moldau.client.group_lags import GroupLag
    from moldau.client.groups import Listed

COORDINATOR_S = 20.0
"""How long a group's coordinator is waited for: another broker takes the place of one that is paused or dead, in the
time that it takes to be missed."""
INACTIVE = ("Empty", "Dead")
STATES = ("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Dead")
"""States in which nobody reads, so that offsets can be set from outside."""
LAG = ("topic", "partition", "committed", "end", "lag", "member", "client")
WIDE = ("start", "host", "metadata")


@click.group(
    cls=Noun,
    lazy={
        "reset": ("moldau.admin.group_offsets:reset", "Set where a group goes on reading."),
        "offsets": ("moldau.admin.group_offsets:offsets", "Show what a group committed, or have it forget that."),
    },
)
def group() -> None:
    """Look at consumer groups and their lag; set where they go on; delete them.

    \b
    moldau group list
    moldau group describe billing --watch
    moldau group reset billing --topic orders --to earliest --dry-run
    moldau group offsets billing -o json > billing.json
    moldau group delete billing
    """


@group.command("list")
@click.argument("patterns", nargs=-1, shell_complete=complete_groups)
@click.option(
    "--state", "states", multiple=True, type=click.Choice(STATES, case_sensitive=False),
    help="Only in this state; repeat it.",
)  # fmt: skip
@click.option("--lag", is_flag=True, help="Add up what each has left to read: asks for all offsets.")
@SERVERS
@WATCH
@OUTPUT
def list_(
    patterns: tuple[str, ...], states: tuple[str, ...], lag: bool, bootstrap: str, every_s: float | None, output: str
) -> None:
    """List groups, all or those that match PATTERNS ('bill*')."""
    wanted = {state.lower() for state in states}

    def show_once() -> None:
        with Talk(bootstrap) as talk:
            every, whole = listed(talk)
            found = [
                one
                for one in every
                if (not patterns or any(fnmatchcase(one.group_id, pattern) for pattern in patterns))
                and (not wanted or one.state.lower() in wanted)
            ]
            rows = [
                {
                    "group": one.group_id,
                    "state": one.state,
                    "type": one.type.lower(),
                    "protocol": one.protocol_type,
                    "coordinator": one.coordinator,
                    **({"lag": _total(_lags(talk, described(talk, one.group_id, CONTROLLER_S)))} if lag else {}),
                }
                for one in found
            ]
        show(rows, output, ("group", "state", "type", *(["lag"] if lag else ())), ("protocol", "coordinator"))
        if not whole and every_s is None:
            raise SystemExit(MISMATCH)

    watch(show_once, every_s)


@group.command()
@click.argument("ids", nargs=-1, required=True, shell_complete=complete_groups)
@click.option("--members", "of_members", is_flag=True, help="Who is in it, instead of where it stands.")
@SERVERS
@WATCH
@OUTPUT
def describe(ids: tuple[str, ...], bootstrap: str, of_members: bool, every_s: float | None, output: str) -> None:
    """Show the state of groups, and for each partition what is committed, what is left to read, and who reads."""

    def show_once() -> None:
        with Talk(bootstrap) as talk:
            found = [existing(talk, id) for id in ids]
            positions = [[] if of_members else _lags(talk, one) for one in found]
        if output in ("json", "yaml"):
            whole = [
                {**_head(one, theirs), "member_list": _members(one), "partitions": [_lag_row(lag) for lag in theirs]}
                for one, theirs in zip(found, positions, strict=True)
            ]
            show(whole, output, ())
        elif of_members:
            rows = [row for one in found for row in _members(one)]
            show(rows, output, ("group", "member", "client", "host", "partitions"), ("instance", "assignment"))
        elif output == "tsv":
            rows = [
                {"group": one.group_id, **_lag_row(lag)}
                for one, theirs in zip(found, positions, strict=True)
                for lag in theirs
            ]
            show(rows, output, ("group", *LAG, *WIDE))
        else:
            for at, (one, theirs) in enumerate(zip(found, positions, strict=True)):
                if at:
                    say("")
                show([_head(one, theirs)], output, ["group", "state", "members", "lag", "coordinator"])
                if theirs:
                    rows = [_lag_row(lag) for lag in theirs]
                    say("")
                    show(rows, output, LAG, WIDE)
                if (told := _beyond(one.group_id, theirs)) is not None:
                    note(told)

    watch(show_once, every_s)


def _head(found: ConsumerGroup, positions: list[GroupLag]) -> Row:
    return {
        "group": found.group_id,
        "state": found.state,
        "assignor": found.assignor,
        "coordinator": found.coordinator.node_id if found.coordinator is not None else None,
        "members": len(found.members),
        "lag": _total(positions),
    }


def _total(positions: list[GroupLag]) -> int | None:
    known = [max(0, one.lag) for one in positions if one.lag is not None]
    return sum(known) if known else None


def _beyond(group_id: str, positions: list[GroupLag]) -> str | None:
    """What is to say of positions beyond the end, and what mends it; None when there are none."""
    found = [one for one in positions if one.lag is not None and one.lag < 0 and one.committed is not None]
    if not found:
        return None
    first = found[0]
    assert first.committed is not None, "it has a lag"
    topic, number = first.partition
    more = f" (and {counted(len(found) - 1, 'partition')} more)" if len(found) > 1 else ""
    return (
        f"{topic}-{number} was committed at {first.committed.offset}, and ends at {first.end}{more}: was the topic made"
        " anew? A consumer may wait there for ever. Stop the group's members, then"
        f" `moldau group reset {group_id} --topic {topic}:{number} --to earliest`"
    )


def _lag_row(one: GroupLag) -> Row:
    return {
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "committed": one.committed.offset if one.committed is not None else None,
        "start": one.start,
        "end": one.end,
        "lag": one.lag,
        "metadata": one.committed.metadata if one.committed is not None else None,
        "member": one.member.member_id if one.member is not None else None,
        "client": one.member.client_id if one.member is not None else None,
        "host": one.member.host.removeprefix("/") if one.member is not None else None,
    }


def _members(found: ConsumerGroup) -> list[Row]:
    return [
        {
            "group": found.group_id,
            "member": one.member_id,
            "instance": one.instance_id,
            "client": one.client_id,
            "host": one.host.removeprefix("/"),
            "partitions": len(one.assignment),
            "assignment": [str(partition) for partition in sorted(one.assignment)],
        }
        for one in found.members
    ]


@group.command()
@click.argument("ids", nargs=-1, required=True, shell_complete=complete_groups)
@DRY_RUN
@YES
@SERVERS
def delete(ids: tuple[str, ...], bootstrap: str, dry_run: bool, yes: bool) -> None:
    """Delete groups with all that they committed; nobody may be in them."""
    from moldau.client import groups

    with Talk(bootstrap) as talk:
        for one in [existing(talk, id) for id in dict.fromkeys(ids)]:
            if one.state not in INACTIVE:
                busy(one)
        if dry_run:
            for id in dict.fromkeys(ids):
                say(printable(f"group {id} would be deleted"))
            return
        confirm(f"Delete {', '.join(dict.fromkeys(ids))} with all that was committed?", yes)
        for id, outcome in talk.ask(groups.delete_groups, list(dict.fromkeys(ids))).items():
            if not outcome.ok:
                refused(f"group {id}", outcome.code, outcome.message)
            say(printable(f"group {id} was deleted"))


# ---- asking


def listed(talk: Talk) -> tuple[list[Listed], bool]:
    """All groups, and whether these are all: a note names brokers that do not answer for theirs."""
    from moldau.client import groups

    silent = silent_brokers(talk)
    for id, why in silent.items():
        note(f"broker {id} does not answer ({why}): the groups that it coordinates are not known")
    return talk.ask(groups.list_groups, but=silent), not silent


def existing(talk: Talk, id: str) -> ConsumerGroup:
    """The group; ends the command when there is none, naming those that are called nearly so."""
    found = described(talk, id)
    if found.state == "Dead":
        from moldau.admin.advice import no_such

        fail(no_such("group", id, (one.group_id for one in listed(talk)[0]), "`moldau group list` lists them"))
    return found


def described(talk: Talk, id: str, patience_s: float = COORDINATOR_S) -> ConsumerGroup:
    """The group as it is; in state Dead when there is none. Ends the command when its coordinator does not answer."""
    from moldau.client.client import Refused
    from moldau.client.consumer_groups import describe_consumer_groups
    from moldau.client.groups import coordinator
    from moldau.model import Code

    timeout_ms = min(int(1000 * patience_s), talk.cluster.client.options.api_timeout_ms)
    try:
        found = talk.ask(describe_consumer_groups, [id], timeout_ms=timeout_ms)[id]
    except (Refused, OSError) as error:
        if isinstance(error, Refused) and not error.code.retriable:
            raise
        broker = talk.cluster.client.coordinator(coordinator(id))
        if broker is None:
            fail(f"group {id}: no broker answers for it now: {error.__cause__ or error}; {WHY_NONE}")
        where = f"broker {broker.node_id} at {broker.host}:{broker.port}"
        fail(f"group {id}: its coordinator, {where}, does not answer: {error.__cause__ or error}; {WHY_NONE}")
        raise AssertionError from None
    if found.outcome.code is Code.GROUP_ID_NOT_FOUND:
        return found._replace(state="Dead")
    if not found.outcome.ok:
        refused(f"group {id}", found.outcome.code, found.outcome.message)
    if found.protocol_type not in ("consumer", ""):
        note(f"group {id} is none of consumers but of {found.protocol_type}: who reads what is not known")
    return found


def _lags(talk: Talk, found: ConsumerGroup) -> list[GroupLag]:
    from moldau.client.group_lags import lags

    return talk.ask(lags, found)


def busy(found: ConsumerGroup) -> NoReturn:
    """End the command because somebody is in the group."""
    clients = sorted({f"{one.client_id} at {one.host.removeprefix('/')}" for one in found.members})
    who = f": {', '.join(clients[:3])}{' and others' if len(clients) > 3 else ''}" if clients else ""
    fail(
        f"group {found.group_id} is {found.state} with {counted(len(found.members), 'member')}{who}. Stop them first; "
        "who died leaves after their session timeout "
        f"(`moldau group describe {found.group_id} --members` shows who is in)"
    )
    raise AssertionError
