"""What ``auto.offset.reset`` says to a consumer: the beginning, the end, a time ago (KIP-1106), or nothing."""

from __future__ import annotations

import time
from collections.abc import Callable

from moldau.admin.classic.java import CONFIG_ERROR, JavaError
from moldau.admin.classic.java_times import duration_ns, java_ago_ms
from moldau.client.consumer import NO_RESET, SINCE
from moldau.client.reading import EARLIEST, LATEST

KEY = "auto.offset.reset"
_NAMED = {"latest": LATEST, "earliest": EARLIEST, "none": NO_RESET}
_AGO = "by_duration:"


def offset_reset(text: str) -> tuple[int, Callable[[], int] | None]:
    """``reset`` and ``since_ms`` of ConsumerOptions; JavaError for a text that Kafka's consumer refuses."""
    if text in _NAMED:
        return _NAMED[text], None
    ago = text.removeprefix(_AGO)
    try:
        if ago == text or duration_ns(ago) < 0:
            raise _refused(text)
    except JavaError:
        raise _refused(text) from None
    return SINCE, lambda: java_ago_ms(time.time_ns(), ago)


def _refused(text: str) -> JavaError:
    how = "The value must be either 'earliest', 'latest', 'none' or of the format 'by_duration:<PnDTnHnMn.nS.>'."
    why = f"Invalid value {text} for configuration {KEY}: Invalid value `{text}` for configuration {KEY}. {how}"
    return JavaError(CONFIG_ERROR, why)
