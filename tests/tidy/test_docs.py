"""Docs that say what the code says."""

from __future__ import annotations

import re
from pathlib import Path

from docs.generate import PAGE, page

ROOT = Path(__file__).resolve().parents[2]


def test_the_configuration_page_is_what_the_tables_say() -> None:
    assert PAGE.read_text() == page(), "run `make docs`"


def test_every_link_of_the_docs_leads_somewhere() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    for found in pages:
        for target in re.findall(r"\]\(([^)#]+)\)", found.read_text()):
            if "://" not in target:
                assert (found.parent / target).exists(), f"{found.name} points to {target}"
