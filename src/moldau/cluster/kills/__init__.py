"""The kill suite: kill -9 under load, again and again, and whether anything that was acknowledged suffered.

``python -m moldau.cluster.kills`` (``make kills``). Start reading at ``killing.py`` (what is done to a cluster) and
``moldau.history.checks`` (what must hold); the checkers are pure functions over a history of what clients saw.
"""
