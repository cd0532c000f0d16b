"""The options of kafka-consumer-groups.sh, as Apache Kafka 4.3.1 words them, and what it refuses of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from moldau.admin.classic.options import GivenOptions, Option
from moldau.admin.classic.run import help_or_version

OPTIONS = (
    Option("all-groups", "Apply to all consumer groups."),
    Option("all-topics", "Consider all topics assigned to a group in the `reset-offsets` process."),
    Option(
        "bootstrap-server",
        "The server(s) to connect to. REQUIRED for all options except for --validate-regex.",
        takes="server to connect to",
    ),
    Option(
        "by-duration",
        "Reset offsets to offset by duration from current timestamp. Format: 'PnDTnHnMnS'",
        takes="duration",
    ),
    Option(
        "command-config",
        "Property file containing configs to be passed to Admin Client and Consumer.",
        takes="command config property file",
    ),
    Option(
        "delete",
        "Pass in groups to delete topic partition offsets and ownership information over the entire consumer "
        "group. For instance --group g1 --group g2",
    ),
    Option(
        "delete-offsets",
        "Delete offsets of consumer group. Supports one consumer group at the time, and multiple topics.",
    ),
    Option(
        "describe",
        "Describe consumer group and list offset lag (number of messages not yet processed) related to given group.",
    ),
    Option(
        "dry-run",
        "Only show results without executing changes on Consumer Groups. Supported operations: reset-offsets.",
    ),
    Option("execute", "Execute operation. Supported operations: reset-offsets."),
    Option("export", "Export operation execution to a CSV file. Supported operations: reset-offsets."),
    Option("from-file", "Reset offsets to values defined in CSV file.", takes="path to CSV file"),
    Option("group", "The consumer group we wish to act on.", takes="consumer group"),
    Option("list", "List all consumer groups."),
    Option(
        "members",
        "Describe members of the group. This option may be used with '--describe' and '--bootstrap-server' "
        "options only.\nExample: --bootstrap-server localhost:9092 --describe --group group1 --members",
        available_if=("describe",),
    ),
    Option(
        "offsets",
        "Describe the group and list all topic partitions in the group along with their offset lag. This is the "
        "default sub-action of and may be used with '--describe' and '--bootstrap-server' options only.\nExample: "
        "--bootstrap-server localhost:9092 --describe --group group1 --offsets",
        available_if=("describe",),
    ),
    Option(
        "reset-offsets",
        "Reset offsets of consumer group. Supports one consumer group at the time, and instances should be "
        "inactive\nHas 2 execution options: --dry-run (the default) to plan which offsets to reset, and --execute "
        "to update the offsets. Additionally, the --export option is used to export the results to a CSV format.\n"
        "You must choose one of the following reset specifications: --to-datetime, --by-duration, --to-earliest, "
        "--to-latest, --shift-by, --from-file, --to-current, --to-offset.\nTo define the scope use --all-topics "
        "or --topic. One scope must be specified unless you use '--from-file'.",
    ),
    Option(
        "shift-by",
        "Reset offsets shifting current offset by 'n', where 'n' can be positive or negative.",
        takes="number-of-offsets",
        type="Long",
    ),
    Option(
        "state",
        "When specified with '--describe', includes the state of the group.\nExample: --bootstrap-server "
        "localhost:9092 --describe --group group1 --state\nWhen specified with '--list', it displays the state of "
        "all groups. It can also be used to list groups with specific states.\nExample: --bootstrap-server "
        "localhost:9092 --list --state stable,empty\nThis option may be used with '--describe', '--list' and "
        "'--bootstrap-server' options only.",
        takes="",
        optional_value=True,
        available_if=("describe", "list"),
    ),
    Option(
        "timeout",
        "The timeout that can be set for some use cases. For example, it can be used when describing the group "
        "to specify the maximum amount of time in milliseconds to wait before the group stabilizes (when the "
        "group is just created, or is going through some changes).",
        takes="timeout (ms)",
        type="Long",
        default="30000",
    ),
    Option("to-current", "Reset offsets to current offset."),
    Option(
        "to-datetime",
        "Reset offsets to offset from datetime. Format: 'YYYY-MM-DDThh:mm:ss.sss'",
        takes="datetime",
    ),
    Option("to-earliest", "Reset offsets to earliest offset."),
    Option("to-latest", "Reset offsets to latest offset."),
    Option("to-offset", "Reset offsets to a specific offset.", takes="offset", type="Long"),
    Option(
        "topic",
        "The topic whose consumer group information should be deleted or topic whose should be included in the "
        "reset offset process. In `reset-offsets` case, partitions can be specified using this format: "
        "`topic1:0,1,2`, where 0,1,2 are the partition to be included in the process. Reset-offsets also "
        "supports multiple topic inputs.",
        takes="topic",
    ),
    Option(
        "type",
        "When specified with '--list', it displays the types of all the groups. It can also be used to list "
        "groups with specific types.\nExample: --bootstrap-server localhost:9092 --list --type classic,consumer\n"
        "This option may be used with the '--list' option only.",
        takes="",
        optional_value=True,
        available_if=("list",),
    ),
    Option(
        "validate-regex",
        "Validate that the syntax of the provided regular expression is valid according to the RE2 format.",
        takes="regex",
    ),
    Option(
        "verbose",
        "Provide additional information, if any, when describing the group. This option may be used with "
        "'--offsets'/'--members'/'--state' and '--bootstrap-server' options only.\nExample: --bootstrap-server "
        "localhost:9092 --describe --group group1 --members --verbose",
        available_if=("describe",),
    ),
)

ABOUT = (
    "This tool helps to list all consumer groups, describe a consumer group, delete consumer group info, or reset "
    "consumer group offsets."
)
ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
GROUPS = ("group", "all-groups")
DETAILS = ("members", "offsets", "state")
SCENARIOS = (
    "to-offset", "to-datetime", "by-duration", "to-earliest", "to-latest", "to-current", "shift-by", "from-file",
)  # fmt: skip
NO_ACTION = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will require "
    "either --dry-run or --execute to be specified. You should add the --dry-run option explicitly if you are "
    "scripting this command and want to keep the current default behavior without prompting."
)


def read_options(arguments: Sequence[str]) -> GivenOptions:
    """The options of a command line; UsageError when they do not go together."""
    given = GivenOptions(OPTIONS, arguments)
    help_or_version(given, ABOUT)
    if not given.has("validate-regex"):
        given.require("bootstrap-server")
    if given.has("describe"):
        _check_describe(given)
    if given.has("delete"):
        _check_delete(given)
    if given.has("delete-offsets") and not (given.has("group") and given.has("topic")):
        given.refuse(f"Option [delete-offsets] takes the following options: {shown('group', 'topic')}")
    if given.has("reset-offsets"):
        _check_reset(given)
    given.exclude("group", ["all-groups"])
    given.exclude("group", ["list"])
    given.exclude("topic", ["list", "describe"])
    if sum(map(given.has, ACTIONS)) != 1:
        given.refuse(f"Command must include exactly one action: {', '.join('--' + name for name in ACTIONS)}")
    return given


def shown(*names: str) -> str:
    """Names of options as messages list them; where Kafka's order is that of chance, ours is the given one."""
    return ", ".join(f"[{name}]" for name in names)


def _check_describe(given: GivenOptions) -> None:
    _check_groups(given, "describe")
    if sum(map(given.has, DETAILS)) > 1:
        given.refuse(f"Option [describe] takes at most one of these options: {shown(*DETAILS)}")
    if given.has("state") and given.value("state") is not None:
        given.refuse("Option [describe] does not take a value for [state]")


def _check_delete(given: GivenOptions) -> None:
    _check_groups(given, "delete")
    if given.has("topic"):
        given.refuse("The consumer does not support topic-specific offset deletion from a consumer group.")


def _check_groups(given: GivenOptions, action: str) -> None:
    if not any(map(given.has, GROUPS)):
        given.refuse(f"Option [{action}] takes one of these options: {shown(*GROUPS)}")


def _check_reset(given: GivenOptions) -> None:
    if given.has("dry-run") and given.has("execute"):
        given.refuse("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not given.has("dry-run") and not given.has("execute"):
        print(NO_ACTION, file=sys.stderr)
    _check_groups(given, "reset-offsets")
    for name in SCENARIOS:
        given.exclude(name, [other for other in SCENARIOS if other != name])
