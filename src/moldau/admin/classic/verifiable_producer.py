"""kafka-verifiable-producer.sh: sends whole numbers, and tells of each in a line of JSON whether it was written."""

from __future__ import annotations

from moldau.admin.classic.argparse4j import INTEGER, LONG, Words, run_flat_tool
from moldau.admin.classic.argparse4j_parsers import Argument, Parser
from moldau.admin.classic.console_properties import tell_unused
from moldau.admin.classic.verifiable import COMMAND_CONFIG, CONNECTION, config_files

TOOL = "org.apache.kafka.tools.VerifiableProducer"

PARSER = Parser(
    "verifiable-producer",
    'This tool produces increasing integers to the specified topic and prints JSON metadata to stdout on each "send" '
    "request, making externally visible which messages have been acked and which have not.",
    (
        Argument(("--topic",), "Produce messages to this topic.", required=True),
        Argument(
            ("--bootstrap-server",),
            "REQUIRED: The server(s) to connect to. Comma-separated list of Kafka brokers in the form "
            "HOST1:PORT1,HOST2:PORT2,...",
            takes="HOST1:PORT1[,HOST2:PORT2[...]]",
            group=CONNECTION.name,
            mutex="place",
        ),
        Argument(
            ("--max-messages",),
            "Produce this many messages. If -1, produce messages until the process is killed externally.",
            takes="MAX-MESSAGES",
            kind=INTEGER,
            default="-1",
        ),
        Argument(
            ("--throughput",),
            "If set >= 0, throttle maximum message throughput to *approximately* THROUGHPUT messages/sec.",
            kind=INTEGER,
            default="-1",
        ),
        Argument(
            ("--acks",),
            "Acks required on each produced message. See Kafka docs on acks for details.",
            takes="ACKS",
            kind=INTEGER,
            default="-1",
            choices=("0", "1", "-1"),
        ),
        Argument(
            ("--producer.config",),
            "(DEPRECATED) Producer config properties file. This option will be removed in a future version. Use "
            "--command-config instead.",
            takes="CONFIG-FILE",
        ),
        Argument(
            ("--message-create-time",),
            "Send messages with creation time starting at the arguments value, in milliseconds since epoch",
            takes="CREATE-TIME",
            kind=LONG,
            default="-1",
        ),
        Argument(
            ("--value-prefix",),
            "If specified, each produced value will have this prefix with a dot separator",
            takes="VALUE-PREFIX",
            kind=INTEGER,
        ),
        Argument(
            ("--repeating-keys",),
            "If specified, each produced record will have a key starting at 0 increment by 1 up to the number "
            "specified (exclusive), then the key is set to 0 again",
            takes="REPEATING-KEYS",
            kind=INTEGER,
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
    given = {"bootstrap.servers": words.value("bootstrap-server") or "", "acks": words.value("acks") or ""}
    properties = given | config_files(PARSER, words, "producer.config")
    from moldau.admin.classic.record_sender import USED, run_sender
    from moldau.admin.classic.verifiable_sending import SendingRun

    tell_unused(properties, USED, TOOL)
    run = SendingRun(words)
    run_sender(properties, words.value("topic") or "", run.send_all)
    return run.status
