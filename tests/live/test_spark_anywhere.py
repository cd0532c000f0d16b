"""One program on every kind of Spark: executors of their own, a standalone master, Spark Connect, YARN.

The program (spark_job.py) is the same text everywhere. Only local[N] has its workers' Python from the driver; elsewhere
an executor is given Moldau as a file, or has an environment with it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyspark
import pytest
from confluent_kafka import Producer
from foreign import PATIENCE_S, create_topic, read_confluent
from hadoop_server import HadoopServer
from kafka_peer import ALL_JARS, free_port, wait_until

Fresh = Callable[[str], str]
ROOT = Path(__file__).resolve().parents[2]
HOME = Path(pyspark.__file__).parent
JOB = Path(__file__).with_name("spark_job.py")
NEEDED = (
    "numpy", "numpy.libs", "pyarrow", "pandas", "pandas.libs", "pytz", "dateutil", "six.py", "tzdata", "crc32c", "lz4",
    "zstandard", "cramjam", "deltalake", "arro3", "deprecated", "wrapt", "typing_extensions.py",
)  # fmt: skip
"""What Moldau imports in a worker, and what that imports."""
QUIET = ("spark.ui.enabled=false", "spark.sql.shuffle.partitions=2", "spark.python.unix.domain.socket.enabled=true")

pytestmark = pytest.mark.timeout(900)


class Job:
    """A topic of a hundred records in two partitions, and what the program says of it."""

    def __init__(self, bootstrap: str, name: str, folder: Path) -> None:
        self.bootstrap, self.name, self.out, self.folder = bootstrap, name, f"{name}-out", folder
        self.count = 0
        create_topic(bootstrap, name, 2)
        create_topic(bootstrap, self.out, 1)
        self.more(100)

    def more(self, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for number in range(self.count, self.count + count):
            producer.produce(self.name, b"%d" % number, key=b"%d" % number, partition=number % 2)
        assert producer.flush(PATIENCE_S) == 0
        self.count += count

    def run(self, *submit: str, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Run it to its end on some Spark."""
        settings = [part for each in QUIET for part in ("--conf", each)]
        arguments = [str(JOB), self.bootstrap, self.name, self.out, str(self.folder / "shared")]
        command = [str(HOME / "bin" / "spark-submit"), *settings, *submit, *arguments]
        return self.said(command, environment or {})

    def said(self, command: list[str], environment: Mapping[str, str]) -> dict[str, Any]:
        """Run a command to its end; what the program says of it."""
        alone = {
            "PATH": os.environ["PATH"], "HOME": str(self.folder), "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_DRIVER_PYTHON": sys.executable, "PYTHONPATH": str(ROOT / "src"),
        }  # fmt: skip
        done = subprocess.run(
            command, cwd=self.folder, env={**alone, **environment}, capture_output=True, text=True, check=False
        )
        told = self.folder / "shared" / "told.json"
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
        assert told.exists(), done.stdout[-2000:] + done.stderr[-6000:]
        found: dict[str, Any] = json.loads(told.read_text())
        told.unlink()
        return found

    def check(self, found: Mapping[str, Any]) -> None:
        """The whole topic was read and is in the table once; as often as it was read it is in the other topic."""
        assert found["read"] == found["table"] == list(range(self.count))


@pytest.fixture
def job(bootstrap_servers: str, fresh: Fresh, tmp_path: Path) -> Job:
    return Job(bootstrap_servers, fresh("anywhere"), tmp_path)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Moldau as a file that Spark puts on the path of its workers: what is in the wheel, under a name that it takes."""
    path = tmp_path_factory.mktemp("shipped") / "moldau.zip"
    with zipfile.ZipFile(path, "w") as file:
        for each in sorted((ROOT / "src").rglob("*.py")):
            file.write(each, each.relative_to(ROOT / "src"))
    return path


def environment(folder: Path) -> Path:
    """An environment that has what Moldau needs and not Moldau; its bin folder."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    packages = Path(sysconfig.get_path("purelib"))
    (into,) = folder.glob("lib/python*/site-packages")
    for name in NEEDED:
        for found in [*packages.glob(name), *packages.glob(f"{name}-*.dist-info")]:
            (into / found.name).symlink_to(found)
    return folder / "bin"


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return [environment(tmp_path_factory.mktemp("worker") / f"env{number}") for number in (1, 2)]


def test_executors_of_their_own_are_given_moldau_as_a_file(job: Job, shipped: Path, environments: list[Path]) -> None:
    mine = {"PYSPARK_PYTHON": str(environments[0] / "python")}
    submit = ("--master", "local-cluster[2,1,1024]", "--py-files", str(shipped))
    job.check(job.run(*submit, environment=mine))
    job.more(20)
    found = job.run(*submit, environment={**mine, "JOB_FAILS_FIRST": "yes"})  # Spark tries each task four times
    job.check(found)
    assert {python for _, _, python in found["workers"]} == {str(environments[0].parent)}
    assert all("moldau.zip" in code for _, code, _ in found["workers"])
    assert len(read_confluent(job.bootstrap, job.out, 220)) == 220


@pytest.fixture(scope="module")
def standalone(environments: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A master and two workers, each of which finds another python3; the master's address."""
    folder, port = tmp_path_factory.mktemp("standalone"), free_port()
    address, log = f"spark://127.0.0.1:{port}", folder / "said"
    main = str(HOME / "bin" / "spark-class")
    master = [main, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)]
    worker = [main, "org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "1g", "--webui-port", "0"]
    running: list[subprocess.Popen[bytes]] = []

    def begin(command: list[str], path: str) -> None:
        env = {"PATH": path, "HOME": str(folder), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": "python3"}
        with log.open("ab") as out:
            running.append(subprocess.Popen(command, cwd=folder, env=env, stdout=out, stderr=out))

    try:
        begin([*master, "--webui-port", "0"], os.environ["PATH"])
        wait_until(lambda: "I have been elected leader" in log.read_text(), "the master serves", PATIENCE_S)
        for number, each in enumerate(environments):
            begin([*worker, "--work-dir", str(folder / f"work{number}"), address], f"{each}:{os.environ['PATH']}")
        wait_until(lambda: log.read_text().count("Successfully registered with master") == 2, "two work", PATIENCE_S)
        yield address
    finally:
        for process in running:
            process.kill()
            process.wait()


def test_workers_with_environments_of_their_own_take_part(
    job: Job, standalone: str, shipped: Path, environments: list[Path]
) -> None:
    found = job.run(
        "--master", standalone, "--py-files", str(shipped), "--executor-memory", "900m",
        "--conf", "spark.scheduler.minRegisteredResourcesRatio=1.0", environment={"PYSPARK_PYTHON": "python3"},
    )  # fmt: skip
    job.check(found)
    assert {python for _, _, python in found["workers"]} <= {str(each.parent) for each in environments}
    assert all("moldau.zip" in code for _, code, _ in found["workers"])


def test_a_program_of_spark_connect_reads_writes_and_streams(job: Job) -> None:
    arguments = [str(JOB), job.bootstrap, job.name, job.out, str(job.folder / "shared")]
    remote = {"SPARK_REMOTE": "local[2]", "PYSPARK_PYTHON": sys.executable}
    job.check(job.said([sys.executable, *arguments], remote))
    job.more(20)
    job.check(job.said([sys.executable, *arguments], remote))


class Yarn(HadoopServer):
    """A resource manager and a node manager."""

    jars, source = ("hdfs-3.5.0", "yarn-3.5.0"), "MiniYarn.java"

    @property
    def uri(self) -> str:
        return str(self.folder / "conf")

    def answers(self) -> bool:
        return "ready" in self.said()


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    if not all((ALL_JARS / name / ".complete").exists() for name in Yarn.jars):
        pytest.skip("no Hadoop to run YARN with: make test-stores")
    found = Yarn(tmp_path_factory.mktemp("yarn"))
    yield found
    found.kill()


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_yarn_runs_it_with_its_driver_here_or_there(
    job: Job, yarn: Yarn, shipped: Path, environments: list[Path], mode: str
) -> None:
    """``spark.yarn.jars`` only spares the upload of Spark itself to a machine that has it. Unix sockets need a folder
    with a short name, which a container's own is not."""
    python = str(environments[0] / "python")
    job.check(
        job.run(
            "--master", "yarn", "--deploy-mode", mode, "--py-files", str(shipped), "--num-executors", "2",
            "--executor-memory", "600m", "--driver-memory", "700m",
            "--conf", "spark.python.unix.domain.socket.dir=/tmp",
            "--conf", f"spark.yarn.jars=local:{HOME}/jars/*", "--conf", f"spark.executorEnv.PYSPARK_PYTHON={python}",
            "--conf", f"spark.yarn.appMasterEnv.PYSPARK_PYTHON={python}",
            environment={"YARN_CONF_DIR": yarn.uri, "HADOOP_CONF_DIR": yarn.uri, "PYSPARK_PYTHON": python},
        )
    )  # fmt: skip
