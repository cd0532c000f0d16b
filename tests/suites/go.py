"""Suites that are written in Go: built beside their sources, each test in a process of its own.

Go's own output is read: ``--- PASS``, ``--- FAIL`` and ``--- SKIP`` lines of tests and their subtests. A test that
panics or runs out of time has failed by its own name.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from tests.suites.suite import CannotBuild, Outcome

_OUTCOME = re.compile(r"^\s*--- (PASS|FAIL|SKIP): (\S+) \(", re.M)
_SAID = re.compile(r"^\s+\w+_test\.go:\d+: (.+)$", re.M)
_TEST = re.compile(r"^func (Test\w+)\(t ", re.M)


def build(package: Path, folder: Path, *, tags: str = "", overlay: Path | None = None) -> Path:
    """The test program of a package, in ``folder``. The sources, go.mod among them, are left as they are.

    ``overlay`` is a file in which ``go help build`` says what is to be seen in place of what.
    """
    if shutil.which("go") is None:
        raise CannotBuild("there is no go in PATH")
    module = next(parent for parent in (package, *package.parents) if (parent / "go.mod").is_file())
    for name in ("go.mod", "go.sum"):
        if (module / name).is_file():
            shutil.copy(module / name, folder / name)
    program = folder / "suite.test"
    command = ["go", "test", "-mod=mod", f"-modfile={folder / 'go.mod'}", "-tags", tags, "-c", "-o", str(program), "."]
    if overlay is not None:
        command[2:2] = ["-overlay", str(overlay)]
    done = subprocess.run(command, cwd=package, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CannotBuild((done.stderr.strip().splitlines() or ["go said nothing"])[-1])
    return program


def install(tool: str, folder: Path) -> Path:
    """The program of ``path/of/a/command@version``, in ``folder``; Go fetches it where it is set up to."""
    if shutil.which("go") is None:
        raise CannotBuild("there is no go in PATH")
    environment = {**os.environ, "GOBIN": str(folder)}
    done = subprocess.run(["go", "install", tool], env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CannotBuild((done.stderr.strip().splitlines() or ["go said nothing"])[-1])
    return folder / tool.partition("@")[0].rpartition("/")[2]


def list_tests(
    program: Path, package: Path, only: str, *, files: str = "*_test.go", environment: Mapping[str, str] | None = None
) -> list[str]:
    """The tests of a program that stand in the package's ``files`` and whose names match ``only``."""
    there = {name for path in package.glob(files) for name in _TEST.findall(path.read_text(encoding="utf-8"))}
    command = [str(program), "-test.list", only]
    surroundings = {**os.environ, **(environment or {})}
    done = subprocess.run(command, cwd=package, env=surroundings, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CannotBuild(f"it does not list its tests: {(done.stderr.strip().splitlines() or ['no word'])[-1]}")
    listed = done.stdout.split()
    return [name for name in listed if name in there]


def run(program: Path, package: Path, test: str, environment: Mapping[str, str], limit_s: int) -> Outcome:
    """Run one test."""
    began = time.monotonic()
    command = [str(program), "-test.run", f"^{test}$", "-test.v", f"-test.timeout={limit_s}s"]
    try:
        done = subprocess.run(
            command, cwd=package, env={**os.environ, **environment}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=limit_s + 30, check=False,
        )  # fmt: skip
        output, code = done.stdout.decode(errors="replace"), done.returncode
    except subprocess.TimeoutExpired as late:
        output, code = (late.stdout or b"").decode(errors="replace"), -1
    return read(test, code, output, time.monotonic() - began)


def read(test: str, code: int, output: str, seconds: float) -> Outcome:
    """What became of a test, from what Go printed."""
    said = {name: verdict for verdict, name in _OUTCOME.findall(output)}
    failed = [name for name, verdict in said.items() if verdict == "FAIL"]
    innermost = tuple(name for name in failed if not any(other.startswith(f"{name}/") for other in failed))
    if code == 0:
        if said.get(test) != "SKIP":
            return Outcome(test, "passed", (), seconds, output)
        why = _SAID.findall(output)
        return Outcome(test, "skipped", (), seconds, output, why[-1].strip() if why else "")
    return Outcome(test, "failed", innermost or (test,), seconds, output)
