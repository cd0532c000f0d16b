"""A cluster's own state changes and metrics as topics: follows the files of nodes, and asks their pages.

A process beside the nodes, so that nothing of this is in a broker's loop. Read next: ``stream.py`` (every line once),
``following.py`` (the files), ``figures.py`` (metrics), ``running.py`` (all of it together).
"""
