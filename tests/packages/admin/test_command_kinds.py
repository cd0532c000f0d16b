"""What every command of a kind has: a walk through the tree of commands, so that the next one cannot forget.

A new command is put into ``KINDS`` (or the test that walks the tree fails), and has then to offer what its kind offers.
"""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from moldau.admin.cli import cli
from moldau.admin.output import FORMATS
from tests.packages.admin.native import ELSEWHERE, NATIVE

NOUNS = (
    "topic", "config", "group", "record", "produce", "consume", "tail", "perf", "reassign", "leader", "replica",
    "broker", "log", "job", "publish", "quorum", "feature", "doctor", "adopt", "status", "storage", "migrate", "spark",
    "pipeline",
)  # fmt: skip

LOOK, READ, RECORDS, CHANGE, DESTROY, WAIT = "look", "read", "records", "change", "destroy", "wait"
OFFERS = {
    LOOK: {"--output", "--watch"},
    READ: {"--output"},
    RECORDS: set[str](),
    CHANGE: {"--dry-run"},
    DESTROY: {"--dry-run", "--yes"},
    WAIT: {"--timeout"},
}
"""What a look at a cluster's present state has to offer, any other answer, records that go in or out, a change, one
of which there is no way back, and what waits for brokers."""

KINDS: dict[str, set[str]] = {
    "topic list": {LOOK},
    "topic describe": {LOOK},
    "topic create": {CHANGE, WAIT},
    "topic alter": {CHANGE, WAIT},
    "topic delete": {DESTROY, WAIT},
    "config describe": {READ},
    "config alter": {DESTROY},
    "group list": {LOOK},
    "group describe": {LOOK},
    "group delete": {DESTROY},
    "group reset": {READ, DESTROY},
    "group offsets": {READ, DESTROY},
    "record get": {RECORDS},
    "record delete": {READ, DESTROY},
    "produce": {RECORDS},
    "consume": {RECORDS},
    "tail": {RECORDS},
    "perf produce": {READ},
    "perf consume": {READ},
    "perf latency": {READ},
    "reassign plan": {READ},
    "reassign generate": {RECORDS},  # prints a plan, which has one form: Kafka's
    "reassign apply": {READ, CHANGE, WAIT},
    "reassign status": {LOOK},
    "reassign pause": {READ, CHANGE, WAIT},
    "reassign resume": {READ, CHANGE, WAIT},
    "reassign rollback": {READ, DESTROY, WAIT},
    "reassign cancel": {DESTROY, WAIT},
    "reassign execute": {READ, CHANGE, WAIT},
    "reassign verify": {READ},
    "reassign list": {LOOK},
    "leader elect": {READ, DESTROY},
    "leader imbalance": {LOOK},
    "replica verify": {READ},
    "broker list": {LOOK},
    "broker describe": {READ},
    "broker configs": {READ},
    "broker stop": {CHANGE, WAIT},  # --force stands for --yes: nothing is asked, it is refused
    "broker start": {CHANGE},
    "broker roll": {CHANGE, WAIT},
    "log merge": {READ},
    "log timeline": {READ},
    "log why": {READ},
    "log skew": {READ},
    "job timeline": {READ},
    "job splits": {READ},
    "job verify": {READ},
    "job load": {READ},
    "job offsets": {READ},
    "job groups": {READ},
    "job lag": {READ},
    "job transactions": {READ},
    "job transaction-history": {READ},
    "job hanging-transactions": {READ},
    "job metadata": {READ},
    "publish": {READ, CHANGE},
    "quorum status": {LOOK},
    "quorum add-controller": {CHANGE, WAIT},
    "quorum remove-controller": {DESTROY},
    "feature list": {READ},
    "feature upgrade": {DESTROY},
    "feature downgrade": {DESTROY},
    "doctor": {LOOK},
    "adopt check": {READ},
    "status": {READ},
    "storage format": set(),  # Kafka's own options
    "storage info": set(),
    "storage random-uuid": set(),
    "migrate brokers": set(),
    "migrate start": set(),
    "migrate status": {READ},
    "migrate finalise": set(),
    "migrate rollback": set(),
    "spark table": {READ},
    "spark adopt": {DESTROY},
    "spark reset": {DESTROY},
    "spark rewind": {DESTROY},
    "pipeline init": set(),
    "pipeline lint": {READ},
    "pipeline export": set(),
    "pipeline plan": {READ},
    "pipeline dry-run": {READ},
    "pipeline test": {READ},
    "pipeline run": set(),
    "pipeline status": {LOOK},
    "pipeline lag": {LOOK},
    "pipeline groups": {CHANGE},
    "pipeline reset": {DESTROY},
    "pipeline replay": {DESTROY},
    "pipeline abandon": {DESTROY},
    "pipeline backfill": {DESTROY},
    "pipeline dlq list": {READ},
    "pipeline dlq replay": {DESTROY},
}
RECORD_FORMATS = {"record get", "consume", "tail", "log merge"}
"""Records, and lines of logs, have formats of their own."""
NAMED = {
    "--topic", "--group", "--broker", "--brokers", "--drain", "--add", "topic", "topics", "places", "patterns", "ids",
    "id", "name", "names",
}  # fmt: skip
"""Options and arguments that name something of the cluster, so that a shell can complete it."""
NEW = {"topic create": {"names"}, "pipeline init": {"name"}}
"""Names of what is not there yet."""
NO_CLUSTER = ("log ", "job ")
"""Commands that read files."""


def walk(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    context = click.Context(command)
    for name in NOUNS if command is cli else command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None, name
        yield from walk(below, (*path, name))


COMMANDS = dict(walk(cli))


def words(command: click.Command) -> set[str]:
    return {word for one in command.params if isinstance(one, click.Option) for word in one.opts}


def test_every_command_is_of_a_kind() -> None:
    assert COMMANDS.keys() == KINDS.keys(), "say of a new command in KINDS what it is"


@pytest.mark.parametrize("name", KINDS)
def test_a_command_offers_what_its_kind_does(name: str) -> None:
    offered = words(COMMANDS[name])
    for kind in KINDS[name]:
        assert offered >= OFFERS[kind], f"moldau {name} is a {kind}"
    if "--wait" in offered:
        assert WAIT in KINDS[name], f"moldau {name} waits"
    if offered & {"--dry-run", "--yes"}:
        assert KINDS[name] & {CHANGE, DESTROY}, f"moldau {name} changes something"


@pytest.mark.parametrize("name", [name for name, command in COMMANDS.items() if "--output" in words(command)])
def test_an_answer_comes_in_every_format(name: str) -> None:
    (option,) = (one for one in COMMANDS[name].params if "--output" in one.opts)
    assert "-o" in option.opts
    assert isinstance(option.type, click.Choice)
    if name not in RECORD_FORMATS:
        assert tuple(option.type.choices) == FORMATS


@pytest.mark.parametrize("name", [name for name in COMMANDS if not name.startswith(NO_CLUSTER)])
def test_what_names_something_of_the_cluster_is_completed(name: str) -> None:
    for one in COMMANDS[name].params:
        named = NAMED & ({*one.opts} if isinstance(one, click.Option) else {one.name or ""})
        if named and not named <= NEW.get(name, set()):
            assert one._custom_shell_complete is not None, f"moldau {name}: {one.opts}"


@pytest.mark.parametrize("name", [name for name, command in COMMANDS.items() if words(command)])
def test_an_option_that_is_nearly_right_is_answered_with_the_right_one(name: str) -> None:
    option = max(words(COMMANDS[name]), key=len)
    done = CliRunner().invoke(cli, [*name.split(), option[:-1] + "x"])
    assert (done.exit_code, option in done.output) == (2, True), done.output


def test_the_examples_of_every_command_are_run_by_a_test() -> None:
    """By the live tests of the nouns that native.py names."""
    assert set(NOUNS) <= {*NATIVE, *ELSEWHERE}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_number_is_taken_that_cannot_be_waited_for_or_compared(name: str) -> None:
    for one in COMMANDS[name].params:
        if isinstance(one, click.Option) and isinstance(one.type, (click.types.FloatParamType, click.FloatRange)):
            for number in ("nan", "inf"):
                places = ["x" for place in COMMANDS[name].params if isinstance(place, click.Argument)]
                done = CliRunner().invoke(cli, [*name.split(), *places, one.opts[-1], number])
                assert (done.exit_code, number in done.output) == (2, True), done.output
