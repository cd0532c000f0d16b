"""The command line: one file per noun. ``main.py`` is the door; ``node.py`` starts a node as in production."""
