"""``moldau demo``: a real cluster, real data, a stream into a table, a killed broker, and balanced books at the end.

command.py is what is typed, story.py what happens, producing.py and pipeline.py the two ends of the topic, watching.py
who leads, checking.py the sums, report.py and chart.py how it is told.
"""

from __future__ import annotations

from moldau.admin.demo.command import demo

__all__ = ["demo"]
