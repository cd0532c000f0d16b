"""The names of all troubles, for the command line; what each does is in faults.py. Imports nothing: help is fast."""

SCENES = (
    "kill", "pause", "isolate", "one-way", "power", "break", "halves", "clog", "stop", "clock", "slow-disk",
    "hung-disk", "disk-full", "disk-error", "moves",
)  # fmt: skip
