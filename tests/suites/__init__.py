"""Other projects' own client suites, run against clusters of ours: ``make suites SUITES=/path/to/sources``."""
