"""The two wheels: what they say of themselves, what is in which, and that they work without what they do not need."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PARTS = ("src", "simulator", "pyproject.toml", "MANIFEST.in", "LICENSE", "NOTICE", "docs/package.md")
SESSION = """
import moldau.spark
try:
    moldau.spark.session()
except ImportError as error:
    exit(str(error))
"""
SOURCES = sorted((ROOT / "src").rglob("*.py"))
NAME = re.compile(r"[A-Za-z0-9._-]+")


SIMULATOR = (
    "moldau/simulator/",
    "moldau/history/",
    "moldau/cluster/chaos/",
    "moldau/cluster/kills/",
    "moldau/cluster/migration_drill/",
)
"""What only moldau-simulator holds."""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of both, built from a copy of the source, by what is installed here: without the network, and without
    a warning."""
    copy, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for part in PARTS:
        (copy / part).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / part).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
            shutil.copytree(ROOT / part, copy / part, symlinks=True, ignore=ignored)
        else:
            shutil.copy(ROOT / part, copy / part)
    command = [sys.executable, "-m", "pip", "wheel", "-v", "--no-build-isolation", "--no-deps", "--no-index"]
    command += ["-w", str(out), str(copy), str(copy / "simulator")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "deprecat" not in done.stdout.lower(), done.stdout
    return out


@pytest.fixture(scope="module")
def wheel(wheels: Path) -> Path:
    """The product's."""
    (found,) = wheels.glob("moldau-*.whl")
    return found


@pytest.fixture(scope="module")
def simulator(wheels: Path) -> Path:
    """That of moldau-simulator."""
    (found,) = wheels.glob("moldau_simulator-*.whl")
    return found


def metadata_of(wheel: Path) -> Message:
    """A wheel's METADATA."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(archive.read(name).decode())


def files_in(wheel: Path) -> dict[str, str]:
    """The text of every file of Python in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist() if name.endswith(".py")}


@pytest.fixture(scope="module")
def about(wheel: Path) -> Message:
    return metadata_of(wheel)


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment of its own that has the product's wheel and what it depends on, and no extra."""
    return environment(tmp_path_factory.mktemp("fresh") / "venv", wheel)


def environment(home: Path, *wheels: Path) -> Path:
    """The Python of a new environment that holds these wheels and what the product depends on."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True, timeout=240)
    (packages,) = home.glob("lib/python*/site-packages")
    for path in files_of(needed("moldau", set())):
        if not (packages / path.name).exists():
            (packages / path.name).symlink_to(path)
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(packages)
    return home / "bin" / "python"


def needed(name: str, known: set[str]) -> set[str]:
    """The distributions that one depends on, and these on, without extras."""
    for line in metadata.requires(name) or ():
        match = NAME.match(line)
        assert match is not None
        if "extra ==" not in line and match[0] not in known and not line.endswith('sys_platform == "win32"'):
            try:
                metadata.distribution(match[0])
            except metadata.PackageNotFoundError:
                continue  # for another system or an older Python
            known.add(match[0])
            needed(match[0], known)
    return known


def files_of(names: set[str]) -> Iterator[Path]:
    """What each distribution has put beside the others, at the top."""
    for name in names:
        there = metadata.distribution(name)
        for top in {file.parts[0] for file in there.files or () if file.parts[0] not in ("..", "__pycache__")}:
            yield Path(str(there.locate_file(top)))


def run(python: Path, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {key: text for key, text in os.environ.items() if key not in ("PYTHONPATH", "MOLDAU_BOOTSTRAP")}
    environment["TMPDIR"] = str(cwd)
    return subprocess.run(
        [python, *words], cwd=cwd, env=environment, capture_output=True, text=True, timeout=280, check=False
    )


def test_it_says_what_it_is(about: Message) -> None:
    assert about["License-Expression"] == "Apache-2.0"
    assert about.get_all("License-File") == ["LICENSE", "NOTICE"]
    assert about["Author"] == "The Moldau authors"
    assert "Framework :: Pytest" in about.get_all("Classifier", [])
    assert "Typing :: Typed" in about.get_all("Classifier", [])
    assert "kafka" in about["Keywords"]
    assert {"spark", "zookeeper", "demo", "simulator", "test"} <= set(about.get_all("Provides-Extra", []))


def test_its_description_has_no_link_that_leads_nowhere(about: Message) -> None:
    text = str(about.get_payload())
    assert text.startswith("# Moldau")
    assert not [target for target in re.findall(r"\]\(([^)]+)\)", text) if "://" not in target]
    assert "make " not in text, "who has the wheel has no Makefile"


def test_licence_and_types_are_in_it_and_nothing_that_is_not_the_packages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (licence,) = [name for name in names if name.endswith("/LICENSE")]
        assert b"Apache License" in archive.read(licence)
    assert {"moldau/py.typed", "pyspark_moldau/py.typed"} <= set(names)
    sources = {"pyspark_moldau", *(f"pyspark_moldau_{name}" for name in ("statelog", "segments", "metadata", "job"))}
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"moldau", *sources}


def test_each_source_file_is_in_one_wheel_and_what_only_tests_moldau_is_not_in_the_products(
    wheel: Path, simulator: Path
) -> None:
    ours, others = files_in(wheel).keys(), files_in(simulator).keys()
    assert {name for name in others if not name.startswith(SIMULATOR)} == set()
    assert {name for name in ours if name.startswith(SIMULATOR)} == set()
    assert sorted([*ours, *others]) == sorted(file.relative_to(ROOT / "src").as_posix() for file in SOURCES)


def test_nothing_in_the_products_wheel_imports_what_is_in_the_other(wheel: Path, simulator: Path) -> None:
    tops = [name.strip("/").replace("/", ".") for name in SIMULATOR]
    forms = [rf"(?:from|import) {re.escape(top)}\b" for top in tops]
    forms += [rf"from {re.escape(top.rpartition('.')[0])} import .*\b{top.rpartition('.')[2]}\b" for top in tops]
    imports = re.compile(rf"^\s*(?:{'|'.join(forms)})", re.MULTILINE)
    assert all(imports.search(text) is None for text in files_in(wheel).values())
    assert any(imports.search(text) for text in files_in(simulator).values()), "the pattern finds imports"


def test_the_simulator_is_for_the_very_version_that_it_comes_with(wheel: Path, simulator: Path) -> None:
    product, other = metadata_of(wheel), metadata_of(simulator)
    assert product["Version"] == other["Version"]
    assert f"moldau=={product['Version']}" in other.get_all("Requires-Dist", [])
    assert f'moldau-simulator=={other["Version"]}; extra == "simulator"' in product.get_all("Requires-Dist", [])
    assert other["License-Expression"] == "Apache-2.0"
    assert other.get_all("License-File") == ["LICENSE", "NOTICE"]


def test_the_simulator_runs_where_both_wheels_are(wheel: Path, simulator: Path, tmp_path: Path) -> None:
    python = environment(tmp_path / "venv", wheel, simulator)
    told = [run(python, "-m", "moldau", "sim", *words, cwd=tmp_path) for words in ([], ["--tier", "a"])]
    told.append(run(python, "-m", "moldau.cluster.chaos", "--list", cwd=tmp_path))
    assert [(done.returncode, done.stderr) for done in told] == [(0, "")] * 3
    assert "seed 1: " in told[0].stdout
    assert "quorum seed 1: " in told[1].stdout


def test_a_cluster_comes_up_from_the_wheel_alone(python: Path, tmp_path: Path) -> None:
    up = run(python, "-m", "moldau", "up", "--brokers", "1", "--port", "0", "--detach", cwd=tmp_path)
    try:
        assert (up.returncode, up.stderr) == (0, "")
        listed = run(python, "-m", "moldau", "broker", "list", cwd=tmp_path)
        assert (listed.returncode, "serves" in listed.stdout) == (0, True), listed.stderr
    finally:
        down = run(python, "-m", "moldau", "down", cwd=tmp_path)
    assert (down.returncode, down.stdout.splitlines()[-1]) == (0, "stopped.")


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["-m", "moldau", "demo"], "moldau[demo]"),
        (["-m", "moldau", "sim", "--help"], "moldau[simulator]"),
        (["-m", "moldau", "sim", "--seed", "7"], "moldau[simulator]"),
        pytest.param(
            ["-m", "moldau", "up", "--plane", "zookeeper", "--port", "0", "--data", "zk"],
            "moldau[zookeeper]",
            marks=pytest.mark.skipif(shutil.which("java") is None, reason="without Java that is what is asked for"),
        ),
        (["-c", SESSION], "moldau[spark]"),
    ],
)
def test_what_needs_an_extra_says_which_one(words: list[str], extra: str, python: Path, tmp_path: Path) -> None:
    done = run(python, *words, cwd=tmp_path)
    assert done.returncode == 1
    assert f"pip install '{extra}'" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("moldau-spark-*"))


COMPLETE = """
import os, sys
os.environ |= {"_MOLDAU_COMPLETE": "zsh_complete", "COMP_WORDS": "moldau sim --seed", "COMP_CWORD": "2"}
sys.argv = ["moldau"]
from moldau.admin.main import main
main()
"""


def test_a_shell_that_completes_words_hears_nothing_of_an_extra_that_is_missing(python: Path, tmp_path: Path) -> None:
    done = run(python, "-c", COMPLETE, cwd=tmp_path)
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_the_package_shows_what_it_offers(python: Path, tmp_path: Path) -> None:
    done = run(python, "-c", "import moldau; print(dir(moldau), moldau.Cluster)", cwd=tmp_path)
    assert "'Cluster'" in done.stdout, done.stderr
