"""How the bench sums up: medians, ratios that favour the better, and a page of which only the marked part changes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "bench" / "report.py"
_spec = importlib.util.spec_from_file_location("bench_report", SOURCE)
assert _spec is not None
assert _spec.loader is not None
report = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(report)


def result_of(*rows):
    machine = {"commit": "c", "cores": 2, "cpu": "x", "memory_gb": 1, "kernel": "k", "python": "p", "java": "j"}
    return {
        "when": "2026-11-21T00:00:00",
        "systems": {"kafka": "Apache Kafka", "moldau": "Moldau"},
        "sizes": {"repeats": 3},
        "machine": {**machine, "librdkafka": "l"},
        "rows": [
            {"cell": "c", "system": system, "what": what, "unit": "u", "better": better, "values": values}
            for what, better, system, values in rows
        ],
    }


def test_repeats_are_summed_up_by_their_median():
    found = report.lines(result_of(("rate", "higher", "kafka", [1.0, 100.0, 3.0])))

    assert found[0]["kafka"] == 3.0


@pytest.mark.parametrize(("better", "ratio"), [("higher", 0.5), ("lower", 2.0)])
def test_the_ratio_is_above_one_when_moldau_is_better(better, ratio):
    rows = [("x", better, "kafka", [4.0]), ("x", better, "moldau", [2.0])]

    assert report.lines(result_of(*rows))[0]["ratio"] == ratio


def test_what_only_one_system_measured_has_no_ratio():
    found = report.lines(result_of(("x", "lower", "kafka", [4.0])))

    assert found[0]["ratio"] is None
    assert "| x | u | 4 | - | - |" in report.table(result_of(("x", "lower", "kafka", [4.0])))


def test_who_does_not_keep_up_with_a_load_is_named_and_none_of_its_latencies_is_compared():
    rows = [
        ("load, cold: p50", "lower", "kafka", [2000.0]), ("load, cold: p50", "lower", "moldau", [1.0]),
        ("load, cold: p99", "lower", "kafka", [3000.0]), ("load, cold: p99", "lower", "moldau", [2.0]),
        ("load, warm: p50", "lower", "kafka", [2.0]), ("load, warm: p50", "lower", "moldau", [1.0]),
    ]  # fmt: skip
    result = result_of(*rows)

    assert [line["ratio"] for line in report.lines(result)] == [None, None, 2.0]
    assert "| load, cold: p99 | u | 3,000 | 2 | Apache Kafka did not keep up |" in report.table(result)


def test_a_cell_that_failed_is_named_under_the_table():
    result = result_of(("x", "lower", "kafka", [4.0]))
    result["rows"].append({"cell": "gap", "system": "moldau", "failed": "no leader"})

    assert "gap on moldau failed: no leader" in report.table(result)


def test_only_what_stands_between_the_markers_is_rewritten(tmp_path, monkeypatch):
    page = tmp_path / "performance.md"
    page.write_text(f"before\n{report.BEGIN}\nlast time\n{report.END}\nafter\n")
    monkeypatch.setattr(report, "DOCS", tmp_path)

    report.write_docs(
        result_of(("start 3 nodes", "lower", "kafka", [4.0]), ("start 3 nodes", "lower", "moldau", [2.0]))
    )

    text = page.read_text()
    assert text.startswith(f"before\n{report.BEGIN}\n")
    assert text.endswith(f"{report.END}\nafter\n")
    assert "last time" not in text
    assert "| start 3 nodes | u | 4 | 2 | 2.00 x |" in text
    assert (tmp_path / "bench.png").stat().st_size > 1000
