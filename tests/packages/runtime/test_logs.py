"""The log files: Kafka's line format, also where one write holds many lines."""

from __future__ import annotations

import logging

from moldau.runtime import logs
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


def _formatted(text: str, *arguments: object) -> str:
    record = logging.LogRecord("moldau.groups", logging.INFO, "", 0, text, arguments, None)
    return logs._KafkaFormatter(logs.LINE).format(record)


def test_a_name_with_line_ends_and_escapes_in_it_forges_no_log_line() -> None:
    line = _formatted("%s joins", "a\n[2026-11-22 10:00:00,000] FATAL it is over (moldau.node)\x1b[2J\x00\u2028")
    assert len(line.splitlines()) == 1
    assert line.endswith(
        r"a\n[2026-11-22 10:00:00,000] FATAL it is over (moldau.node)\x1b[2J\x00\u2028 joins (moldau.groups)"
    )


def test_a_name_as_long_as_a_request_is_cut_in_the_log() -> None:
    line = _formatted("%s joins", "x" * 1_000_000)
    assert len(line) < logs.MESSAGE_CHARS_MAX + 200
    assert "more characters" in line


def test_names_in_other_scripts_stay_as_they_are() -> None:
    assert "\u010cesk\u00fd \u6d41" in _formatted("%s joins", "\u010cesk\u00fd \u6d41")
