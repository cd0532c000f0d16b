"""Properties of clients on the command lines of the console tools: ``key=value``, files, and old names of options."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Mapping, Sequence

from moldau.admin.classic.options import GivenOptions


def key_values(texts: Sequence[str]) -> dict[str, str]:
    """What ``key=value`` texts say; a key without a value has an empty one."""
    found = {}
    for text in texts:
        key, _, value = text.partition("=")
        found[key] = value
    return found


def merged(given: GivenOptions, properties: dict[str, str], key: str, option: str) -> None:
    """Let an option decide a property: when it was given, or when nobody else did."""
    value = given.value(option)
    if value is not None and (given.has(option) or key not in properties):
        properties[key] = value


def newer_name(given: GivenOptions, name: str, old: str, *, warning: bool = False) -> str:
    """The name of an option that was used, of two: both are refused, and the old one is called old.

    ``warning``: in the words of the console producer, which names the new one first.
    """
    if given.has(name) and given.has(old):
        pair = (name, old) if warning else (old, name)
        given.refuse(f"Options --{pair[0]} and --{pair[1]} cannot be specified together.")
    if not given.has(old):
        return name
    head = f"Warning: --{old}" if warning else f"Option --{old}"
    print(f"{head} is deprecated and will be removed in a future version. Use --{name} instead.")
    return old


def tell_unused(properties: Mapping[str, str], used: Collection[str], logger: str) -> None:
    """Say in the log which properties change nothing here."""
    unused = sorted(set(properties) - set(used))
    if unused:
        log("WARN", f"These properties have no effect here: {', '.join(unused)}", logger)


def log(level: str, text: str, logger: str) -> None:
    """Write a line to standard error as Kafka's tools log it."""
    now = time.time()
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    sys.stdout.flush()
    print(f"[{stamp},{int(now * 1000) % 1000:03}] {level} {text} ({logger})", file=sys.stderr)
