"""The log files: Kafka's line format, also where one write holds many lines."""

from __future__ import annotations

import logging

from moldau.runtime.logs import LINE, STATE_CHANGE, _LinesFormatter


def said(message: str) -> list[str]:
    record = logging.LogRecord(STATE_CHANGE, logging.WARNING, __file__, 1, "%s", (message,), None)
    return _LinesFormatter(LINE).format(record).split("\n")


def test_each_line_of_a_message_becomes_a_log_line_of_its_own() -> None:
    lines = said("Changed 100%s of it\nand more\nand more still")
    assert [line.rpartition("WARN ")[2] for line in lines] == [
        f"{text} ({STATE_CHANGE})" for text in ("Changed 100%s of it", "and more", "and more still")
    ]
    assert len({line[: line.index("WARN")] for line in lines}) == 1, "one batch, one time"


def test_a_message_of_one_line_is_as_it_always_was() -> None:
    (line,) = said("Changed a%sb")
    assert line.endswith(f"] WARN Changed a%sb ({STATE_CHANGE})")
