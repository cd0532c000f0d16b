"""What Kafka's two verifiable tools have in common: events as lines of JSON, and the options of where to connect."""

from __future__ import annotations

import time

from moldau.admin.classic.argparse4j import Words, reject
from moldau.admin.classic.argparse4j_parsers import Argument, OptionGroup, Parser
from moldau.admin.classic.java import ILLEGAL_ARGUMENT, JavaError
from moldau.admin.classic.java_json import compact
from moldau.admin.classic.java_values import java_decimal
from moldau.admin.classic.session import read_config

CONNECTION = OptionGroup("connection", "Connection Group", "Group of arguments for connection to brokers")
COMMAND_CONFIG = Argument(
    ("--command-config",),
    "Config properties file (config options shared with command line parameters will be overridden).",
    takes="CONFIG-FILE",
)


def event(name: str, **fields: object) -> None:
    """Print a line about something that happened now."""
    listed = {"timestamp": int(time.time() * 1000), "name": name, **fields}
    shown = (
        f"{compact(key)}:{java_decimal(value) if isinstance(value, float) else compact(value)}"
        for key, value in listed.items()
    )
    print(f"{{{','.join(shown)}}}", flush=True)


def config_files(parser: Parser, words: Words, old: str) -> dict[str, str]:
    """The properties of the file that was named, by the new option or the old; Rejected when it cannot be read."""
    if words.has(old) and words.has("command-config"):
        reject(parser, f"Options --{old} and --command-config are mutually exclusive.")
    if words.has(old):
        told = f"Option --{old} has been deprecated and will be removed in a future version."
        print(f"{told} Use --command-config instead.")
    try:
        return read_config(words.value(old) or words.value("command-config"))
    except JavaError as error:
        if error.kind == ILLEGAL_ARGUMENT:
            raise
        reject(parser, error.said)
