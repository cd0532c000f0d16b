"""`up` goes on with the cluster of its folder as it was laid out, and leaves nothing behind when it cannot start it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from moldau.admin.asking import default_bootstrap
from moldau.admin.cli import cli
from moldau.admin.main import main
from moldau.admin.up import LOOKS_UNTIL_GONE, _wait_while_it_runs, _warn_of_unknown
from moldau.cluster.cluster import Cluster
from moldau.cluster.nodes import HOST, ClusterSpec, NodeSpec, free_ports, is_alive, launch, ours
from tests.packages.doubles import TimeModule


def up(folder: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "moldau", "up", "--data", str(folder), *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def pids(folder: Path) -> list[int]:
    """What the folder says of its processes, whether they live or not."""
    return [node["pid"] for node in json.loads((folder / "cluster.json").read_text())["nodes"] if node["pid"]]


def test_an_up_that_fails_says_why_and_leaves_nothing_running(tmp_path: Path) -> None:
    taken = Cluster(2, data=tmp_path).spec.nodes[1].port
    with socket.socket() as other:
        other.bind((HOST, taken))
        _, said = (command := up(tmp_path)).communicate(timeout=240)
    assert command.returncode == 1
    assert f"port {taken}, on which node 2 is to listen, is somebody else's" in said
    assert "--port" in said
    assert "Traceback" not in said
    assert not any(map(is_alive, pids(tmp_path)))


def test_a_node_whose_port_is_somebody_elses_is_not_started(tmp_path: Path) -> None:
    """Who answers there would be taken for it, if only by the same id and another cluster's word."""
    cluster = Cluster(1, data=tmp_path)
    with socket.create_server((HOST, cluster.spec.nodes[0].port)):
        done = CliRunner().invoke(cli, ["broker", "start", "1", "--data", str(tmp_path)])
    assert done.exit_code == 1
    assert "is somebody else's" in done.output
    assert cluster.alive() == []
    assert not pids(tmp_path)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_up_that_is_interrupted_leaves_nothing_running(tmp_path: Path, how: signal.Signals) -> None:
    cluster = Cluster(2, data=tmp_path)
    del cluster.spec.nodes[1]  # so that the other waits for its vote, and is never up
    cluster.spec.save(tmp_path)
    command = up(tmp_path)
    deadline = time.monotonic() + 120
    while not pids(tmp_path):
        assert time.monotonic() < deadline, command.poll()
        time.sleep(0.01)
    command.send_signal(how)
    _, said = command.communicate(timeout=240)
    assert (command.returncode, said) == (130, "moldau: interrupted while it was starting\n")
    assert not any(map(is_alive, pids(tmp_path)))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--brokers 5", "has --brokers 2, not 5"),
        ("--controllers 1", "has --controllers combined, not 1"),
        ("--mode zookeeper", "has --mode kraft, not zookeeper"),
        ("--plane zookeeper", "has --mode kraft, not zookeeper"),
        ("--config num.partitions=7", "was made without num.partitions=7"),
    ],
)
def test_another_layout_than_the_folder_has_is_refused(words: str, says: str, tmp_path: Path) -> None:
    Cluster(2, data=tmp_path)
    done = CliRunner().invoke(cli, ["up", "--data", str(tmp_path), *words.split()])
    assert done.exit_code == 1
    assert says in done.output
    assert not pids(tmp_path)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--mode kraft --zookeeper embedded", "--mode kraft and --zookeeper embedded: a cluster is in one mode"),
        ("--zookeeper 127.0.0.1:2181 --plane quorum", "a cluster is in one mode"),
        ("--mode zookeeper --controllers 3", "in ZooKeeper mode every broker is a candidate for controller"),
        ("--zookeeper embedded --controllers 1", "in ZooKeeper mode every broker is a candidate for controller"),
        ("--zookeeper=", "names no server"),
        ("--zookeeper 127.0.0.1:port", "has no port between 1 and 65535"),
        ("--controllers 0", "a number from 1 on, or combined, is expected"),
        ("--controllers ²", "a number from 1 on, or combined, is expected"),
    ],
)
def test_options_that_cannot_be_meant_together_are_refused_before_anything_is_made(
    words: str, says: str, tmp_path: Path
) -> None:
    done = CliRunner().invoke(cli, ["up", "--data", str(tmp_path / "cluster"), *words.split()])
    assert done.exit_code == 2, done.output
    assert says in done.stderr
    assert not list(tmp_path.iterdir())


def test_an_up_that_fails_before_any_node_runs_takes_back_what_it_made(tmp_path: Path) -> None:
    (taken,) = free_ports(1)
    words = ["up", "--brokers", "1", "--port", str(taken), "--data", str(tmp_path / "above" / "cluster")]
    with socket.create_server((HOST, taken)):
        done = CliRunner().invoke(cli, words)
    assert done.exit_code == 1
    assert "is somebody else's" in done.stderr
    assert "stays" not in done.stderr
    assert not list(tmp_path.iterdir())
    refused = CliRunner().invoke(cli, [*words, "--config", "num.network.threads=0"])
    assert refused.exit_code == 1
    assert not list(tmp_path.iterdir())


def test_an_up_whose_nodes_end_says_that_the_folder_with_their_logs_stays(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    with socket.create_server((HOST, 0)) as other:
        taken = f"http.listener={HOST}:{other.getsockname()[1]}"
        command = up(folder, "--brokers", "1", "--port", "0", "--config", taken)
        _, said = command.communicate(timeout=240)
    assert command.returncode == 1, said
    assert f"{folder} stays, with the logs of its nodes: `moldau up --data {folder}` tries again" in said
    assert (folder / "cluster.json").exists()


@pytest.mark.parametrize("columns", ["5", "20", "80"])
def test_a_table_of_nodes_is_not_cut_off_where_the_terminal_is_narrow(columns: str, tmp_path: Path) -> None:
    Cluster(1, data=tmp_path)
    shown = CliRunner(env={"COLUMNS": columns}).invoke(cli, ["status", "--data", str(tmp_path)])
    assert shown.exit_code == 1, shown.output
    _, head, row = shown.stdout.splitlines()
    assert head.split()[:4] == ["NODE", "ROLES", "STATE", "PID"]
    assert head.split()[-1] == "OUT-OF-SYNC"
    assert row.split()[:4] == ["1", "broker,controller", "stopped", "-"]


def test_a_number_that_somebody_else_has_now_is_no_node_of_ours(tmp_path: Path) -> None:
    sleeper = subprocess.Popen([sys.executable, "-c", "input()", str(tmp_path / "node-1")], stdin=subprocess.PIPE)
    try:
        assert ours(sleeper.pid, tmp_path) == sleeper.pid
        assert ours(sleeper.pid, tmp_path / "elsewhere") is None
        cluster = Cluster(1, data=tmp_path / "cluster")
        cluster.spec.nodes[0].pid = sleeper.pid
        cluster.spec.save(cluster.folder)
        assert Cluster(data=cluster.folder).alive() == []
    finally:
        sleeper.communicate()


@pytest.mark.parametrize("words", ["sim --scene expire", "sim --seeds 0", "demo --flights 0", "demo --seconds -1"])
def test_what_cannot_be_run_is_refused_as_usage(words: str) -> None:
    done = CliRunner().invoke(cli, words.split())
    assert done.exit_code == 2
    assert "Error: " in done.output


def test_where_nobody_listens_is_said_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moldau.admin.asking.NOBODY_S", 0.2)
    done = CliRunner().invoke(cli, ["quorum", "status", "--bootstrap-server", "127.0.0.1:9"])
    assert done.exit_code == 1
    assert "127.0.0.1:9: nobody listens there" in done.output


@pytest.mark.parametrize("command", ["up", "down", "status"])
@pytest.mark.parametrize("text", ["", "{}", "[]", '{"nodes": [{"id": 1}]}'])
def test_a_folder_whose_file_is_not_of_a_cluster_is_named_and_left_alone(
    tmp_path: Path, command: str, text: str
) -> None:
    (tmp_path / "cluster.json").write_text(text)
    done = CliRunner().invoke(cli, [command, "--data", str(tmp_path)])
    assert done.exit_code == 1
    assert f"{tmp_path}/cluster.json does not describe a cluster" in done.output
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("cluster.json", text)]


def test_a_file_in_place_of_the_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = CliRunner().invoke(cli, ["up", "--data", str(tmp_path / "file")])
    assert done.exit_code == 1
    assert "Not a directory" in done.output


def test_a_bootstrap_server_that_is_no_address_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moldau.admin.asking.NOBODY_S", 0.5)
    done = CliRunner().invoke(cli, ["quorum", "status", "--bootstrap-server", f"{'x' * 70}:9092"])
    assert done.exit_code == 1
    assert "is no address" in done.output


@pytest.mark.parametrize("command", ["node", "status"])
def test_who_interrupts_a_command_before_it_has_begun_sees_no_traceback(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["moldau", command])
    monkeypatch.setattr("moldau.admin.node.run_node", interrupted)
    monkeypatch.setattr("moldau.admin.main.import_module", interrupted)
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 130
    assert capsys.readouterr().err == "moldau: interrupted\n"


def test_an_up_that_found_its_port_taken_goes_on_at_another(tmp_path: Path) -> None:
    taken, free = free_ports(2)
    words = ["up", "--brokers", "1", "--data", str(tmp_path), "--detach", "--port"]
    with socket.create_server((HOST, taken)):
        done = CliRunner().invoke(cli, [*words, str(taken)])
        assert done.exit_code == 1
    try:
        done = CliRunner().invoke(cli, [*words, str(free)])
        assert (done.exit_code, "1 node is up after" in done.output) == (0, True), done.output
        again = CliRunner().invoke(cli, ["up", "--data", str(tmp_path), "--detach"])
        assert "1 node is up already." in again.output
        elsewhere = CliRunner().invoke(cli, [*words, str(taken)])
        assert elsewhere.exit_code == 1
        assert f"runs on --port {free}" in elsewhere.output
    finally:
        done = CliRunner().invoke(cli, ["down", "--data", str(tmp_path)])
    assert (done.exit_code, done.output.splitlines()[-1]) == (0, "stopped.")


def test_a_node_runs_no_python_file_of_the_folder_where_up_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queue.py of somebody's project ended each node while it was starting."""
    for name in ("queue", "random", "json"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(1)\n")
    monkeypatch.chdir(tmp_path)
    words = ["--data", str(tmp_path / "data")]
    try:
        done = CliRunner().invoke(cli, ["up", "--brokers", "1", "--port", str(free_ports(1)[0]), "--detach", *words])
        assert (done.exit_code, "1 node is up after" in done.output) == (0, True), done.output
    finally:
        CliRunner().invoke(cli, ["down", *words])


def test_up_in_the_foreground_waits_as_long_as_any_node_runs_whoever_started_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other commands restart nodes, add and remove some, and for a moment none may run."""
    nodes = {id: NodeSpec(id, "broker", str(tmp_path / f"node-{id}"), port=id) for id in (1, 101)}
    processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(id: int) -> None:
        processes[id] = launch(nodes[id], [sys.executable, "-c", "import time; time.sleep(600)"])

    def end(id: int) -> None:
        processes[id].kill()
        processes[id].wait()

    def rewrite(*ids: int) -> None:
        ClusterSpec("id", [nodes[id] for id in ids]).save(tmp_path)

    actions = {
        1: lambda: (end(1), rewrite(1)),
        2: lambda: (tmp_path / "cluster.json").unlink(),
        LOOKS_UNTIL_GONE: lambda: (start(1), rewrite(1)),
        9: lambda: (start(101), rewrite(1, 101)),
        10: lambda: (end(1), rewrite(101)),
        20: lambda: (end(101), rewrite()),
    }

    class Eventful(TimeModule):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            actions.get(len(self.slept), lambda: None)()

    clock = Eventful()
    monkeypatch.setattr("moldau.admin.up.time", clock)
    start(1)
    rewrite(1)
    try:
        _wait_while_it_runs(tmp_path)
    finally:
        for id in processes:
            end(id)
    assert len(clock.slept) == 20 + LOOKS_UNTIL_GONE - 1


def test_commands_ask_the_cluster_of_the_folder_they_are_typed_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert default_bootstrap() == "localhost:9092"
    cluster = Cluster(2, data=tmp_path / "moldau-data")
    assert default_bootstrap() == cluster.bootstrap_servers
    (tmp_path / "moldau-data" / "cluster.json").write_text("{")
    assert default_bootstrap() == "localhost:9092"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("statsu", "Did you mean status?"),
        ("reasign", "Did you mean reassign?"),
        ("xyzzy", "`moldau --help` lists all commands."),
        ("broker lst", "Did you mean list?"),
        ("up --port abc", "'abc' is not a valid port number (0 to 65535)"),
        ("up --port 70000", "65535"),
    ],
)
def test_a_slip_of_the_finger_is_answered_with_what_was_meant(words: str, says: str) -> None:
    done = CliRunner().invoke(cli, words.split())
    assert done.exit_code == 2
    assert says in done.output


@pytest.mark.parametrize("words", ["up --data /proc/foo", "up --data /etc/passwd", "node /nowhere/server.properties"])
def test_a_file_that_cannot_be_is_named_without_a_number_of_pythons(words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "moldau", *words.split()], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 1
    assert "Errno" not in done.stderr
    assert "Traceback" not in done.stderr
    assert any(name in done.stderr for name in ("/proc/foo", "/etc/passwd", "/nowhere"))


def test_a_key_that_no_node_knows_is_said_where_it_was_typed(capsys: pytest.CaptureFixture[str]) -> None:
    _warn_of_unknown({"num.partition": "3", "num.partitions": "3"})
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "num.partition: no node knows this key, it is ignored; did you mean num.partitions?" in said


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt, 130), (EOFError, 2)])
def test_a_command_that_is_interrupted_ends_as_the_shell_expects(
    error: type[BaseException], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ask(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("moldau.admin.up.found", ask)
    monkeypatch.setattr(sys, "argv", ["moldau", "status"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    assert "Aborted" not in capsys.readouterr().err
