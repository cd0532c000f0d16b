"""The options of kafka-reassign-partitions.sh, as Apache Kafka 4.3.1 words them, and which go together."""

from __future__ import annotations

from collections.abc import Collection
from typing import NoReturn

from moldau.admin.classic.options import GivenOptions, Option
from moldau.admin.classic.run import help_or_version

OPTIONS = (
    Option(
        "additional",
        "Execute this reassignment in addition to any other ongoing ones. This option can also be used to "
        "change the throttle of an ongoing reassignment.",
    ),
    Option(
        "bootstrap-controller",
        "The controller to use for reassignment. By default, the tool will get the quorum controller. This "
        "option supports the actions --cancel and --list.",
        takes="bootstrap controller to connect to",
        optional_value=True,
    ),
    Option(
        "bootstrap-server",
        "the server(s) to use for bootstrapping.",
        takes="Server(s) to use for bootstrapping",
        optional_value=True,
    ),
    Option(
        "broker-list",
        'The list of brokers to which the partitions need to be reassigned in the form "0,1,2". This is '
        "required if --topics-to-move-json-file is used to generate reassignment configuration",
        takes="brokerlist",
    ),
    Option("cancel", "Cancel an active reassignment."),
    Option(
        "command-config",
        "Property file containing configs to be passed to Admin Client.",
        takes="Admin client property file",
    ),
    Option("disable-rack-aware", "Disable rack aware replica assignment"),
    Option(
        "disallow-replication-factor-change",
        "Denies the ability to change a partition's replication factor as part of this reassignment "
        "through adding validation against it.",
    ),
    Option("execute", "Kick off the reassignment as specified by the --reassignment-json-file option."),
    Option(
        "generate",
        "Generate a candidate partition reassignment configuration. Note that this only generates a "
        "candidate assignment, it does not execute it.",
    ),
    Option("list", "List all active partition reassignments."),
    Option("preserve-throttles", "Do not modify broker or topic throttles."),
    Option(
        "reassignment-json-file",
        "The JSON file with the partition reassignment configurationThe format to use is - \n"
        '{"partitions":\n\t[{"topic": "foo",\n\t  "partition": 1,\n\t  "replicas": [1,2,3],\n\t  '
        '"log_dirs": ["dir1","dir2","dir3"] }],\n"version":1\n}\nNote that "log_dirs" is '
        "optional. When it is specified, its length must equal the length of the replicas list. The value "
        'in this list can be either "any" or the absolution path of the log directory on the broker. If '
        "absolute log directory path is specified, the replica will be moved to the specified log "
        "directory on the broker.",
        takes="manual assignment json file path",
    ),
    Option(
        "replica-alter-log-dirs-throttle",
        "The movement of replicas between log directories on the same broker will be throttled to this "
        "value (bytes/sec). This option can be included with --execute when a reassignment is started, and "
        "it can be altered by resubmitting the current reassignment along with the --additional flag. The "
        "throttle rate should be at least 1 KB/s.",
        takes="replicaAlterLogDirsThrottle",
        type="Long",
        default="-1",
    ),
    Option(
        "throttle",
        "The movement of partitions between brokers will be throttled to this value (bytes/sec). This "
        "option can be included with --execute when a reassignment is started, and it can be altered by "
        "resubmitting the current reassignment along with the --additional flag. The throttle rate should "
        "be at least 1 KB/s.",
        takes="throttle",
        type="Long",
        default="-1",
    ),
    Option(
        "timeout",
        "The maximum time in ms to wait for log directory replica assignment to begin.",
        takes="timeout",
        type="Long",
        default="10000",
    ),
    Option(
        "topics-to-move-json-file",
        "Generate a reassignment configuration to move the partitions of the specified topics to the list "
        'of brokers specified by the --broker-list option. The format to use is - \n{"topics":\n\t'
        '[{"topic": "foo"},{"topic": "foo1"}],\n"version":1\n}',
        takes="topics to reassign json file path",
    ),
    Option(
        "verify",
        "Verify if the reassignment completed as specified by the --reassignment-json-file option. If "
        "there is a throttle engaged for the replicas specified, and the rebalance has completed, the "
        "throttle will be removed",
    ),
)

ABOUT = "This tool helps to move topic partitions between replicas."
ACTIONS = ("generate", "execute", "verify", "cancel", "list")
REQUIRED = {
    "generate": ("topics-to-move-json-file", "broker-list"),
    "execute": ("reassignment-json-file",),
    "verify": ("reassignment-json-file",),
    "cancel": ("reassignment-json-file",),
    "list": (),
}
PERMITTED = {
    "generate": ("bootstrap-server", "command-config", "disable-rack-aware"),
    "execute": (
        "additional", "bootstrap-server", "command-config", "throttle", "replica-alter-log-dirs-throttle", "timeout",
        "disallow-replication-factor-change",
    ),
    "verify": ("bootstrap-server", "command-config", "preserve-throttles"),
    "cancel": ("bootstrap-server", "bootstrap-controller", "command-config", "preserve-throttles", "timeout"),
    "list": ("bootstrap-server", "bootstrap-controller", "command-config"),
}  # fmt: skip


def action_of(given: GivenOptions) -> str:
    """What is to be done; UsageError when the options do not say one thing."""
    help_or_version(given, ABOUT)
    actions = [action for action in ACTIONS if given.has(action)]
    if len(actions) != 1:
        refuse_actions(given)
    if given.has("bootstrap-server") and given.has("bootstrap-controller"):
        given.refuse("Please don't specify both --bootstrap-server and --bootstrap-controller")
    if not given.has("bootstrap-server") and not given.has("bootstrap-controller"):
        given.refuse("Please specify either --bootstrap-server or --bootstrap-controller")
    (action,) = actions
    refuse_others(given, action, PERMITTED[action])
    return action


def refuse_actions(given: GivenOptions) -> NoReturn:
    """UsageError: there is no action, or more than one."""
    names = ", ".join(f"--{action}" for action in ACTIONS)
    given.refuse(f"Command must include exactly one action: {names}")


def refuse_others(given: GivenOptions, action: str, permitted: Collection[str]) -> None:
    """UsageError unless what the action needs is given, and nothing but that and what is permitted beside it."""
    given.require(*REQUIRED[action])
    for name in given.names():
        if name not in (action, *REQUIRED[action], *permitted):
            given.refuse(f'Option "{given.shown(name)}" can\'t be used with action "{given.shown(action)}"')
