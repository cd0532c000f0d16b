"""Whether the replicas of a partition hold the same, as their brokers serve them (``wire``). The command:
``moldau replica verify``."""
