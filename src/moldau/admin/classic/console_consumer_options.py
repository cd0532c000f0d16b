"""The options of kafka-console-consumer.sh, as Apache Kafka 4.3.1 words them, and what it makes of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from moldau.admin.classic.console_properties import key_values, merged, newer_name
from moldau.admin.classic.java import JavaError
from moldau.admin.classic.options import GivenOptions, Option, ToolOptionError, ToolUsageError, java_integer
from moldau.admin.classic.run import Finished, help_or_version
from moldau.admin.classic.session import read_config
from moldau.client.reading import EARLIEST, LATEST
from moldau.model.named import NamedTuple

_PROPERTIES = (
    "The properties to initialize the message formatter. Default properties include: \n "
    "print.timestamp=true|false\n print.key=true|false\n print.offset=true|false\n print.epoch=true|false\n "
    "print.partition=true|false\n print.headers=true|false\n print.value=true|false\n "
    "key.separator=<key.separator>\n line.separator=<line.separator>\n headers.separator=<headers.separator>\n "
    "null.literal=<null.literal>\n key.deserializer=<key.deserializer>\n "
    "value.deserializer=<value.deserializer>\n header.deserializer=<header.deserializer>\n\nUsers can also pass "
    "in customized properties for their formatter; more specifically, users can pass in properties keyed "
    "with 'key.deserializer.', 'value.deserializer.' and 'headers.deserializer.' prefixes to configure their "
    "deserializers."
)
OPTIONS = (
    Option("bootstrap-server", "REQUIRED: The server(s) to connect to.", takes="server to connect to"),
    Option(
        "command-config",
        "Consumer config properties file. Note that [command-property] takes precedence over this config.",
        takes="config file",
    ),
    Option("command-property", "Consumer config properties in the form key=value.", takes="consumer_prop"),
    Option(
        "consumer-property",
        "(DEPRECATED) Consumer config properties in the form key=value. This option will be removed in a future "
        "version. Use --command-property instead.",
        takes="consumer_prop",
    ),
    Option(
        "consumer.config",
        "(DEPRECATED) Consumer config properties file. Note that [command-property] takes precedence over this "
        "config. This option will be removed in a future version. Use --command-config instead.",
        takes="config file",
    ),
    Option(
        "enable-systest-events",
        "Log lifecycle events of the consumer in addition to logging consumed messages. (This is specific for "
        "system tests.)",
    ),
    Option(
        "formatter",
        "The name of a class to use for formatting kafka messages for display.",
        takes="class",
        default="org.apache.kafka.tools.consumer.DefaultMessageFormatter",
    ),
    Option(
        "formatter-config",
        "Config properties file to initialize the message formatter. Note that [formatter-property] takes "
        "precedence over this config.",
        takes="config file",
    ),
    Option(
        "formatter-property",
        _PROPERTIES,
        takes="prop",
    ),
    Option(
        "from-beginning",
        "If the consumer does not already have an established offset to consume from, start with the earliest "
        "message present in the log rather than the latest message.",
    ),
    Option("group", "The consumer group id of the consumer.", takes="consumer group id"),
    Option(
        "include",
        "Regular expression specifying list of topics to include for consumption.",
        takes="Java regex (String)",
    ),
    Option(
        "isolation-level",
        "Set to read_committed in order to filter out transactional messages which are not committed. Set to "
        "read_uncommitted to read all messages.",
        takes="",
        default="read_uncommitted",
    ),
    Option("key-deserializer", "The name of the class to use for deserializing keys.", takes="deserializer for keys"),
    Option(
        "max-messages",
        "The maximum number of messages to consume before exiting. If not set, consumption is continual.",
        takes="num_messages",
        type="Integer",
    ),
    Option(
        "offset",
        "The offset to consume from (a non-negative number), or 'earliest' which means from beginning, or "
        "'latest' which means from end",
        takes="consume offset",
        default="latest",
    ),
    Option(
        "partition",
        "The partition to consume from. Consumption starts from the end of the partition unless '--offset' is "
        "specified.",
        takes="partition",
        type="Integer",
    ),
    Option(
        "property",
        f"(DEPRECATED) {_PROPERTIES} \nThis option will be removed in a future version. Use --formatter-property "
        "instead.",
        takes="prop",
    ),
    Option("skip-message-on-error", "If there is an error when processing a message, skip it instead of halt."),
    Option(
        "timeout-ms",
        "If specified, exit if no message is available for consumption for the specified interval.",
        takes="timeout_ms",
        type="Long",
    ),
    Option("topic", "The topic to consume from.", takes="topic"),
    Option(
        "value-deserializer",
        "The name of the class to use for deserializing values.",
        takes="deserializer for values",
    ),
)

ABOUT = "This tool helps to read data from Kafka topics and outputs it to standard output."
FOREVER = -1
_RENAMED = (("command-property", "consumer-property"), ("command-config", "consumer.config"))


class ConsoleOptions(NamedTuple):
    """What the tool is to do. ``offset``: where a partition is read from; ``timeout_ms`` -1: never give up."""

    given: GivenOptions
    topic: str | None
    include: str | None
    partition: int | None
    offset: int
    timeout_ms: int
    properties: dict[str, str]
    formatter: str
    formatter_properties: dict[str, str]


def read_options(arguments: Sequence[str]) -> ConsoleOptions:
    """What a command line asks for; ToolUsageError, JavaError or Finished where Kafka's tool ends."""
    try:
        given = GivenOptions(OPTIONS, arguments)
    except ToolOptionError as error:
        words = GivenOptions(OPTIONS, [])
        raise ToolUsageError(words.options, error.said) from None
    help_or_version(given, ABOUT)
    _check(given)
    for name, old in _RENAMED:
        if given.has(name) and given.has(old):
            given.refuse(f"Options --{old} and --{name} cannot be specified together.")
    command, path = (newer_name(given, name, old) for name, old in _RENAMED)
    from_file = read_config(given.value(path))
    extra = key_values(given.values(command))
    groups = _groups(given, from_file, extra)
    properties = _properties(given, from_file | extra, groups)
    offset = _offset(given)
    given.value("bootstrap-server")  # given twice, it is refused here
    timeout_ms = given.integer("timeout-ms", 64) if given.has("timeout-ms") else FOREVER
    formatter, formatter_properties = _formatter(given)
    return ConsoleOptions(
        given,
        next(iter(given.values("topic")), None),
        next(iter(given.values("include")), None),
        given.integer("partition") if given.has("partition") else None,
        offset,
        FOREVER if timeout_ms is None or timeout_ms < 0 else timeout_ms,
        properties,
        formatter,
        formatter_properties,
    )


def _check(given: GivenOptions) -> None:
    if given.has("topic") == given.has("include"):
        given.refuse("Exactly one of the following arguments is required: [topic], [include]")
    if given.has("partition"):
        given.integer("partition")
        if not given.has("topic"):
            given.refuse("The topic is required when partition is specified.")
        if given.has("from-beginning") and given.has("offset"):
            given.refuse("Options from-beginning and offset cannot be specified together.")
    elif given.has("offset"):
        given.refuse("The partition is required when offset is specified.")
    given.require("bootstrap-server")


def _groups(given: GivenOptions, from_file: dict[str, str], extra: dict[str, str]) -> list[str]:
    group = given.value("group")
    found = [] if group is None else [group]
    found += [one["group.id"] for one in (from_file, extra) if "group.id" in one]
    found = list(dict.fromkeys(found))
    if len(found) > 1:
        where = "(directly using '--group', via '--consumer-property', or via '--consumer.config')"
        listed = ", ".join(f"'{group}'" for group in found)
        given.refuse(f"The group ids provided in different places {where} do not match. Detected group ids: {listed}")
    if found and given.has("partition"):
        given.refuse("Options group and partition cannot be specified together.")
    return found


def _properties(given: GivenOptions, found: dict[str, str], groups: list[str]) -> dict[str, str]:
    reset = found.get("auto.offset.reset")
    if reset is not None and given.has("from-beginning") and reset != "earliest":
        what = f"'auto.offset.reset={reset}', please remove one option"
        print(f"Can't simultaneously specify --from-beginning and {what}", file=sys.stderr)
        raise Finished(1)
    if reset is None:
        found["auto.offset.reset"] = "earliest" if given.has("from-beginning") else "latest"
    found.setdefault("client.id", "console-consumer")
    merged(given, found, "isolation.level", "isolation-level")
    if groups:
        found["group.id"] = groups[0]
    else:
        found.setdefault("enable.auto.commit", "false")
    return found


def _offset(given: GivenOptions) -> int:
    if not given.has("offset"):
        return EARLIEST if given.has("from-beginning") else LATEST
    text = given.text("offset")
    known = {"earliest": EARLIEST, "latest": LATEST}
    if text.lower() in known:
        return known[text.lower()]
    try:
        offset = java_integer(text, 64)
    except ValueError:
        offset = -1
    if offset < 0:
        valid = "Valid values are 'earliest', 'latest', or a non-negative long."
        given.refuse(f"The provided offset value '{text}' is incorrect. {valid}")
    return offset


def _formatter(given: GivenOptions) -> tuple[str, dict[str, str]]:
    from moldau.admin.classic.console_formatters import ABSTRACT, FORMATTERS

    try:
        name = given.text("formatter")
        deserializers = {f"{kind}.deserializer": given.value(f"{kind}-deserializer") for kind in ("key", "value")}
    except ToolOptionError as error:
        given.refuse(error.said)
    if name not in FORMATTERS:
        given.refuse(f"{name}.<init>()" if name in ABSTRACT else name)
    used = newer_name(given, "formatter-property", "property")
    try:
        found = read_config(given.value("formatter-config"))
    except JavaError as error:
        given.refuse(error.said)
    found |= {key: text for key, text in deserializers.items() if text}
    return name, found | key_values(given.values(used))
