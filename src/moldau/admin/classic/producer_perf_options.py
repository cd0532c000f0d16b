"""The options of kafka-producer-perf-test.sh, as Apache Kafka 4.3.1 words them."""

from __future__ import annotations

from moldau.admin.classic.argparse4j import DOUBLE, INTEGER, LONG
from moldau.admin.classic.argparse4j_parsers import Argument, OptionGroup, Parser

_ONE_PAYLOAD = "Note that you must provide exactly one of --record-size, --payload-file or --payload-monotonic."
_PROPERTIES = (
    "Kafka producer related configuration properties like client.id. These configs take precedence over those passed "
    "via --command-config or --producer.config."
)
_EXAMPLE = "Example: --command-property linger.ms=10 batch.size=32768"

PARSER = Parser(
    "kafka-producer-perf-test",
    "This tool is used to verify the producer performance. To enable transactions, you can specify a transactional id "
    "or set a transaction duration using --transaction-duration-ms. There are three ways to specify the transactional "
    "id: set transactional.id=<id> via --command-property, set transactional.id=<id> in the config file via "
    "--command-config, or use --transactional-id <id>.",
    (
        Argument(
            ("--bootstrap-server",),
            "The server(s) to connect to. This config takes precedence over bootstrap.servers specified via "
            "--command-property or --command-config.",
            takes="BOOTSTRAP-SERVER",
        ),
        Argument(("--topic",), "Produce records to this topic.", required=True),
        Argument(("--num-records",), "Number of records to produce.", takes="NUM-RECORDS", kind=LONG, required=True),
        Argument(
            ("--record-size",),
            f"Record size in bytes. {_ONE_PAYLOAD}",
            takes="RECORD-SIZE",
            kind=INTEGER,
            group="payload",
            mutex="payload",
        ),
        Argument(
            ("--payload-file",),
            "File to read the record payloads from. This works only for UTF-8 encoded text files. Payloads will be "
            f"read from this file and a payload will be randomly selected when sending records. {_ONE_PAYLOAD}",
            takes="PAYLOAD-FILE",
            group="payload",
            mutex="payload",
        ),
        Argument(
            ("--payload-monotonic",),
            f"Payload is a monotonically increasing integer. {_ONE_PAYLOAD}",
            takes=None,
            group="payload",
            mutex="payload",
        ),
        Argument(
            ("--payload-delimiter",),
            "Provides the delimiter to be used when --payload-file is provided. Defaults to new line. Note that this "
            "parameter will be ignored if --payload-file is not provided.",
            takes="PAYLOAD-DELIMITER",
            default="\\n",
        ),
        Argument(
            ("--throughput",),
            "Throttle maximum record throughput to *approximately* THROUGHPUT records/sec. Set this to -1 to disable "
            "throttling.",
            kind=DOUBLE,
            required=True,
        ),
        Argument(
            ("--producer-props",),
            f"(DEPRECATED) {_PROPERTIES} This option will be removed in a future version. Use --command-property "
            f"instead. {_EXAMPLE}",
            takes="PROP-NAME=PROP-VALUE",
            several="+",
        ),
        Argument(("--command-property",), f"{_PROPERTIES} {_EXAMPLE}", takes="PROP-NAME=PROP-VALUE", several="+"),
        Argument(
            ("--producer.config",),
            "(DEPRECATED) Producer config properties file. This option will be removed in a future version. Use "
            "--command-config instead.",
            takes="CONFIG-FILE",
        ),
        Argument(("--command-config",), "Producer config properties file.", takes="CONFIG-FILE"),
        Argument(("--print-metrics",), "Print out metrics at the end of the test.", takes=None),
        Argument(
            ("--transactional-id",),
            "The transactional id to use. This config takes precedence over the transactional.id specified via "
            "--command-property or --command-config. Note that if the transactional id is not specified while "
            "--transaction-duration-ms is provided, the default value for the transactional id will be "
            "performance-producer- followed by a random uuid.",
            takes="TRANSACTIONAL-ID",
        ),
        Argument(
            ("--transaction-duration-ms",),
            "The maximum duration of each transaction. The commitTransaction will be called after this time has "
            "elapsed. The value should be greater than 0. If the transactional id is specified via "
            "--command-property, --command-config or --transactional-id but --transaction-duration-ms is not "
            "specified, the default value will be 3000.",
            takes="TRANSACTION-DURATION",
            kind=LONG,
        ),
        Argument(
            ("--warmup-records",),
            "The number of records to treat as warmup. These initial records will not be included in steady-state "
            "statistics. An additional summary line will be printed describing the steady-state statistics.",
            takes="WARMUP-RECORDS",
            kind=LONG,
            default="0",
        ),
        Argument(
            ("--reporting-interval",),
            "Interval in milliseconds at which to print progress info.",
            takes="INTERVAL-MS",
            kind=LONG,
            default="5000",
        ),
    ),
    required_mutexes=("payload",),
    groups=(OptionGroup("payload", "", _ONE_PAYLOAD),),
)
