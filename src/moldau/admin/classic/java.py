"""What a tool of Kafka says of an exception of Java's: its class, its message, its causes.

Tools print exceptions; where they print a stack trace, we print its first lines ("class: message", "Caused by: ..."),
and none of the frames, which are about Java's source.
"""

from __future__ import annotations

from collections.abc import Sequence

ILLEGAL_ARGUMENT = "java.lang.IllegalArgumentException"
CONFIG_ERROR = "org.apache.kafka.common.config.ConfigException"


class JavaError(Exception):
    """A failure that users see as an exception of Java: ``kind`` is the full name of its class."""

    def __init__(
        self, kind: str, message: str | None, cause: JavaError | None = None, *, suppressed: Sequence[JavaError] = ()
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.suppressed = suppressed
        self.message = message
        self.cause = cause

    def __str__(self) -> str:
        """As Java's toString."""
        return self.kind if self.message is None else f"{self.kind}: {self.message}"

    @property
    def said(self) -> str:
        """Its message, as Java prints one that may be null."""
        return "null" if self.message is None else self.message

    @property
    def trace(self) -> str:
        """The lines of its stack trace that are not frames."""
        lines, cause = [f"{self}\n"], self.cause
        lines += [f"\tSuppressed: {one}\n" for one in self.suppressed]
        while cause is not None:
            lines.append(f"Caused by: {cause}\n")
            cause = cause.cause
        return "".join(lines)


def illegal_argument(message: str) -> JavaError:
    """A value that cannot be, found by the tool itself."""
    return JavaError(ILLEGAL_ARGUMENT, message)
