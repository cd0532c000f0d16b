"""Apache Kafka's command line tools under their own names, equal to those of Kafka 4.3.1 to the byte, without a JVM.

``registry.py`` knows the tools, each a module of this package with ``main(arguments) -> exit status``; ``run.py`` runs
one. Options are read as JOpt Simple reads them (``options.py``, ``usage.py``). What differs, and why: docs/tools.md and
docs/decisions/0027-classic-tools.md.
"""
