"""Docs that say what the code says."""

from __future__ import annotations

import re
from pathlib import Path

from docs.generate import PAGE, page

ROOT = Path(__file__).resolve().parents[2]
NO_LAWS: frozenset[str] = frozenset()
"""Words of another kind that look like ids of laws."""


def test_the_configuration_page_is_what_the_tables_say() -> None:
    assert PAGE.read_text() == page(), "run `make docs`"


def test_every_link_of_the_docs_leads_somewhere() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    for found in pages:
        for target in re.findall(r"\]\(([^)#]+)\)", found.read_text()):
            if "://" not in target:
                assert (found.parent / target).exists(), f"{found.name} points to {target}"


def test_every_law_that_is_cited_is_told_on_the_page_of_laws() -> None:
    """S1 to X7: whoever meets an id in a comment or in a failure finds its sentence there."""
    told = re.findall(r"^\| ([SCRZLX]\d+) \|", (ROOT / "docs" / "laws.md").read_text(), re.M)
    assert len(told) == len(set(told))
    cited: dict[str, str] = {}
    for path in [*(ROOT / "src" / "moldau").rglob("*.py"), *(ROOT / "docs").rglob("*.md")]:
        for found in re.findall(r"\b(?:[Ll]aws? |[(\"*| ])([SCRZLX]\d{1,2})(?=[\s:,.;)|])", path.read_text()):
            cited.setdefault(found, str(path.relative_to(ROOT)))
    unknown = {id: path for id, path in cited.items() if id not in told and id not in NO_LAWS}
    assert not unknown, "ids without a sentence in docs/laws.md"
