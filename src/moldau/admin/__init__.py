"""The command line: one file per noun. ``main.py`` is the entry point; ``node.py`` starts a node as in production."""
