"""The replicas of this broker: their logs, their roles, and what waits for them."""
