"""Shows a result of the bench: a markdown table with ratios, a chart, and both put into docs/performance.md.

    python -m bench.report bench/results/DATE.json

Decides how numbers are summed up: the median of the repeats, and a ratio that is above 1 when Moldau is better.
Measures nothing: that is bench/run.py.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1] / "docs"
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
# The chart shows the cells that decide between the two; the table has them all.
CHARTED = (
    "start 3",
    "idle, 3 nodes: resident",
    "produce 100 B, acks=all, RF 3",
    "produce 1 KB, acks=all, RF 3",
    "consume 1 KB, 3",
    "RF 1, warm: p99",
    "kill -9 of the leader",
    "kill -9 of the controller",
    "killed node",
    "kill -9 with",
)

QUEUE_MS = 1000.0  # who answers half of a steady load later than this has a queue that grows for as long as it runs

Line = dict[str, Any]


def lines(result: dict[str, Any]) -> list[Line]:
    """One line for each thing measured: {"what", "unit", "better", system: median, ..., "ratio": float or None}."""
    found: dict[str, Line] = {}
    for row in result["rows"]:
        if "failed" in row:
            continue
        line = found.setdefault(row["what"], {key: row[key] for key in ("what", "unit", "better", "cell")})
        line[row["system"]] = statistics.median(row["values"])
    behind = {(load(line), name) for line in found.values() for name in result["systems"] if is_a_queue(line, name)}
    for line in found.values():
        line["behind"] = [name for name in result["systems"] if (load(line), name) in behind]
        line["ratio"] = ratio(line)
    return list(found.values())


def load(line: Line) -> str:
    """The load that a line measures: what it says before the percentile."""
    return str(line["what"]).rpartition(":")[0]


def is_a_queue(line: Line, system: str) -> bool:
    """Whether a median latency shows that a system did not keep up with the load."""
    median = line.get(system)
    return str(line["what"]).endswith(": p50") and median is not None and median >= QUEUE_MS


def ratio(line: Line) -> float | None:
    """How many times better Moldau is (below 1: worse); None unless both were measured, neither is zero, and both kept
    up: how long a queue grows is up to the bench and not to the system."""
    if line.get("behind"):
        return None
    ours, theirs = line.get("moldau"), line.get("kafka")
    if not ours or not theirs:
        return None
    return float(ours / theirs if line["better"] == "higher" else theirs / ours)


def figure(value: float | None) -> str:
    """Three significant digits, with thousands set apart; a dash for nothing."""
    if value is None:
        return "-"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def table(result: dict[str, Any]) -> str:
    """The whole result as markdown."""
    systems = result["systems"]
    head = ["measure", "unit", *systems.values(), "Moldau is better by"]
    rows = [head, ["---", "---", *["---:" for _ in systems], "---:"]]
    for line in lines(result):
        behind = " and ".join(systems[name] for name in line["behind"])
        factor = f"{behind} did not keep up" if behind else "-" if line["ratio"] is None else f"{line['ratio']:.2f} x"
        rows.append([line["what"], line["unit"], *(figure(line.get(name)) for name in systems), factor])
    text = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    failures = [
        f"- {row['cell']} on {row['system']} failed: {row['failed']}" for row in result["rows"] if "failed" in row
    ]
    return "\n".join([text, *failures])


def machine_line(result: dict[str, Any]) -> str:
    """One sentence on where and when."""
    box, sizes = result["machine"], result["sizes"]
    return (
        f"Measured {result['when'][:10]} at commit {box['commit']} on {box['cores']} cores ({box['cpu']}), "
        f"{box['memory_gb']} GiB, Linux {box['kernel']}, Python {box['python']}, {box['java']}, librdkafka "
        f"{box['librdkafka']}; client and nodes share the machine; medians of {sizes['repeats']}. "
        "A ratio above 1 means that Moldau is better."
    )


def draw(result: dict[str, Any], path: Path) -> None:
    """A bar for each charted measure: how many times better (right) or worse (left) Moldau is, on a log scale."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker

    picked = [line for line in lines(result) if line["ratio"] and any(part in line["what"] for part in CHARTED)]
    picked = [line for line in picked if "broker CPU" not in line["what"]]
    if not picked:
        return
    figure_, axes = pyplot.subplots(figsize=(9, 0.5 * len(picked) + 1.2), layout="constrained")
    names = [
        f"{line['what']}\n{figure(line['moldau'])} against {figure(line['kafka'])} {line['unit']}" for line in picked
    ]
    ratios = [line["ratio"] for line in picked]
    colours = ["#1b7837" if one >= 1 else "#b35806" for one in ratios]
    bars = axes.barh(names, [one - 1 for one in ratios], left=1, color=colours)
    axes.bar_label(
        bars, labels=[f"{one:.0f}x" if one >= 10 else f"{one:.2g}x" for one in ratios], padding=4, fontsize=8
    )
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.margins(x=0.15)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.invert_yaxis()
    axes.tick_params(axis="y", labelsize=8)
    axes.set_xlabel(f"times better than {result['systems']['kafka']} (below 1: worse)")
    figure_.savefig(path, dpi=110)
    pyplot.close(figure_)


def write_docs(result: dict[str, Any]) -> None:
    """Rewrite what stands between the markers of docs/performance.md, and the chart beside it."""
    page = DOCS / "performance.md"
    before, found, rest = page.read_text().partition(BEGIN)
    assert found, f"{page} has no {BEGIN}"
    after = rest.partition(END)[2]
    parts = [BEGIN, machine_line(result), "", "![Moldau against Apache Kafka](bench.png)", "", table(result), END]
    if {"moldau", "kafka"} <= result["systems"].keys():
        draw(result, DOCS / "bench.png")
    else:
        parts.remove("![Moldau against Apache Kafka](bench.png)")
    page.write_text(before + "\n".join(parts) + after)


if __name__ == "__main__":
    write_docs(json.loads(Path(sys.argv[1]).read_text()))
