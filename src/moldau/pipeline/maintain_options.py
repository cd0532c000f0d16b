"""What stands under ``maintain`` of a table: what may stand there, and what it comes to in numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator

from moldau.pipeline.durations import is_duration, seconds
from moldau.pipeline.spec import Maintain

RETENTION_LEAST_S = 3600.0
"""Files of a batch under way belong to no version yet: they have to be younger than what is removed."""
RETENTION_MOST_S = 30 * 86400.0
"""How long Delta keeps a log of which nothing was said."""
AGAIN_LEAST_S = 60.0
TARGET_MOST = (1 << 63) - 1
"""What delta-rs, and file systems, have as the largest size."""


def wrong_maintain(maintain: Maintain) -> Iterator[tuple[str, str]]:
    """What is wrong with how a table is to be maintained: which part, and why."""
    from moldau.spark.given import OptionError

    for name, text in (("every", maintain.every), ("retention", maintain.retention)):
        if not is_duration(text):
            yield name, f"{text!r} is not a duration: 500ms, 10s, 5m, 1h, 1d"
        elif not seconds(text):
            yield name, f"{text!r} is no time at all"
        elif name == "retention" and not RETENTION_LEAST_S <= seconds(text) <= RETENTION_MOST_S:
            yield name, f"{text!r} is not from 1h, as long as a batch may last, to 30d, Delta's own for a log"
    try:
        if target_bytes(maintain) > TARGET_MOST:
            yield "target", f"{maintain.target!r} is larger than a file can be"
    except OptionError:
        yield "target", f"{maintain.target!r} is not a size: 1048576, 512k, 64m, 1g"


def target_bytes(maintain: Maintain) -> int:
    """How large files are to become; OptionError where it is no size."""
    from moldau.spark.given import size_bytes

    return size_bytes("target", maintain.target)


def retention_hours(maintain: Maintain) -> int:
    """How long what was replaced is kept, in whole hours: a part of an hour is one."""
    return math.ceil(seconds(maintain.retention) / 3600)


def every_ms(maintain: Maintain) -> int:
    """From one maintenance to the next."""
    return round(seconds(maintain.every) * 1000)


def again_ms(maintain: Maintain) -> int:
    """From one that failed to the next try: a tenth of ``every``, but a minute at least."""
    return round(max(AGAIN_LEAST_S, seconds(maintain.every) / 10) * 1000)
