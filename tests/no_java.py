"""Hides Java from a live test that does not say that it needs one.

Such a test would fail on a machine without Java, in place of being skipped with the reason, and nobody would see it on
a machine that has one. So it finds a ``java`` here that only says so. Read next: tests/tools.py, which knows who needs
what; tests/live/conftest.py, which hides it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SAYS = "this test does not say that it needs Java: tests/tools.py"


@contextmanager
def hidden(folder: Path) -> Iterator[None]:
    """Whoever looks for Java meanwhile, by JAVA_HOME or PATH, finds one that tells this and fails."""
    program = folder / "bin" / "java"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\necho '{SAYS}' >&2\nexit 1\n")
        program.chmod(0o755)
    before = {name: os.environ.get(name) for name in ("JAVA_HOME", "PATH")}
    os.environ["JAVA_HOME"] = str(folder)
    os.environ["PATH"] = f"{program.parent}{os.pathsep}{before['PATH'] or ''}"
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
