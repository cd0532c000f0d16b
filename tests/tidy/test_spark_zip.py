"""What Spark's workers import is compiled beside its source, whatever was there before."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from tests import spark_zip


def test_modules_are_imported_compiled_and_what_is_put_there_again_is_there_once(tmp_path: Path) -> None:
    path = tmp_path / "modules.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("some/__init__.py", "")
        archive.writestr("some/module.py", "NAME = __name__")
        archive.writestr("some/tests/test_module.py", "this is no Python")
    for _ in range(2):
        spark_zip.write(path)
    with zipfile.ZipFile(path) as archive:
        assert sorted(archive.namelist()) == [
            "some/__init__.py",
            "some/__init__.pyc",
            "some/module.py",
            "some/module.pyc",
            "some/tests/test_module.py",
        ]
    code = "from some import module; print(module.NAME, module.__spec__.origin)"
    words = [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, {str(path)!r}); {code}"]
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=240).stdout.split()
    assert said == ["some.module", str(path / "some" / "module.pyc")]
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_the_zip_is_where_spark_looks_for_it() -> None:
    assert spark_zip.installed().is_file()
