"""Shows what the last ``make coverage`` ran of each package: lines and branches, in one table. There is no quota.

``python -m coverage html`` shows the lines themselves.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections import defaultdict
from pathlib import Path

SRC = Path(__file__).resolve().parents[1] / "src" / "moldau"


def table(files: dict[str, dict[str, int]]) -> str:
    """Rows of packages: path of a file -> its counts, as coverage's JSON report has them."""
    sums: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for path, counts in files.items():
        inside = Path(path).resolve().relative_to(SRC).parts
        for name in (inside[0] if len(inside) > 1 else "moldau", "all"):
            for what in ("num_statements", "covered_lines", "num_branches", "covered_branches"):
                sums[name][what] += counts[what]
    out = io.StringIO()
    out.write(f"{'package':14}{'lines':>8}{'run':>8}{'branches':>10}{'taken':>8}\n")
    for name in sorted(sums, key=lambda name: (name == "all", name)):
        of = sums[name]
        lines = 100 * of["covered_lines"] / max(1, of["num_statements"])
        branches = 100 * of["covered_branches"] / max(1, of["num_branches"])
        out.write(f"{name:14}{of['num_statements']:8}{lines:7.1f}%{of['num_branches']:10}{branches:7.1f}%\n")
    return out.getvalue()


def main() -> None:
    from coverage import Coverage  # nothing else needs it

    coverage = Coverage()
    coverage.combine()
    coverage.save()
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        coverage.json_report(outfile=report.name)
        found = json.loads(Path(report.name).read_text())["files"]
    print(table({path: one["summary"] for path, one in found.items()}), end="")


if __name__ == "__main__":
    main()
