"""Every command where something is wrong: nobody listens, who listens is silent or no broker, nobody reads the answer,
there is nothing to show, what is named is not there, a file is none. And a dry run changes nothing.

Commands are found in the tree, and what they need is filled in by the names of their parameters, so that a new command
is tried by itself; one that needs what has no value here fails, and says so.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from many import Ended, Many
from tests.packages.admin.test_command_kinds import COMMANDS, RECORD_FORMATS, words

from moldau import Cluster
from moldau.admin.cli import cli
from moldau.client import admin, sync
from moldau.cluster.nodes import free_ports
from moldau.model import TopicPartition

TOPIC, GROUP = "orders", "readers"
ID = "AAAAAAAAAAAAAAAAAAAAAQ"
VALUES = {
    "names": TOPIC, "name": TOPIC, "topic": TOPIC, "topics": TOPIC, "partition": f"{TOPIC}-0", "places": f"{TOPIC}:0",
    "place": "0", "ids": GROUP, "wishes": "metadata.version=25", "brokers": "1", "controller_id": "1",
    "controller_directory_id": ID, "cluster_id": ID, "batch": "0", "start": "earliest", "end": "latest",
    "table": "{folder}/table", "folder": "{folder}/scripts", "target": "{folder}/export", "path": "{plan}",
    "paths": "{folder}/state-change.log", "file": "{pipeline}", "files": "{pipeline}",
}  # fmt: skip
"""What is given for a parameter of this name that a command needs."""
SPECIAL = {
    ("topic create", "names"): "made",
    ("group reset", "id"): GROUP,
    ("group offsets", "id"): GROUP,
    ("quorum add-controller", "path"): "{server}",
    ("storage format", "path"): "{server}",
    ("storage info", "path"): "{server}",
    ("broker configs", "id"): "1",
    ("broker stop", "id"): "1",
    ("broker start", "id"): "1",
    ("job metadata", "path"): "{folder}/metadata",
    ("publish", "paths"): "{folder}/logs",
}
MORE = {
    "topic alter": ["--partitions", "4"],
    "config describe": ["--topic", TOPIC],
    "config alter": ["--topic", TOPIC, "--set", "retention.ms=5000"],
    "group reset": ["--topic", TOPIC, "--to", "earliest"],
    "reassign plan": ["--balance", "replicas"],
    "reassign generate": ["--topic", TOPIC],
    "leader elect": ["--all"],
    "record get": ["--offset", "0"],
    "produce": ["-m", "text"],
    "publish": ["--once"],
    "tail": ["-n", "1", "--from", "earliest"],
    "consume": ["-n", "1"],
    "perf produce": ["-n", "1"],
    "perf consume": ["-n", "1"],
    "perf latency": ["-n", "1"],
    "replica verify": ["--topic", TOPIC],
    "broker roll": ["--command", "true", "--state", "{folder}/rolled.json"],
    "broker stop": ["--check"],
    "log skew": ["--logs", "{folder}/state-change.log"],
    "log timeline": ["--logs", "{folder}/state-change.log"],
    "log why": ["--logs", "{folder}/state-change.log"],
    "pipeline init": ["--out", "{folder}/new.yaml"],
}
"""What a command is not whole without, although no parameter is required."""
ELSEWHERE = ("job ", "spark ", "migrate ")
"""Of these, those that start Spark, or change mode, have tests of their own (test_cluster_pipelines.py,
test_spark_tables.py, test_migration.py)."""
ASKS = [
    name
    for name, command in COMMANDS.items()
    if "--bootstrap-server" in words(command) and name != "pipeline init" and not name.startswith("job ")
]
"""Those that ask a cluster; ``pipeline init`` asks one if there is one, and a job writes to one with ``--to`` alone
(test_job_results.py)."""
PIPELINE = """\
pipeline: tried
cluster: {bootstrap}
source: {{topics: orders}}
decode: {{format: raw}}
sinks:
  - {{topic: copy, cluster: "{bootstrap}", key: _key, value: value, groups: ["*"]}}
"""


class Place:
    """A cluster of one node, and files that commands are given."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.folder = folder
        folder.mkdir(exist_ok=True)
        part = {"topic": TOPIC, "partition": 0, "replicas": [1]}
        (folder / "plan.json").write_text(json.dumps({"version": 1, "partitions": [part]}))
        (folder / "pipeline.yaml").write_text(PIPELINE.format(bootstrap=bootstrap))
        (folder / "state-change.log").write_text("")
        (folder / "logs").mkdir(exist_ok=True)
        (folder / "logs" / "state-change.jsonl").write_text('{"time_ms":1,"node":1}\n')
        (folder / "server.properties").write_text(
            "process.roles=broker,controller\nnode.id=5\nlisteners=PLAINTEXT://127.0.0.1:0,C://127.0.0.1:0\n"
            "controller.listener.names=C\ncontroller.quorum.bootstrap.servers=127.0.0.1:1\n"
            f"log.dirs={folder}/formatted\n"
        )

        words = ["storage", "format", "-t", ID, "-c", str(folder / "server.properties"), "--standalone"]
        assert CliRunner().invoke(cli, words).exit_code == 0

    def fill(self, text: str) -> str:
        return text.format(
            folder=self.folder,
            plan=self.folder / "plan.json",
            pipeline=self.folder / "pipeline.yaml",
            server=self.folder / "server.properties",
        )

    def line(self, name: str, *more: str, dry: bool = False, instead: Mapping[str, str] | None = None) -> list[str]:
        """A command line with all that the command needs; ``instead``: other values of parameters."""
        instead = instead or {}
        command = COMMANDS[name]
        line = name.split()
        for one in command.params:
            if not one.required:
                continue
            given = instead.get(one.name or "") or SPECIAL.get((name, one.name or "")) or VALUES.get(one.name or "")
            assert given is not None, f"say in VALUES what `moldau {name}` is given for {one.name}"
            line += [self.fill(given)] if isinstance(one, click.Argument) else [one.opts[0], self.fill(given)]
        line += [self.fill(word) for word in MORE.get(name, ())]
        offered = words(command)
        if "--bootstrap-server" in offered:
            line += ["--bootstrap-server", self.bootstrap]
        if dry and "--dry-run" not in line:
            line += ["--dry-run"] if "--check" not in line else []
        elif "--yes" in offered:
            line += ["--yes"]
        return [*line, *more]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Many]:
    with Many(tmp_path_factory.mktemp("many")) as found:
        yield found


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1) as found:
        yield found


@pytest.fixture(scope="module")
def place(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("place"), cluster.bootstrap_servers)


@pytest.fixture
def filled(cluster: Cluster, place: Place) -> Place:
    """The cluster with a topic, a record in it and a group."""
    with sync.Cluster(cluster.bootstrap_servers) as client:
        if TOPIC not in client.topics():
            cluster.create_topic(TOPIC, partitions=2)
        client.commit(GROUP, {TopicPartition(TOPIC, 0): 0})
    return place


def in_a_line(name: str, ended: Ended, *, status: tuple[int, ...] = (1,)) -> str:
    """What was said; ends the test when it was more than a line, or a traceback, or the status is another."""
    told = f"moldau {name}: status {ended.status}\n{ended.shown}{ended.said}"
    assert ended.status in status, told
    assert "Traceback" not in ended.said, told
    said = [one for one in ended.said.splitlines() if not one.startswith(("Usage: ", "Try ")) and one]
    assert len(said) == 1, told
    return said[0]


def failures(found: dict[str, Ended], check: object) -> None:
    """Check all, and tell all that fails together."""
    wrong = []
    for name, ended in found.items():
        try:
            check(name, ended)  # type: ignore[operator]  # a function of these
        except AssertionError as error:
            wrong.append(str(error).split("\nassert ")[0])
    assert not wrong, f"{len(wrong)} of {len(found)}:\n" + "\n".join(wrong)


# ---- who is asked


def test_nobody_listens(many: Many, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    place = Place(tmp_path / "place", f"127.0.0.1:{port}")
    found = many.run({name: place.line(name) for name in ASKS})

    def check(name: str, ended: Ended) -> None:
        line = in_a_line(name, ended)
        assert f"127.0.0.1:{port}: nobody listens there" in line, f"moldau {name}: {line}"
        assert not ended.shown, f"moldau {name}: {ended.shown}"

    failures(found, check)


ON_A_PIPELINE = {
    "pipeline lag": [], "pipeline plan": [], "pipeline groups": [], "pipeline reset": [],
    "pipeline backfill": ["--to", "latest", "--dry-run"], "pipeline replay": ["--dry-run"],
}  # fmt: skip
"""What of a pipeline asks the cluster that its file names, and starts no Spark."""
PATIENT_S = 45.0
"""More than the ten seconds for which a command waits, on a busy machine, and less than the minute of a run."""


def test_nobody_listens_where_a_pipeline_reads(many: Many, tmp_path: Path) -> None:
    place = Place(tmp_path / "place", f"127.0.0.1:{free_ports(1)[0]}")
    found = many.run({name: place.line(name, *more) for name, more in ON_A_PIPELINE.items()}, timeout_s=PATIENT_S)
    failures(found, lambda name, ended: in_a_line(name, ended))


class Listener:
    """Takes connections and answers each with the same bytes, or with none and keeps it."""

    def __init__(self, answer: bytes) -> None:
        self._answer, self._kept = answer, list[socket.socket]()
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                line, _ = self._socket.accept()
            except OSError:
                return
            if self._answer:
                with closing(line), suppress(OSError):  # who has given up
                    line.recv(1 << 16)
                    line.sendall(self._answer)
            else:
                self._kept.append(line)

    def close(self) -> None:
        for line in (self._socket, *self._kept):
            line.close()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "took the connection and has said nothing for 5 s"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is no Kafka broker but a web server"),
    ],
    ids=["silence", "a web server"],
)
def test_who_listens_is_no_broker(many: Many, tmp_path: Path, answer: bytes, why: str) -> None:
    with closing(Listener(answer)) as listener:
        place = Place(tmp_path / "place", f"127.0.0.1:{listener.port}")
        found = many.run({name: place.line(name) for name in ASKS})

    def check(name: str, ended: Ended) -> None:
        line = in_a_line(name, ended)
        assert why in line, f"moldau {name}: {line}"
        assert not ended.shown, f"moldau {name}: {ended.shown}"

    failures(found, check)


def test_the_only_broker_is_held_by_a_signal(many: Many, cluster: Cluster, filled: Place) -> None:
    cluster.pause(1)
    try:
        found = many.run({name: filled.line(name) for name in ASKS})
    finally:
        cluster.resume(1)
    failures(found, lambda name, ended: in_a_line(name, ended))


# ---- what is answered


TRIED = [name for name in COMMANDS if not name.startswith(ELSEWHERE)]
OF_SPARK = {
    "pipeline run", "pipeline dry-run", "pipeline test", "pipeline backfill", "pipeline replay", "pipeline export",
    "pipeline dlq replay",
}  # fmt: skip
"""These start Spark, or write a program that does."""
SHOWING = [name for name in TRIED if "--output" in words(COMMANDS[name]) and name not in OF_SPARK]


def test_nobody_reads_the_answer(many: Many, filled: Place) -> None:
    found = many.run({name: filled.line(name) for name in SHOWING}, reader=False)

    def check(name: str, ended: Ended) -> None:
        told = f"moldau {name}: status {ended.status}\n{ended.said}"
        assert ended.status in (0, 1, 3, 4), told
        assert not any(one in ended.said for one in ("Traceback", "Broken pipe")), told

    failures(found, check)


@pytest.mark.parametrize("output", ["json", "yaml", "tsv"])
def test_an_answer_is_one_for_programs_also_when_there_is_nothing_to_tell(
    many: Many, filled: Place, output: str
) -> None:
    """Asked for what is there and for what is not: standard output is empty where it is refused, or can be read."""
    import yaml

    names = [name for name in SHOWING if output in _formats(name)]
    found = many.run({name: filled.line(name, "-o", output) for name in names})

    def check(name: str, ended: Ended) -> None:
        told = f"moldau {name} -o {output}: status {ended.status}\n{ended.shown}{ended.said}"
        assert ended.status in (0, 1, 3, 4), told
        assert "Traceback" not in ended.said, told
        assert ended.shown or ended.status or name in RECORD_FORMATS, told
        try:
            if output == "json" and ended.shown:
                for text in ended.shown.splitlines() if name in RECORD_FORMATS else [ended.shown]:
                    json.loads(text)
            elif output == "yaml" and ended.shown:
                yaml.safe_load(ended.shown)
        except ValueError as error:
            raise AssertionError(f"{told}{error}") from None

    failures(found, check)


def _formats(name: str) -> tuple[str, ...]:
    (option,) = (one for one in COMMANDS[name].params if "--output" in one.opts)
    assert isinstance(option.type, click.Choice)
    return tuple(option.type.choices)


# ---- what is named


NOWHERE = {"id": "77", "ids": "not-there", "wishes": "not.there=1", "brokers": "77"}
"""What names something that is not there, beside topics."""
OF_ITSELF = {"topic create", "group reset"}
"""A topic is made by its name, a group by its offsets."""


def test_what_is_named_is_not_there(many: Many, filled: Place) -> None:
    lines = {}
    for name in ASKS:
        line = filled.line(name, instead={} if name in OF_ITSELF else NOWHERE)
        elsewhere = line if name == "topic create" else [word.replace(TOPIC, "not-there") for word in line]
        if elsewhere != filled.line(name):
            lines[name] = elsewhere
    assert len(lines) > 20
    failures(many.run(lines), lambda name, ended: in_a_line(name, ended, status=(1, 2)))


BAD_FILES = {
    "binary": bytes(range(256)) * 8,
    "half": b'{"version": 1, "partitions": [{"topic": "orders", "par',
    "empty": b"",
    "list": b"[]",
    "other": b'{"what": {"is": "this"}}',
}
FILES = {"plan.json", "pipeline.yaml", "server.properties"}


@pytest.mark.parametrize("kind", [*BAD_FILES, "folder", "missing"])
def test_a_file_that_is_none(many: Many, filled: Place, tmp_path: Path, kind: str) -> None:
    bad = tmp_path / f"bad-{kind}"
    if kind in BAD_FILES:
        bad.write_bytes(BAD_FILES[kind])
    elif kind == "folder":
        bad.mkdir()
    lines = {}
    for name in TRIED:
        needed = [one.name or "" for one in COMMANDS[name].params if one.required]
        taken = [one for one in needed if _is_of_a_file(name, one)]
        if taken:
            lines[name] = filled.line(name, instead=dict.fromkeys(taken, str(bad)))
    assert len(lines) > 15

    def check(name: str, ended: Ended) -> None:
        findings = ended.said.removeprefix("moldau: ").splitlines()
        if name.startswith("pipeline ") and kind in BAD_FILES and all(one.startswith(f"{bad}:") for one in findings):
            assert ended.status == 1, ended  # each thing that is wrong with it has a line
        else:
            in_a_line(name, ended, status=(1, 2))

    failures(many.run(lines), check)


def _is_of_a_file(name: str, parameter: str) -> bool:
    return (SPECIAL.get((name, parameter)) or VALUES.get(parameter, "")) in ("{plan}", "{pipeline}", "{server}")


# ---- what would be done


def test_a_dry_run_changes_nothing(many: Many, cluster: Cluster, filled: Place, tmp_path: Path) -> None:
    before = (_state(cluster), _files(filled.folder))
    names = [name for name in TRIED if "--dry-run" in words(COMMANDS[name]) and name not in OF_SPARK]
    found = many.run({name: filled.line(name, dry=True) for name in names})

    def check(name: str, ended: Ended) -> None:
        told = f"moldau {name} --dry-run: status {ended.status}\n{ended.shown}{ended.said}"
        assert ended.status in (0, 1), told
        assert "Traceback" not in ended.said, told
        assert ended.shown or ended.said, told

    failures(found, check)
    assert (_state(cluster), _files(filled.folder)) == before


def _state(cluster: Cluster) -> object:
    with sync.Cluster(cluster.bootstrap_servers) as client:
        topics = client.topics()
        places = [admin.Resource(admin.ResourceType.TOPIC, name) for name in topics]
        configs = client.run(admin.describe_configs(client.client, places))
        ends = client.offsets({TopicPartition(TOPIC, number): -1 for number in (0, 1)})
        parts = {name: sorted(topic.partitions.items()) for name, topic in topics.items() if not topic.internal}
        return (
            repr(parts), repr(sorted((place.name, entries) for place, (_, entries) in configs.items())), repr(ends),
            repr(client.committed(GROUP)), repr(sorted(client.brokers())),
        )  # fmt: skip


def _files(folder: Path) -> dict[str, bytes]:
    return {str(one): one.read_bytes() for one in sorted(folder.rglob("*")) if one.is_file()}
