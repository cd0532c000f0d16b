"""Compiles the modules of PySpark that Spark's workers import: ``python -m tests.spark_zip``.

They import them from a zip of sources, and Python keeps nothing of what it makes of these: each start compiles 270
modules again, a second of processor time, for each kind of worker of each session. Beside the sources there are
compiled modules then, which Python looks for first. PySpark's own tests are left as they are.
"""

from __future__ import annotations

import importlib.util
import py_compile
import tempfile
import warnings
import zipfile
from pathlib import Path

HERE = Path("python", "lib", "pyspark.zip")
TESTS = "/tests/"


def installed() -> Path:
    """The zip of the PySpark that this interpreter would import."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / HERE


def write(path: Path) -> None:
    """Put a compiled module beside each source of the zip. It is another file then: whoever has it open keeps it."""
    whole = path.with_suffix(".part")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(whole, "w") as new, tempfile.TemporaryDirectory() as folder:
        source, compiled = Path(folder, "source.py"), Path(folder, "compiled")
        for entry in old.infolist():
            if entry.filename.endswith(".pyc"):
                continue  # of an earlier time
            data = old.read(entry)
            new.writestr(entry, data)
            if entry.filename.endswith(".py") and TESTS not in entry.filename:
                source.write_bytes(data)
                with warnings.catch_warnings(action="ignore"):
                    py_compile.compile(
                        str(source),
                        cfile=str(compiled),
                        dfile=entry.filename,
                        doraise=True,
                        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
                    )
                new.write(compiled, f"{entry.filename}c")
    whole.replace(path)


if __name__ == "__main__":
    write(installed())
