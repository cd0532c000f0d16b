"""What the options of all commands that ask a cluster are called, and the kinds of values that they take.

Loads nothing of the client: a command that only shows its help, or refuses an option, is not to wait for it.
Read next: asking.py.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
import time
from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import NoReturn, TypeVar

import click
from click.core import ParameterSource

from moldau.admin.client_config import BadClientConfig, ClientConfig, read_client_config
from moldau.admin.main import fail
from moldau.admin.output import FORMATS, lines_printable, note
from moldau.admin.waiting import came_about

F = TypeVar("F", bound=Callable[..., object])

IN_PROGRESS, MISMATCH = 3, 4
"""Exit codes: not done yet; done, but not as asked."""
DATA = Path("moldau-data")
"""The folder of a cluster that `moldau up` makes when it is told of none."""
NOWHERE = "localhost:9092"
LOOPBACK = "127.0.0.1"  # where the nodes of `moldau up` listen
_CONFIG = "moldau.admin.client_config"


# ---- where the cluster is


def client_config() -> ClientConfig:
    """The settings of --command-config, none without it."""
    context = click.get_current_context(silent=True)
    found = context.find_root().meta.get(_CONFIG) if context is not None else None
    return found if isinstance(found, ClientConfig) else ClientConfig({})


def default_bootstrap() -> str:
    """Brokers to ask when nobody says: those of --command-config, of the cluster in ./moldau-data, or Kafka's port."""
    if servers := client_config().text("bootstrap.servers"):
        return servers
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        nodes = json.loads((DATA / "cluster.json").read_text())["nodes"]
        return ",".join(f"{LOOPBACK}:{one['port']}" for one in nodes if "broker" in one["roles"]) or NOWHERE
    return NOWHERE


def _take_config(context: click.Context, parameter: click.Parameter, path: str | None) -> None:
    if path is None:
        return
    try:
        config = read_client_config(path)
    except BadClientConfig as error:
        raise click.UsageError(f"--command-config {error}", context) from None
    context.find_root().meta[_CONFIG] = config
    if config.unused and not context.resilient_parsing:
        note(f"moldau: {path}: not used by any command: {', '.join(config.unused)}")


def SERVERS(command: F) -> F:
    """--bootstrap-server and --command-config; the command gets ``bootstrap``."""
    config = click.option(
        "--command-config",
        metavar="FILE",
        type=click.Path(dir_okay=False),
        is_eager=True,
        expose_value=False,
        callback=_take_config,
        help="A client's settings: Java's properties or librdkafka's names.",
    )
    return BOOTSTRAP("Brokers to ask (or MOLDAU_BOOTSTRAP).", of="of --command-config, ")(config(command))


def BOOTSTRAP(text: str, *, of: str = "") -> Callable[[F], F]:
    """--bootstrap-server alone, for a command that takes no client's file; ``of``: where else it may stand."""
    return click.option(
        "-b",
        "--bootstrap-server",
        "bootstrap",
        metavar="HOST:PORT,..",
        envvar="MOLDAU_BOOTSTRAP",
        default=default_bootstrap,
        show_default=f"{of}the cluster in ./{DATA}, or {NOWHERE}",
        help=text,
    )


def given_timeout_ms() -> int | None:
    """What --timeout says on the command line, in milliseconds; None when it is not there."""
    context = click.get_current_context(silent=True)
    for name in ("timeout", "timeout_s"):
        if context is not None and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            return round(1000 * float(context.params[name]))
    return None


# ---- how to print, how to change


TIMEOUT_S = 60.0
YEAR_S = 31_536_000.0


class Finite(click.FloatRange):
    """A number that can be waited for, or compared with: neither nan nor infinite, which a range lets through."""

    name = "number"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; a usage error when it is none."""
        number = float(super().convert(value, param, ctx))  # type: ignore[arg-type]  # it converts what was typed
        if not isfinite(number):
            self.fail(f"{value!r} is no number that could be meant", param, ctx)
        return number


SECONDS = Finite(min=0, max=YEAR_S)
PAUSE = Finite(min=0.1, max=YEAR_S)

OUTPUT = click.option(
    "-o", "--output", type=click.Choice(FORMATS), default="text", show_default=True, help="How to print."
)
YES = click.option("--yes", "-y", is_flag=True, help="Do not ask.")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Only say what would be done.")
WATCH = click.option(
    "--watch",
    "every_s",
    type=PAUSE,
    is_flag=False,
    flag_value=2.0,
    metavar="[SECONDS]",
    help="Look again and again, every 2 seconds or as told.",
)


def WAIT(command: F) -> F:
    """--wait and --timeout; exit 3 when it is not done in time."""
    wait = click.option("--wait", is_flag=True, help="Wait until brokers have done it; exit 3 when they have not.")
    timeout = click.option(
        "--timeout",
        "timeout_s",
        type=SECONDS,
        default=TIMEOUT_S,
        show_default=True,
        help="Seconds to wait.",
    )
    return wait(timeout(command))


def confirm(question: str, yes: bool) -> None:
    """Ask before something is destroyed. Without a terminal to ask on, and without --yes, the command ends with 2."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        refuse(f"{question} There is no terminal to ask on: --yes says yes, --dry-run shows what would be done")
    if not click.confirm(lines_printable(question), err=True):
        fail("nothing was changed")


def wait_until(condition: Callable[[], bool], timeout_s: float, what: str, *, since_s: float | None = None) -> None:
    """Wait for a condition; ends the command with 3 when it does not hold in time, which goes from ``since_s`` on
    (of the monotonic clock; now): a request for the change may have taken some of it."""
    past_s = 0.0 if since_s is None else time.monotonic() - since_s
    if not came_about(condition, max(timeout_s - past_s, 0.0)):
        fail(f"not within {timeout_s:g} s: {what}; it goes on by itself", IN_PROGRESS)


def refuse(why: str) -> NoReturn:
    """End the command: it was not asked for in a way that could be done."""
    fail(why, 2)
    raise AssertionError


# ---- kinds of values

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(ms|[smhdw])", re.ASCII)
_ISO = re.compile(r"p(?:(\d{1,9})w)?(?:(\d{1,9})d)?(?:t(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?)?\Z", re.ASCII)
SIZE_MAX = 1 << 30
_SIZES = {"": 1, "k": 1000, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


def duration_ms(text: str) -> int:
    """``90s``, ``1h30m``, or ISO 8601's ``PT1H30M``, in milliseconds; ValueError says what is one."""
    low = text.strip().lower()
    parts = _PART.findall(low)
    if parts and "".join(map("".join, parts)) == low:
        return round(sum(float(number) * _UNITS_MS[unit] for number, unit in parts))
    iso = _ISO.match(low)
    if iso is None or not any(iso.groups()):
        raise ValueError(f"{text!r} is no duration; 90s, 1h30m and PT1H30M are")
    return sum(int(number or 0) * _UNITS_MS[unit] for number, unit in zip(iso.groups(), "wdhms", strict=True))


def instant_ms(text: str, now_ms: int | None = None) -> int:
    """A time in milliseconds since 1970; ValueError says what is one.

    ``-10m`` is ten minutes ago, ``@1700000000000`` is in milliseconds, a date and time is local unless it names a zone.
    """
    from datetime import datetime

    if text.startswith("-") and text[1:2].isdigit() and not text[1:].isdigit():
        return (int(time.time() * 1000) if now_ms is None else now_ms) - duration_ms(text[1:])
    if re.fullmatch(r"@\d{1,18}", text, re.ASCII):
        return int(text[1:])
    try:
        return int(datetime.fromisoformat(text.replace(",", ".")).timestamp() * 1000)
    except (ValueError, OverflowError):
        wanted = "2026-11-22T10:00:00, -10m and @1700000000000 (ms) are"
        raise ValueError(f"{text!r} is no time; {wanted}") from None


class _Value(click.ParamType[int]):
    """Words that a function turns into a number."""

    def __init__(self, name: str, read: Callable[[str], int]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number; a usage error when the words are none."""
        if isinstance(value, int):
            return value
        try:
            return self._read(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _size(text: str) -> int:
    found = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?)\s*([kmg]i?|)b?", text.lower(), re.ASCII)
    if found is None:
        raise ValueError(f"{text!r} is no size; 100, 64KB and 1MiB are")
    size = int(float(found[1]) * _SIZES[found[2]])
    if size > SIZE_MAX:
        raise ValueError(f"{text!r} is more than 1GiB, which no record can be")
    return size


DURATION, INSTANT, SIZE = _Value("DURATION", duration_ms), _Value("TIME", instant_ms), _Value("SIZE", _size)


def pairs(texts: tuple[str, ...], option: str) -> dict[str, str]:
    """``key=value`` words as a mapping; ends the command when one is none, or a key is there twice."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            refuse(f"{option} {text}: KEY=VALUE is expected")
        if found.setdefault(key.strip(), value) != value:
            refuse(f"{option} {key.strip()} is given twice")
    return found


def partitions_of(text: str) -> tuple[str, list[int] | None]:
    """``orders`` or ``orders:0,3-5``: topic and partitions (None: all); ends the command when it is neither."""
    topic, colon, numbers = text.partition(":")
    if not colon:
        return topic, None
    found: list[int] = []
    for word in numbers.split(","):
        span = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", word, re.ASCII)
        if span is None or int(span[2] or span[1]) - int(span[1]) not in range(100_000):
            refuse(f"{text!r}: TOPIC or TOPIC:PARTITIONS is expected, as orders:0,3-5")
        found += range(int(span[1]), int(span[2] or span[1]) + 1)
    return topic, sorted(set(found))
