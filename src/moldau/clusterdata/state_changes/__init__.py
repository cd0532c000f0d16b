"""State-change logs read again: merged by time (``merging``), understood (``eras``), and told as a history
(``history``, ``timeline``). Commands: ``moldau log`` and ``kafka-run-class.sh kafka.tools.StateChangeLogMerger``."""
