"""kafka-verifiable-consumer.sh: reads a topic as a member of a group, and tells what happens in lines of JSON."""

from __future__ import annotations

import sys

from moldau.admin.classic.argparse4j import INTEGER, Words, run_flat_tool
from moldau.admin.classic.argparse4j_parsers import Argument, Parser
from moldau.admin.classic.java import illegal_argument
from moldau.admin.classic.verifiable import COMMAND_CONFIG, CONNECTION, config_files

PROTOCOLS = ("CLASSIC", "CONSUMER")

PARSER = Parser(
    "verifiable-consumer",
    "This tool consumes messages from a specific topic and emits consumer events (e.g. group rebalances, received "
    "messages, and offsets committed) as JSON objects to STDOUT.",
    (
        Argument(
            ("--bootstrap-server",),
            "The server(s) to connect to. Comma-separated list of Kafka brokers in the form "
            "HOST1:PORT1,HOST2:PORT2,...",
            takes="HOST1:PORT1[,HOST2:PORT2[...]]",
            required=True,
            group=CONNECTION.name,
            mutex="place",
        ),
        Argument(("--topic",), "Consumes messages from this topic.", required=True),
        Argument(
            ("--group-protocol",),
            "Group protocol (must be one of CLASSIC, CONSUMER)",
            takes="GROUP-PROTOCOL",
            default="classic",
        ),
        Argument(
            ("--group-remote-assignor",),
            "Group remote assignor; only used if the group protocol is CONSUMER",
            takes="GROUP-REMOTE-ASSIGNOR",
        ),
        Argument(("--group-id",), "The group id of the consumer group", takes="GROUP-ID", required=True),
        Argument(("--group-instance-id",), "A unique identifier of the consumer instance", takes="GROUP-INSTANCE-ID"),
        Argument(
            ("--max-messages",),
            "Consume this many messages. If -1 (the default), the consumer will consume until the process is killed "
            "externally",
            takes="MAX-MESSAGES",
            kind=INTEGER,
            default="-1",
        ),
        Argument(
            ("--session-timeout",),
            "Set the consumer's session timeout, note that this configuration is not supported when group protocol is "
            "consumer",
            takes="TIMEOUT-MS",
            kind=INTEGER,
        ),
        Argument(("--verbose",), "Enable to log individual consumed records", takes=None),
        Argument(("--enable-autocommit",), "Enable offset auto-commit on consumer", takes=None),
        Argument(
            ("--reset-policy",),
            "Set reset policy (must be either 'earliest', 'latest', or 'none')",
            takes="RESET-POLICY",
            default="earliest",
        ),
        Argument(
            ("--assignment-strategy",),
            "Set assignment strategy (e.g. org.apache.kafka.clients.consumer.RoundRobinAssignor); only used if the "
            "group protocol is CLASSIC",
            takes="ASSIGNMENT-STRATEGY",
            default="org.apache.kafka.clients.consumer.RangeAssignor",
        ),
        Argument(
            ("--consumer.config",),
            "(DEPRECATED) Consumer config properties file. This option will be removed in a future version. Use "
            "--command-config instead",
            takes="CONFIG-FILE",
        ),
        COMMAND_CONFIG,
    ),
    required_mutexes=("place",),
    groups=(CONNECTION,),
)


def main(arguments: list[str]) -> int:
    """Run the tool; the exit status."""
    return run_flat_tool(PARSER, arguments, _run)


def _run(words: Words) -> int:
    properties = config_files(PARSER, words, "consumer.config")
    protocol = (words.value("group-protocol") or "").upper()
    if protocol not in PROTOCOLS:
        raise illegal_argument(f"No enum constant org.apache.kafka.clients.consumer.GroupProtocol.{protocol}")
    if protocol == "CONSUMER":
        print("The group protocol CONSUMER is not served by Moldau's tools yet: use CLASSIC", file=sys.stderr)
        return 1
    properties["partition.assignment.strategy"] = words.value("assignment-strategy") or ""
    given = (
        ("session-timeout", "session.timeout.ms"),
        ("group-id", "group.id"),
        ("group-instance-id", "group.instance.id"),
        ("bootstrap-server", "bootstrap.servers"),
        ("reset-policy", "auto.offset.reset"),
    )
    properties |= {key: words.value(name) or "" for name, key in given if words.has(name)}
    properties["enable.auto.commit"] = "true" if words.has("enable-autocommit") else "false"
    from moldau.admin.classic.verifiable_reading import read

    limit = words.integer("max-messages")
    return read(properties, words.value("topic") or "", limit, verbose=words.has("verbose"))
