"""The migration drill: what ``moldau migrate`` does, all the ways, under load and with nodes killed, and a verdict.

``python -m moldau.cluster.migration_drill`` (``make migration``) runs it; ``drill.py`` is all of it. The steps are in
``moldau.cluster.migration``.
"""
