"""kafka-consumer-groups.sh: list, describe and delete consumer groups, and reset or delete what they committed."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from moldau.admin.classic import groups_described, groups_reset
from moldau.admin.classic.group_options import read_options
from moldau.admin.classic.groups_session import GroupSession
from moldau.admin.classic.java import ILLEGAL_ARGUMENT, JavaError
from moldau.admin.classic.java_order import hash_order, partition_hash, string_hash
from moldau.admin.classic.kafka_errors import PACKAGE, kafka_error
from moldau.admin.classic.options import GivenOptions, ToolOptionError
from moldau.admin.classic.re2 import why_invalid
from moldau.admin.classic.run import print_usage
from moldau.admin.classic.session import executed
from moldau.client import groups
from moldau.client.groups import Listed
from moldau.model import Code, TopicPartition

STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling")
TYPES = ("Consumer", "Classic")
PROTOCOLS = ("", "consumer")

_GROUP_LEVEL = {
    Code.INVALID_GROUP_ID, Code.GROUP_ID_NOT_FOUND, Code.GROUP_AUTHORIZATION_FAILED, Code.NON_EMPTY_GROUP,
}  # fmt: skip
_PARTITION_LEVEL = {
    Code.GROUP_SUBSCRIBED_TO_TOPIC, Code.TOPIC_AUTHORIZATION_FAILED, Code.UNKNOWN_TOPIC_OR_PARTITION,
}  # fmt: skip


def main(arguments: list[str]) -> int:
    """Run the tool; the exit status."""
    given = read_options(arguments)
    if given.has("validate-regex"):
        _validate(given)
        return 0
    try:
        with GroupSession(given) as session:
            _run(session, given)
    except JavaError as error:
        if error.kind == ILLEGAL_ARGUMENT:
            return print_usage(given.options, error.said)
        say_error(f"Executing consumer group command failed due to {error.said}")
        sys.stdout.flush()
        sys.stderr.write(error.trace)
    return 0


def _validate(given: GivenOptions) -> None:
    try:
        text = given.text("validate-regex")
    except ToolOptionError as error:
        given.refuse(error.said)
    why = why_invalid(text)
    print(f"The regular expression `{text}` is {'valid' if why is None else f'invalid: {why}'}.")


def _run(session: GroupSession, given: GivenOptions) -> None:
    if given.has("list"):
        _list(session, given)
    elif given.has("describe"):
        groups_described.describe(session, given)
    elif given.has("delete"):
        _delete(session)
    elif given.has("reset-offsets"):
        groups_reset.reset(session, given)
    else:
        _delete_offsets(session, given)


def say_error(text: str) -> None:
    """Write what went wrong to standard output, as this tool does."""
    print(f"\nError: {text}")


# -- list


def _list(session: GroupSession, given: GivenOptions) -> None:
    columns = [name for name in ("type", "state") if given.has(name)]
    if not columns:
        for name in session.all_groups():
            print(name)
        return
    types = _chosen(given, "type", TYPES, "types")
    states = _chosen(given, "state", STATES, "state")
    listed = session.list_groups(types, states)
    width = max([len(one.group_id) for one in listed] + [15]) + 10
    rows = [("GROUP", *(name.upper() for name in columns))]
    rows += [(one.group_id, *(_cell(one, name) for name in columns)) for one in listed]
    for group, *others in rows:
        print(f"{group:{width}}" + "".join(f" {text:20}" for text in others))


def _cell(group: Listed, column: str) -> str:
    return (group.type.capitalize() if column == "type" else group.state) or "Unknown"


def _chosen(given: GivenOptions, name: str, valid: Sequence[str], noun: str) -> list[str]:
    text = given.value(name)
    if not text:
        return []
    known = {one.lower(): one for one in valid}
    words = [word.strip().lower() for word in java_split(text)]
    if any(word not in known for word in words):
        given.refuse(
            f"Invalid {noun} list '{text}'. Valid {'types' if name == 'type' else 'states'} are: {', '.join(valid)}"
        )
    return sorted({known[word] for word in words})


def java_split(text: str) -> list[str]:
    """What is between commas, as Java's String.split has it: nothing empty at the end."""
    words = text.split(",")
    while words and not words[-1]:
        words.pop()
    return words


# -- delete


def _delete(session: GroupSession) -> None:
    names = session.chosen_groups()
    failed: dict[str, JavaError] = {}
    for name in hash_order(names, string_hash):
        try:
            outcome = session.ask("deleteConsumerGroups(api=FIND_COORDINATOR)", groups.delete_groups, [name])[name]
        except JavaError as error:
            failed[name] = error
            continue
        if not outcome.ok:
            failed[name] = kafka_error(outcome.code)
    done = ", ".join(f"'{name}'" for name in hash_order([n for n in names if n not in failed], string_hash))
    if not failed:
        print(f"Deletion of requested consumer groups ({done}) was successful.")
        return
    say_error("Deletion of some consumer groups failed:")
    for name in hash_order(failed, string_hash):
        print(f"* Group '{name}' could not be deleted due to: {failed[name]}")
    if done:
        print(f"\nThese consumer groups were deleted successfully: {done}")


# -- delete offsets


def _delete_offsets(session: GroupSession, given: GivenOptions) -> None:
    group = given.text("group")
    arguments = list(dict.fromkeys(given.values("topic")))
    partitions = [p for one in arguments if ":" in one for p in groups_reset.with_partitions(one)]
    results: dict[TopicPartition, JavaError | None] = {}
    for topic in (one for one in arguments if ":" not in one):
        try:
            partitions += session.partitions([topic], "listNodes")
        except JavaError as error:
            results[TopicPartition(topic, -1)] = error
    whole = _forget(session, group, partitions, results)
    if whole is Code.NONE:
        print(f"Request succeeded for deleting offsets from group {group}.")
    elif whole in _GROUP_LEVEL:
        say_error(kafka_error(whole).said)
    elif whole in _PARTITION_LEVEL:
        say_error("Encountered some partition-level error, see the follow-up details.")
    else:
        say_error(f"Encountered some unknown error: {whole.name}")
    width = max([15, *(len(p.topic) for p in results)])
    shown = [("TOPIC", "PARTITION", "STATUS")]
    for p in sorted(results, key=lambda p: f"{p.topic}{p.partition}"):
        why = results[p]
        status = "Successful" if why is None else f"Error: {executed(why).said}"
        shown.append((p.topic, str(p.partition) if p.partition >= 0 else "-", status))
    print("".join(f"\n{topic:{width}} {number:10} {status:15}" for topic, number, status in shown))


def _forget(
    session: GroupSession, group: str, partitions: list[TopicPartition], results: dict[TopicPartition, JavaError | None]
) -> Code:
    """Delete the offsets; what became of each is put into ``results``. The first code that says no, or NONE."""
    order = hash_order(partitions, partition_hash)
    try:
        call = "deleteConsumerGroupOffsets(api=FIND_COORDINATOR)"
        code, codes = session.ask(call, groups.delete_offsets, group, order)
    except JavaError as error:
        results |= dict.fromkeys(order, error)
        return Code.REQUEST_TIMED_OUT if error.kind == f"{PACKAGE}TimeoutException" else Code.UNKNOWN_SERVER_ERROR
    if code is not Code.NONE:
        results |= dict.fromkeys(order, kafka_error(code))
        return code
    for p in order:
        results[p] = kafka_error(codes[p]) if codes[p] is not Code.NONE else None
    return next((codes[p] for p in order if codes[p] is not Code.NONE), Code.NONE)
