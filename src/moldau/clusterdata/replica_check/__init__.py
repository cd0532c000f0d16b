"""Whether the replicas of a partition hold the same: batch by batch (``comparing``), out of log folders
(``folders``)."""
