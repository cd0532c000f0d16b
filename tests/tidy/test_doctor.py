"""What a machine lacks is named at once, with the command that installs it; what only some tests need stops nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SYSTEM = ("sh", "sed", "awk", "df", "cat")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder of programs that has little more than a shell."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in SYSTEM:
        (found,) = [path for folder in ("/bin", "/usr/bin") if (path := Path(folder, name)).exists()][:1]
        (programs / name).symlink_to(found)
    return programs


def install(machine: Path, name: str, says: str = "") -> None:
    """A program that says so much on standard error, as `java -version` does."""
    program = machine / name
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)


def doctor(machine: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {key: text for key, text in os.environ.items() if key not in ("JAVA_HOME", "PYTHON")}
    return subprocess.run(
        ["sh", ROOT / "scripts" / "doctor.sh", *words],
        cwd=machine.parent, env={**environment, "PATH": str(machine)}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_without_a_python_it_says_which_and_how(machine: Path) -> None:
    done = doctor(machine)
    assert done.returncode == 1
    assert "Python 3.11 or newer" in done.stderr
    assert "apt-get install python3.11" in done.stderr


def test_a_newer_python_is_found_beside_an_old_one(machine: Path) -> None:
    (machine / "python3").write_text("#!/bin/sh\nexit 1\n")
    (machine / "python3").chmod(0o755)
    (machine / "python3.11").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (machine / "python3.11").chmod(0o755)
    done = doctor(machine)
    assert (done.returncode, done.stdout) == (0, "python3.11\n"), done.stderr


def test_an_environment_whose_python_has_gone_is_named(machine: Path) -> None:
    (machine / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (machine / "python3").chmod(0o755)
    (machine.parent / ".venv" / "bin").mkdir(parents=True)
    done = doctor(machine)
    assert done.returncode == 1
    assert "make clean" in done.stderr


@pytest.mark.parametrize(("says", "fine"), [('openjdk version "17.0.9"', True), ('java version "11.0.2"', False)])
def test_an_old_java_is_told_from_a_new_one(machine: Path, says: str, fine: bool) -> None:
    install(machine, "java", says)
    done = doctor(machine, "java")
    assert (done.returncode == 0) is fine
    assert fine or "this is 11" in done.stderr


def test_what_tests_need_is_listed_and_stops_nothing(machine: Path) -> None:
    done = doctor(machine, "test")
    assert done.returncode == 0
    named = [line.split(" is missing")[0] for line in done.stdout.splitlines()]
    assert named == ["test: a Java 17 runtime", "test: kcat"]
    assert done.stdout.count("apt-get install") == 2


def test_make_help_names_every_target() -> None:
    text = (ROOT / "Makefile").read_text()
    (phony,) = [line for line in text.splitlines() if line.startswith(".PHONY:")]
    explained = {line.split(":")[0] for line in text.splitlines() if ":" in line and "  ## " in line}
    assert set(phony.split()[1:]) - explained == {"java"}, "a step of others"
