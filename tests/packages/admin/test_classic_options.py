"""Options of the classic tools are read, listed and refused as JOpt Simple does for Kafka's."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.admin.classic.options import GivenOptions, Option, ToolOptionError, ToolUsageError
from moldau.admin.classic.usage import pieces, table

TOPIC = Option("topic", "The topic.", takes="name")
COUNT = Option("partitions", "How many.", takes="# of partitions", type="Integer")
FLAG = Option("list", "List them.")
TIMEOUT = Option("timeout", "How long.", takes="ms", type="Long", default="1000")
MAYBE = Option("wait", "Wait.", takes="ms", optional_value=True)
ALL = (TOPIC, COUNT, FLAG, TIMEOUT, MAYBE)


@pytest.mark.parametrize("words", [["--topic", "a"], ["--topic=a"], ["-topic", "a"], ["--list", "--topic", "a", "x"]])
def test_a_value_is_given_in_three_ways(words: list[str]) -> None:
    assert GivenOptions(ALL, words).value("topic") == "a"


def test_a_value_may_look_like_an_option() -> None:
    assert GivenOptions(ALL, ["--topic", "--list"]).value("topic") == "--list"
    assert GivenOptions(ALL, ["--topic=--list"]).value("topic") == "--list"
    assert not GivenOptions(ALL, ["--wait", "--list"]).values("wait")
    assert GivenOptions(ALL, ["--wait", "--list"]).has("list")


def test_an_option_is_given_more_than_once() -> None:
    given = GivenOptions(ALL, ["--topic", "a", "--topic", "b"])
    assert given.values("topic") == ["a", "b"]
    with pytest.raises(ToolOptionError, match="Found multiple arguments for option topic, but you asked for only one"):
        given.value("topic")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--topics", "a"], "topics is not a recognized option"),
        (["--topi"], "topi is not a recognized option"),
        (["-x"], "x is not a recognized option"),
        (["--topic"], "Option topic requires an argument"),
    ],
)
def test_words_that_are_no_options_are_named(words: list[str], said: str) -> None:
    with pytest.raises(ToolOptionError) as refused:
        GivenOptions(ALL, words)
    assert refused.value.said == said


@pytest.mark.parametrize("value", ["x", "", "1.5", "2147483648", "-2147483649", "1_000", " 1"])
def test_a_number_is_one_of_java(value: str) -> None:
    with pytest.raises(ToolOptionError) as refused:
        GivenOptions((COUNT,), ["--partitions=" + value] if value else ["--partitions", ""]).integer("partitions")
    assert refused.value.said == f"Cannot parse argument '{value}' of option partitions"


def test_defaults_are_values_of_what_is_not_given() -> None:
    given = GivenOptions(ALL, [])
    assert (given.integer("timeout", 64), given.value("topic"), given.has("timeout")) == (1000, None, False)


def test_what_is_missing_or_does_not_go_together_is_refused() -> None:
    given = GivenOptions(ALL, ["--list", "--topic", "a"])
    with pytest.raises(ToolUsageError, match=r'Missing required argument "\[partitions\]"'):
        given.require("topic", "partitions")
    with pytest.raises(ToolUsageError, match=r'Option "\[list\]" can\'t be used with option "\[topic\]"'):
        given.exclude("list", ["partitions", "topic"])


def test_lines_are_broken_where_java_breaks_them() -> None:
    assert pieces("of 'NUMBER-', '([^:,]*) x") == ["of ", "'NUMBER-', ", "'([^:,]", "*) ", "x"]
    assert pieces("log-dirs, 5-. (a") == ["log-", "dirs, ", "5-", ". ", "(a"]


def test_options_are_listed_in_two_columns() -> None:
    lines = table((*ALL, Option("broker", "Its id.", required=True, takes="", aliases=("b",)))).splitlines()
    assert [line.rstrip() for line in lines] == [
        "Option (* = required)                    Description",
        "---------------------                    -----------",
        "* -b, --broker <String>                  Its id.",
        "--list                                   List them.",
        "--partitions <Integer: # of partitions>  How many.",
        "--timeout <Long: ms>                     How long. (default: 1000)",
        "--topic <String: name>                   The topic.",
        "--wait [String: ms]                      Wait.",
    ]
    assert len({len(line) for line in lines}) == 1


def test_scripts_are_installed_and_strangers_kept(tmp_path: Path) -> None:
    def install(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "moldau", "install-scripts", str(tmp_path / "bin"), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert install().returncode == 0
    script = tmp_path / "bin" / "kafka-run-class.sh"
    said = subprocess.run([script, "no.such.Class"], capture_output=True, text=True, check=False)
    assert (said.returncode, said.stderr.splitlines()[0]) == (
        1,
        "Error: Could not find or load main class no.such.Class",
    )
    assert install().returncode == 0, "its own are replaced"
    script.write_text("#!/bin/sh\necho mine\n")
    refused = install()
    assert (refused.returncode, "kafka-run-class.sh" in refused.stderr) == (1, True)
    assert "mine" in script.read_text()
    assert install("--force").returncode == 0


def test_a_script_runs_no_python_file_of_the_folder_where_it_is_called(tmp_path: Path) -> None:
    install = [sys.executable, "-m", "moldau", "install-scripts", str(tmp_path / "bin")]
    subprocess.run(install, capture_output=True, check=True)
    for name in ("random", "queue", "json", "types"):
        (tmp_path / f"{name}.py").write_text("print('not asked for')\nraise SystemExit(1)\n")
    command = [str(tmp_path / "bin" / "kafka-topics.sh"), "--version"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (said.returncode, said.stdout.startswith("4.3.1"), said.stderr) == (0, True, "")


def test_an_interrupted_tool_ends_as_a_jvm_does_without_a_word() -> None:
    """Nobody listens at port 1: the tool asks again and again, and says so."""
    command = [sys.executable, "-m", "moldau", "kafka-topics.sh", "--list", "--bootstrap-server", "127.0.0.1:1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tool:
        assert tool.stderr is not None
        assert "Node may not be available" in tool.stderr.readline()
        tool.send_signal(signal.SIGINT)
        out, err = tool.communicate(timeout=240)
    assert (tool.returncode, out) == (130, "")
    assert all("Node may not be available" in line for line in err.splitlines())
