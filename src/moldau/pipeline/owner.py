"""Whose a folder is: a file in it names the pipeline, so that a copied file does not go on where another pipeline is.

Known here without Spark or tables, for the linter. Read next: folder.py.
"""

from __future__ import annotations

OWNER = "pipeline"
"""The file that holds the name of the pipeline whose folder it is."""


def other_owner(folder: str, owner: str, name: str) -> str:
    """The sentence that says that a folder is another pipeline's."""
    return f"{folder} is the folder of pipeline {owner!r}, not of {name!r}: one of them needs another `folder`"
