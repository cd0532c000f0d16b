"""kafka-topics.sh: creates, lists, describes, alters and deletes topics.

Read next: topics_described.py (what --describe prints), topics_options.py.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Collection
from functools import partial

from moldau.admin.classic.java import JavaError, illegal_argument
from moldau.admin.classic.java_values import java_split
from moldau.admin.classic.kafka_errors import PACKAGE, kafka_error
from moldau.admin.classic.options import GivenOptions, java_integer
from moldau.admin.classic.run import Finished, help_or_version, print_usage, tell
from moldau.admin.classic.session import ADMIN_FAILED, ADMIN_OPERATION, ToolSession, checked, no_name, read_config
from moldau.admin.classic.topic_values import refuse_bad_values
from moldau.admin.classic.topics_described import describe
from moldau.admin.classic.topics_named import REPORTS, existing, matching
from moldau.admin.classic.topics_options import OPTIONS
from moldau.client import admin
from moldau.client.described import describe_topics
from moldau.model import Code

ACTIONS = ("create", "list", "alter", "describe", "delete")
COLLISION = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. "
    "To avoid issues it is best to use either, but not both."
)
OTHER_TOOL = " (To alter topic configurations, the kafka-configs tool can be used.)"


def main(arguments: list[str]) -> int:
    """Run the tool; the exit status."""
    try:
        given = GivenOptions(OPTIONS, arguments)
        _check(given)
        session = ToolSession(read_config(given.value("command-config")), given.text("bootstrap-server"))
    except JavaError as error:
        return tell(error)
    with session:
        try:
            _act(session, given)
        except JavaError as error:
            print(f"Error while executing topic command : {error.said}")
            return 1
    return 0


def _act(session: ToolSession, given: GivenOptions) -> None:
    if given.has("create"):
        _create(session, given)
    elif given.has("alter"):
        _alter(session, given)
    elif given.has("list"):
        print("\n".join(matching(session, given)))
    elif given.has("describe"):
        describe(session, given)
    else:
        names = existing(session, given)
        for outcome in session.ask("deleteTopics", admin.delete_topics, names).values() if names else ():
            checked(outcome)


# ---- what is asked for


def demand_one_action(given: GivenOptions) -> None:
    """Print the help that was asked for, or end with the usage unless exactly one action is given."""
    if not given.arguments:
        raise Finished(print_usage(given.options, "Create, delete, describe, or change a topic."))
    help_or_version(given, "This tool helps to create, delete, describe, or change a topic.")
    if sum(map(given.has, ACTIONS)) != 1:
        given.refuse("Command must include exactly one action: --list, --describe, --create, --alter or --delete")


def exclude_others(given: GivenOptions, name: str, *actions: str) -> None:
    """Refuse an option beside all actions but these."""
    given.exclude(name, [action for action in ACTIONS if action not in actions])


def _check(given: GivenOptions) -> None:
    demand_one_action(given)
    if given.has("delete-config"):
        text = "delete-config option is no longer supported and deprecated since version 4.0. "
        print(text + "The config will be fully removed in future releases.", file=sys.stderr)
    if not given.has("bootstrap-server"):
        raise illegal_argument("--bootstrap-server must be specified")
    if given.has("describe") and given.has("if-exists"):
        if not given.has("topic") and not given.has("topic-id"):
            given.refuse("--topic or --topic-id is required to describe a topic")
        if given.has("topic") and given.has("topic-id"):
            both = "Only topic id will be used when both --topic and --topic-id are specified"
            print(f"{both} and topicId is not Uuid.ZERO_UUID")
    if not given.has("list") and not given.has("describe"):
        given.require("topic")
    if given.has("alter"):
        if given.has("config"):
            used = '"[[bootstrap-server], [config]]"'
            given.refuse(f'Option combination {used} can\'t be used with option "[alter]"{OTHER_TOOL}')
        given.require("partitions")
    _check_combinations(given)


def _check_combinations(given: GivenOptions) -> None:
    only_with = partial(exclude_others, given)
    only_with("config", "alter", "create")
    only_with("partitions", "alter", "create")
    only_with("replication-factor", "create")
    only_with("replica-assignment", "alter", "create")
    if given.has("create"):
        given.exclude("replica-assignment", ["partitions", "replication-factor"])
    for report in REPORTS:
        only_with(report, "describe")
        given.exclude(report, ["topics-with-overrides"])
    only_with("topics-with-overrides", "describe")
    only_with("if-exists", "alter", "delete", "describe")
    only_with("if-not-exists", "create")
    only_with("exclude-internal", "list", "describe")


def assignment_of(given: GivenOptions) -> dict[int, list[int]]:
    """Replicas by partition as --replica-assignment gives them; empty without it."""
    text = given.value("replica-assignment")
    found: dict[int, list[int]] = {}
    for number, partition in enumerate(java_split(text, ",") if text else ()):
        try:
            replicas = [java_integer(word.strip()) for word in java_split(partition, ":")]
        except ValueError as error:
            raise JavaError("java.lang.NumberFormatException", str(error)) from None
        twice = [replica for replica, count in Counter(replicas).items() if count > 1]
        if twice:
            text = f"Partition replica lists may not contain duplicate entries: {','.join(map(str, twice))}"
            raise JavaError(ADMIN_FAILED, text)
        found[number] = replicas
        if len(replicas) != len(found[0]):
            text = f"Partition {number} has different replication factor: {replicas}"
            raise JavaError(ADMIN_OPERATION, text)
    return found


def configs_of(given: GivenOptions, known: Collection[str] | None = None) -> dict[str, str]:
    """What --config says, checked; ``known``: the keys that there are, those of this release without."""
    pairs = []
    for text in given.values("config"):
        words = re.split(r"\s*=\s*", text)
        while words and not words[-1]:
            words.pop()
        if len(words) != 2:
            rule = 'all configs to be added must be in the format "key=val".'
            raise illegal_argument(f"requirement failed: Invalid topic config: {rule}")
        pairs.append((words[0].strip(), words[1].strip()))
    configs = dict(pairs)
    unknown = [key for key in configs if known is not None and key not in known]
    if unknown:
        raise JavaError(f"{PACKAGE}InvalidConfigurationException", f"Unknown topic config name: {unknown[0]}")
    refuse_bad_values(configs)
    return configs


# ---- which topics


# ---- changes


def _create(session: ToolSession, given: GivenOptions) -> None:
    name = given.text("topic")
    partitions, factor = given.integer("partitions"), given.integer("replication-factor")
    assignment = assignment_of(given)
    configs = configs_of(given)
    if "." in name or "_" in name:
        print(COLLISION)
    if factor is not None and not 1 <= factor <= 32767:
        raise illegal_argument("The replication factor must be between 1 and 32767 inclusive")
    if partitions is not None and partitions < 1:
        raise illegal_argument("The partitions must be greater than 0")
    if not name:
        raise no_name()
    new_topic = admin.NewTopic(
        name=name,
        partitions=-1 if partitions is None else partitions,
        replication_factor=-1 if factor is None else factor,
        configs=configs,
        assignment=assignment or None,
    )
    (outcome,) = session.ask("createTopics", admin.create_topics, [new_topic]).values()
    if outcome.code is Code.TOPIC_ALREADY_EXISTS and given.has("if-not-exists"):
        return
    checked(outcome)
    print(f"Created topic {name}.")


def _alter(session: ToolSession, given: GivenOptions) -> None:
    count = given.integer("partitions")
    assert count is not None, "--alter without --partitions is refused"
    assignment = assignment_of(given)
    names = existing(session, given)
    new: dict[str, list[list[int]]] = {}
    if assignment:
        for name, topic in session.ask("describeTopics", describe_topics, names).items():
            if topic.code is not Code.NONE:
                raise kafka_error(topic.code)
            new[name] = list(assignment.values())[len(topic.partitions) :]
    if names:
        counts = dict.fromkeys(names, count)
        for outcome in session.ask("createPartitions", admin.create_partitions, counts, assignments=new).values():
            checked(outcome)
