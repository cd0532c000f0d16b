"""Which topics kafka-topics.sh is asked about, and what a report of them may be limited to."""

from __future__ import annotations

import re

from moldau.admin.classic.java import JavaError, illegal_argument
from moldau.admin.classic.java_regex import NotRegex, java_pattern
from moldau.admin.classic.options import GivenOptions
from moldau.admin.classic.session import ToolSession

REPORTS = ("under-replicated-partitions", "under-min-isr-partitions", "at-min-isr-partitions", "unavailable-partitions")


def matching(session: ToolSession, given: GivenOptions) -> list[str]:
    """The topics that --topic, a regular expression, names, or all; without internal ones when asked."""
    session.know("listTopics", None)
    topics = session.cluster.client.view.topics
    hide = given.has("exclude-internal")
    text = given.value("topic")
    names = sorted(name for name, topic in topics.items() if not (hide and topic.internal))
    if text is None:
        return names
    pattern = include_list(text)
    return [name for name in names if pattern.fullmatch(name)]


def include_list(text: str) -> re.Pattern[str]:
    """The pattern of Kafka's include list: commas separate alternatives, blanks and quotes around it are nothing."""
    pattern = text.strip().replace(",", "|").replace(" ", "").lstrip("\"'").rstrip("\"'")
    try:
        return java_pattern(pattern)
    except NotRegex:
        raise JavaError("java.lang.RuntimeException", f"{pattern} is an invalid regex.") from None


def existing(session: ToolSession, given: GivenOptions) -> list[str]:
    """The topics that --topic names; JavaError when there is none, but for --if-exists."""
    names = matching(session, given)
    topic = given.value("topic")
    if topic and not names and not given.has("if-exists"):
        raise illegal_argument(f"Topic '{topic}' does not exist as expected")
    return names
