"""What commands share, without a cluster: words that are nearly right, values of options, clients' files, formats."""

from __future__ import annotations

import inspect
import io
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import example, given
from hypothesis import strategies as st

from moldau.admin import completing, doctor, options, output
from moldau.admin.asking import Talk
from moldau.admin.cli import COMMANDS, cli
from moldau.admin.client_config import BadClientConfig, read_client_config
from moldau.admin.findings import Finding
from moldau.admin.lazy import loaded
from moldau.admin.main import INTERRUPTED, main
from moldau.admin.options import wait_until
from moldau.admin.record_text import as_json, dump, read_json, shown
from moldau.admin.topic_changes import with_near_keys
from moldau.model import TopicPartition
from moldau.wire.batch import Record
from tests.packages.admin.native import NATIVE

NOBODY = ["--bootstrap-server", "127.0.0.1:9"]


def run(*words: str, stdin: str = "") -> Result:
    return CliRunner().invoke(cli, words, input=stdin)


# ---- words


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("topc list", "Did you mean topic"),
        ("kafka-topic.sh", "kafka-topics.sh"),
        ("topic lst", "Did you mean list"),
        ("group rest g", "Did you mean reset"),
        ("topic list --under-replicatd", "--under-replicated"),
        ("topic list -o jsn", "json"),
        ("zzz", "`moldau --help` lists all commands"),
    ],
)
def test_a_word_that_is_nearly_right_is_answered_with_the_right_one(words: str, hint: str) -> None:
    done = run(*words.split())
    assert done.exit_code == 2
    assert hint in done.output


def commands(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not isinstance(command, click.Group):
        return [path]
    context = click.Context(command)
    found = [path]
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        found += commands(below, (*path, name))
    return found


@pytest.mark.parametrize("name", NATIVE)
def test_every_command_has_a_help_that_says_what_it_does(name: str) -> None:
    for path in commands(loaded(COMMANDS[name][0]), (name,)):
        done = run(*path, "--help")
        assert done.exit_code == 0, done.output
        assert len(done.output.splitlines()[2].strip()) > 20, path


def functions(command: click.Command) -> list[click.Command]:
    """The commands that do something, of a group and of all groups below it."""
    if not isinstance(command, click.Group):
        return [command]
    context = click.Context(command)
    below = [command.get_command(context, name) for name in command.list_commands(context)]
    return [one for each in below if each is not None for one in functions(each)]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_takes_just_what_its_options_give(name: str) -> None:
    """Types end between click and the function: what the one gives and the other declares is compared by name."""
    for command in functions(loaded(COMMANDS[name][0])):
        assert command.callback is not None
        work = inspect.unwrap(command.callback, stop=lambda one: hasattr(one, "__signature__"))
        takes: set[str] = set()
        for one in inspect.signature(work).parameters.values():
            if one.kind is one.VAR_KEYWORD:
                wishes = re.fullmatch(r"Unpack\[(\w+)\]", str(one.annotation))
                if wishes is None:
                    break  # takes anything
                takes |= set(work.__globals__[wishes[1]].__annotations__)
            elif one.annotation != "click.Context":
                takes.add(one.name)
        else:
            assert takes == {one.name for one in command.params if one.expose_value}, command.name


LOADED = """
import sys
from click.testing import CliRunner
from moldau.admin.cli import cli
for words in {words!r}:
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == {code}, done.output
print(*sorted(sys.modules))
"""
HEAVY = {
    "asyncio",
    "uvloop",
    "rich",
    "kazoo",
    "lz4",
    "zstandard",
    "cramjam",
    "crc32c",
    "random",
    "hashlib",
    "subprocess",
}
"""Packages that take longer to load than a whole command may: none is needed before a cluster is asked."""
OF_OURS = ("moldau.client", "moldau.wire", "moldau.broker", "moldau.storage", "moldau.image", "moldau.cluster")


def loaded_by(words: list[list[str]], code: int) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(words=words, code=code)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_help_and_refused_options_load_nothing_of_the_client() -> None:
    """Start-up is measured in bench; what makes it is held here, where no machine's load can hide it."""
    asked = [[*path, "--help"] for name in NATIVE for path in commands(loaded(COMMANDS[name][0]), (name,))]
    stops = [words for words in asked if words[:2] in (["broker", "stop"], ["broker", "start"], ["broker", "roll"])]
    modules = loaded_by([words for words in asked if words not in stops], 0)
    modules |= loaded_by([["topic", "list", "--nope"], ["consume"], ["group", "reset", "g"]], 2)
    own = {"random", "hashlib", "subprocess"}  # of the test's own runner
    assert not {one for one in modules if one.split(".")[0] in HEAVY - own}
    assert not {one for one in modules if one.startswith(OF_OURS)}


def test_a_command_that_asks_a_cluster_loads_no_loop_no_broker_and_no_codec() -> None:
    modules = set(
        subprocess.run(
            [sys.executable, "-c", "import sys, moldau.client.sync, moldau.client.admin; print(*sorted(sys.modules))"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
    )
    heavy = {"asyncio", "uvloop", "rich", "kazoo", "lz4", "zstandard", "cramjam", "logging", "subprocess", "ssl"}
    assert not modules & heavy
    ours = ("moldau.broker", "moldau.storage", "moldau.image", "moldau.cluster", "moldau.ports", "moldau.controller")
    assert not {one for one in modules if one.startswith(ours)}


STATUS = """
import sys
from pathlib import Path
from click.testing import CliRunner
from moldau.cluster.nodes import ClusterSpec, NodeSpec
folder = Path(sys.argv[1])
ClusterSpec("cluster-cluster-cluste", [NodeSpec(1, "broker,controller", str(folder / "node-1"))]).save(folder)
from moldau.admin.cli import cli
done = CliRunner().invoke(cli, ["status", "--data", str(folder)])
assert "stopped" in done.output, done.output
print(*sys.modules)
"""


def test_a_look_at_a_cluster_of_this_machine_loads_no_broker_no_codec_and_no_data_frames(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STATUS, str(tmp_path)]
    modules = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    heavy = {"uvloop", "kazoo", "lz4", "zstandard", "cramjam", "pyarrow", "pandas", "pyspark", "starlette", "uvicorn"}
    assert not modules & heavy
    ours = ("moldau.broker", "moldau.controller", "moldau.quorum", "moldau.simulator", "moldau.spark", "moldau.console")
    assert not {one for one in modules if one.startswith(ours)}


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_completion_script_of_a_shell_calls_moldau(shell: str) -> None:
    done = run("completion", shell)
    assert done.exit_code == 0
    assert "_MOLDAU_COMPLETE" in done.output


def test_completion_of_names_gives_nothing_and_says_nothing_when_nobody_answers() -> None:
    words = {"_MOLDAU_COMPLETE": "zsh_complete", "COMP_WORDS": "moldau topic describe x", "COMP_CWORD": "3"}
    env = {**words, "MOLDAU_BOOTSTRAP": "127.0.0.1:9"}
    done = subprocess.run([sys.executable, "-m", "moldau"], env={**env, "PYTHONPATH": ":".join(sys.path)},
                          capture_output=True, text=True, check=False, cwd="/")  # fmt: skip
    assert (done.stdout.strip(), done.stderr) == ("", "")


# ---- what cannot be meant


@pytest.mark.parametrize(
    "words",
    [
        "topic create",
        "topic create a --assignment 1:x",
        "topic create a --assignment 1:1",
        "topic create a --assignment 1 -p 2",
        "topic create a --set retention.ms",
        "topic create a --set a=1 --set a=2",
        "topic create a -p 0",
        "topic alter a",
        "topic alter a --set x=1 --unset x",
        "config describe",
        "config alter --topic a",
        "config alter --topic a --set x=1 --append x=2",
        "group reset g",
        "group reset g --topic t",
        "group reset g --to earliest",
        "group reset g --topic t --to noon",
        "group reset g --topic t --to earliest --shift-by 1",
        "group reset g --topic t --by-duration soon",
        "group reset g --topic t --to-datetime yesterday",
        "group reset g --topic t --from-file x",
        "group reset g --from-file /nowhere/at-all",
        "group offsets g --delete",
        "record get t-0",
        "record get t-0 --offset 5 --at -10m",
        "record get t-0 --offset 5:2",
        "record get t-0 --at noon",
        "record delete t --before noon",
        "produce t -m x -f y",
        "produce t --format key-value --separator=",
        "produce t --format json --key k",
        "consume t --from noon",
        "consume t --columns nope",
        "consume t --grep (",
        "perf produce t -n 0",
        "perf produce t --size big",
        "perf produce t --size 999999GB",
        "reassign plan --balance racks --throttle 99999999999999999999",
        "perf latency t --rate 0",
        "feature downgrade metadata.version",
        "feature upgrade metadata.version=new",
    ],
)
def test_what_cannot_be_meant_is_refused_as_usage_before_anybody_is_asked(words: str) -> None:
    done = run(*words.split(), *NOBODY)
    assert done.exit_code == 2, done.output
    assert "nobody listens" not in done.output


@pytest.mark.parametrize("given", ["[]", "{}", "[1]", "[" * 5000, '[{"topic": "t"}]', "t,0", "t,0,x", "a\tb\tc"])
def test_a_file_of_offsets_that_is_none_is_refused(given: str, tmp_path: Path) -> None:
    file = tmp_path / "offsets"
    file.write_text(given)
    done = run("group", "reset", "g", "--from-file", str(file), *NOBODY)
    assert done.exit_code == 2
    assert str(file) in done.output


@pytest.mark.parametrize(
    "text",
    [
        '[{"topic": "t", "partition": 0, "offset": 5, "metadata": ""}, {"topic": "u", "partition": 1, "offset": 7}]',
        "TOPIC\tPARTITION\tOFFSET\nt\t0\t5\nu\t1\t7\n",
        "t,0,5\nu,1,7\n",
        '"g","t",0,5\n"g","u",1,7\n',
    ],
)
def test_files_of_offsets_are_read_in_each_form_that_is_written(text: str, tmp_path: Path) -> None:
    from moldau.admin.group_offsets import read_offsets

    file = tmp_path / "offsets"
    file.write_text(text)
    assert read_offsets(str(file)) == {TopicPartition("t", 0): 5, TopicPartition("u", 1): 7}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[{"topic": "orders", "partition": 0, "committed": "x"}]', "entry 1 has no offset"),
        ('[{"topic": "t", "partition": 0, "offset": 5}, 7]', "entry 2 has no topic, partition, offset"),
        ('{"a": 1}', "a list of objects with topic, partition and offset is expected"),
        ("[" * 100_000, "is nested too deeply"),
        ('[{"topic": ', "is no JSON: Expecting value: line 1 column 12"),
        ("- topic: t\n  partition: 0\n  offset: 5\n", "is YAML, which is not read here"),
    ],
)
def test_what_a_file_of_offsets_lacks_is_told_in_plain_words(text: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "offsets"
    file.write_text(text)
    refused = run("group", "reset", "g", "--from-file", str(file), "-b", "127.0.0.1:1")
    assert refused.exit_code == 2
    assert why in refused.stderr
    assert not any(word in refused.stderr for word in ("KeyError", "TypeError", "Traceback"))


def test_a_state_that_no_group_can_have_is_refused() -> None:
    refused = run("group", "list", "--state", "Foo", "-b", "127.0.0.1:1")
    assert refused.exit_code == 2
    assert "'stable', 'empty'" in refused.stderr.lower()


@pytest.mark.parametrize(
    "words",
    ["topic list", "config describe --topic t", "group list", "record get t-0 --offset 0", "produce t -m x",
     "consume t", "tail t", "feature list", "broker list", "doctor", "perf consume t", "perf produce t"],
)  # fmt: skip
def test_a_port_of_somebody_else_is_told_in_one_line(words: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as web:
        threading.Thread(target=_answer_as_a_web_server, args=(web,), daemon=True).start()
        place = f"127.0.0.1:{web.getsockname()[1]}"
        done = run(*words.split(), "-b", place)
    assert done.exit_code == 1
    assert done.output.count("\n") == 1
    assert f"{place} is no Kafka broker but a web server" in done.output


def _answer_as_a_web_server(listener: socket.socket) -> None:
    try:
        line, _ = listener.accept()
        with line:
            line.recv(100)
            line.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    except OSError:
        return


def test_without_a_terminal_and_without_yes_nothing_is_destroyed() -> None:
    with pytest.raises(SystemExit) as ended:
        options.confirm("Delete it?", yes=False)
    assert ended.value.code == 2


# ---- files of clients


def config_file(folder: Path, text: str) -> str:
    file = folder / "client.properties"
    file.write_text(text)
    return str(file)


@pytest.mark.parametrize(
    "text",
    [
        "bootstrap.servers=here:1\nclient.id=me\nrequest.timeout.ms=7",
        "metadata.broker.list=here:1\nclient.id=me\nsocket.timeout.ms=7",
    ],
)
def test_java_s_and_librdkafka_s_names_mean_the_same(text: str, tmp_path: Path) -> None:
    config = read_client_config(config_file(tmp_path, text))
    assert config.given == {"bootstrap.servers": "here:1", "client.id": "me", "request.timeout.ms": "7"}
    assert config.unused == []


@pytest.mark.parametrize(
    "line",
    ["security.protocol=SASL_SSL", "sasl.mechanism=PLAIN", "ssl.ca.location=/x", "ssl.truststore.location=/x",
     "sasl.jaas.config=x", "enable.ssl.certificate.verification=false"],
)  # fmt: skip
def test_what_would_have_been_hidden_is_refused_by_name_and_not_sent_in_the_clear(line: str, tmp_path: Path) -> None:
    path = config_file(tmp_path, f"bootstrap.servers=127.0.0.1:9\n{line}")
    done = run("topic", "list", "--command-config", path)
    assert done.exit_code == 2
    assert line.partition("=")[0] in done.output


@pytest.mark.parametrize(
    "key",
    ["metrics.recording.level", "linger.ms", "queue.buffering.max.ms", "batch.size", "delivery.timeout.ms",
     "enable.idempotence", "group.id", "auto.offset.reset"],
)  # fmt: skip
def test_settings_that_no_command_uses_are_named(key: str, tmp_path: Path) -> None:
    path = config_file(tmp_path, f"bootstrap.servers=127.0.0.1:9\nsecurity.protocol=PLAINTEXT\n{key}=1")
    assert read_client_config(path).unused == [key]


def test_the_servers_of_the_file_are_asked_unless_the_command_line_names_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moldau.admin.asking.NOBODY_S", 0.1)
    path = config_file(tmp_path, "bootstrap.servers=127.0.0.1:9")
    assert "127.0.0.1:9: nobody" in run("topic", "list", "--command-config", path).output
    assert "127.0.0.1:8: nobody" in run("topic", "list", "--command-config", path, "-b", "127.0.0.1:8").output


@pytest.mark.parametrize("text", ["request.timeout.ms=soon", "default.api.timeout.ms=-1"])
def test_a_value_that_is_no_number_is_named(text: str, tmp_path: Path) -> None:
    done = run("topic", "list", "--command-config", config_file(tmp_path, f"bootstrap.servers=127.0.0.1:9\n{text}"))
    assert done.exit_code == 2
    assert text in done.output


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadClientConfig, match="no text file"):
        read_client_config(str(tmp_path / "binary"))


# ---- values


@pytest.mark.parametrize(
    ("text", "ms"), [("90s", 90_000), ("1h30m", 5_400_000), ("250ms", 250), ("1.5h", 5_400_000), ("2d", 172_800_000),
                     ("PT1H30M", 5_400_000), ("P1DT2S", 86_402_000)],
)  # fmt: skip
def test_durations(text: str, ms: int) -> None:
    assert options.duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "5", "m", "5x", "P", "PT", "1h30", "-5m", "1e3s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        options.duration_ms(text)


@pytest.mark.parametrize(
    ("text", "ms"),
    [("-10m", 400_000), ("@17", 17), ("2026-11-22T10:00:00Z", 1_795_341_600_000),
     ("2026-11-22T10:00:00,500+00:00", 1_795_341_600_500)],
)  # fmt: skip
def test_times(text: str, ms: int) -> None:
    assert options.instant_ms(text, now_ms=1_000_000) == ms


@given(st.text())
def test_any_text_is_a_time_or_refused(text: str) -> None:
    try:
        assert isinstance(options.instant_ms(text, 0), int)
    except ValueError as error:
        said = str(error)
        assert "is no " in said  # either is right


@pytest.mark.parametrize(
    ("text", "found"),
    [("t", ("t", None)), ("t:0", ("t", [0])), ("t:0,3-5", ("t", [0, 3, 4, 5])), ("t:2,2", ("t", [2]))],
)
def test_partitions_are_named_by_numbers_and_spans(text: str, found: tuple[str, list[int] | None]) -> None:
    assert options.partitions_of(text) == found


@pytest.mark.parametrize("text", ["t:", "t:x", "t:5-3", "t:0-99999999", "t:-1", "t:1,"])
def test_partitions_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(SystemExit):
        options.partitions_of(text)


# ---- formats

ROWS = [
    {"topic": "t", "isr": [1, 2], "lag": 5, "ok": True, "none": None},
    {"topic": "uu", "isr": [], "lag": 12, "ok": False},
]


def test_a_table_sets_numbers_to_the_right_and_leaves_nothing_out() -> None:
    assert output.table(ROWS, ["topic", "isr", "lag", "ok", "none"]).splitlines() == [
        "TOPIC  ISR  LAG  OK   NONE",
        "t      1,2    5  yes  -",
        "uu     -     12  no   -",
    ]


def test_tabs_are_only_between_cells() -> None:
    assert output.tabs([{"a": "x\ty", "b": 1}], ["a", "b"]) == "A\tB\nx\\ty\t1"


@pytest.mark.parametrize("name", ["\x1b[31mred", "a\nb", "\x9b31m", "\u202eevil", "\x7f"])
def test_names_of_others_neither_move_the_cursor_nor_make_lines(name: str) -> None:
    """A group called ESC [31m painted the terminal, and one with a newline made two lines of the table."""
    for text in (output.table([{"a": name}], ["a"]), output.tabs([{"a": name}], ["a"])):
        assert len(text.split("\n")) == 2
        assert text.replace("\n", "").isprintable()
    assert output.cell(["one", "\x1b"]) == "one,\\x1b"
    assert output.lines_printable("group \x1b[31mred\nand more") == "group \\x1b[31mred\nand more"


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


class AtTerminal:
    """The module ``sys`` of a command that is typed at a terminal."""

    def __init__(self) -> None:
        self.stdin = self.stderr = Terminal()


def test_answers_bars_and_completions_drive_no_terminal_either(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`moldau doctor`, `log why` and others printed names and reasons as they were given."""
    evil = "a\x1b]0;b\x07\x9b31m"
    output.say(f"group {evil}\n\twas deleted")
    output.draw_bar(f"moves of {evil}")
    output.take_bar_away()
    out, err = capsys.readouterr()
    assert out == "group a\\x1b]0;b\\x07\\x9b31m\n\twas deleted\n"
    assert not [one for one in ("\x1b]", "\x07", "\x9b") if one in err]
    doctor._show([Finding("warning", f"group {evil}\nerror    x", "is lost", "look")], "text")
    assert [line[:8] for line in capsys.readouterr().out.splitlines()] == ["warning ", " " * 8, "errors: "]
    told = list[str]()
    monkeypatch.setattr(options, "sys", AtTerminal())
    monkeypatch.setattr(click, "confirm", lambda question, err: told.append(question) or True)
    options.confirm(f"Delete {evil}?", yes=False)
    assert told == ["Delete a\\x1b]0;b\\x07\\x9b31m?"]
    assert completing._begin("a", [evil, "a\nb", "ab"]) == ["ab"]
    assert output.cell("žluťoučký 😀") == "žluťoučký 😀"


def test_a_pipe_gets_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not output.is_coloured()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert output.is_coloured()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not output.is_coloured()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda below: st.lists(below) | st.dictionaries(st.text(), below),
    max_leaves=12,
)  # fmt: skip


@given(JSON)
@example({"A:0": "B:1"})
@example({"Infinity": "NaN"})
@example([{"k" * 2_000: {"\t" * 600: [1, {"a": "b"}]}, "c": "d"}])
def test_yaml_says_what_json_says(value: object) -> None:
    assert yaml.safe_load(output.yaml(value)) == value


@given(st.lists(st.text()))
@example(["😀", "\\ud83d\\ude00", "\x7f", "\x85\u2028\ufeff"])
def test_yaml_is_read_by_others_as_it_was_meant(texts: list[str]) -> None:
    """A character beyond the first 65536 was written as two, and read as two that are none."""
    assert yaml.safe_load(output.yaml([{"text": text} for text in texts])) == [{"text": text} for text in texts]


HEADERS = st.lists(st.tuples(st.text(), st.none() | st.binary()))


@given(st.none() | st.binary(), st.none() | st.binary(), HEADERS)
def test_a_record_as_json_is_read_back_as_it_was(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    line = json.dumps(as_json(TopicPartition("t", 3), Record(7, 1000, key, value, headers))).encode()
    wish = read_json(line)
    assert (wish.key, wish.value, list(wish.headers), wish.partition, wish.timestamp_ms) == (
        key,
        value,
        headers,
        3,
        1000,
    )


@given(st.binary())
def test_any_bytes_are_shown_as_one_line_that_moves_no_cursor(data: bytes) -> None:
    assert shown(data).isprintable()


@given(st.binary(max_size=100))
def test_a_dump_has_all_bytes(data: bytes) -> None:
    lines = dump(TopicPartition("t", 0), Record(0, 0, None, data, [])).splitlines()
    assert b"".join(bytes.fromhex(line[12:59]) for line in lines if line.startswith("  0")) == data


@pytest.mark.parametrize("line", [b"", b"[]", b'{"vlue": "x"}', b'{"headers": [1]}', b'{"headers": [{}]}',
                                  b'{"partition": "x"}', b'{"timestamp": -2}', b'{"value_base64": "?"}',
                                  b"[" * 9_999])  # fmt: skip
def test_json_that_is_no_record_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):
        read_json(line)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("completion bash > /dev/full", "moldau: standard output: No space left on device"),
        ("--help > /dev/full", "moldau: standard output: No space left on device"),
        ("kafka-storage.sh random-uuid > /dev/full", "moldau: standard output: No space left on device"),
        ("completion bash >&-", "moldau: standard output is closed"),
        ("kafka-storage.sh random-uuid >&-", "moldau: standard output is closed"),
        ("topic delete orders <&-", "moldau: 127.0.0.1:9: nobody listens there"),
    ],
)
def test_output_that_goes_nowhere_is_told_in_one_line(line: str, said: str) -> None:
    environment = {**os.environ, "MOLDAU_BOOTSTRAP": "127.0.0.1:9"}
    shell = ["bash", "-c", f"{sys.executable} -m moldau {line}"]
    done = subprocess.run(shell, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(said)
    assert len(done.stderr.splitlines()) == 1


def test_who_interrupts_gets_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["moldau", "topic", "list", *NOBODY])
    monkeypatch.setattr("moldau.admin.topic.matching", interrupted)
    monkeypatch.setattr("moldau.admin.asking._who_answers", lambda _: (("127.0.0.1", 9), ""))
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == INTERRUPTED
    assert capsys.readouterr().err == "moldau: interrupted\n"


def test_an_interrupt_that_an_import_wraps_is_one_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python 3.11 raises RuntimeError from what __set_name__ raises, while a class is made."""

    def interrupted(arguments: object) -> None:
        raise RuntimeError("Error calling __set_name__") from KeyboardInterrupt()

    monkeypatch.setattr("moldau.admin.main._run", interrupted)
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, capsys.readouterr().err) == (INTERRUPTED, "moldau: interrupted\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("topic", "list", "-b", "127.0.0.1:65536"), "is not an address"),
        (("topic", "list", "-b", "http://127.0.0.1:9"), "is not an address"),
        (("topic", "create", "x", "-p", str(2**31), *NOBODY), "2147483647"),
        (("feature", "upgrade", "metadata.version=99999", *NOBODY), "from 0 to 9999"),
        (("reassign", "verify", "--plan", sys.executable, *NOBODY), "it is no text file"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anybody_is_asked(words: tuple[str, ...], said: str) -> None:
    done = CliRunner().invoke(cli, [str(word) for word in words])
    assert (done.exit_code, said in done.output + done.stderr) == (2, True), done.output


def test_an_interrupt_in_an_evaluated_string_ends_with_the_exit_code_too(tmp_path: Path) -> None:
    """As in a codec that is just being made: CPython would end a module's process by the signal, whoever handles it."""
    (tmp_path / "interrupted.py").write_text(
        "from moldau.admin import main\nmain._run = lambda arguments: exec('raise KeyboardInterrupt')\nmain.main()\n"
    )
    command = [sys.executable, "-m", "interrupted", "topic"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (INTERRUPTED, "moldau: interrupted\n")


def test_the_time_that_a_change_may_take_is_not_begun_again_when_it_is_waited_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    looks: list[None] = []
    with pytest.raises(SystemExit) as end:
        wait_until(lambda: looks.append(None) is not None, 60.0, "it is there", since_s=time.monotonic() - 61)
    assert (end.value.code, len(looks)) == (3, 1)
    assert "not within 60 s: it is there" in capsys.readouterr().err


def test_another_conversation_that_is_to_be_brief_is_so_in_connecting_too() -> None:
    with Talk("127.0.0.1:1", answered=("127.0.0.1", 1)) as talk, talk.apart(5_000) as brief:
        options = brief.cluster.client.lines.options
        assert (options.connect_timeout_ms, options.request_timeout_ms) == (5_000, 5_000)


@pytest.mark.parametrize(
    ("said", "keys", "told"),
    [
        ("Unknown topic config name: retention.mss", ["retention.mss"],
         "Unknown topic config name: retention.mss. Did you mean retention.ms"),
        ("one is wrong.", ["retention.mss"], "one is wrong. retention.mss: Did you mean retention.ms"),
        (None, ["retention.mss"], "retention.mss: Did you mean retention.ms"),
        ("too large", ["retention.ms"], "too large"),
    ],
)  # fmt: skip
def test_a_key_that_is_nearly_right_is_named_once(said: str | None, keys: list[str], told: str) -> None:
    """It told "retention.mss retention.mss: Did you mean ...", as if it were the name of one setting."""
    assert str(with_near_keys(said, keys)).startswith(told)
