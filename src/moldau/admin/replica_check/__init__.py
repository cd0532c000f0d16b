"""Whether the replicas of a partition hold the same: their batches one by one (``comparing``), out of log folders
(``folders``) or from the brokers (``wire``). The command: ``moldau replica verify``."""
