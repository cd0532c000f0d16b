"""The options of kafka-console-producer.sh, as Apache Kafka 4.3.1 words them."""

from __future__ import annotations

from moldau.admin.classic.options import Option

OPTIONS = (
    Option(
        "batch-size",
        "The buffer size in bytes allocated for a partition. When records are received which are smaller than "
        "this size the producer will attempt to optimistically group them together until this size is reached. "
        "This is the option to control batch.size in producer configs. Please note that this option will be "
        "replaced if max-partition-memory-bytes is also set.",
        takes="size",
        type="Integer",
        default="16384",
    ),
    Option(
        "bootstrap-server",
        "REQUIRED: The server(s) to connect to. The broker list string in the form HOST1:PORT1,HOST2:PORT2.",
        takes="server to connect to",
    ),
    Option(
        "command-config",
        "Producer config properties file. Note that [command-property] takes precedence over this config.",
        takes="config file",
    ),
    Option("command-property", "Producer config properties in the form key=value.", takes="producer_prop"),
    Option(
        "compression-codec",
        "The compression codec: either 'none', 'gzip', 'snappy', 'lz4', or 'zstd'.If specified without value, "
        "then it defaults to 'gzip'",
        takes="compression-codec",
        optional_value=True,
    ),
    Option(
        "line-reader",
        "The class name of the class to use for reading lines from standard in. By default each line is read as "
        "a separate message.",
        takes="reader_class",
        default="org.apache.kafka.tools.LineMessageReader",
    ),
    Option(
        "max-block-ms",
        "The max time that the producer will block for during a send request.",
        takes="max block on send",
        type="Long",
        default="60000",
    ),
    Option(
        "max-memory-bytes",
        "The total memory used by the producer to buffer records waiting to be sent to the server. This is the "
        "option to control `buffer.memory` in producer configs.",
        takes="total memory in bytes",
        type="Long",
        default="33554432",
    ),
    Option(
        "max-partition-memory-bytes",
        "(Deprecated) The buffer size in bytes allocated for a partition. When records are received which are "
        "smaller than this size the producer will attempt to optimistically group them together until this size "
        "is reached. This is the option to control batch.size in producer configs. This option will be removed "
        "in Apache Kafka 5.0. Use --batch-size instead.",
        takes="memory in bytes per partition",
        type="Integer",
        default="16384",
    ),
    Option(
        "message-send-max-retries",
        "Brokers can fail receiving the message for multiple reasons, and being unavailable transiently is just "
        "one of them. This property specifies the number of retries before the producer give up and drop this "
        "message. This is the option to control `retries` in producer configs.",
        takes="",
        type="Integer",
        default="3",
    ),
    Option(
        "metadata-expiry-ms",
        "The period of time in milliseconds after which we force a refresh of metadata even if we haven't seen "
        "any leadership changes. This is the option to control `metadata.max.age.ms` in producer configs.",
        takes="metadata expiration interval",
        type="Long",
        default="300000",
    ),
    Option(
        "producer-property",
        "(DEPRECATED) Producer config properties in the form key=value. This option will be removed in a future "
        "version. Use --command-property instead.",
        takes="producer_prop",
    ),
    Option(
        "producer.config",
        "(DEPRECATED) Producer config properties file. Note that [command-property] takes precedence over this "
        "config. This option will be removed in a future version. Use --command-config instead.",
        takes="config file",
    ),
    Option(
        "property",
        "(DEPRECATED) A mechanism to pass user-defined properties in the form key=value to the message reader. "
        "This allows custom configuration for a user-defined message reader.\nDefault properties include:\n "
        "parse.key=false\n parse.headers=false\n ignore.error=false\n key.separator=\\t\n headers.delimiter=\\t\n "
        "headers.separator=,\n headers.key.separator=:\n null.marker=   When set, any fields (key, value and "
        "headers) equal to this will be replaced by null\nDefault parsing pattern when:\n parse.headers=true and "
        'parse.key=true:\n  "h1:v1,h2:v2...\\tkey\\tvalue"\n parse.key=true:\n  "key\\tvalue"\n parse.headers=true:\n  '
        '"h1:v1,h2:v2...\\tvalue"\n This option will be removed in a future version. Use --reader-property instead.',
        takes="prop",
    ),
    Option(
        "reader-config",
        "Config properties file for the message reader. Note that [reader-property] takes precedence over this config.",
        takes="config file",
    ),
    Option(
        "reader-property",
        "A mechanism to pass user-defined properties in the form key=value to the message reader. This allows "
        "custom configuration for a user-defined message reader.\nDefault properties include:\n parse.key=false\n "
        "parse.headers=false\n ignore.error=false\n key.separator=\\t\n headers.delimiter=\\t\n headers.separator=,\n "
        "headers.key.separator=:\n null.marker=   When set, any fields (key, value and headers) equal to this "
        "will be replaced by null\nDefault parsing pattern when:\n parse.headers=true and parse.key=true:\n  "
        '"h1:v1,h2:v2...\\tkey\\tvalue"\n parse.key=true:\n  "key\\tvalue"\n parse.headers=true:\n  '
        '"h1:v1,h2:v2...\\tvalue"',
        takes="prop",
    ),
    Option(
        "request-required-acks",
        "The required `acks` of the producer requests",
        takes="request required acks",
        default="-1",
    ),
    Option(
        "request-timeout-ms",
        "The ack timeout of the producer requests. Value must be non-negative and non-zero.",
        takes="request timeout ms",
        type="Integer",
        default="1500",
    ),
    Option(
        "retry-backoff-ms",
        "Before each retry, the producer refreshes the metadata of relevant topics. Since leader election takes "
        "a bit of time, this property specifies the amount of time that the producer waits before refreshing the "
        "metadata. This is the option to control `retry.backoff.ms` in producer configs.",
        takes="",
        type="Long",
        default="100",
    ),
    Option(
        "socket-buffer-size",
        "The size of the tcp RECV size. This is the option to control `send.buffer.bytes` in producer configs.",
        takes="size",
        type="Integer",
        default="102400",
    ),
    Option("sync", "If set message send requests to the brokers are synchronously, one at a time as they arrive."),
    Option(
        "timeout",
        "If set and the producer is running in asynchronous mode, this gives the maximum amount of time a "
        "message will queue awaiting sufficient batch size. The value is given in ms. This is the option to "
        "control `linger.ms` in producer configs.",
        takes="timeout_ms",
        type="Long",
        default="1000",
    ),
    Option("topic", "REQUIRED: The topic name to produce messages to.", takes="topic"),
)

ABOUT = "This tool helps to read data from standard input and publish it to Kafka."
