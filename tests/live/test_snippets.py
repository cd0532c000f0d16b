"""What README.md, docs/testing.md and docs/tutorial.md show is run as printed: whoever types it sees it work."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.cluster.cluster import Cluster
from moldau.cluster.nodes import free_ports

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/testing.md", "docs/package.md")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
SPARK = "moldau.spark"

pytestmark = pytest.mark.timeout(900)

SET_UP = 'make() { command make -o .venv/.ready "$@"; }\n'
"""What these tests run in is set up already."""


def blocks(page: str) -> list[tuple[str, str]]:
    """(language, text) of every block of a page, from its beginning."""
    return BLOCK.findall((ROOT / page).read_text())


def named(language: str) -> list[object]:
    return [
        pytest.param(text, id=f"{page}-{number}")
        for page in PAGES
        for number, (kind, text) in enumerate(blocks(page))
        if kind == language and SPARK not in text
    ]


def run(*command: str | Path, cwd: Path, patience_s: int = 800) -> str:
    """Run a command to its end; what it said on standard output."""
    environment = {**os.environ, "TMPDIR": str(cwd)}
    # A make within `make test` says where it is working, which nobody sees who types the command.
    for name in ("PYTEST_XDIST_WORKER", "MOLDAU_BOOTSTRAP", "MOLDAU_MODE", "MAKELEVEL", "MAKEFLAGS", "MFLAGS"):
        environment.pop(name, None)
    done = subprocess.run(
        command, cwd=cwd, env=environment, input="", capture_output=True, text=True, timeout=patience_s, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("text", named("python"))
def test_the_python_that_the_docs_show_runs(text: str, tmp_path: Path) -> None:
    if "def test_" not in text:
        (tmp_path / "snippet.py").write_text(text)
        run(sys.executable, "snippet.py", cwd=tmp_path)
    else:
        (tmp_path / "test_snippet.py").write_text(text)
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)
    assert not list(tmp_path.glob("moldau-*")), "nothing stays behind"


@pytest.mark.parametrize("text", named("ini"))
def test_the_ini_file_that_the_docs_show_shapes_the_cluster(text: str, tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(text)
    (tmp_path / "test_shape.py").write_text(
        "from moldau.cluster.nodes import setting\n"
        "def test_shape(moldau_cluster):\n"
        "    assert moldau_cluster.alive() == [1]\n"
        "    assert setting(moldau_cluster.node(1), 'num.partitions') == '4'\n"
    )
    run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)


def test_the_commands_of_the_readme_do_what_it_says(tmp_path: Path) -> None:
    """Typed one after the other, in a folder that looks like a clone."""
    (text,) = [text for kind, text in blocks("README.md") if kind == "sh"]
    if shutil.which("kcat") is None:
        text = re.sub(r"^kcat .*$", "true", text, flags=re.M)
    for name in ("Makefile", ".venv", "src"):
        (tmp_path / name).symlink_to(ROOT / name)
    try:
        said = run("bash", "-ec", SET_UP + text, cwd=tmp_path)
    finally:
        subprocess.run([sys.executable, "-m", "moldau", "down"], cwd=tmp_path, capture_output=True, check=False)
    assert "3 nodes are up after" in said
    assert "b'hello'" in said
    assert said.rstrip().endswith("stopped.")
    assert (tmp_path / "plan.json").stat().st_size > 0


NODE = """\
trap 'kill $(jobs -p) 2> /dev/null || true' EXIT
{0} &
until moldau broker list --bootstrap-server 127.0.0.1:{1} | grep serves; do kill -0 $!; done
kill -TERM $!
wait $!
echo the node has stopped
"""


def test_the_commands_of_the_package_page_and_what_the_readme_shows_beside_them_do_what_they_say(
    tmp_path: Path,
) -> None:
    """A cluster as the page begins it, and while it runs what the README shows of topics, groups and settings."""
    (begun,) = [text for kind, text in blocks("docs/package.md") if not kind and "moldau up" in text]
    (shown,) = [text for kind, text in blocks("README.md") if not kind and "moldau topic create" in text]
    (format_,) = [text for kind, text in blocks("README.md") if not kind and "storage format" in text]
    up, *looks, down = begun.splitlines()
    more = shown.replace(".venv/bin/", "").replace(" --watch ", " ")  # which goes on until Ctrl-C: test_watch.py
    more = more.replace("moldau group", "moldau consume orders --group reader\nmoldau group")
    more = more.replace("moldau doctor", "moldau doctor || test $? = 4")
    format_, node = (line.partition("  #")[0] for line in format_.replace(".venv/bin/", "").splitlines())
    client, controller = free_ports(2)
    lines = [up.replace("moldau up", "moldau up --port 0"), *looks, more, down, format_, NODE.format(node, client)]
    (tmp_path / "server.properties").write_text(
        f"process.roles=broker,controller\nnode.id=1\nlog.dirs={tmp_path}/data\n"
        f"listeners=PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}\n"
        "controller.listener.names=CONTROLLER\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:{controller}\n"
    )
    path = f'export PATH="{Path(sys.executable).parent}:$PATH"\n'
    try:
        said = run("bash", "-ec", path + "\n".join(lines), cwd=tmp_path)
    finally:
        subprocess.run([sys.executable, "-m", "moldau", "down"], cwd=tmp_path, capture_output=True, check=False)
    assert "3 nodes are up after" in said
    assert "topic orders was made" in said
    assert "hello" in said
    assert "retention.ms" in said
    assert "\nstopped.\n" in said
    assert said.rstrip().endswith("the node has stopped")
    assert (tmp_path / "data" / "meta.properties").is_file()


@pytest.mark.slow
@pytest.mark.timeout(700)
def test_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    """Its commands one after the other, in one shell, in an empty folder."""
    script = "\n".join(text for kind, text in blocks("docs/tutorial.md") if kind == "sh")
    path = f'export PATH="{Path(sys.executable).parent}:$PATH"\n'
    try:
        said = run("bash", "-ec", f"set -o pipefail\n{path}{script}", cwd=tmp_path, patience_s=600)
    finally:
        subprocess.run([sys.executable, "-m", "moldau", "down"], cwd=tmp_path, capture_output=True, check=False)
    assert "4 nodes are up after" in said
    assert said.count('{"id": 2, "amount": 99.00}') == 2, "read by the group, and after the kill"
    assert '{"id": 3, "amount": 7.25}' in said
    assert "was fenced" in said
    assert "the plan is done" in said
    assert "4 read + 0 replayed = 3 ok + 0 left out + 1 dead letter" in said
    assert "[1, 2, 3]" in said
    assert said.rstrip().endswith("stopped.")


AS_IT_CAN_END = {
    r" run orders\.yaml$": " run orders.yaml --once",  # it runs until SIGTERM, as test_pipeline.py has it
    r"--stage sound$": "--stage sound --yes",
    r"--from \S+ --to \S+ --topic orders$": "--from earliest --to latest --topic orders --yes",
}
ELSEWHERE = re.compile(r"pipeline groups")
"""What the page's first pipeline does not do (test_pipeline_groups.py)."""
SCHEDULED = """\
trap 'kill $(jobs -p) 2> /dev/null || true' EXIT
{run} 2> scheduled &
until grep -q "metrics at" scheduled; do kill -0 $!; sleep 0.1; done
{python} - $(sed -n 's/.*metrics at //p' scheduled) <<'END'
import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1], timeout=60).read().decode())
END
kill -TERM $!
wait $!
"""
"""A run that waits for its next time, is looked at as Prometheus does, and ends when it is told to."""


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_commands_of_the_page_about_pipelines_work_on_the_file_that_it_shows(tmp_path: Path) -> None:
    shown = blocks("docs/pipelines.md")
    (commands,) = [text for kind, text in shown if not kind and "moldau pipeline init" in text]
    (tmp_path / "orders.yaml").write_text(next(text for kind, text in shown if kind == "yaml"))
    (tmp_path / "orders.test.yaml").write_text(next(text for _, text in shown if text.startswith("- name: ")))
    lines = []
    for line in commands.splitlines():
        line = re.sub(r"\s+#.*", "", line)
        if "pipeline init" in line:  # which makes another file than the page shows
            line = f"mkdir made && (cd made && {line})"
        if "--schedule" in line:
            line = SCHEDULED.format(run=line.replace("--metrics-port 9101", "--metrics-port 0"), python=sys.executable)
        line = line.replace("localhost:9092", "$KAFKA")
        for is_so, can_end in AS_IT_CAN_END.items():
            line = re.sub(is_so, can_end, line)
        lines += [line] if ELSEWHERE.search(line) is None else []
    assert len(lines) > 12, lines
    records = '{"id": 1, "amount": 2.5}', '{"id": 2, "amount": -1}', "no JSON"
    with Cluster(brokers=1) as cluster:
        servers = cluster.bootstrap_servers
        before = [
            f'export PATH="{Path(sys.executable).parent}:$PATH" KAFKA={servers} MOLDAU_BOOTSTRAP={servers}',
            *(f"moldau topic create {topic} -p 1 -r 1 --wait" for topic in ("orders", "orders-clean", "orders-dead")),
            f"printf '%s\\n' {shlex.join(records)} | moldau produce orders",
            "unset MOLDAU_BOOTSTRAP",
        ]
        said = run("bash", "-ec", "\n".join(before + lines), cwd=tmp_path, patience_s=1100)
    assert re.search("passed +a wrong amount is a dead letter", said)
    assert "3 read + 0 replayed = 1 ok + 0 left out + 2 dead letters" in said
    assert "1 dead letter in 1 group" in said
    assert "<html" in (tmp_path / "orders.html").read_text()
    made = (tmp_path / "made" / "orders.yaml").read_text()
    assert (servers in made, "amount" in made) == (True, True), made
    assert "moldau_pipeline_records_total" in said


def test_every_method_of_a_cluster_is_on_the_page() -> None:
    text = (ROOT / "docs/testing.md").read_text()
    public = [name for name in vars(Cluster) if not name.startswith("_")]
    assert not [name for name in public if f"`{name}" not in text and f"{name}(" not in text]
